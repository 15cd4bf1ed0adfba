"""The command that keeps a table of a lake equal to the newest checkpoint."""

from __future__ import annotations

import argparse

from state_processor.applications.lake.sync import FORMATS, SyncCommit, TableSync
from state_processor.command_line import (
    OPERATOR,
    argument,
    command,
    flag_values,
    flags,
    pairs,
    print_json,
    repeated,
    required_operator,
    say,
    switch,
)
from state_processor.options import Kind, check_given

_INTERVAL = "10s"


@command(
    "sync",
    "keep a table equal to the newest checkpoint",
    "Make a table equal to a state in the newest checkpoint of a job. The properties of each commit name the checkpoint. "
    "Only changes are written, as long as the checkpoint that the table has still exists, and the options are the same.",
    argument("checkpoints", metavar="CHECKPOINTS", help="the checkpoint directory of a job, or the one above it"),
    OPERATOR,
    argument("--state", required=True, help="name of the state"),
    argument(
        "--to",
        required=True,
        metavar="TARGET",
        help="directory of a Delta table, a file .parquet, or the name of an Iceberg table, such as lake.totals",
    ),
    argument("--format", choices=FORMATS, help="the format; by default parquet for a name in .parquet, otherwise delta"),
    repeated("--to-option", "option of the storage, or property of the Iceberg catalog (uri, warehouse)", metavar="KEY=VALUE"),
    switch("--allow-missing", "delete all rows if the newest checkpoint lacks the operator, or has the state under another name"),
    switch("--follow", "continue with each further checkpoint, until Ctrl-C"),
    argument("--interval", metavar="TIME", help=f"with --follow: time between two looks (default: {_INTERVAL})"),
    switch("--json", "one JSON object for each commit"),
    flags(Kind.DIFF),
    fails="the table has the newest checkpoint already",
    python=("sp.sync",),
)
def _sync(options: argparse.Namespace) -> bool:
    if not options.follow:
        check_given({"interval": options.interval}, ("interval",), "with --follow: add that")
    table = TableSync.of(
        options.checkpoints,
        required_operator(options),
        options.state,
        options.to,
        options.format,
        pairs("--to-option", "KEY=VALUE", options.to_option),
        flag_values(options),
        options.allow_missing,
    )
    if options.follow:
        for commit in table.follow(options.interval or _INTERVAL):
            _print(commit, options)
    commit_now = table.advance()
    if commit_now is None:
        say("The table has the newest checkpoint")
        return False
    _print(commit_now, options)
    return True


def _print(commit: SyncCommit, options: argparse.Namespace) -> None:
    if options.json:
        names = ("checkpoint_id", "checkpoint", "is_full", "upserts", "deletes", "reason", "note")
        print_json([{name: getattr(commit, name) for name in names}])
    elif commit.is_full:
        say(f"checkpoint {commit.checkpoint_id}: all {commit.upserts} rows written ({commit.reason})")
    else:
        say(f"checkpoint {commit.checkpoint_id}: {commit.upserts} rows written, {commit.deletes} deleted")
