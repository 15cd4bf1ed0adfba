"""Commands about the files of many snapshots: who uses them, and the removal of old snapshots and unused files."""

from __future__ import annotations

import argparse
from typing import Any, Final

from state_processor.backends.files.location import Location
from state_processor.backends.read.option import Kind
from state_processor.commands.arguments import add_exit_code, add_output, positive
from state_processor.commands.printing import print_json, print_table
from state_processor.commands.terminal import say
from state_processor.display.text_tables import size_text
from state_processor.options.flags import add_flags, flag_values
from state_processor.write import retention

NOTHING_TO_REMOVE: Final = 1
_UNBOUNDED: Final = 1 << 20
_SHOWN_USERS: Final = 2


def add_commands(commands: Any) -> None:
    """Add the commands to the parsers of the command line."""
    text = "Show all files below a directory, and the snapshots that use each."
    listing = commands.add_parser("files", help="files below a directory, and who uses them", description=text)
    _add_directory(listing)
    add_output(listing, _files)
    text = (
        "Show the files that Flink has made below a directory and that no snapshot uses. Without --delete, nothing is removed. "
        "Nothing is removed either if the _metadata of a snapshot there can't be read."
    )
    orphans = commands.add_parser("orphans", help="files that no snapshot uses", description=text)
    _add_directory(orphans)
    _add_removal(orphans, "files that were changed")
    orphans.set_defaults(run=_orphans)
    text = "Remove a savepoint or checkpoint with the files that only it uses. Without --delete, only show the files."
    dispose = commands.add_parser("dispose", help="remove a snapshot and the files that only it uses", description=text)
    dispose.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    _add_pointers(dispose)
    _add_removal(dispose, "a snapshot that was written")
    dispose.set_defaults(run=_dispose)
    text = (
        "Remove old checkpoints of each job below a directory, with the files that no other snapshot uses. Savepoints stay. "
        "Without --delete, only show the files."
    )
    retain = commands.add_parser("retain", help="remove all but the newest checkpoints of each job", description=text)
    _add_directory(retain)
    retain.add_argument("--keep", type=positive, metavar="N", help="number of newest checkpoints of each job that stay")
    retain.add_argument(
        "--newer-than", metavar="AGE", help="checkpoints of this age stay, such as 7d, and the newest of each job"
    )
    _add_pointers(retain)
    _add_removal(retain, "checkpoints that were written")
    retain.set_defaults(run=_retain)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", help="a directory of savepoints, checkpoints or jobs: a path or URL")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    text = "a further directory with snapshots that may use these files; may be given several times"
    parser.add_argument("--also", action="append", default=[], metavar="DIR", help=text)
    add_flags(parser, {Kind.SNAPSHOTS})


def _add_pointers(parser: argparse.ArgumentParser) -> None:
    text = "a file completedCheckpoint… or the directory high-availability.storageDir: checkpoints that it names stay"
    parser.add_argument("--high-availability", metavar="PATH", help=text)


def _add_removal(parser: argparse.ArgumentParser, what: str) -> None:
    if parser.get_default("also") is None:
        _add_common(parser)
    text = f"{what} within this time stay (default: %(default)s)"
    parser.add_argument("--older-than", default=retention.GUARD, metavar="AGE", help=text)
    parser.add_argument("--delete", action="store_true", help="remove the files; without it, they are only shown")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    add_exit_code(parser, "no file can be removed")


def _files(options: argparse.Namespace) -> None:
    found = retention.files(options.path, also=options.also, **flag_values(options))
    if options.json:
        print_json(
            {"path": use.path, "size_in_bytes": use.size, "modified": use.modified, "snapshots": list(use.snapshots)}
            for use in found
        )
        return
    prefix = str(Location.given(options.path)).rstrip("/") + "/"
    shown = [
        {
            "size": size_text(use.size),
            "modified": use.modified and f"{use.modified:%Y-%m-%d %H:%M:%S}",
            "path": use.path.removeprefix(prefix),
            "used_by": _users([user.removeprefix(prefix) for user in use.snapshots]),
        }
        for use in found
    ]
    print_table(["size", "modified", "path", "used_by"], shown, options, _UNBOUNDED, frozenset({"path", "used_by"}))


def _users(users: list[str]) -> str:
    more = f" and {len(users) - _SHOWN_USERS} more" if len(users) > _SHOWN_USERS else ""
    return ", ".join(users[:_SHOWN_USERS]) + more


def _orphans(options: argparse.Namespace) -> int:
    return _report(retention.orphans(options.path, **_removal_arguments(options)), options)


def _dispose(options: argparse.Namespace) -> int:
    pointers = {"high_availability": options.high_availability}
    return _report(retention.dispose(options.path, **pointers, **_removal_arguments(options)), options)


def _retain(options: argparse.Namespace) -> int:
    limits = {"keep": options.keep, "newer_than": options.newer_than, "high_availability": options.high_availability}
    return _report(retention.retain(options.path, **limits, **_removal_arguments(options)), options)


def _removal_arguments(options: argparse.Namespace) -> dict[str, Any]:
    own = {"older_than": options.older_than, "delete": options.delete, "also": options.also}
    return own | flag_values(options)


def _report(summary: retention.RemovalSummary, options: argparse.Namespace) -> int:
    if options.json:
        names = ("removed", "snapshots", "files", "shared_files", "outside", "searched")
        print_json([{name: getattr(summary, name) for name in names} | {"size_in_bytes": summary.size}])
        return 0 if summary.files else NOTHING_TO_REMOVE
    for path in summary.files:
        say(path)
    for path in summary.outside:
        say(f"stays, because it is in another directory: {path}")
    verb = "removed" if summary.removed else "would be removed; --delete removes them"
    parts = [f"{len(summary.files)} files ({size_text(summary.size)}) of {len(summary.snapshots)} snapshots {verb}"]
    if not summary.snapshots:
        parts = [f"{len(summary.files)} files ({size_text(summary.size)}) {verb}"]
    if summary.shared_files:
        parts.append(f"{summary.shared_files} files stay, because other snapshots use them")
    say("; ".join([*parts, f"{summary.searched} snapshots were searched for users of the files"]))
    return 0 if summary.files else NOTHING_TO_REMOVE
