"""The files of the snapshots below a directory: who uses them, and the removal of snapshots and of unused files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from os import PathLike, fspath
from typing import Final, Unpack

from state_processor.applications.retention.file_uses import FileUses, find_file_uses, is_below, is_savepoint_name, real_path
from state_processor.applications.retention.removal import (
    Age,
    Removal,
    agreed,
    check_all_readable,
    check_claims,
    check_has_snapshots,
    check_not_named,
    check_old_enough,
    clock_of_storage,
    is_checkpoint,
    named_by_pointers,
    removal_of_orphans,
    removal_of_snapshots,
    snapshots_to_retain,
)
from state_processor.command_line import (
    JSON_LINES,
    PRINTING,
    UNBOUNDED,
    Argument,
    argument,
    call,
    command,
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
from state_processor.errors import NotASnapshotError, OptionError
from state_processor.options import WHOLE_NUMBER, DirectoryOptions, Kind, SnapshotAccess, duration_ms, spelled, takes_options
from state_processor.snapshots import (
    METADATA_FILE,
    POINTER_PREFIX,
    CheckpointPointer,
    Location,
    Storage,
    find_pointers,
    is_checkpoint_name,
    locate_metadata,
    read_pointer,
)
from state_processor.support import redacted_repr

GUARD: Final = "1d"
"""Age up to which snapshots and files are never removed, by default."""
_JOB_ID_LENGTH: Final = 32

Directory = str | PathLike[str]
Duration = str | timedelta


@dataclass(frozen=True, slots=True)
class FileUse:
    """A file below a directory of snapshots.

    Parameters
    ----------
    path
        The path or URL.
    size
        Bytes.
    modified
        Time of the last change; ``None`` where the storage does not have it.
    snapshots
        Directories of the snapshots that use the file.
    """

    path: str
    size: int
    modified: datetime | None
    snapshots: tuple[str, ...]

    __repr__ = redacted_repr


@dataclass(frozen=True, slots=True)
class RemovalSummary:
    """Snapshots and files that were removed, or that would be removed.

    Parameters
    ----------
    removed
        False for a preview: nothing was removed.
    snapshots
        Directories of the snapshots, oldest first.
    files
        The removed files.
    shared_files
        Number of files of the removed snapshots that stay, because other snapshots use them.
    outside
        Files of the removed snapshots that stay, because they are not below the directory.
    spared
        Files that the removed snapshots name and that stay, because they do not have the name and the place of a file that Flink
        writes, or were changed within ``older_than``. Planned files that were changed, or that a snapshot began to use, between
        the plan and their removal.
    notes
        What the choice of the newest checkpoints went by where their numbers and times disagree; how many planned files stay.
    searched
        Number of snapshots whose files were looked up.
    size
        Bytes of the removed files.
    """

    removed: bool
    snapshots: tuple[str, ...]
    files: tuple[str, ...]
    shared_files: int
    outside: tuple[str, ...]
    spared: tuple[str, ...]
    notes: tuple[str, ...]
    searched: int
    size: int

    __repr__ = redacted_repr


@takes_options
def files(directory: Directory, *, also: Sequence[Directory] = (), **options: Unpack[DirectoryOptions]) -> list[FileUse]:
    """List all files below a directory with the snapshots that use them.

    Files of incremental checkpoints, claimed savepoints, merged files and changelogs have several users.

    Parameters
    ----------
    directory
        A directory of savepoints, checkpoints or jobs: a path or URL.
    also
        Further directories with snapshots that may use these files.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Raises
    ------
    NotASnapshotError
        If a directory does not exist.
    WriteError
        If the ``_metadata`` of a snapshot can't be read, so that its files are unknown.
    """
    access, root = SnapshotAccess.of(**options), _real_directory(directory)
    uses = _find(_searched(root, also), access)
    check_all_readable(uses)
    file_uses = []
    for path, file in uses.files.items():
        if is_below(path, str(root)):
            users = tuple(uses.users_of(path))
            file_uses.append(FileUse(path, file.size, file.modified, users))
    return file_uses


@takes_options
def orphans(
    directory: Directory,
    *,
    older_than: Duration = GUARD,
    delete: bool = False,
    also: Sequence[Directory] = (),
    **options: Unpack[DirectoryOptions],
) -> RemovalSummary:
    """Find the files that Flink has made below a directory and that no snapshot uses; remove them on request.

    Flink leaves such files if a job fails or is killed. Only files with a name that Flink gives, in a directory that Flink makes
    (``chk-…``, ``savepoint-…``, ``shared``, ``dstl``, merged files in ``taskowned``, files of ForSt), are orphans.

    Parameters
    ----------
    directory
        A directory of savepoints, checkpoints or jobs: a path or URL.
    older_than
        Files that were changed within this time are not orphans: running jobs may still need them.
    delete
        Remove the files. By default nothing is removed.
    also
        As for :func:`files`.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Raises
    ------
    NotASnapshotError
        If a directory does not exist.
    WriteError
        If the ``_metadata`` of a snapshot can't be read, so that its files are unknown, no snapshot is found beside orphans, or
        a file can't be removed.
    OptionError
        If ``older_than`` is not a duration.
    """
    access = SnapshotAccess.of(**options)
    root = _real_directory(directory)
    age = _age("older_than", older_than, str(root), access.storage(), delete=delete)

    def plan(uses: FileUses) -> _Planned:
        check_all_readable(uses)
        removal = removal_of_orphans(uses, [str(root)], age)
        if not also:
            check_claims(uses, removal.files)
        check_has_snapshots(uses, removal.files)
        return _Planned(removal, uses)

    return _carried_out(partial(_find, _searched(root, also), access), plan, access.storage(), delete=delete)


@takes_options
def dispose(
    path: Directory,
    *,
    older_than: Duration = GUARD,
    delete: bool = False,
    also: Sequence[Directory] = (),
    high_availability: Directory | None = None,
    **options: Unpack[DirectoryOptions],
) -> RemovalSummary:
    """Remove a savepoint or checkpoint with the files that no other snapshot uses (Flink: ``flink savepoint -d``).

    Files below the directory of the snapshot, and for a checkpoint below the directory of its job, are removed. The snapshots of
    the jobs and savepoints next to it are searched for users of these files. Do not remove the snapshot that a job has started
    from before the first checkpoint of the job: until then, no snapshot names the files that the job uses.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    older_than
        A snapshot that was written within this time is not removed.
    delete
        Remove the snapshot. By default nothing is removed.
    also
        As for :func:`files`.
    high_availability
        A file ``completedCheckpoint…``, or a directory with such files (``high-availability.storageDir``). A checkpoint that they
        name is not removed, because a recovering job restores it. Such files in the searched directories are always used.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Raises
    ------
    NotASnapshotError
        If the snapshot does not exist.
    WriteError
        If another snapshot uses files in the directory of this one, the ``_metadata`` of a snapshot can't be read, the snapshot
        is too young, a file of high availability names it, or a file can't be removed.
    OptionError
        If ``older_than`` is not a duration.
    """
    access = SnapshotAccess.of(**options)
    storage = access.storage()
    directory = Location.parse(real_path(locate_metadata(path, storage))).parent
    root = _root_of(directory)
    age = _age("older_than", older_than, str(directory), storage, delete=delete)

    def read(previous: FileUses | None) -> FileUses:
        neighbours = _snapshots_beside(directory, storage) if root == directory else []
        return _find([*_searched(root, also), *neighbours], access, previous)

    def plan(uses: FileUses) -> _Planned:
        check_all_readable(uses)
        if str(directory) not in uses.snapshots:
            raise NotASnapshotError(f"{directory} was removed meanwhile: its {METADATA_FILE} is gone")
        removed = [uses.snapshots[str(directory)]]
        check_old_enough(removed, age)
        check_not_named(removed, _named(uses, high_availability, storage))
        return _Planned(removal_of_snapshots(uses, str(root), removed, age), uses)

    return _carried_out(read, plan, storage, delete=delete)


@takes_options
def retain(
    directory: Directory,
    *,
    keep: int | None = None,
    newer_than: Duration | None = None,
    older_than: Duration = GUARD,
    delete: bool = False,
    also: Sequence[Directory] = (),
    high_availability: Directory | None = None,
    **options: Unpack[DirectoryOptions],
) -> RemovalSummary:
    """Remove old checkpoints of each job below a directory, with the files that no other snapshot uses. Savepoints stay.

    Parameters
    ----------
    directory
        A directory of checkpoints or of one job: a path or URL.
    keep
        The number of newest checkpoints of each job that stay.
    newer_than
        Checkpoints of this age stay, and the newest one of each job. Give ``keep``, ``newer_than`` or both.
    older_than
        Checkpoints that were written within this time are not removed.
    delete
        Remove the checkpoints. By default nothing is removed.
    also
        As for :func:`files`.
    high_availability
        As for :func:`dispose`.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Raises
    ------
    NotASnapshotError
        If a directory does not exist.
    WriteError
        If another snapshot uses files in the directory of a checkpoint, the ``_metadata`` of a snapshot can't be read, or a file
        can't be removed.
    OptionError
        If neither ``keep`` nor ``newer_than`` is given, or an option has an unexpected value.
    """
    access = SnapshotAccess.of(**options)
    if keep is None and newer_than is None:
        raise OptionError(f"expected {spelled('keep', 3)} or {spelled('newer_than', '7d')}, to know which checkpoints stay")
    if keep is not None and WHOLE_NUMBER.of_argument("keep", keep) < 1:
        raise OptionError(f"{spelled('keep', keep)}: expected at least 1, because a job needs its newest checkpoint to recover")
    root, storage = _real_directory(directory), access.storage()
    guard = _age("older_than", older_than, str(root), storage, delete=delete)
    young = None if newer_than is None else replace(_age("newer_than", newer_than), now=guard.now)

    def plan(uses: FileUses) -> _Planned:
        checkpoints = [s for s in uses.snapshots.values() if is_checkpoint(s) and is_below(s.directory, str(root))]
        staying = set(_named(uses, high_availability, storage))
        notes: list[str] = []
        for of_job in snapshots_to_retain(checkpoints, keep, young):
            staying.update(s.directory for s in of_job.snapshots)
            notes += of_job.notes
        old = [s for s in checkpoints if s.directory not in staying and guard.is_exceeded(s.written)]
        return _Planned(removal_of_snapshots(uses, str(root), old, guard), uses, tuple(notes))

    return _carried_out(partial(_find, _searched(root, also), access), plan, storage, delete=delete)


def _real_directory(directory: Directory) -> Location:
    return Location.parse(real_path(str(Location.given(directory))))


def _find(directories: Sequence[str], access: SnapshotAccess, previous: FileUses | None = None) -> FileUses:
    return find_file_uses(directories, access.storage(), access.allow_paths, access.path_mapping, previous)


def _searched(root: Location, also: Iterable[Directory]) -> list[str]:
    """Return the directories with snapshots that may use files of a directory: other jobs or savepoints are next to it."""
    if isinstance(also, (str, PathLike)) or not isinstance(also, Iterable):
        raise OptionError(f"{spelled('also')}: expected a list of directories, found {also!r}")
    has_siblings = _is_job(root) or is_savepoint_name(root.name)
    return [str(root.parent if has_siblings else root), *(str(Location.given(directory)) for directory in also)]


def _root_of(directory: Location) -> Location:
    """Return the directory below which files are removed: for a checkpoint, the one with the files of its job."""
    if _is_job(directory.parent):
        return directory.parent.parent
    return directory.parent if is_checkpoint_name(directory.name) else directory


def _snapshots_beside(directory: Location, storage: Storage) -> list[str]:
    """Return the directories of snapshots next to a snapshot. They may have names of any form."""
    directories = (entry.path for entry in storage.list(str(directory.parent)) if entry.is_directory)
    return [path for path in directories if storage.is_file(str(Location.parse(path).joined(METADATA_FILE)))]


def _named(uses: FileUses, high_availability: Directory | None, storage: Storage) -> dict[str, CheckpointPointer]:
    """Return the snapshots that files of high availability name: files that are given, and files in the searched directories."""
    pointers = [] if high_availability is None else find_pointers(fspath(high_availability), storage)
    pointer_files = (path for path, file in uses.files.items() if file.location.name.startswith(POINTER_PREFIX))
    return named_by_pointers(uses.snapshots.values(), [*pointers, *(read_pointer(path, storage) for path in pointer_files)])


def _is_job(directory: Location) -> bool:
    return len(directory.name) == _JOB_ID_LENGTH and set(directory.name) <= set("0123456789abcdef")


def _age(name: str, value: Duration, directory: str = "", storage: Storage | None = None, *, delete: bool = False) -> Age:
    """Return an age up to now. Before a removal, the clock of the storage counts if it is behind the clock of this machine."""
    try:
        age = timedelta(milliseconds=duration_ms(value))
    except OptionError:
        raise OptionError(f"{spelled(name, value)}: expected a duration such as 1d, 12h or PT1H") from None
    now = datetime.now(UTC)
    if delete and storage is not None and storage.is_directory(directory):
        now = min(now, clock_of_storage(directory, storage) or now)
    return Age(age, now)


@dataclass(frozen=True)
class _Planned:
    """A planned removal, and its sources. Plans are equal if they remove the same files."""

    removal: Removal
    uses: FileUses = field(compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)


def _carried_out(
    read: Callable[[FileUses | None], FileUses], plan: Callable[[FileUses], _Planned], storage: Storage, *, delete: bool
) -> RemovalSummary:
    """Plan a removal from the uses of files as they are read, carry it out if this is asked for, and summarize it.

    Before files are removed, the uses are read again, and the plan is made once more. What is removed then counts as it was.
    """

    def from_reading() -> _Planned:
        return plan(read(None))

    planned = agreed(from_reading) if delete else from_reading()
    removal, notes = planned.removal, planned.notes
    if delete:
        removal = removal.carry_out(
            storage, lambda: plan(read(planned.uses).with_removed(removal.files, removal.snapshots)).removal
        )
        staying = len(removal.spared) - len(planned.removal.spared)
        if staying:
            number = len(planned.removal.files)
            notes += (f"{staying} of {number} planned files stay: they were changed, or came into use meanwhile",)
    return RemovalSummary(
        delete,
        tuple(snapshot.directory for snapshot in removal.snapshots),
        tuple(file.path for file in removal.files),
        len(removal.users_by_path),
        removal.outside,
        removal.spared,
        notes,
        len(planned.uses.snapshots),
        removal.size,
    )


# The commands

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


def _removal(too_young: str) -> Argument:
    """Return the arguments of commands that remove files; ``too_young`` names the files that stay because of their age."""
    return several(
        argument("--older-than", metavar="AGE", help=f"{too_young} (default: %(default)s)"),
        switch("--delete", "remove the files; without it, they are only shown"),
        JSON_LINES,
    )


@command(
    "files",
    "files below a directory, and who uses them",
    "Show all files below a directory, and the snapshots that use each.",
    _ALSO,
    PRINTING,
    python=("sp.files",),
)
def _files(options: argparse.Namespace) -> None:
    uses = call(files, options)
    prefix = str(Location.given(options.directory)).rstrip("/") + "/"
    lines = []
    for use in uses:
        users = _users([user.removeprefix(prefix) for user in use.snapshots])
        file = {"size": size_text(use.size), "modified": time_text(use.modified), "path": use.path.removeprefix(prefix)}
        lines.append({**file, "used_by": users})
    print_table(["size", "modified", "path", "used_by"], lines, options, UNBOUNDED, frozenset({"path", "used_by"}), uses)


def _users(users: list[str]) -> str:
    rest = f" and {len(users) - _SHOWN_USERS} more" if len(users) > _SHOWN_USERS else ""
    return ", ".join(users[:_SHOWN_USERS]) + rest


@command(
    "orphans",
    "files that no snapshot uses",
    "Show the files that Flink has made below a directory and that no snapshot uses. Without --delete, nothing is removed. "
    "Nothing is removed either if the _metadata of a snapshot there can't be read.",
    _ALSO,
    _removal("files that were changed within this time stay"),
    fails=_FAILS,
    python=("sp.orphans",),
)
def _orphans(options: argparse.Namespace) -> bool:
    return _report(call(orphans, options), options)


@command(
    "dispose",
    "remove a snapshot and the files that only it uses",
    "Remove a savepoint or checkpoint with the files that only it uses. Without --delete, only show the files.",
    _POINTERS,
    _ALSO,
    _removal("a snapshot that was written within this time stays"),
    fails=_FAILS,
    python=("sp.dispose",),
)
def _dispose(options: argparse.Namespace) -> bool:
    return _report(call(dispose, options), options)


@command(
    "retain",
    "remove all but the newest checkpoints of each job",
    "Remove old checkpoints of each job below a directory, with the files that no other snapshot uses. Savepoints stay. "
    "Without --delete, only show the files.",
    _ALSO,
    argument("--keep", type=positive, metavar="N", help="number of newest checkpoints of each job that stay"),
    argument("--newer-than", metavar="AGE", help="checkpoints of this age stay, such as 7d, and the newest of each job"),
    _POINTERS,
    _removal("checkpoints that were written within this time stay"),
    fails=_FAILS,
    python=("sp.retain",),
)
def _retain(options: argparse.Namespace) -> bool:
    return _report(call(retain, options), options)


def _report(summary: RemovalSummary, options: argparse.Namespace) -> bool:
    if options.json:
        print_json(summary)
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
