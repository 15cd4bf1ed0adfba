"""Values that are not decoded: their bytes, if the entry's layout gives their end.

The snapshot of their serializer can't be read (:class:`UnreadSerializer`), or the serializer can't be decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
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
