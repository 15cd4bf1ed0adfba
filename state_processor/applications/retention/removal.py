"""Removal of snapshots and of files that no snapshot uses. Each removal is planned, can be shown, and is then carried out.

Files are removed only below the given directory, and only if they have names and places of files that Flink writes. No other
snapshot may use them in two successive readings of the directory, and every ``_metadata`` there has to be readable. The directory
is looked at again before each batch of files, and each file right before its removal: only files that are still unused and
unchanged are removed.
``_metadata`` is removed first: a removal that is interrupted leaves files without a snapshot, never a snapshot without files.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import uuid4

from state_processor.applications.retention.file_uses import (
    FileUses,
    ListedFile,
    OrderedPaths,
    StoredSnapshot,
    directory_of_job,
    is_below,
    is_made_by_flink,
    is_merged,
    is_name_of_flink,
    is_savepoint_name,
    real_path,
)
from state_processor.errors import StateProcessorError, WriteError
from state_processor.options import spelled
from state_processor.snapshots import (
    METADATA_FILE,
    SAVEPOINT,
    CheckpointPointer,
    FileSink,
    Location,
    Mark,
    Storage,
    in_order,
    is_checkpoint_name,
    is_name_of_write,
    remove_file,
)
from state_processor.support import only_keys

_READINGS: Final = 8
_BATCH: Final = 1000
"""Files that are removed before the directory is looked at again; as many as object stores list by one request."""
_LOOKS: Final = 16
"""The most looks at the directory during one removal."""


Plan = TypeVar("Plan")


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
    """Snapshots and files to remove."""

    snapshots: tuple[StoredSnapshot, ...]  # the snapshots, oldest first
    # their files that no other snapshot uses, or files that no snapshot uses; ``_metadata`` of snapshots first
    files: tuple[ListedFile, ...]
    users_by_path: dict[str, tuple[str, ...]]  # by path: the other snapshots that use a file of a removed snapshot
    outside: tuple[str, ...] = ()  # files of removed snapshots that are outside of the directory, and stay
    # files that removed snapshots name and that stay all the same: they do not have the name and the place of a file that Flink
    # writes, or were changed within the guard. What a ``_metadata`` names is input, and may be any file. After the removal, also
    # planned files that were changed, or that came into use, between the plan and their removal.
    spared: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files to remove."""
        return sum(file.size for file in self.files)

    def carry_out(self, storage: Storage, plan_again: Callable[[], Removal]) -> Removal:
        """Remove the files that are still planned and unchanged, then the directories of snapshots that are empty.

        ``storage``: access to files. ``plan_again``: plan from the directory as it is now, with the snapshots and files of this
        removal as they were. It is called before each batch of files; files that are not planned any more stay.

        Returns: the files that were removed; files that stay are spared.
        """
        removed: list[ListedFile] = []
        staying: list[str] = []
        batch = max(_BATCH, -(-len(self.files) // _LOOKS))
        try:
            for start in range(0, len(self.files), batch):
                planned = {*plan_again().files}
                for file in self.files[start : start + batch]:
                    match storage.size_and_time(file.path):
                        case None:  # another process has removed it
                            pass
                        case size, modified if file in planned and file.is_as_listed(size, modified):
                            remove_file(storage, file.path)
                            removed.append(file)
                        case _:
                            staying.append(file.path)
                            if file.location.name == METADATA_FILE:  # the snapshot stays, and needs its files
                                planned = {*plan_again().files}
        except StateProcessorError as error:
            if not removed:
                raise
            raise WriteError(f"the removal stopped after {len(removed)} of {len(self.files)} files:\n{error}") from error
        for directory in {str(file.location.parent) for file in removed}:
            if is_checkpoint_name(Location.parse(directory).name) or directory in {s.directory for s in self.snapshots}:
                _remove_if_empty(Location.parse(directory))
        gone = {file.path for file in removed}
        snapshots = tuple(snapshot for snapshot in self.snapshots if snapshot.metadata_file in gone)
        return replace(self, snapshots=snapshots, files=tuple(removed), spared=(*self.spared, *staying))


def _remove_if_empty(directory: Location) -> None:
    """Remove a local directory. On other storage it stays, as a file that appears meanwhile would be removed with it."""
    if directory.is_local:
        with suppress(OSError):  # it is not empty, or another process has removed it
            os.rmdir(directory.path)


def check_all_readable(uses: FileUses) -> None:
    """Check that the files of all snapshots are known."""
    if uses.unreadable:
        directory, reason = min(uses.unreadable.items())
        unreadable = len(uses.unreadable) - 1
        rest = f" ({unreadable} more can't be read either)" if unreadable else ""
        raise WriteError(
            f"nothing is removed, because the files of {directory} are unknown{rest}:\n{reason}\n"
            f"Repair or remove its {METADATA_FILE} first"
        )


def check_old_enough(snapshots: Iterable[StoredSnapshot], older_than: Age) -> None:
    """Check that snapshots are older than the guard."""
    for snapshot in snapshots:
        if snapshot.written is None:
            raise WriteError(f"nothing is removed: the storage does not tell when {snapshot.directory} was written")
        if not older_than.is_exceeded(snapshot.written):
            age = max(timedelta(), _whole_seconds(older_than.now - snapshot.written))
            raise WriteError(
                f"nothing is removed: {snapshot.directory} was written {age} ago; expected more than {older_than.age} ago.\n"
                f"Wait, or lower {spelled('older_than')}"
            )


@dataclass(frozen=True)
class Retained:
    """The checkpoints of a job that stay."""

    snapshots: tuple[StoredSnapshot, ...]
    notes: tuple[str, ...]  # what the choice went by where numbers and times of checkpoints disagree


def snapshots_to_retain(snapshots: Iterable[StoredSnapshot], keep: int | None, newer_than: Age | None) -> list[Retained]:
    """Return the checkpoints to keep, of each job: the newest ``keep``, or those newer than a duration and the newest one.

    Both checkpoints stay if it is in doubt which one is newer.
    """
    by_job: dict[str, list[StoredSnapshot]] = {}
    for snapshot in snapshots:
        by_job.setdefault(str(Location.parse(snapshot.directory).parent), []).append(snapshot)
    return [_retained(of_job, keep if keep is not None else 1, newer_than) for of_job in by_job.values()]


def _retained(of_job: Sequence[StoredSnapshot], number: int, newer_than: Age | None) -> Retained:
    order = in_order(map(_marked, of_job), lambda snapshot: snapshot.files)
    staying = order.checkpoints[-number:]
    if any(doubt.is_close for doubt in order.doubts):
        staying += sorted(of_job, key=lambda snapshot: _marked(snapshot).by_time)[-number:]
    if newer_than is not None:
        staying += (snapshot for snapshot in of_job if not newer_than.is_exceeded(snapshot.written))
    notes = [doubt.text(lambda s: s.directory) + (". Both stay" if doubt.is_close else "") for doubt in order.doubts]
    return Retained(tuple(staying), tuple(notes))


def _marked(snapshot: StoredSnapshot) -> Mark[StoredSnapshot]:
    return Mark(snapshot, snapshot.checkpoint_id, None if snapshot.written is None else snapshot.written.timestamp())


def clock_of_storage(directory: str, storage: Storage) -> datetime | None:
    """Return the time that the storage gives to a file that is written now; ``None`` if it does not keep times."""
    probe = str(Location.parse(directory).joined(f"{uuid4().hex}-clock"))
    try:
        with FileSink(storage, probe):
            pass
        return storage.modified(probe)
    finally:
        remove_file(storage, probe)


def agreed(plan: Callable[[], Plan]) -> Plan:
    """Plan a removal from readings of the directory until two successive plans are equal."""
    removal = plan()
    for _ in range(_READINGS):
        previous, removal = removal, plan()
        if removal == previous:
            return removal
    raise WriteError(
        f"nothing is removed: {_READINGS + 1} readings of the directory differ in what is not used. Jobs change it faster than "
        f"it is read: raise {spelled('older_than')}, or try again"
    )


def is_checkpoint(snapshot: StoredSnapshot) -> bool:
    """Check if a snapshot is a checkpoint in the directory that Flink makes for it. A savepoint may have any name."""
    return snapshot.kind != SAVEPOINT and is_checkpoint_name(Location.parse(snapshot.directory).name)


def named_by_pointers(snapshots: Iterable[StoredSnapshot], pointers: Iterable[CheckpointPointer]) -> dict[str, CheckpointPointer]:
    """Return the snapshots that files of high availability name, by directory: recovering jobs take them."""
    named: dict[str, CheckpointPointer] = {}
    numbered: dict[tuple[str, int], set[str]] = defaultdict(set)
    directories: set[str] = set()
    for snapshot in snapshots:
        directories.add(snapshot.directory)
        numbered[Location.parse(snapshot.directory).parent.name, snapshot.checkpoint_id].add(snapshot.directory)
    for pointer in pointers:
        at_path = directories & {real_path(str(Location.parse(pointer.path)))}
        named |= dict.fromkeys(at_path | numbered.get((pointer.job_id, pointer.checkpoint_id), set()), pointer)
    return named


def check_not_named(snapshots: Iterable[StoredSnapshot], named: Mapping[str, CheckpointPointer]) -> None:
    """Check that no file of high availability names a snapshot."""
    for snapshot in snapshots:
        if snapshot.directory in named:
            pointer = named[snapshot.directory]
            raise WriteError(
                f"nothing is removed: {pointer.file} names {snapshot.directory}, so that job {pointer.job_id} may restore it "
                "when it recovers; cancel the job first, so that Flink removes this file"
            )


def removal_of_snapshots(uses: FileUses, directory: str, removed: Collection[StoredSnapshot], older_than: Age) -> Removal:
    """Plan the removal of snapshots with all of their files that no other snapshot uses.

    ``uses``: the files and snapshots of all directories that matter. ``directory``: the directory below which files are removed,
    without symbolic links. ``older_than``: files that were changed within this time stay.
    """
    check_all_readable(uses)
    names = {snapshot.directory for snapshot in removed}
    used = frozenset[str]().union(*(snapshot.files for snapshot in removed))
    users_by_path: dict[str, tuple[str, ...]] = {}
    for path in used:
        users = tuple(user for user in uses.users_of(path) if user not in names)
        if users:
            users_by_path[path] = users
    shared = OrderedPaths(users_by_path)
    for snapshot in removed:
        in_use = shared.below(snapshot.directory)
        if in_use:
            users_of_files = frozenset[str]().union(*(users_by_path[path] for path in in_use))
            raise WriteError(_in_use(snapshot, in_use, sorted(users_of_files)))
    running = _RunningJobs(uses, older_than, names)
    removable: list[ListedFile] = []
    staying: list[str] = []
    outside: list[str] = []
    for path in used - users_by_path.keys():
        file = uses.files.get(path)
        if file is None:
            continue
        if not is_below(path, directory):
            outside.append(path)
        elif _is_of_snapshot(file.location, names) and older_than.is_exceeded(file.modified) and not running.may_append(file):
            removable.append(file)
        else:
            staying.append(path)
    return Removal(
        tuple(sorted(removed, key=lambda s: (s.checkpoint_id, s.directory))),
        tuple(sorted(removable, key=lambda file: (file.location.name != METADATA_FILE, file.path))),
        only_keys(users_by_path, uses.files),
        tuple(sorted(outside)),
        tuple(sorted(staying)),
    )


def _in_use(snapshot: StoredSnapshot, paths: list[str], users: list[str]) -> str:
    users_text = f"{users[0]} uses" if len(users) == 1 else f"{users[0]} and {len(users) - 1} more use"
    snapshots_text = "that snapshot" if len(users) == 1 else "these snapshots"
    in_use = f"{users_text} {len(paths)} of its files, such as {paths[0]}"
    return f"{snapshot.directory} can't be removed: {in_use}.\nRemove {snapshots_text} first"


def check_has_snapshots(uses: FileUses, orphans: Sequence[ListedFile]) -> None:
    """Check that orphans are beside at least one snapshot: all snapshots may lie elsewhere (Flink: ``s3.entropy.key``)."""
    if orphans and not uses.snapshots:
        raise WriteError(
            f"nothing is removed: {len(orphans)} files, such as {orphans[0].path}, seem unused, but no snapshot was found. "
            "Snapshots elsewhere may use them: Flink writes files of the state below other prefixes if entropy is set.\n"
            f"Name the directories of these snapshots with {spelled('also')}, or remove the directory yourself"
        )


def check_claims(uses: FileUses, orphans: Iterable[ListedFile]) -> None:
    """Check that no orphan is in a directory that a job elsewhere may have claimed.

    A job that claims a savepoint, or a retained checkpoint with shared files, removes the ``_metadata`` and goes on using files.
    """
    for place, paths in possibly_claimed(uses, orphans).items():
        raise WriteError(
            f"nothing is removed: {place} has {len(paths)} files, such as {paths[0]}, and no {METADATA_FILE}. A job may have "
            "claimed it, and keep its checkpoints elsewhere.\nName the directories of the jobs that may use these files with "
            f"{spelled('also')}, or remove the directory yourself"
        )


def possibly_claimed(uses: FileUses, orphans: Iterable[ListedFile]) -> dict[str, list[str]]:
    """Return the orphans that a job elsewhere may use, by the directory that it may have claimed; see :func:`check_claims`."""
    claimable: dict[str, list[str]] = {}
    for file in orphans:
        place = _claimable_directory(file.location)
        if place is not None:
            claimable.setdefault(place, []).append(file.path)
    return {place: paths for place, paths in claimable.items() if not uses.snapshots_in(place)}


def _claimable_directory(location: Location) -> str | None:
    """Return the savepoint or the job whose files a job elsewhere may use; ``None`` for files of one checkpoint."""
    directory = location.parent
    if is_savepoint_name(directory.name):
        return str(directory)
    return None if is_checkpoint_name(directory.name) else directory_of_job(location)


class _RunningJobs:
    """Jobs that may run: their directories have files that are younger than the guard.

    Such a job may still need files that no snapshot uses and that are older than the guard. A changelog is written before the
    checkpoint that names it, and checkpoints may fail for longer than the guard.

    File merging appends to files whose earlier parts are not used any more, and the next checkpoint names such a file again. A
    job that is idle may do so after any time. So these files stay as long as the job has a checkpoint that is not removed.
    """

    def __init__(self, uses: FileUses, older_than: Age, removed: Collection[str] = ()) -> None:
        self._uses = uses
        self._continued = {str(Location.parse(path).parent) for path in uses.snapshots if path not in removed}
        self._older_than = older_than
        young = (file.location for file in uses.files.values() if not older_than.is_exceeded(file.modified))
        self._directories = set(map(directory_of_job, young)) - {None}
        self._last: dict[str, datetime | None] = {}

    def may_append(self, file: ListedFile) -> bool:
        """Check if a job may append to a merged file."""
        return is_merged(file.location) and directory_of_job(file.location) in self._directories | self._continued

    def may_name(self, file: ListedFile) -> bool:
        """Check if the next checkpoint of a job may name a file: it is not older than the last checkpoint by the guard."""
        job = directory_of_job(file.location)
        if job is None or job not in self._directories:
            return False
        if job not in self._last:
            written = (self._uses.snapshots[directory].written for directory in self._uses.snapshots_in(job))
            self._last[job] = max(filter(None, written), default=None)
        last = self._last[job]
        return last is None or not Age(self._older_than.age, min(last, self._older_than.now)).is_exceeded(file.modified)


def removal_of_orphans(uses: FileUses, directories: Iterable[str], older_than: Age) -> Removal:
    """Plan the removal of files that Flink has made and that no snapshot uses.

    ``uses``: the files and snapshots of all directories that matter. ``directories``: the directories below which files are
    removed. ``older_than``: files that were changed within this time stay: a checkpoint that is not complete may use them. The
    time counts back from the last checkpoint of a job that may run.
    """
    running = _RunningJobs(uses, older_than)

    def is_orphan(file: ListedFile) -> bool:
        return (
            not uses.users_of(file.path)
            and is_made_by_flink(file.location)
            and older_than.is_exceeded(file.modified)
            and not running.may_append(file)
            and not running.may_name(file)
        )

    return Removal((), tuple(filter(is_orphan, uses.files_in(directories))), {})


def _is_of_snapshot(location: Location, snapshots: Collection[str]) -> bool:
    """Check if a file has the name and the place of a file of one of some snapshots, by their directories."""
    if str(location.parent) in snapshots:
        name = location.name
        return name == METADATA_FILE or is_name_of_flink(name) or is_name_of_write(name)
    return is_made_by_flink(location)


def _whole_seconds(age: timedelta) -> timedelta:
    return timedelta(seconds=age // timedelta(seconds=1))
