"""Removal of snapshots and of files that no snapshot uses. Each removal is planned, can be shown, and is then carried out.

Files are removed only below the given directory, only if no other snapshot uses them, and only if every ``_metadata`` there can
be read. ``_metadata`` is removed first: a removal that is interrupted leaves files without a snapshot, never a snapshot without
files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow.fs as pafs

from state_processor.backends.files.changes import remove_file
from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.checkpoint_pointers import CheckpointPointer
from state_processor.backends.metadata.discovery import is_checkpoint_name
from state_processor.backends.metadata.properties import SAVEPOINT
from state_processor.backends.metadata.snapshot import METADATA_FILE
from state_processor.backends.retention.file_uses import FileUses, ListedFile, StoredSnapshot, is_below, real_path
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import WriteError

_SAVEPOINT: Final = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}")
_SHARED: Final = frozenset({"shared", "dstl"})
_TASK_OWNED: Final = "taskowned"
_FILE_NAME: Final = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
"""Names of the files that Flink makes in these directories (``FsCheckpointStreamFactory``: random UUIDs)."""


@dataclass(frozen=True)
class Age:
    """An age that files and snapshots are compared with, at a point in time."""

    age: timedelta
    now: datetime

    def is_exceeded(self, time: datetime | None) -> bool:
        """Check if something of this time is older; an unknown time is not."""
        return time is not None and self.now.astimezone(UTC) - time > self.age


@dataclass(frozen=True)
class Removal:
    """Snapshots and files to remove.

    Parameters
    ----------
    snapshots
        The snapshots, oldest first.
    files
        Their files that no other snapshot uses, or files that no snapshot uses; ``_metadata`` of snapshots first.
    kept
        By path: the other snapshots that use a file of a removed snapshot.
    outside
        Files of removed snapshots that are outside of the directory, and stay.
    """

    snapshots: tuple[StoredSnapshot, ...]
    files: tuple[ListedFile, ...]
    kept: dict[str, tuple[str, ...]]
    outside: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files to remove."""
        return sum(file.size for file in self.files)

    def carry_out(self, storage: Storage) -> None:
        """Remove the files, then the directories of snapshots that are empty.

        Raises
        ------
        WriteError
            If a file can't be removed.
        """
        for file in self.files:
            remove_file(storage, file.path)
        for directory in {str(file.location.parent) for file in self.files}:
            if is_checkpoint_name(Location.parse(directory).name) or directory in {s.directory for s in self.snapshots}:
                _remove_if_empty(storage, directory)


def _remove_if_empty(storage: Storage, directory: str) -> None:
    if Location.parse(directory).is_local:
        with suppress(OSError):  # it is not empty, or another process has removed it
            os.rmdir(Location.parse(directory).path)
        return

    def remove(filesystem: pafs.FileSystem, inner: str) -> None:
        filesystem.delete_dir(inner)

    if storage.is_directory(directory) and not storage.list(directory):
        with suppress(WriteError):  # another process has made a file there
            storage.call(directory, remove, "removed", WriteError)


def check_all_readable(uses: FileUses) -> None:
    """Check that the files of all snapshots are known.

    Raises
    ------
    WriteError
        If some ``_metadata`` can't be read.
    """
    if uses.unreadable:
        directory, reason = min(uses.unreadable.items())
        more = len(uses.unreadable) - 1
        others = f" ({more} more can't be read either)" if more else ""
        raise WriteError(
            f"nothing is removed, because the files of {directory} are unknown{others}:\n{reason}\n"
            f"Repair or remove its {METADATA_FILE} first"
        )


def check_old_enough(snapshots: Iterable[StoredSnapshot], older_than: Age) -> None:
    """Check that snapshots are older than the guard.

    Raises
    ------
    WriteError
        If one is younger, or its age is unknown.
    """
    for snapshot in snapshots:
        if not older_than.is_exceeded(snapshot.written):
            age = "an unknown time" if snapshot.written is None else f"{_whole_seconds(older_than.now - snapshot.written)} ago"
            raise WriteError(
                f"nothing is removed: {snapshot.directory} was written {age}; expected more than {older_than.age} ago.\n"
                f"Wait, or lower {spelled('older_than')}"
            )


def snapshots_to_retain(snapshots: Iterable[StoredSnapshot], keep: int | None, newer_than: Age | None) -> list[StoredSnapshot]:
    """Return the checkpoints to keep, of each job: the newest ``keep``, or those newer than a duration and the newest one."""
    by_job: dict[str, list[StoredSnapshot]] = {}
    for snapshot in snapshots:
        by_job.setdefault(str(Location.parse(snapshot.directory).parent), []).append(snapshot)
    kept = []
    for of_job in by_job.values():
        newest_first = sorted(of_job, key=lambda s: s.checkpoint_id, reverse=True)
        number = keep if keep is not None else 1
        kept += newest_first[:number]
        if newer_than is not None:
            kept += [s for s in newest_first[number:] if not newer_than.is_exceeded(s.written)]
    return kept


