"""Commands that search snapshots below a directory: ``list`` shows all, ``latest`` prints the path of one for scripts."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from state_processor import list_snapshots
from state_processor.command_line import (
    PRINTING,
    SEARCHED,
    UNBOUNDED,
    argument,
    call,
    command,
    complain,
    flag_values,
    print_table,
    say,
    time_text,
    with_sizes,
)
from state_processor.options import SnapshotAccess, check_given
from state_processor.snapshots import CHECKPOINT, FINDING, SAVEPOINT, Location, checked, searched, snapshots_table

_UNKNOWN: Final = "unknown"

_CHECK: Final = argument(
    "--check",
    action=argparse.BooleanOptionalAction,
    help="whether every file of a snapshot is looked for, or only _metadata is read (default: --check)",
)


def _check_options(options: argparse.Namespace) -> None:
    if not options.check:
        check_given(flag_values(options), FINDING, "without --no-check: leave that out")


@command(
    "list",
    "snapshots below a directory, newest first",
    "Show the snapshots below a directory, newest first.",
    SEARCHED,
    _CHECK,
    argument(
        "--high-availability",
        metavar="PATH",
        help="a file completedCheckpoint… or the directory high-availability.storageDir: which checkpoint does a job recover?",
    ),
    PRINTING,
    fails="no snapshot is found",
    python=("sp.list_snapshots",),
)
def _list(options: argparse.Namespace) -> bool:
    _check_options(options)
    rows = snapshots_table(call(list_snapshots, options)).to_pylist()
    if rows:
        _print(rows, options)
    else:
        _complain_of_nothing("snapshot", options)
    return bool(rows)


def _print(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    prefix = str(Location.given(options.directory)).rstrip("/") + "/"
    lines = [
        with_sizes(row)
        | {"path": row["path"].removeprefix(prefix), "time": time_text(row["time"])}
        | {"is_complete": _completeness(row), "recovers": "yes" if row["recovers"] else ""}
        for row in rows
    ]
    recovers = ["recovers"] if any(row["recovers"] for row in rows) else []
    columns = ["kind", "job_id", "checkpoint_id", "time", "size", "is_complete", *recovers, "path"]
    print_table(columns, lines, options, UNBOUNDED, value=rows)  # paths are for copying


def _completeness(row: dict[str, Any]) -> bool | str:
    if row["needs_repair"]:
        return "after repair"
    return _UNKNOWN if row["is_complete"] is None else bool(row["is_complete"])


@command(
    "latest",
    "path of the newest complete snapshot, for scripts",
    "Print only the path of the newest complete snapshot below a directory. Complete means that _metadata can "
    "be read and all files exist. Newer incomplete snapshots are named on standard error.",
    SEARCHED,
    _CHECK,
    argument("--kind", choices=(SAVEPOINT, CHECKPOINT), help="only a savepoint, or only a checkpoint"),
    fails="no complete snapshot is found",
    python=("sp.list_snapshots",),
)
def _latest(options: argparse.Namespace) -> bool:
    _check_options(options)
    access = SnapshotAccess.of(**flag_values(options))
    discovery = searched(options.directory, options.depth, access)
    snapshots = [info for info in discovery.snapshots if options.kind in (None, info.kind)]
    for info in checked(snapshots, access) if options.check else snapshots:
        if info.is_complete is not False:
            _print_path(info.path)
            return True
        complain(f"{info.path} is not complete; state-processor validate names what is missing")
    _complain_of_nothing(f"complete {options.kind or 'snapshot'}", options)
    return False


def _print_path(path: str) -> None:
    if sys.stdout.isatty():
        say(path)
    else:
        print(path)  # a program gets the unchanged name


def _complain_of_nothing(noun: str, options: argparse.Namespace) -> None:
    complain(f"no {noun} found in {options.directory}: name another directory, or search deeper with --depth")
