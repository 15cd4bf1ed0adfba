"""The command ``check-query``: show which state of a query another query can continue with."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from state_processor.backends.read.option import Kind
from state_processor.commands.arguments import add_exit_code
from state_processor.commands.printing import print_json
from state_processor.commands.terminal import say
from state_processor.options.access import SnapshotAccess, read_plan
from state_processor.options.flags import add_flags, flag_values
from state_processor.write.build import SavepointBuild
from state_processor.write.query_migration import QueryMigration

REFUSED: Final = 1
"""Exit code if state can't be kept."""


def add_commands(commands: Any) -> None:
    """Add the command to the parsers of the command line."""
    text = (
        "Show which state of a Flink SQL query another query can continue with, from the compiled plans of the query that "
        "wrote it and of the new query."
    )
    check = commands.add_parser("check-query", help="state that another query can continue with", description=text)
    add_exit_code(check, "state can't be kept and is not named by --drop")
    check.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    check.add_argument("old", metavar="OLD", help="file of the compiled plan of the query that wrote the snapshot")
    check.add_argument("new", metavar="NEW", help="file of the compiled plan of the new query")
    check.add_argument(
        "--drop", action="append", default=[], metavar="OPERATOR", help="drop the state of an operator, such as 'join[5]'"
    )
    check.add_argument("--json", action="store_true", help="one JSON object per line instead of text")
    add_flags(check, {Kind.CHECKS}, without=("plan", "uids"))
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    access = SnapshotAccess.of(**flag_values(options))
    old, new = (read_plan(given, access.storage()) for given in (options.old, options.new))
    report = QueryMigration(SavepointBuild.from_existing(options.path, None, access).drafts, old, new, options.drop).report
    if options.json:
        print_json(asdict(state) for state in report)
    else:
        say(str(report))
    return REFUSED if report.impossible else 0
