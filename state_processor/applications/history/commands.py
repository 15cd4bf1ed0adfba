"""The command ``history``: sizes of states, operators and key groups in many snapshots, and what grows."""

from __future__ import annotations

import argparse
from typing import get_args

from state_processor.applications.history.growth import SNAPSHOTS, growth, state_label
from state_processor.applications.history.history import HistoryBy, history
from state_processor.command_line import (
    NAMES,
    PRINTING,
    SEARCHED,
    argument,
    by_argument,
    call,
    command,
    count_text,
    filled,
    positive,
    print_json,
    print_table,
    say,
    size_text,
    switch,
    time_text,
    with_operator,
    with_sizes,
)
from state_processor.errors import OptionError


@command(
    "history",
    "sizes of states in all snapshots below a directory",
    "Show the sizes of operators and states in all snapshots below a directory, and their growth per hour. Entries are "
    "estimates of RocksDB: no entry is decoded.",
    SEARCHED,
    by_argument(get_args(HistoryBy)),
    switch("--growth", "show the trend of each state over all snapshots, and which states grow without a visible bound"),
    argument(
        "--at-least",
        type=positive,
        metavar="N",
        help=f"with --growth: the fewest snapshots that show a trend (default: {SNAPSHOTS})",
    ),
    PRINTING,
    python=("sp.history", "sp.growth"),
)
def _history(options: argparse.Namespace) -> None:
    if options.growth:
        _growth(options)
        return
    if options.at_least is not None:
        raise OptionError("--at-least is for --growth: add that")
    rows = call(history, options).to_pylist()
    if options.json:
        print_json(rows)
        return
    lines = []
    for row in rows:
        per_hour = "" if row["bytes_per_hour"] is None else f"{row['bytes_per_hour']:+.0f}"
        lines.append(with_sizes(with_operator(row)) | {"time": time_text(row["time"]), "per_hour": per_hour})
    key_group = ["key_group"] if options.by == "key_group" else []
    columns = ["time", "checkpoint_id", "operator", "state_name", *key_group, "size", "per_hour", "entries_estimate"]
    print_table(columns, lines, options)
    for number in sorted({row["checkpoint_id"] for row in rows if row["reference_checkpoint_id"] is not None}):
        say(f"checkpoint {number} mixes several times: operators have state of earlier checkpoints")


def _growth(options: argparse.Namespace) -> None:
    if options.by != "state":
        raise OptionError("--growth shows states, and the number of key groups that have grown: leave out --by")
    at_least = SNAPSHOTS if options.at_least is None else options.at_least
    rows = call(growth, options).to_pylist()
    if options.json:
        print_json(rows)
        return
    most = max((row["snapshots"] for row in rows), default=0)
    if most < at_least:
        say(f"{most} {'snapshot' if most == 1 else 'snapshots'} of a known time: a trend needs {at_least} (--at-least)")
        return
    lines = []
    for row in rows:
        trend = f"{row['trend']}, no bound" if row["grows_without_bound"] else row["trend"]
        size, entries = size_text(row["last_size"]), count_text(row["entries_estimate"])
        line = {"state_name": state_label(row, rows), "trend": trend, "size": size, "entries_estimate": entries}
        lines.append(with_operator(row) | line)
    jobs = ["job_id"] if len({row["job_id"] for row in rows}) > 1 else []
    columns = ["operator", "state_name", *jobs, "size", *filled(["entries_estimate"], lines)]
    print_table([*columns, "trend", "evidence"], lines, options, whole=NAMES | {"evidence"})
