"""The page about the command line describes exit codes."""

from __future__ import annotations

import argparse
from typing import get_type_hints

from state_processor.cli import command_parser


def test_commands_with_exit_codes_of_their_own_describe_them() -> None:
    (commands,) = (a for a in command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    described = {name for name, parser in commands.choices.items() if parser.epilog}
    runs = {name: get_type_hints(parser.get_default("run")).get("return") for name, parser in commands.choices.items()}
    assert described == {name for name, returned in runs.items() if returned is int}
    assert described >= {"list", "latest", "validate", "check-query"}
