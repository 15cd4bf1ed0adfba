"""The order of the checkpoints of one directory, from their numbers, times and files, and the pointers of high availability.

A job that begins again in the same directory counts from 1, so that the highest number may be of an earlier run. Times of copied
checkpoints may be in any order. So the number decides among checkpoints that share files, and among checkpoints that were
written within minutes; elsewhere the time does.

Flink's ``DefaultCompletedCheckpointStore`` keeps a node in ZooKeeper or Kubernetes for each checkpoint. The node refers to a
file ``completedCheckpoint…`` in ``high-availability.storageDir``: a ``CompletedCheckpoint``, serialized by Java
(``FileSystemStateStorageHelper``). A recovering job takes the checkpoint with the highest number, and none other if it is
broken.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.discovery import POINTER_PREFIX as PREFIX
from state_processor.backends.metadata.discovery import SnapshotInfo
from state_processor.backends.metadata.properties import CHECKPOINT
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaInstance, read_java_object
from state_processor.support.errors import CorruptSnapshotError, NotASnapshotError, foreign_errors
from state_processor.support.mappings import map_values

_CLOSE: Final = timedelta(minutes=10).total_seconds()
"""Times of copies are this close: they do not tell which checkpoint is newer."""

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Mark(Generic[C]):
    """A checkpoint with its number, and its time in seconds. A checkpoint of unknown time counts as the newest."""

    checkpoint: C
    number: int
    time: float | None

    @property
    def by_time(self) -> tuple[float, int]:
        """The sort key by time."""
        return (math.inf if self.time is None else self.time, self.number)

    @property
    def by_number(self) -> tuple[int, float]:
        """The sort key by number."""
        return (self.number, self.by_time[0])


@dataclass(frozen=True, slots=True)
class Doubt(Generic[C]):
    """A checkpoint that has a higher number than the newest one, or a later time.

    ``is_close`` is true if their times are too close to tell which one is newer. Otherwise the job began again.
    """

    newest: C
    rival: C
    is_close: bool

    def text(self, name: Callable[[C], str]) -> str:
        """Return the doubt as text, with the names of checkpoints."""
        newest, rival = name(self.newest), name(self.rival)
        if self.is_close:
            return (
                f"{newest} counts as the newest by its number, though {rival} was written later: their times are too close "
                "to tell whether the job began again"
            )
        return f"{newest} is the newest by its time, though {rival} has a higher number: the job began again"


@dataclass(frozen=True, slots=True)
class CheckpointOrder(Generic[C]):
    """Checkpoints, oldest first; one with a higher number than the newest, and one that was written some minutes after it."""

    checkpoints: list[C]
    doubts: list[Doubt[C]]


def in_order(marks: Iterable[Mark[C]], files: Callable[[C], Collection[str]]) -> CheckpointOrder[C]:
    """Order the checkpoints of one directory.

    ``files``: returns the files of a checkpoint that other checkpoints may share. It is called if numbers and times disagree.
    """
    ordered = sorted(marks, key=lambda mark: mark.by_number)
    if all(earlier.by_time <= later.by_time for earlier, later in pairwise(ordered)):
        return CheckpointOrder([mark.checkpoint for mark in ordered], [])
    runs = _runs(_lineages(ordered, files))
    in_runs = [mark.checkpoint for mark in _marks_of(runs)]
    return CheckpointOrder(in_runs, list(_doubts(runs)))


_Lineage = list[Mark[C]]
"""Checkpoints that share files, in the order of their numbers."""


def _lineages(ordered: Iterable[Mark[C]], files_of: Callable[[C], Collection[str]]) -> list[_Lineage[C]]:
    marks = list(ordered)
    later = list(range(len(marks)))
    """By position: a later checkpoint of the lineage; the last one has its own position."""
    last_users: dict[str, int] = {}
    for position, mark in enumerate(marks):
        for file in files_of(mark.checkpoint):
            later[_last(later, last_users.get(file, position))] = position
            last_users[file] = position
    lineages: dict[int, _Lineage[C]] = defaultdict(list)
    for position, mark in enumerate(marks):
        lineages[_last(later, position)].append(mark)
    return [lineages[position] for position in sorted(lineages)]


def _last(later: list[int], position: int) -> int:
    """Return the position of the last checkpoint of a lineage, and shorten the way to it."""
    while later[position] != position:
        later[position] = position = later[later[position]]
    return position


def _runs(lineages: Iterable[_Lineage[C]]) -> list[list[_Lineage[C]]]:
    """Return the lineages of each run of the job, in the order of their numbers; the runs are in the order of their times.

    A run begins where the number goes back some minutes after the checkpoint with the highest number.
    """
    runs: list[list[_Lineage[C]]] = []
    highest: _Lineage[C] = []
    time_of_highest = -math.inf
    timed = [(_time_of(lineage), lineage) for lineage in lineages]
    for (time, _), lineage in sorted(timed, key=itemgetter(0)):
        goes_back = bool(runs) and _number_of(lineage) < _number_of(highest)
        if not runs or (goes_back and time - time_of_highest >= _CLOSE):
            runs.append([])
        if not runs[-1] or _number_of(lineage) > _number_of(highest):
            highest, time_of_highest = lineage, time
        runs[-1].append(lineage)
    return [sorted(run, key=_number_of) for run in runs]


def _time_of(lineage: _Lineage[C]) -> tuple[float, int]:
    return max(mark.by_time for mark in lineage)


def _number_of(lineage: _Lineage[C]) -> tuple[int, float]:
    return lineage[-1].by_number


def _marks_of(runs: Iterable[Sequence[_Lineage[C]]]) -> Iterator[Mark[C]]:
    """Yield the marks of all runs in order."""
    for run in runs:
        for lineage in run:
            yield from lineage


def _doubts(runs: Sequence[Sequence[_Lineage[C]]]) -> Iterator[Doubt[C]]:
    """Yield the checkpoint with the highest number if an earlier run has it, and the latest one if it has a lower number."""
    newest = runs[-1][-1][-1]
    highest = max(_marks_of(runs), key=lambda mark: mark.number)
    if highest.number > newest.number:
        yield Doubt(newest.checkpoint, highest.checkpoint, is_close=False)
    latest = max(runs[-1], key=_time_of)
    if latest is not runs[-1][-1]:
        yield Doubt(newest.checkpoint, max(latest, key=lambda mark: mark.by_time).checkpoint, is_close=True)


_CLASS: Final = "org.apache.flink.runtime.checkpoint.CompletedCheckpoint"
_LARGEST: Final = 256 << 20
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class CheckpointPointer:
    """A file of high availability: the checkpoint that it names.

    ``job_id`` and ``checkpoint_id``: the job, and the number of the checkpoint.
    """

    file: str
    job_id: str
    checkpoint_id: int
    path: str  # the directory of the checkpoint when it was written


def find_pointers(path: str, storage: Storage) -> list[CheckpointPointer]:
    """Read the pointers in a directory and up to three levels below it, or the pointer in a file."""
    location = Location.given(path)
    if storage.is_file(str(location)):
        return [read_pointer(str(location), storage)]
    if not storage.is_directory(str(location)):
        raise NotASnapshotError(f"{path} does not exist; pass a file {PREFIX}… or the directory of high-availability.storageDir")
    pointers = [read_pointer(file, storage) for file in _files(str(location), storage, _DEPTH)]
    if not pointers:
        raise NotASnapshotError(f"{path} does not contain a file {PREFIX}…; pass the directory of high-availability.storageDir")
    return pointers


def _files(directory: str, storage: Storage, depth: int) -> Iterator[str]:
    for entry in storage.list(directory):
        if not entry.is_directory and entry.name.startswith(PREFIX):
            yield entry.path
        elif entry.is_directory and depth:
            yield from _files(entry.path, storage, depth - 1)


def read_pointer(path: str, storage: Storage) -> CheckpointPointer:
    """Read a pointer."""
    with foreign_errors(path):
        file = storage.open(path)
        if file.size > _LARGEST:
            raise CorruptSnapshotError(f"{path} has {file.size} bytes; expected at most {_LARGEST} bytes of a {PREFIX} file")
        content = read_java_object(DataInput(file.read(0, file.size), path)).content
    if not isinstance(content, JavaInstance) or content.class_name != _CLASS:
        raise CorruptSnapshotError(f"{path}: expected a Java object of {_CLASS}; this is another file")
    job, checkpoint_id, pointer = map(content.get, ("job", "checkpointID", "externalPointer"))
    if not isinstance(job, JavaInstance) or not isinstance(checkpoint_id, int) or not isinstance(pointer, str):
        raise CorruptSnapshotError(f"{path}: job, number or place of the checkpoint is missing")
    halves = map(job.get, ("lowerPart", "upperPart"))
    job_id = "".join(half.to_bytes(8, "big", signed=True).hex() for half in halves)
    return CheckpointPointer(path, job_id, checkpoint_id, pointer)


def with_recovery(snapshots: Sequence[SnapshotInfo], pointers: Iterable[CheckpointPointer]) -> list[SnapshotInfo]:
    """Mark the snapshot that each recovering job takes, and add checkpoints that pointers name and that were not found.

    Without pointers, it is the newest checkpoint of the job that is complete, or can be repaired.
    """
    by_place: dict[tuple[str | None, int | None], list[CheckpointPointer]] = {}
    for pointer in pointers:
        by_place.setdefault((pointer.job_id, pointer.checkpoint_id), []).append(pointer)
    places = set(map(_place, snapshots))
    lost = [_lost(named[0]) for place, named in by_place.items() if place not in places]
    everything = []
    for info in [*snapshots, *lost]:
        files = tuple(pointer.file for pointer in by_place.get(_place(info), ()))
        everything.append(replace(info, pointers=files))
    by_job = _chosen_by_job(everything)
    return [replace(info, recovers=by_job.get(info.job_id) is info) for info in everything]


def _place(info: SnapshotInfo) -> tuple[str | None, int | None]:
    return (info.job_id, info.checkpoint_id) if info.kind == CHECKPOINT else (None, None)


def _lost(pointer: CheckpointPointer) -> SnapshotInfo:
    path = str(Location.parse(pointer.path))
    return SnapshotInfo(path, CHECKPOINT, pointer.job_id, pointer.checkpoint_id, None, 0, is_complete=False)


def _chosen_by_job(snapshots: Iterable[SnapshotInfo]) -> Mapping[Any, SnapshotInfo]:
    """Return the snapshot that each job takes."""
    by_job: dict[str, list[SnapshotInfo]] = {}
    for info in snapshots:
        usable = info.is_complete is not False or info.needs_repair or bool(info.pointers)
        if info.kind == CHECKPOINT and info.job_id is not None and usable:
            by_job.setdefault(info.job_id, []).append(info)
    return map_values(_newest_of, by_job)


def _newest_of(of_job: Sequence[SnapshotInfo]) -> SnapshotInfo:
    named = [info for info in of_job if info.pointers]
    if named:
        return max(named, key=lambda info: info.checkpoint_id or 0)
    marks = (Mark(s, s.checkpoint_id or 0, None if s.time is None else s.time.timestamp()) for s in of_job)
    return in_order(marks, lambda _: ()).checkpoints[-1]
