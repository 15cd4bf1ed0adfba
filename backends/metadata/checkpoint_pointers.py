"""Pointers of high availability: files that name the completed checkpoints of a job.

Flink's ``DefaultCompletedCheckpointStore`` keeps a node in ZooKeeper or Kubernetes for each checkpoint. The node refers to a file
``completedCheckpoint…`` in ``high-availability.storageDir``: a ``CompletedCheckpoint``, serialized by Java
(``FileSystemStateStorageHelper``). A recovering job takes the checkpoint with the highest number, and none other if it is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.checkpoint_order import Mark, in_order
from state_processor.backends.metadata.discovery import POINTER_PREFIX as PREFIX
from state_processor.backends.metadata.discovery import SnapshotInfo
from state_processor.backends.metadata.properties import CHECKPOINT
from state_processor.serializers.errors import CorruptSnapshotError, NotASnapshotError
from state_processor.serializers.foreign_errors import foreign_errors
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaInstance, read_java_object

_CLASS: Final = "org.apache.flink.runtime.checkpoint.CompletedCheckpoint"
_LARGEST: Final = 256 << 20
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class CheckpointPointer:
    """A file of high availability: the checkpoint that it names.

    Parameters
    ----------
    file
        The file.
    job_id, checkpoint_id
        The job, and the number of the checkpoint.
    path
        The directory of the checkpoint when it was written.
    """

    file: str
    job_id: str
    checkpoint_id: int
    path: str


def find_pointers(path: str, storage: Storage) -> list[CheckpointPointer]:
    """Read the pointers in a directory and up to three levels below it, or the pointer in a file.

    Raises
    ------
    NotASnapshotError
        If the path does not exist, or does not contain a pointer.
    CorruptSnapshotError
        If a file is not a pointer.
    """
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
    """Read a pointer.

    Raises
    ------
    CorruptSnapshotError
        If the file is not a pointer.
    """
    with foreign_errors(path):
        file = storage.open(path)
        if file.size > _LARGEST:
            raise CorruptSnapshotError(f"{path} has {file.size} bytes; expected at most {_LARGEST} bytes of a {PREFIX} file")
        content = read_java_object(DataInput(file.read(0, file.size), path)).content
    if not isinstance(content, JavaInstance) or content.class_name != _CLASS:
        raise CorruptSnapshotError(f"{path}: expected a Java object of {_CLASS}; this is another file")
    job, checkpoint_id, pointer = (content.get(name) for name in ("job", "checkpointID", "externalPointer"))
    if not isinstance(job, JavaInstance) or not isinstance(checkpoint_id, int) or not isinstance(pointer, str):
        raise CorruptSnapshotError(f"{path}: job, number or place of the checkpoint is missing")
    halves = (job.get(name) for name in ("lowerPart", "upperPart"))
    job_id = "".join(half.to_bytes(8, "big", signed=True).hex() for half in halves)
    return CheckpointPointer(path, job_id, checkpoint_id, pointer)


def with_recovery(snapshots: Sequence[SnapshotInfo], pointers: Iterable[CheckpointPointer]) -> list[SnapshotInfo]:
    """Mark the snapshot that each recovering job takes, and add checkpoints that pointers name and that were not found.

    Without pointers, it is the newest checkpoint of the job that is complete, or can be repaired.
    """
    by_place: dict[tuple[str | None, int | None], list[CheckpointPointer]] = {}
    for pointer in pointers:
        by_place.setdefault((pointer.job_id, pointer.checkpoint_id), []).append(pointer)
    places = {_place(info) for info in snapshots}
    lost = [_lost(named[0]) for place, named in by_place.items() if place not in places]
    everything = [replace(s, pointers=tuple(p.file for p in by_place.get(_place(s), ()))) for s in [*snapshots, *lost]]
    by_job = _taken(everything)
    return [replace(info, recovers=by_job.get(info.job_id) is info) for info in everything]


def _place(info: SnapshotInfo) -> tuple[str | None, int | None]:
    return (info.job_id, info.checkpoint_id) if info.kind == CHECKPOINT else (None, None)


def _lost(pointer: CheckpointPointer) -> SnapshotInfo:
    path = str(Location.parse(pointer.path))
    return SnapshotInfo(path, CHECKPOINT, pointer.job_id, pointer.checkpoint_id, None, 0, is_complete=False)


def _taken(snapshots: Iterable[SnapshotInfo]) -> Mapping[Any, SnapshotInfo]:
    """Return the snapshot that each job takes."""
    by_job: dict[str, list[SnapshotInfo]] = {}
    for info in snapshots:
        usable = info.is_complete is not False or info.needs_repair or bool(info.pointers)
        if info.kind == CHECKPOINT and info.job_id is not None and usable:
            by_job.setdefault(info.job_id, []).append(info)
    return {job: _newest_of(of_job) for job, of_job in by_job.items()}


def _newest_of(of_job: Sequence[SnapshotInfo]) -> SnapshotInfo:
    named = [info for info in of_job if info.pointers]
    if named:
        return max(named, key=lambda info: info.checkpoint_id or 0)
    marks = (Mark(s, s.checkpoint_id or 0, None if s.time is None else s.time.timestamp()) for s in of_job)
    return in_order(marks, lambda _: ()).checkpoints[-1]
