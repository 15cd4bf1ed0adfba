"""Values and messages of Stateful Functions (``RemoteValueSerializer``, ``MessageTypeSerializer``)."""

from __future__ import annotations

from typing import Final

from state_processor.serializers import DataInput, DataOutput, SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.extension import (
    BytesSerializer,
    DelegatingCodec,
    DescribedSerializer,
    LeafSerializer,
)

_CORE: Final = "org.apache.flink.statefun.flink.core."
REMOTE_VALUE_SNAPSHOT: Final = f"{_CORE}types.remote.RemoteValueSerializerSnapshot"
MESSAGE_SNAPSHOT: Final = f"{_CORE}message.MessageTypeSerializer$Snapshot"


class RemoteValueSerializer(DelegatingCodec, LeafSerializer):
    """A value of a remote function: the bytes that the function's SDK wrote. Its type name is in the snapshot."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(BytesSerializer())
        self.namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"REMOTE_VALUE<{self.namespace}/{self.name}>"

    def snapshot(self) -> TypeSerializerSnapshot:
        return RemoteValueSnapshot(REMOTE_VALUE_SNAPSHOT, self.namespace, self.name)


class RemoteValueSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`RemoteValueSerializer`."""

    current_version = 1

    def __init__(self, class_name: str, namespace: str, name: str, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.namespace = namespace
        self.name = name

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> RemoteValueSnapshot:
        return cls(class_name, source.read_utf(), source.read_utf(), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.namespace)
        target.write_utf(self.name)

    def restore_serializer(self) -> TypeSerializer:
        return RemoteValueSerializer(self.namespace, self.name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, RemoteValueSnapshot)
        if (self.namespace, self.name) == (new.namespace, new.name):
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(
            f"{self.restore_serializer()} was written, {new.restore_serializer()} is required"
        )


class MessageSerializer(DelegatingCodec, DescribedSerializer):
    """A message between functions: the bytes of the message ``Envelope`` of Stateful Functions.

    ``described``: the snapshot: it names the serializer of payloads.
    """

    def __init__(self, described: MessageSnapshot) -> None:
        DelegatingCodec.__init__(self, BytesSerializer())
        DescribedSerializer.__init__(self, described)

    def __str__(self) -> str:
        return "STATEFUN_MESSAGE"


class MessageSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`MessageSerializer`: the kind of payloads, and since version 2 a class that serializes them."""

    current_version = 2

    def __init__(self, class_name: str, kind: str, payload_class: str | None = None, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.kind = kind
        self.payload_class = payload_class

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> MessageSnapshot:
        kind = source.read_utf()
        payload_class = source.read_utf() if version > 1 and source.read_boolean() else None
        return cls(class_name, kind, payload_class, version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.kind)
        if self.version > 1:
            target.write_boolean(self.payload_class is not None)
            if self.payload_class is not None:
                target.write_utf(self.payload_class)

    def restore_serializer(self) -> TypeSerializer:
        return MessageSerializer(self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, MessageSnapshot)
        if (self.kind, self.payload_class) == (new.kind, new.payload_class):
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(
            f"payloads were serialized by {self.payload_class or self.kind}, {new.payload_class or new.kind} is required"
        )


SNAPSHOTS: Final = {REMOTE_VALUE_SNAPSHOT: RemoteValueSnapshot, MESSAGE_SNAPSHOT: MessageSnapshot}
