"""The page about the command line describes exit codes, and the commands in other documents have arguments that exist."""

from __future__ import annotations

import argparse
import re
import shlex
from importlib import import_module
from inspect import signature, unwrap
from operator import attrgetter
from pathlib import Path
from typing import get_type_hints

import state_processor as sp
from state_processor import arrow, cli
from state_processor.cli import command_parser
from state_processor.commands.command import Command, commands_of
from state_processor.types.answers import Answer


def test_each_command_imports_its_module() -> None:
    for module in set(cli._MODULES.values()):
        commands = commands_of(import_module(f"state_processor.{module}"))
        assert {command.name for command in commands} == {name for name, place in cli._MODULES.items() if place == module}, module


def test_commands_with_exit_codes_of_their_own_describe_them() -> None:
    (commands,) = (a for a in command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    described = {name for name, parser in commands.choices.items() if "exit code is 1" in (parser.epilog or "")}
    runs = {name: get_type_hints(parser.get_default("run")).get("return") for name, parser in commands.choices.items()}
    assert described == {name for name, returned in runs.items() if returned in (bool, Answer)}
    assert described >= {"list", "latest", "validate", "check-query"}


def _parser(command: Command) -> argparse.ArgumentParser:
    commands = argparse.ArgumentParser().add_subparsers()
    command.add_to(commands)
    return commands.choices[command.name]


def _positionals(parser: argparse.ArgumentParser) -> list[str]:
    return [action.dest for action in parser._actions if not action.option_strings]


BY_HAND = {
    "erase": ("path", "target"),  # IN and OUT, as of all commands that write a savepoint; several IN with --fleet
    "sql": ("path", "sql"),  # the query is optional here: without it, a prompt
    "compile-plan": ("sql",),  # a file with the text that the function gets
    "sample": ("target",),  # the function returns the installed savepoint, and the command copies it
}
"""Positional arguments that do not follow from the function which a command names."""


def test_positional_arguments_follow_from_functions() -> None:
    derived = {}
    for command in cli._commands(None):
        if command.function is not None:
            own = argparse.ArgumentParser()
            for add in command.arguments:
                add(own)
            assert tuple(_positionals(own)) == BY_HAND.get(command.name, ()), command.name
            parser = _parser(command)
            derived[command.name] = _positionals(parser)
            parameters = signature(unwrap(command.function)).parameters
            names = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
            assert set(names) <= {action.dest for action in parser._actions}, command.name
            for action in parser._actions:
                assert action.help, (command.name, action.dest)
                assert not action.help.startswith("as for"), (command.name, action.dest)
    assert derived.items() >= {"get": ["path", "key"], "diff": ["old", "new"], "explain": ["snapshot"], "find": ["paths"]}.items()
    assert len(derived) > 20


def test_commands_name_functions_that_exist_and_have_their_defaults() -> None:
    rooms = {"sp": sp, "SavepointReader": arrow.SavepointReader, "SavepointWriter": arrow.SavepointWriter}
    compared = set()
    for command in cli._commands(None):
        parser = _parser(command)
        for name in command.python:
            room, _, path = name.partition(".")
            parameters = signature(unwrap(attrgetter(path)(rooms[room]))).parameters
            for argument in parser._actions:
                default = parser.get_default(argument.dest)
                if argument.nargs != 0 and default and argument.dest in parameters:  # a switch may be the opposite
                    assert default == parameters[argument.dest].default, (command.name, argument.dest)
                    compared.add((command.name, argument.dest))
    assert compared >= {("fleet", "transaction_timeout"), ("list", "depth"), ("retain", "older_than"), ("sizes", "top")}


ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IN_BLOCK = re.compile(r"^(?:\$ )?state-processor (.+)$", re.MULTILINE)
_IN_TEXT = re.compile(r"`state-processor ([^`]+)`")


def test_commands_in_documents_have_arguments_that_exist() -> None:
    parser = command_parser()
    shown = []
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = document.read_text("utf-8")
        in_blocks = [command.split(" && ")[0] for block in _BLOCK.findall(text) for command in _IN_BLOCK.findall(block)]
        in_text = (
            [shlex.split(command) for command in _IN_TEXT.findall(_BLOCK.sub("", text))]
            if document.stem != "command-line"
            else []
        )
        shown += [*map(shlex.split, in_blocks), *(words for words in in_text if len(words) > 1)]
    for words in shown:
        parser.parse_args(words)
    assert len(shown) > 40
