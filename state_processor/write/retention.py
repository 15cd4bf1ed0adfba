"""The files of the snapshots below a directory: who uses them, and the removal of snapshots and of unused files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from typing import Final, Unpack

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.checkpoint_pointers import CheckpointPointer, find_pointers, read_pointer
from state_processor.backends.metadata.discovery import POINTER_PREFIX, is_checkpoint_name
from state_processor.backends.metadata.snapshot import METADATA_FILE, locate_metadata
from state_processor.backends.retention.file_uses import FileUses, find_file_uses, is_below, real_path
from state_processor.backends.retention.removal import (
    Age,
    Removal,
    check_all_readable,
    check_not_named,
    check_old_enough,
    is_checkpoint,
    is_savepoint_name,
    named_by_pointers,
    removal_of_orphans,
    removal_of_snapshots,
    snapshots_to_retain,
)
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import DirectoryOptions
from state_processor.options.keywords import takes_options
from state_processor.options.values import COUNT
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError
from state_processor.serializers.redaction import redacted_repr
from state_processor.types.durations import duration_ms

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
    size
        Bytes of the removed files.
    shared_files
        Number of files of the removed snapshots that stay, because other snapshots use them.
    outside
        Files of the removed snapshots that stay, because they are not below the directory.
    searched
        Number of snapshots whose files were looked up.
    """

    removed: bool
    snapshots: tuple[str, ...]
    files: tuple[str, ...]
    size: int
    shared_files: int
    outside: tuple[str, ...]
    searched: int

    __repr__ = redacted_repr


@takes_options
def files(directory: Directory, *, also: Sequence[Directory] = (), **options: Unpack[DirectoryOptions]) -> list[FileUse]:
    """List all files below a directory with the snapshots that use them.

    Files of incremental checkpoints, claimed savepoints, merged files and changelogs have several users.

    Parameters
    ----------
    directory
        A directory of checkpoints, savepoints or jobs.
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
    root, uses = _uses(directory, also, SnapshotAccess.of(**options))
    check_all_readable(uses)
    return [
        FileUse(path, file.size, file.modified, tuple(uses.users_of(path)))
        for path, file in uses.files.items()
        if is_below(path, root)
    ]


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
    (``chk-…``, ``savepoint-…``, ``shared``, ``dstl``, merged files in ``taskowned``), are orphans.

    Parameters
    ----------
    directory
        A directory of checkpoints, savepoints or jobs.
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
        If the ``_metadata`` of a snapshot can't be read, so that its files are unknown, or a file can't be removed.
    OptionError
        If ``older_than`` is not a duration.
    """
    access = SnapshotAccess.of(**options)
    age = _age("older_than", older_than)
    root, uses = _uses(directory, also, access)
    check_all_readable(uses)
    return _carried_out(removal_of_orphans(uses, root, age), uses, access.storage(), delete=delete)


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
        The directory of the snapshot, or its ``_metadata``.
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
    storage, age = access.storage(), _age("older_than", older_than)
    directory = Location.parse(real_path(locate_metadata(path, storage))).parent
    root = _root_of(directory)
    beside = _snapshots_beside(directory, storage) if root == directory else []
    uses = _find([*_searched(root, also), *beside], storage, access)
    removed = [found for found in uses.snapshots.values() if found.directory == str(directory)]
    check_all_readable(uses)
    check_old_enough(removed, age)
    check_not_named(removed, _named(uses, high_availability, storage))
    return _carried_out(removal_of_snapshots(uses, str(root), removed), uses, storage, delete=delete)


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
        A directory of checkpoints or of one job.
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
    access, guard = SnapshotAccess.of(**options), _age("older_than", older_than)
    if keep is None and newer_than is None:
        raise OptionError(f"expected {spelled('keep', 3)} or {spelled('newer_than', '7d')}, to know which checkpoints stay")
    if keep is not None and COUNT.of_argument("keep", keep) < 1:
        raise OptionError(f"{spelled('keep', keep)}: expected at least 1, because a job needs its newest checkpoint to recover")
    stays = None if newer_than is None else _age("newer_than", newer_than)
    root, uses = _uses(directory, also, access)
    checkpoints = [s for s in uses.snapshots.values() if is_checkpoint(s) and is_below(s.directory, root)]
    kept = {s.directory for s in snapshots_to_retain(checkpoints, keep, stays)}
    kept |= _named(uses, high_availability, access.storage()).keys()
    old = [s for s in checkpoints if s.directory not in kept and guard.is_exceeded(s.written)]
    return _carried_out(removal_of_snapshots(uses, root, old), uses, access.storage(), delete=delete)


def _uses(directory: Directory, also: Sequence[Directory], access: SnapshotAccess) -> tuple[str, FileUses]:
    """Return the real path of a directory, and the uses of the files there and wherever else is searched."""
    root = Location.parse(real_path(str(Location.given(directory))))
    return str(root), _find(_searched(root, also), access.storage(), access)


def _find(directories: Iterable[str], storage: Storage, access: SnapshotAccess) -> FileUses:
    return find_file_uses(directories, storage, access.allow_paths)


def _searched(root: Location, also: Iterable[Directory]) -> list[str]:
    """Return the directories with snapshots that may use files of a directory: other jobs or savepoints are next to it."""
    if isinstance(also, (str, PathLike)) or not isinstance(also, Iterable):
        raise OptionError(f"{spelled('also')}: expected a list of directories, found {also!r}")
    has_siblings = _is_job(root) or is_savepoint_name(root.name)
    return [str(root.parent if has_siblings else root), *(str(Location.given(other)) for other in also)]


def _root_of(directory: Location) -> Location:
    """Return the directory below which files are removed: for a checkpoint, the one with the files of its job."""
    if _is_job(directory.parent):
        return directory.parent.parent
    return directory.parent if is_checkpoint_name(directory.name) else directory


def _snapshots_beside(directory: Location, storage: Storage) -> list[str]:
    """Return the directories of snapshots next to a snapshot. They may have names of any form."""
    beside = (entry.path for entry in storage.list(str(directory.parent)) if entry.is_directory)
    return [path for path in beside if storage.is_file(str(Location.parse(path).joined(METADATA_FILE)))]


def _named(uses: FileUses, high_availability: Directory | None, storage: Storage) -> dict[str, CheckpointPointer]:
    """Return the snapshots that files of high availability name: files that are given, and files in the searched directories."""
    pointers = [] if high_availability is None else find_pointers(fspath(high_availability), storage)
    found = (path for path, file in uses.files.items() if file.location.name.startswith(POINTER_PREFIX))
    return named_by_pointers(uses.snapshots.values(), [*pointers, *(read_pointer(path, storage) for path in found)])


def _is_job(directory: Location) -> bool:
    return len(directory.name) == _JOB_ID_LENGTH and set(directory.name) <= set("0123456789abcdef")


def _age(name: str, value: Duration) -> Age:
    try:
        return Age(timedelta(milliseconds=duration_ms(value)), datetime.now(UTC))
    except OptionError:
        raise OptionError(f"{spelled(name, value)}: expected a duration such as 1d, 12h or PT1H") from None


def _carried_out(removal: Removal, uses: FileUses, storage: Storage, *, delete: bool) -> RemovalSummary:
    if delete:
        removal.carry_out(storage)
    return RemovalSummary(
        delete,
        tuple(snapshot.directory for snapshot in removal.snapshots),
        tuple(file.path for file in removal.files),
        removal.size,
        len(removal.kept),
        removal.outside,
        len(uses.snapshots),
    )
