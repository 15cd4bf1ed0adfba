"""The command that keeps a table of a lake equal to the newest checkpoint."""

from __future__ import annotations

import argparse
from typing import Any

from state_processor.backends.read.option import Kind
from state_processor.commands.arguments import add_exit_code, add_operator, required_operator
from state_processor.commands.printing import print_json
from state_processor.commands.terminal import say
from state_processor.lake.choice import FORMATS
from state_processor.lake.sync import SyncCommit, TableSync
from state_processor.options.effects import check_given
from state_processor.options.flags import add_flags, flag_values
from state_processor.serializers.errors import OptionError

UP_TO_DATE = 1
_INTERVAL = "10s"


def add_commands(commands: Any) -> None:
    """Add the command to the parsers of the command line."""
    text = (
        "Make a table equal to a state in the newest checkpoint of a job. The properties of each commit name the checkpoint. "
        "Only changes are written, as long as the checkpoint that the table has still exists."
    )
    sync = commands.add_parser("sync", help="keep a table equal to the newest checkpoint", description=text)
    sync.add_argument("checkpoints", metavar="CHECKPOINTS", help="the checkpoint directory of a job, or the one above it")
    add_operator(sync)
    sync.add_argument("--state", required=True, help="name of the state")
    where = "directory of a Delta table, a file .parquet, or the name of an Iceberg table, such as lake.totals"
    sync.add_argument("--to", required=True, metavar="TARGET", help=where)
    sync.add_argument("--format", choices=FORMATS, help="the format; by default parquet for a name in .parquet, otherwise delta")
    options = "option of the storage, or property of the Iceberg catalog (uri, warehouse); may be repeated"
    sync.add_argument("--to-option", metavar="KEY=VALUE", action="append", default=[], help=options)
    sync.add_argument("--follow", action="store_true", help="continue with each further checkpoint, until Ctrl-C")
    sync.add_argument("--interval", metavar="TIME", help=f"with --follow: time between two looks (default: {_INTERVAL})")
    sync.add_argument("--json", action="store_true", help="one JSON object for each commit")
    add_exit_code(sync, "the table has the newest checkpoint already")
    sync.set_defaults(run=_sync)
    add_flags(sync, {Kind.DIFF})


def _sync(options: argparse.Namespace) -> int:
    if not options.follow:
        check_given({"interval": options.interval}, ("interval",), "with --follow: add that")
    to_options = dict(_pair(text) for text in options.to_option)
    table = TableSync.of(
        options.checkpoints,
        required_operator(options),
        options.state,
        options.to,
        options.format,
        to_options,
        flag_values(options),
    )
    if options.follow:
        for commit in table.follow(options.interval or _INTERVAL):
            _print(commit, options)
    commit_now = table.advance()
    if commit_now is None:
        say("The table has the newest checkpoint")
        return UP_TO_DATE
    _print(commit_now, options)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise OptionError("--to-option: expected KEY=VALUE")
    return name, value


def _print(commit: SyncCommit, options: argparse.Namespace) -> None:
    if options.json:
        names = ("checkpoint_id", "checkpoint", "is_full", "upserts", "deletes")
        print_json([{name: getattr(commit, name) for name in names}])
    elif commit.is_full:
        say(f"checkpoint {commit.checkpoint_id}: all {commit.upserts} rows written")
    else:
        say(f"checkpoint {commit.checkpoint_id}: {commit.upserts} rows written, {commit.deletes} deleted")
