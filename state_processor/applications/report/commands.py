"""The command ``report``: write a page about a snapshot."""

from __future__ import annotations

import argparse

from state_processor.applications.report.contents import KEYS, contents
from state_processor.applications.report.page import page
from state_processor.command_line import (
    SNAPSHOT,
    argument,
    check_new,
    command,
    flag_values,
    flags,
    new_file,
    not_negative,
    say,
    switch,
)
from state_processor.options import Kind, SnapshotAccess, check_given


@command(
    "report",
    "a page about a snapshot, as HTML",
    "Write a page about a snapshot as one file without scripts: findings, operators, states with types and sizes, skew "
    "over key groups and subtasks, the largest keys, timers, ages of values with time-to-live, growth over several "
    "checkpoints, and the outcome of a migration to Flink 2.x.",
    SNAPSHOT,
    argument("-o", "--output", required=True, metavar="FILE", help="the new file"),
    switch("--quick", "read only _metadata and the headers of state, not the values"),
    argument(
        "--keys",
        type=not_negative,
        default=KEYS,
        metavar="N",
        dest="largest_keys",
        help="number of the largest keys to show for each operator (default: %(default)s); 0 omits keys",
    ),
    argument(
        "--history",
        metavar="DIR",
        help="a directory with further snapshots of the job, for the growth of states; without it, the other retained "
        "checkpoints of the job are used if PATH is a checkpoint",
    ),
    flags(Kind.REPORTS),
    python=(),
)
def _report(options: argparse.Namespace) -> None:
    check_new(options.output)
    arguments = flag_values(options)
    if options.quick or not options.largest_keys:
        check_given(arguments, ("time_zone",), "where the report shows keys: leave out --quick and --keys 0")
    access, values = SnapshotAccess.of(**arguments), not options.quick
    measured = contents(options.path, access, values=values, keys=options.largest_keys, history=options.history)
    with new_file(options.output) as file:
        file.write(page(measured).encode())
    say(options.output)
