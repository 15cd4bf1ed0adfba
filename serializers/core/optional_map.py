"""Maps whose keys and values may be missing, each in a frame with a length (Flink: ``LinkedOptionalMap``).

POJO and Kryo snapshots contain such maps. A part lacks its frame if its class could not be loaded when the snapshot was written.
Frames have lengths, so only here can a serializer of an unknown class be skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from state_processor.serializers.base import (
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import UnknownSerializerError

OPTIONAL_MAP_HEADER: Final = 0x4F2C69A3D70
_SMALLEST_ENTRY: Final = 4


@dataclass(frozen=True, slots=True)
class OptionalEntry:
    """One entry: a name that is always present, and the frames of key and value, ``None`` if missing."""

    name: str
    key: bytes | None
    value: bytes | None


def read_optional_map(source: DataInput) -> tuple[OptionalEntry, ...]:
    """Read all entries in the order of the bytes, without parsing the frames."""
    return tuple(OptionalEntry(name, _bytes_of(key), _bytes_of(value)) for name, key, value in iterate_optional_map(source))


def iterate_optional_map(source: DataInput) -> Iterator[tuple[str, DataInput | None, DataInput | None]]:
    """Yield all entries in the order of the bytes, each frame as an input whose errors give the offset in the whole file."""
    start = source.position
    header = source.read_long()
    if header != OPTIONAL_MAP_HEADER:
        raise source.corrupt(f"header {OPTIONAL_MAP_HEADER:#x} of an optional map expected, found {header:#x}", start)
    for _ in range(source.read_count("entries of an optional map", _SMALLEST_ENTRY)):
        yield source.read_utf(), _frame(source), _frame(source)


def write_optional_map(entries: Sequence[OptionalEntry], target: DataOutput) -> None:
    """Write entries as :func:`read_optional_map` reads them."""
    target.write_long(OPTIONAL_MAP_HEADER)
    target.write_int(len(entries))
    for entry in entries:
        target.write_utf(entry.name)
        for frame in (entry.key, entry.value):
            target.write_boolean(frame is not None)
            if frame is not None:
                target.write_int(len(frame))
                target.write_bytes(frame)


def read_framed_snapshot(frame: DataInput) -> TypeSerializerSnapshot:
    """Read the serializer snapshot that fills ``frame``; an :class:`UnknownSnapshot` if its class is not known."""
    start = frame.position
    try:
        snapshot = read_versioned_snapshot(frame)
    except UnknownSerializerError as problem:
        frame.position = start
        return UnknownSnapshot.read_after(str(problem), frame)
    if not frame.at_end():
        raise frame.corrupt(f"{frame.remaining} bytes are left over after {snapshot.class_name}")
    return snapshot


class UnknownSnapshot(TypeSerializerSnapshot):
    """A snapshot of an unknown class, or one that contains such a snapshot. It keeps its bytes and restores no serializer.

    ``payload``: the bytes after class name and version. ``problem``: the message that :meth:`restore_serializer` raises.
    """

    def __init__(self, class_name: str, version: int, payload: bytes, problem: str) -> None:
        super().__init__(class_name, version)
        self.payload = payload
        self.problem = problem

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> UnknownSnapshot:
        return cls(class_name, version, source.read_bytes(source.remaining), f"the serializer snapshot {class_name} is not known")

    @classmethod
    def read_after(cls, problem: str, frame: DataInput) -> UnknownSnapshot:
        """Return the frame's snapshot that could not be read because of ``problem``."""
        class_name, version = frame.read_utf(), frame.read_int()
        return cls(class_name, version, frame.read_bytes(frame.remaining), problem)

    def write(self, target: DataOutput) -> None:
        target.write_bytes(self.payload)

    def restore_serializer(self) -> TypeSerializer:
        raise UnknownSerializerError(self.problem)


def snapshot_frame(snapshot: TypeSerializerSnapshot | None) -> bytes | None:
    """Return the frame that holds a snapshot."""
    if snapshot is None:
        return None
    target = DataOutput()
    write_versioned_snapshot(snapshot, target)
    return target.to_bytes()


def _frame(source: DataInput) -> DataInput | None:
    if not source.read_boolean():
        return None
    size = source.read_int()
    start = source.position
    source.skip(size, "frame")
    return source.slice(start, start + size)


def _bytes_of(frame: DataInput | None) -> bytes | None:
    return None if frame is None else frame.read_bytes(frame.remaining)
