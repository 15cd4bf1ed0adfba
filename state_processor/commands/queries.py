"""The command ``check-query``: show which state of a query another query can continue with."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from state_processor.backends.read.option import Kind
from state_processor.commands.command import JSON_LINES, SNAPSHOT, argument, command, flags
from state_processor.commands.printing import print_json
from state_processor.commands.terminal import say
from state_processor.options.access import SnapshotAccess, read_plan
from state_processor.options.flags import flag_values
from state_processor.write.build import SavepointBuild
from state_processor.write.query_migration import QueryMigration


@command(
    "check-query",
    "state that another query can continue with",
    "Show which state of a Flink SQL query another query can continue with, from the compiled plans of the query that "
    "wrote it and of the new query.",
    SNAPSHOT,
    argument("old", metavar="OLD", help="file of the compiled plan of the query that wrote the snapshot"),
    argument("new", metavar="NEW", help="file of the compiled plan of the new query"),
    argument("--drop", action="append", default=[], metavar="OPERATOR", help="drop the state of an operator, such as 'join[5]'"),
    JSON_LINES,
    flags(Kind.CHECKS, without=("plan", "uids")),
    fails="state can't be kept and is not named by --drop",
)
def _check(options: argparse.Namespace) -> bool:
    access = SnapshotAccess.of(**flag_values(options))
    old, new = (read_plan(given, access.storage()) for given in (options.old, options.new))
    report = QueryMigration(SavepointBuild.from_existing(options.path, None, access).drafts, old, new, options.drop).report
    if options.json:
        print_json(asdict(state) for state in report)
    else:
        say(str(report))
    return not report.impossible
