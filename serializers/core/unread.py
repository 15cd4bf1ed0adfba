"""Snapshots that can't be read, and values that are not decoded: their bytes, if a layout gives their end.

The layout of an entry gives the end of its last value. A ``LinkedOptionalMap`` in the snapshots of POJOs and Kryo has each
serializer snapshot in a frame with a length. A part lacks its frame if its class could not be loaded when the snapshot was
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.base import (
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.traversal import walk
from state_processor.support.errors import UnknownSerializerError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class OpaqueSerializer(TypeSerializer):
    """A value that fills its part of an entry, as bytes. Inside another value or before other values, its end is unknown.

    ``name``: the name of the type, as in the replaced serializer. ``snapshot``: the snapshot of the replaced serializer.
    ``reason``: why values are not decoded.
    """

    min_size = 0

    def __init__(self, name: str, snapshot: TypeSerializerSnapshot, reason: str) -> None:
        self.name = name
        self._reason = reason
        self._snapshot = snapshot

    def __str__(self) -> str:
        return self.name

    @property
    def reason(self) -> str:
        return self._reason

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(source.remaining)

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.REST, column, left=0)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.raw(column, null=None)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot


def reason_end_unknown(serializer: TypeSerializer) -> str:
    """Return why values of a serializer, or of one inside it, can't be skipped; empty if they can."""
    endless = next((part for part in walk(serializer) if not part.self_delimiting), None)
    return "" if endless is None else endless.reason or f"the end of a value of type {endless} can't be found"


class UnreadSnapshot(TypeSerializerSnapshot):
    """Snapshot of an unknown class, with its bytes if their end is known.

    ``class_name`` and ``version``: class name and version in the file. ``payload``: the bytes that follow them; ``None`` if their
    end is not known. ``reason``: why the snapshot can't be read.
    """

    def __init__(self, class_name: str, version: int, payload: bytes | None, reason: str) -> None:
        super().__init__(class_name, version)
        self.payload = payload
        self.reason = reason

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> UnreadSnapshot:
        """Read all remaining bytes."""
        return cls(class_name, version, source.read_bytes(source.remaining), "")

    def write(self, target: DataOutput) -> None:
        if self.payload is None:
            raise UnknownSerializerError(self.reason)
        target.write_bytes(self.payload)

    def restore_serializer(self) -> UnreadSerializer:
        return UnreadSerializer(self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        raise UnknownSerializerError(self.reason)


class UnreadSerializer(TypeSerializer):
    """Stand-in for an unknown serializer."""

    min_size = 0

    def __init__(self, snapshot: UnreadSnapshot) -> None:
        self._snapshot = snapshot

    def __str__(self) -> str:
        return self._snapshot.class_name

    @property
    def self_delimiting(self) -> bool:
        return False

    @property
    def reason(self) -> str:
        return self._snapshot.reason

    def as_remainder(self) -> OpaqueSerializer:
        return OpaqueSerializer(str(self), self._snapshot, self.reason)

    def read(self, source: DataInput) -> Any:
        raise UnknownSerializerError(self.reason)

    def write(self, value: Any, target: DataOutput) -> None:
        raise UnknownSerializerError(self.reason)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.as_remainder().arrow_type(options)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        raise UnknownSerializerError(self.reason)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        raise UnknownSerializerError(self.reason)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot


# Maps of optional frames

_OPTIONAL_MAP_HEADER: Final = 0x4F2C69A3D70
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
    if header != _OPTIONAL_MAP_HEADER:
        raise source.corrupt(f"header {_OPTIONAL_MAP_HEADER:#x} of an optional map expected, found {header:#x}", start)
    for _ in range(source.read_count("entries of an optional map", _SMALLEST_ENTRY)):
        yield source.read_utf(), _frame(source), _frame(source)


def write_optional_map(entries: Sequence[OptionalEntry], target: DataOutput) -> None:
    """Write entries as :func:`read_optional_map` reads them."""
    target.write_long(_OPTIONAL_MAP_HEADER)
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
