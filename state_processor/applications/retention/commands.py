"""Commands about the files of many snapshots: who uses them, and the removal of old snapshots and unused files."""

from __future__ import annotations

import argparse
from typing import Any, Final

from state_processor.applications.retention import housekeeping as retention
from state_processor.command_line import (
    DIRECTORY,
    PRINTING,
    SNAPSHOT,
    UNBOUNDED,
    Argument,
    argument,
    command,
    flag_values,
    flags,
    positive,
    print_json,
    print_table,
    say,
    several,
    size_text,
    switch,
    time_text,
)
from state_processor.options import Kind
from state_processor.snapshots import Location

_SHOWN_USERS: Final = 2

_ALSO: Final = several(
    argument(
        "--also",
        action="append",
        default=[],
        metavar="DIR",
        help="a further directory with snapshots that may use these files; may be given several times",
    ),
    flags(Kind.SNAPSHOTS),
)
_POINTERS: Final = argument(
    "--high-availability",
    metavar="PATH",
    help="a file completedCheckpoint… or the directory high-availability.storageDir: checkpoints that it names stay",
)
_FAILS: Final = "no file can be removed"


def _removal(subject: str) -> Argument:
    """Return the arguments of commands that remove files; ``subject`` has an age."""
    text = f"{subject} within this time stay (default: %(default)s)"
    return several(
        argument("--older-than", default=retention.GUARD, metavar="AGE", help=text),
        switch("--delete", "remove the files; without it, they are only shown"),
        switch("--json", "one JSON object instead of text"),
    )


@command(
    "files",
    "files below a directory, and who uses them",
    "Show all files below a directory, and the snapshots that use each.",
    DIRECTORY,
    _ALSO,
    PRINTING,
    python=("sp.files",),
)
def _files(options: argparse.Namespace) -> None:
    uses = retention.files(options.path, also=options.also, **flag_values(options))
    if options.json:
        print_json(
            {"path": use.path, "size_in_bytes": use.size, "modified": use.modified, "snapshots": list(use.snapshots)}
            for use in uses
        )
        return
    prefix = str(Location.given(options.path)).rstrip("/") + "/"
    lines = [
        {
            "size": size_text(use.size),
            "modified": time_text(use.modified),
            "path": use.path.removeprefix(prefix),
            "used_by": _users([user.removeprefix(prefix) for user in use.snapshots]),
        }
        for use in uses
    ]
    print_table(["size", "modified", "path", "used_by"], lines, options, UNBOUNDED, frozenset({"path", "used_by"}))


def _users(users: list[str]) -> str:
    rest = f" and {len(users) - _SHOWN_USERS} more" if len(users) > _SHOWN_USERS else ""
    return ", ".join(users[:_SHOWN_USERS]) + rest


@command(
    "orphans",
    "files that no snapshot uses",
    "Show the files that Flink has made below a directory and that no snapshot uses. Without --delete, nothing is removed. "
    "Nothing is removed either if the _metadata of a snapshot there can't be read.",
    DIRECTORY,
    _ALSO,
    _removal("files that were changed"),
    fails=_FAILS,
    python=("sp.orphans",),
)
def _orphans(options: argparse.Namespace) -> bool:
    return _report(retention.orphans(options.path, **_removal_arguments(options)), options)


@command(
    "dispose",
    "remove a snapshot and the files that only it uses",
    "Remove a savepoint or checkpoint with the files that only it uses. Without --delete, only show the files.",
    SNAPSHOT,
    _POINTERS,
    _ALSO,
    _removal("a snapshot that was written"),
    fails=_FAILS,
    python=("sp.dispose",),
)
def _dispose(options: argparse.Namespace) -> bool:
    pointers = {"high_availability": options.high_availability}
    return _report(retention.dispose(options.path, **pointers, **_removal_arguments(options)), options)


@command(
    "retain",
    "remove all but the newest checkpoints of each job",
    "Remove old checkpoints of each job below a directory, with the files that no other snapshot uses. Savepoints stay. "
    "Without --delete, only show the files.",
    DIRECTORY,
    _ALSO,
    argument("--keep", type=positive, metavar="N", help="number of newest checkpoints of each job that stay"),
    argument("--newer-than", metavar="AGE", help="checkpoints of this age stay, such as 7d, and the newest of each job"),
    _POINTERS,
    _removal("checkpoints that were written"),
    fails=_FAILS,
    python=("sp.retain",),
)
def _retain(options: argparse.Namespace) -> bool:
    limits = {"keep": options.keep, "newer_than": options.newer_than, "high_availability": options.high_availability}
    return _report(retention.retain(options.path, **limits, **_removal_arguments(options)), options)


def _removal_arguments(options: argparse.Namespace) -> dict[str, Any]:
    arguments = {"older_than": options.older_than, "delete": options.delete, "also": options.also}
    return arguments | flag_values(options)


def _report(summary: retention.RemovalSummary, options: argparse.Namespace) -> bool:
    if options.json:
        names = ("removed", "snapshots", "files", "shared_files", "outside", "spared", "notes", "searched")
        print_json([{name: getattr(summary, name) for name in names} | {"size_in_bytes": summary.size}])
        return bool(summary.files)
    for path in summary.files:
        say(path)
    for path in summary.outside:
        say(f"stays, because it is in another directory: {path}")
    for path in summary.spared:
        say(f"stays, because it is younger than --older-than, or Flink does not write such files: {path}")
    for note in summary.notes:
        say(note)
    verb = "removed" if summary.removed else "would be removed; --delete removes them"
    parts = [f"{len(summary.files)} files ({size_text(summary.size)}) of {len(summary.snapshots)} snapshots {verb}"]
    if not summary.snapshots:
        parts = [f"{len(summary.files)} files ({size_text(summary.size)}) {verb}"]
    if summary.shared_files:
        parts.append(f"{summary.shared_files} files stay, because other snapshots use them")
    say("; ".join([*parts, f"{summary.searched} snapshots were searched for users of the files"]))
    return bool(summary.files)
