"""Common arguments of commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any

from state_processor.backends.read.option import Kind
from state_processor.options.flags import add_flags
from state_processor.types.identifier import OperatorIdentifier

Run = Callable[[argparse.Namespace], int | None]
"""Runs a command; returns the exit code, ``None`` for success."""

UID_HELP = "the operator, by uid or by the 32 digits of its hash"


def snapshot_command(commands: Any, name: str, run: Run, text: str, kinds: Collection[Kind]) -> argparse.ArgumentParser:
    """Add a command that shows a part of a snapshot as a table or as JSON; ``kinds`` are the kinds that it reads."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"Show the {text}.")
    parser.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    add_output(parser, run)
    add_flags(parser, kinds)
    return parser


def add_exit_code(parser: argparse.ArgumentParser, when: str) -> None:
    """Describe when a command ends with the exit code 1. Commands don't have other exit codes of their own."""
    parser.epilog = f"The exit code is 1 if {when}."


def add_output(parser: argparse.ArgumentParser, run: Run) -> None:
    """Add the choice between a table, lines and JSON, and the function that runs the command."""
    group = parser.add_argument_group("options of printing")
    group.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    group.add_argument("--vertical", action="store_true", help="a line for each value; values are not shortened")
    parser.set_defaults(run=run)


def add_operator(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the arguments that name an operator."""
    operator = parser.add_mutually_exclusive_group(required=required)
    operator.add_argument("--uid", help=UID_HELP if required else f"only {UID_HELP}")
    operator.add_argument("--uid-hash", help="the operator, by the hash of its uid")


def named_operator(options: argparse.Namespace) -> OperatorIdentifier | None:
    """Return the operator that the arguments name, if any."""
    if options.uid:
        return OperatorIdentifier.of(options.uid)
    return OperatorIdentifier.for_uid_hash(options.uid_hash) if options.uid_hash else None


def required_operator(options: argparse.Namespace) -> OperatorIdentifier:
    """Return the operator that the arguments name; it is required."""
    return OperatorIdentifier.of(options.uid) if options.uid else OperatorIdentifier.for_uid_hash(options.uid_hash or "")


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
