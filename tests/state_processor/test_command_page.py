"""The page about the command line is the one that the parser describes."""

from __future__ import annotations

import argparse
from typing import get_type_hints

from state_processor.cli import command_parser
from tests.state_processor import command_page


def test_page() -> None:
    found = command_page.PAGE.read_text("utf-8")
    assert found == command_page.page(), "docs/command-line.md differs: python -m tests.state_processor.command_page"


def test_commands_with_exit_codes_of_their_own_describe_them() -> None:
    (commands,) = (a for a in command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    described = {name for name, parser in commands.choices.items() if parser.epilog}
    runs = {name: get_type_hints(parser.get_default("run")).get("return") for name, parser in commands.choices.items()}
    assert described == {name for name, returned in runs.items() if returned is int}
    assert described >= {"list", "latest", "validate", "check-query"}
