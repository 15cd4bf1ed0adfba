"""Commands: functions with their arguments.

:func:`command` makes a command of a function, which gets the parsed arguments and prints. A module of commands is imported if its
command is called, or the help of all commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from state_processor.backends.read.option import Kind
from state_processor.options.flags import add_flag, add_flags
from state_processor.options.option import Option
from state_processor.support.errors import OptionError
from state_processor.types.answers import Answer
from state_processor.types.identifier import OperatorIdentifier

Run = Callable[[argparse.Namespace], "bool | Answer | None"]
"""Runs a command. A command with an answer for scripts returns it: the exit code of false is 1."""

Argument = Callable[[Any], object]
"""Adds an argument, or several, to a parser or to a group of a parser."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command."""

    name: str
    help: str  # its result, as a noun phrase
    description: str  # its effect, as a sentence
    arguments: tuple[Argument, ...]  # its arguments, in the order of its help
    run: Run  # the function
    python: tuple[str, ...]  # functions and methods that do the same in Python; empty if none does
    fails: str = ""  # when its answer is no, and its exit code 1; empty if it does not have an answer for scripts
    unchecked: str = ""  # when its exit code is 3; empty if its answers are yes and no

    def add_to(self, commands: Any) -> None:
        """Add the command to the parsers of the command line."""
        sentences = [
            self.python and f"In Python: {', '.join(self.python)}.",
            self.fails and f"The exit code is 1 if {self.fails}.",
            self.unchecked and f"The exit code is 3 if {self.unchecked}: this is not a success.",
        ]
        epilog = " ".join(sentence for sentence in sentences if sentence)
        parser = commands.add_parser(self.name, help=self.help, description=self.description, epilog=epilog or None)
        for add in self.arguments:
            add(parser)
        parser.set_defaults(run=self.run)


def command(
    name: str, help: str, description: str, *arguments: Argument, python: tuple[str, ...], fails: str = "", unchecked: str = ""
) -> Callable[[Run], Command]:
    """Return a decorator that makes a command of a function; see :class:`Command`."""
    return lambda run: Command(name, help, description, arguments, run, python, fails, unchecked)


def commands_of(module: ModuleType) -> list[Command]:
    """Return the commands that a module defines, in their order."""
    return [value for value in vars(module).values() if isinstance(value, Command)]


def argument(*names: str, **settings: Any) -> Argument:
    """Return an argument, as ``ArgumentParser.add_argument`` describes it."""
    return lambda parser: parser.add_argument(*names, **settings)


def switch(name: str, help: str) -> Argument:
    """Return a flag without an operand."""
    return argument(name, action="store_true", help=help)


def repeated(name: str, help: str, **settings: Any) -> Argument:
    """Return a flag that may be repeated. Its operands are a list."""
    return argument(name, action="append", default=[], help=f"{help}; may be repeated", **settings)


def group(title: str, *arguments: Argument) -> Argument:
    """Return arguments with a title of their own in the help."""
    return lambda parser: _add_all(parser.add_argument_group(title), arguments)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Return arguments that exclude each other; one of them is needed if ``required`` is true."""
    return lambda parser: _add_all(parser.add_mutually_exclusive_group(required=required), arguments)


def several(*arguments: Argument) -> Argument:
    """Return arguments that several commands have together."""
    return lambda parser: _add_all(parser, arguments)


def _add_all(parser: Any, arguments: Iterable[Argument]) -> None:
    for add in arguments:
        add(parser)


def flags(*kinds: Kind, without: Collection[str] = ()) -> Argument:
    """Return the flags of the options that act on some kinds of reads; see :func:`~state_processor.options.flags.add_flags`."""
    return lambda parser: add_flags(parser, kinds, without=without)


def flag(option: Option, note: str = "") -> Argument:
    """Return the flag of an option; a note extends its help."""
    return lambda parser: add_flag(parser, option, note)


UID_HELP: Final = "the operator, by uid or by the 32 digits of its hash"
_UID_HASH: Final = argument("--uid-hash", help="the operator, by the hash of its uid")

SNAPSHOT: Final = argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
DIRECTORY: Final = argument("path", metavar="DIR", help="a directory of savepoints, checkpoints or jobs: a path or URL")
UID: Final = argument("--uid", required=True, help=UID_HELP)
OPERATOR: Final = one_of(argument("--uid", help=UID_HELP), _UID_HASH, required=True)
ANY_OPERATOR: Final = one_of(argument("--uid", help=f"only {UID_HELP}"), _UID_HASH)
VERTICAL: Final = switch("--vertical", "a line for each value; values are not shortened")
PRINTING: Final = group("options of printing", switch("--json", "one JSON object per line instead of a table"), VERTICAL)
JSON_LINES: Final = switch("--json", "one JSON object per line instead of text")


def named_operator(options: argparse.Namespace) -> OperatorIdentifier | None:
    """Return the operator that the arguments name, if any."""
    if options.uid:
        return OperatorIdentifier.of(options.uid)
    return OperatorIdentifier.for_uid_hash(options.uid_hash) if options.uid_hash else None


def required_operator(options: argparse.Namespace) -> OperatorIdentifier:
    """Return the operator that the arguments name; it is required."""
    return OperatorIdentifier.of(options.uid) if options.uid else OperatorIdentifier.for_uid_hash(options.uid_hash or "")


def by_argument(choices: Collection[str]) -> Argument:
    """Return the flag ``--by``, which takes a value of Python's argument ``by``."""
    return argument(
        "--by",
        choices=tuple(choices),
        default="state",
        help="what rows are about (default: %(default)s)",
    )


def positive(text: str) -> int:
    """Return a positive number."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def not_negative(text: str) -> int:
    """Return a non-negative number."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}") from None


def pairs(flag: str, form: str, operands: Iterable[str]) -> dict[str, str]:
    """Return the operands of a flag, such as ``NAME=VALUE``, as a mapping."""
    parts = [text.partition("=") for text in operands]
    if not all(name and equals for name, equals, _ in parts):
        raise OptionError(f"{flag}: expected {form}")
    return {name: value for name, _, value in parts}
