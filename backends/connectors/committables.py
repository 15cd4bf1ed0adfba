"""Committables that a sink's committers have collected: results of checkpoints for any sink is.

Flink: ``CommittableCollectorSerializer``; before Flink 1.15 ``StreamingCommitterStateSerializer``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from state_processor.backends.connectors.connector import Format, Formats, Versioned
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import UnsupportedFormatError

RECEIVED: Final = "RECEIVED"
STATUSES: Final = (RECEIVED, "RETRY", "FAILED", "COMMITTED")
"""``CommitRequestState``, by its number."""

_MAGIC: Final = 0xB91F252C
_UNSIGNED: Final = 0xFFFFFFFF

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A committable, how often it was tried to commit it, and with what result."""

    committable: Versioned
    retries: int = 0
    status: str = RECEIVED


@dataclass(frozen=True, slots=True)
class SubtaskCommittables:
    """Committables of one subtask of the writer: those left, and how many there were in all.

    ``subtask`` is not written before Flink 1.20, ``drained`` not from Flink 2.0 on.
    """

    requests: tuple[Request, ...]
    expected: int
    failed: int
    drained: int | None
    subtask: int | None

    def with_requests(self, requests: Sequence[Request]) -> SubtaskCommittables:
        """Return the same with other requests; committables that are left out were never to come."""
        return replace(self, requests=tuple(requests), expected=self.expected - len(self.requests) + len(requests))


@dataclass(frozen=True, slots=True)
class CheckpointCommittables:
    """Committables of one checkpoint, with the versions of their formats; ``parallelism`` is not written before Flink 1.20."""

    checkpoint_id: int | None
    subtasks: tuple[SubtaskCommittables, ...]
    parallelism: int | None = None
    version: int = 0
    request_version: int = 0


@dataclass(frozen=True, slots=True)
class Collector:
    """Committables of a committer, by checkpoint.

    ``version`` is the version of the formats of checkpoints. In the first format, it is the version of the committables, and the
    checkpoint is unknown.
    """

    checkpoints: tuple[CheckpointCommittables, ...]
    version: int = 0


def _read_list(source: DataInput, read: Callable[[int, DataInput], T]) -> tuple[int, tuple[T, ...]]:
    """Read version, count, and elements with their lengths (Flink: ``readVersionAndDeserializeList``)."""
    version = source.read_int()
    elements = []
    for _ in range(source.read_count("elements", 4)):
        size = source.read_count("bytes")
        element = source.slice(source.position, source.position + size)
        elements.append(read(version, element))
        if not element.at_end():
            raise element.corrupt(f"{element.remaining} bytes are left over")
        source.position = element.end
    return version, tuple(elements)


def _write_list(target: DataOutput, version: int, elements: Sequence[bytes]) -> None:
    target.write_int(version)
    target.write_int(len(elements))
    for data in elements:
        target.write_int(len(data))
        target.write_bytes(data)


def _check_magic(source: DataInput) -> None:
    magic = source.read_int() & _UNSIGNED
    if magic != _MAGIC:
        raise source.corrupt(f"{magic:#x} is where committables have {_MAGIC:#x}", source.position - 4)


def _check_version(version: int, newest: int, title: str, source: DataInput) -> None:
    if not 0 <= version <= newest:
        raise UnsupportedFormatError(f"{source.source}: version {version} of the {title} is not known, only 0 to {newest}")


def _read_request(version: int, source: DataInput) -> Request:
    _check_version(version, 0, "requests of a committer", source)
    committable, retries = Versioned.read(source), source.read_int()
    status = source.read_int()
    if not 0 <= status < len(STATUSES):
        raise source.corrupt(f"state {status} of a request", source.position - 4)
    return Request(committable, retries, STATUSES[status])


def _request_bytes(request: Request) -> bytes:
    target = DataOutput()
    request.committable.write(target)
    target.write_int(request.retries)
    target.write_int(STATUSES.index(request.status))
    return target.to_bytes()


def _read_subtask(version: int, source: DataInput) -> tuple[int, SubtaskCommittables]:
    _check_version(version, 2, "committables of a subtask", source)
    subtask = source.read_int() if version >= 1 else None
    request_version, requests = _read_list(source, _read_request)
    expected = source.read_int()
    drained = source.read_int() if version < 2 else None
    return request_version, SubtaskCommittables(requests, expected, source.read_int(), drained, subtask)


def _subtask_bytes(subtask: SubtaskCommittables, request_version: int) -> bytes:
    target = DataOutput()
    if subtask.subtask is not None:
        target.write_int(subtask.subtask)
    _write_list(target, request_version, list(map(_request_bytes, subtask.requests)))
    target.write_int(subtask.expected)
    if subtask.drained is not None:
        target.write_int(subtask.drained)
    target.write_int(subtask.failed)
    return target.to_bytes()


def _read_checkpoint(version: int, source: DataInput) -> CheckpointCommittables:
    _check_version(version, 1, "committables of a checkpoint", source)
    checkpoint_id = source.read_long()
    parallelism = source.read_int() if version >= 1 else None
    subtask_version, subtask_lists = _read_list(source, _read_subtask)
    versions = {request_version for request_version, _ in subtask_lists} or {0}
    subtasks = tuple(subtask for _, subtask in subtask_lists)
    return CheckpointCommittables(checkpoint_id, subtasks, parallelism, subtask_version, versions.pop())


def _checkpoint_bytes(checkpoint: CheckpointCommittables) -> bytes:
    assert checkpoint.checkpoint_id is not None  # the first format lacks the checkpoint
    target = DataOutput()
    target.write_long(checkpoint.checkpoint_id)
    if checkpoint.parallelism is not None:
        target.write_int(checkpoint.parallelism)
    _write_list(target, checkpoint.version, [_subtask_bytes(s, checkpoint.request_version) for s in checkpoint.subtasks])
    return target.to_bytes()


def _read_v1(source: DataInput) -> Collector:
    _check_magic(source)
    version, elements = _read_list(source, lambda version, s: Versioned(version, s.read_bytes(s.remaining)))
    requests = tuple(map(Request, elements))
    return Collector((CheckpointCommittables(None, (SubtaskCommittables(requests, len(elements), 0, 0, None),)),), version)


def _write_v1(collector: Collector, target: DataOutput) -> None:
    target.write_int(_MAGIC - (1 << 32))
    (checkpoint,) = collector.checkpoints
    (subtask,) = checkpoint.subtasks
    _write_list(target, collector.version, [request.committable.data for request in subtask.requests])


def _read_v2(source: DataInput) -> Collector:
    _check_magic(source)
    version, checkpoints = _read_list(source, _read_checkpoint)
    return Collector(checkpoints, version)


def _write_v2(collector: Collector, target: DataOutput) -> None:
    target.write_int(_MAGIC - (1 << 32))
    _write_list(target, collector.version, list(map(_checkpoint_bytes, collector.checkpoints)))


COLLECTORS: Final = Formats("committables of a sink", {1: (Format(_read_v1, _write_v1),), 2: (Format(_read_v2, _write_v2),)})
"""Version 1 was written before Flink 1.15, version 2 with several formats inside it since then."""