def is_checkpoint(snapshot: StoredSnapshot) -> bool:
    """Check if a snapshot is a checkpoint in the directory that Flink makes for it. A savepoint may have any name."""
    return snapshot.kind != SAVEPOINT and is_checkpoint_name(Location.parse(snapshot.directory).name)


def named_by_pointers(snapshots: Iterable[StoredSnapshot], pointers: Iterable[CheckpointPointer]) -> dict[str, CheckpointPointer]:
    """Return the snapshots that files of high availability name, by directory: recovering jobs take them."""
    found: dict[str, CheckpointPointer] = {}
    known = list(pointers)
    for snapshot in snapshots:
        directory = Location.parse(snapshot.directory)
        for pointer in known:
            is_numbered_so = (directory.parent.name, snapshot.checkpoint_id) == (pointer.job_id, pointer.checkpoint_id)
            if is_numbered_so or real_path(str(Location.parse(pointer.path))) == snapshot.directory:
                found[snapshot.directory] = pointer
    return found


def check_not_named(snapshots: Iterable[StoredSnapshot], named: Mapping[str, CheckpointPointer]) -> None:
    """Check that no file of high availability names a snapshot.

    Raises
    ------
    WriteError
        If a file names one.
    """
    for snapshot in snapshots:
        if snapshot.directory in named:
            pointer = named[snapshot.directory]
            raise WriteError(
                f"nothing is removed: {pointer.file} names {snapshot.directory}, so that job {pointer.job_id} may restore it "
                "when it recovers; cancel the job first, so that Flink removes this file"
            )


def is_savepoint_name(name: str) -> bool:
    """Check if a directory has the name that Flink gives to a savepoint."""
    return bool(_SAVEPOINT.fullmatch(name))


def removal_of_snapshots(uses: FileUses, directory: str, removed: Collection[StoredSnapshot]) -> Removal:
    """Plan the removal of snapshots with all of their files that no other snapshot uses.

    Parameters
    ----------
    uses
        The files and snapshots of all directories that matter.
    directory
        The directory below which files are removed, without symbolic links.
    removed
        The snapshots.

    Raises
    ------
    WriteError
        If some ``_metadata`` can't be read, or another snapshot uses a file in the directory of a removed one.
    """
    check_all_readable(uses)
    names = {snapshot.directory for snapshot in removed}
    used = {path for snapshot in removed for path in snapshot.files}
    others = {path: tuple(user for user in uses.users_of(path) if user not in names) for path in used}
    for snapshot in removed:
        own = sorted(path for path in used if others[path] and is_below(path, snapshot.directory))
        if own:
            raise WriteError(_in_use(snapshot, own, sorted({user for path in own for user in others[path]})))
    unused = [path for path in used if not others[path] and path in uses.files]
    inside = [uses.files[path] for path in unused if is_below(path, directory)]
    return Removal(
        tuple(sorted(removed, key=lambda s: (s.checkpoint_id, s.directory))),
        tuple(sorted(inside, key=lambda file: (file.location.name != METADATA_FILE, file.path))),
        {path: users for path, users in others.items() if users and path in uses.files},
        tuple(sorted(path for path in unused if not is_below(path, directory))),
    )


def _in_use(snapshot: StoredSnapshot, paths: list[str], users: list[str]) -> str:
    who = f"{users[0]} uses" if len(users) == 1 else f"{users[0]} and {len(users) - 1} more use"
    which = "that snapshot" if len(users) == 1 else "these snapshots"
    return f"{snapshot.directory} can't be removed: {who} {len(paths)} of its files, such as {paths[0]}.\nRemove {which} first"


def removal_of_orphans(uses: FileUses, directory: str, older_than: Age) -> Removal:
    """Plan the removal of files that Flink has made and that no snapshot uses.

    Parameters
    ----------
    uses
        The files and snapshots of all directories that matter.
    directory
        The directory below which files are removed.
    older_than
        Files that were changed within this time stay: a checkpoint that is not complete may use them.
    """
    orphans = [
        file
        for path, file in uses.files.items()
        if is_below(path, directory)
        and not uses.users_of(path)
        and _is_made_by_flink(file.location)
        and older_than.is_exceeded(file.modified)
    ]
    return Removal((), tuple(orphans), {})


def _is_made_by_flink(location: Location) -> bool:
    """Check if a file has the name and the place of a file of a checkpoint or savepoint.

    Files in ``taskowned`` belong to operators, and state may name them. Only the directories that file merging makes there hold
    files of checkpoints.
    """
    directory = location.parent
    if not _FILE_NAME.fullmatch(location.name):
        return False
    if _TASK_OWNED in directory.segments:
        return directory.name != _TASK_OWNED
    if is_checkpoint_name(directory.name) or is_savepoint_name(directory.name):
        return True
    return bool(_SHARED & {directory.name, directory.parent.name})


def _whole_seconds(age: timedelta) -> timedelta:
    return timedelta(seconds=age // timedelta(seconds=1))
