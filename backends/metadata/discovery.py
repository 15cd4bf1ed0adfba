"""Discovery of the snapshots below a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from state_processor.backends.files.location import Location, refuse_undecodable
from state_processor.backends.files.recorded_paths import WITHOUT_SNAPSHOTS
from state_processor.backends.files.storage import Entry, Storage
from state_processor.backends.metadata.handles import total_size
from state_processor.backends.metadata.properties import CHECKPOINT, SAVEPOINT
from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE, CheckpointMetadata, metadata_content, read_metadata
from state_processor.support.errors import CorruptSnapshotError, NotASnapshotError, StateProcessorError, foreign_errors
from state_processor.support.mappings import index_by_name, names_of
from state_processor.support.redaction import redacted_repr

DEPTH: Final = 4
"""Levels below a directory that are searched by default."""
_CHECKPOINT_NAME: Final = re.compile(r"chk-(\d+)")
_SAVEPOINT_NAME: Final = re.compile(r"savepoint-([0-9a-f]{6})-[0-9a-f]{12}")
JOB_DIGITS: Final = 6
"""Digits of the id of the job in the name of a savepoint."""
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
POINTER_PREFIX: Final = "completedCheckpoint"
"""Start of the names of files of high availability (Flink: ``HighAvailabilityServicesUtils``, ``ZooKeeperUtils``)."""


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """Facts about a snapshot, taken from its directory.

    Parameters
    ----------
    path
        The directory.
    kind
        ``savepoint`` or ``checkpoint``.
    job_id
        Id of the job: 32 hexadecimal digits for a checkpoint, the first six for a savepoint; ``None`` if the path does not
        contain it.
    checkpoint_id
        Number of the checkpoint; ``None`` if neither ``_metadata`` nor the path contains it.
    time
        Time of the last change of ``_metadata``, or of the newest file in the directory if ``_metadata`` does not exist.
    size
        Bytes of all state of the snapshot, including shared files. For an incomplete snapshot: bytes of the files in its
        directory.
    is_complete
        False if ``_metadata`` does not exist or can't be read; Flink writes it last. ``None`` if it can be read: the snapshot is
        complete if all of its files exist.
    needs_repair
        True if a checkpoint can be restored after a repair: all of its files exist, but some are in a claimed savepoint, where
        Flink does not look for them (FLINK-39964). Then ``is_complete`` is false.
    pointers
        Files of high availability that name the checkpoint.
    recovers
        True if a job that recovers takes this checkpoint: the one with the highest number that high availability names. If no
        file names a checkpoint of the job, the newest one that is complete or can be repaired.
    """

    path: str
    kind: str
    job_id: str | None
    checkpoint_id: int | None
    time: datetime | None
    size: int
    is_complete: bool | None
    needs_repair: bool = False
    pointers: tuple[str, ...] = ()
    recovers: bool = False

    __repr__ = redacted_repr


@dataclass(frozen=True, slots=True)
class Discovery:
    """The snapshots below a directory, newest first, the directories below the search depth, and files of high availability."""

    snapshots: list[SnapshotInfo]
    unsearched: list[str]
    pointers: tuple[str, ...] = ()


_EarlierSnapshots = Mapping[tuple[str, datetime | None], SnapshotInfo]
"""Snapshots whose ``_metadata`` was read, by path and time."""


def find_snapshots(
    directory: str | os.PathLike[str],
    storage: Storage | None = None,
    depth: int = DEPTH,
    read_before: Iterable[SnapshotInfo] = (),
    failures: dict[str, str] | None = None,
) -> Discovery:
    """Find the snapshots in a directory and below it.

    ``directory``: the directory to search: it contains checkpoints, savepoints or jobs, or is a snapshot. ``storage``: access to
    files; by default without settings. ``depth``: number of levels below the directory to search. ``read_before``: snapshots that
    an earlier search found. If the path and the time of ``_metadata`` are the same, it is not read again. ``failures``: receives
    the reasons for directories below the directory that can't be listed. By default, one is an error.
    """
    storage = storage or Storage()
    root = Location.given(directory)
    if not storage.is_directory(str(root)):
        raise NotASnapshotError(f"{directory} is not a directory; pass a directory with snapshots below it")
    unsearched: list[str] = []
    pointers: list[str] = []
    read: _EarlierSnapshots = {(info.path, info.time): info for info in read_before if info.is_complete is None and info.time}
    walk = _Walk(storage, read, unsearched, pointers, failures)
    snapshots = sorted(walk.snapshots(root, depth), key=_newest_first)
    return Discovery(snapshots, unsearched, tuple(pointers))


def _newest_first(info: SnapshotInfo) -> tuple[float, int, str]:
    """Return the sort key of a snapshot; snapshots of unknown time are last."""
    time = -info.time.timestamp() if info.time else float("inf")
    return time, -(info.checkpoint_id or 0), info.path


@dataclass(frozen=True, slots=True)
class _Walk:
    """A search for snapshots. It notes pointers, failures, and directories that were not searched."""

    storage: Storage
    earlier_snapshots: _EarlierSnapshots
    unsearched: list[str]
    pointers: list[str]
    failures: dict[str, str] | None

    def snapshots(self, directory: Location, depth: int) -> Iterator[SnapshotInfo]:
        """Yield the snapshots in a directory and below it."""
        refuse_undecodable(str(directory))
        entries = self.storage.list(str(directory))
        files = [entry for entry in entries if not entry.is_directory]
        self.pointers.extend(file.path for file in files if file.name.startswith(POINTER_PREFIX))
        if METADATA_FILE in names_of(files) or _is_named_like_one(directory.name):
            yield _info(self.storage, directory, files, self.earlier_snapshots)
            return
        for entry in entries:
            if entry.is_directory and entry.name not in WITHOUT_SNAPSHOTS:
                if depth:
                    yield from self._below(Location.parse(entry.path), depth - 1)
                else:
                    self.unsearched.append(entry.path)

    def _below(self, directory: Location, depth: int) -> Iterator[SnapshotInfo]:
        try:
            yield from self.snapshots(directory, depth)
        except StateProcessorError as problem:
            if self.failures is None:
                raise
            self.failures[str(directory)] = str(problem)


def is_checkpoint_name(name: str) -> bool:
    """Check if a directory has the name that Flink gives to a checkpoint."""
    return bool(_CHECKPOINT_NAME.fullmatch(name))


def _is_named_like_one(name: str) -> bool:
    return bool(_CHECKPOINT_NAME.fullmatch(name) or _SAVEPOINT_NAME.fullmatch(name))


def _info(storage: Storage, directory: Location, files: list[Entry], read_before: _EarlierSnapshots) -> SnapshotInfo:
    metadata_file = index_by_name(files).get(METADATA_FILE)
    time = _modified(storage, [metadata_file.path] if metadata_file else [file.path for file in files])
    if metadata_file is not None and (str(directory), time) in read_before:
        return read_before[str(directory), time]
    checkpoint, savepoint = _CHECKPOINT_NAME.fullmatch(directory.name), _SAVEPOINT_NAME.fullmatch(directory.name)
    parent = directory.parent.name
    job_id = parent if checkpoint and _JOB_ID.fullmatch(parent) else None
    kind = CHECKPOINT if checkpoint else SAVEPOINT
    checkpoint_id = int(checkpoint[1]) if checkpoint else None
    complete: bool | None = False
    size = sum(file.size for file in files)
    if metadata_file is not None:
        try:
            with foreign_errors(metadata_file.path):
                metadata = read_metadata(metadata_content(storage.open(metadata_file.path)), metadata_file.path)
            referred = _possible_size(metadata)
        except StateProcessorError:
            pass
        else:
            complete, checkpoint_id, size = None, metadata.checkpoint_id, referred
            if metadata.properties is not None and metadata.properties.kind is not None:
                kind = metadata.properties.kind
    return SnapshotInfo(str(directory), kind, savepoint[1] if savepoint else job_id, checkpoint_id, time, size, complete)


def _possible_size(metadata: CheckpointMetadata) -> int:
    """Return the total size of the state of a snapshot in bytes."""
    size = total_size(metadata.operators)
    if not 0 <= size < 1 << 63:
        raise CorruptSnapshotError(f"`_metadata` refers to {size} bytes")
    return size


def _modified(storage: Storage, paths: list[str]) -> datetime | None:
    return max(filter(None, map(storage.modified, paths)), default=None)
