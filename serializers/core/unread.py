"""Serializers whose snapshot can't be read: their values are bytes, if the entry's layout gives their end."""

from __future__ import annotations

from typing import Any

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.opaque import OpaqueSerializer
from state_processor.serializers.errors import UnknownSerializerError
from state_processor.serializers.io import DataInput, DataOutput


class UnreadSnapshot(TypeSerializerSnapshot):
    """Snapshot of an unknown class, with its bytes if their end is known.

    Parameters
    ----------
    class_name, version
        Class name and version in the file.
    payload
        The bytes that follow them; ``None`` if their end is not known.
    reason
        Why the snapshot can't be read.
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

    def arrow_type(self, options: object) -> Any:
        return self.as_remainder().arrow_type(options)  # type: ignore[arg-type]

    def emit_decode(self, builder: object, column: object) -> None:
        raise UnknownSerializerError(self.reason)

    def emit_encode(self, builder: object, column: object) -> None:
        raise UnknownSerializerError(self.reason)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot
