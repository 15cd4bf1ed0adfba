"""The page about the command line describes exit codes."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import get_type_hints

from state_processor import cli
from state_processor.cli import command_parser
from state_processor.commands.command import commands_of


def test_each_command_imports_its_module() -> None:
    for group, names in cli._GROUPS.items():
        commands = commands_of(import_module(f"state_processor.commands.{group}"))
        assert tuple(command.name for command in commands) == names, group


def test_commands_with_exit_codes_of_their_own_describe_them() -> None:
    (commands,) = (a for a in command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    described = {name for name, parser in commands.choices.items() if parser.epilog}
    runs = {name: get_type_hints(parser.get_default("run")).get("return") for name, parser in commands.choices.items()}
    assert described == {name for name, returned in runs.items() if returned is bool}
    assert described >= {"list", "latest", "validate", "check-query"}
