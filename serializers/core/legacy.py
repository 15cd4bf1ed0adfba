"""Snapshots from before Flink 1.7: they contain a Java-serialized serializer (Flink: ``TypeSerializerConfigSnapshot``).

Flink 1.7 to 1.16 copied such snapshots from older savepoints into new ones: the serializer in Java serialization, in a frame with
a length, then the fields of the snapshot's class, without a frame. Flink 1.17 and later can't restore such savepoints.

Flink's own serializers are recognized by their class. The class name of a serializer without configuration leads to the class of
its later snapshot; other serializers have their nested serializers as fields. No code of the stream is executed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.format_versions import ADAPTER_VERSION
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaEnum, JavaInstance, read_java_object
from state_processor.serializers.registry import find_snapshot_class, provide_snapshots
from state_processor.support.errors import UnknownSerializerError

_TYPEUTILS: Final = "org.apache.flink.api.common.typeutils."
_SERIALIZER_VERSION: Final = 1


class LegacyConfigSnapshot(TypeSerializerSnapshot):
    """A ``TypeSerializerConfigSnapshot``: the old serializer's bytes, then the payload of a supported snapshot class.

    ``serializer``: the Java-serialized serializer. ``payload``: the bytes that the snapshot's class adds: its own version and its
    fields.
    """

    current_version = ADAPTER_VERSION

    def __init__(self, class_name: str, serializer: bytes, payload: bytes) -> None:
        super().__init__(class_name, ADAPTER_VERSION)
        self.serializer = serializer
        self.payload = payload

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> LegacyConfigSnapshot:
        serializer = read_framed_serializer(source)
        begin = source.position
        source.skip(4, "version")
        _PAYLOADS[class_name](source)
        return cls(class_name, serializer, bytes(source.data[begin : source.position]))

    def write(self, target: DataOutput) -> None:
        target.write_int(_SERIALIZER_VERSION)
        target.write_int(len(self.serializer))
        target.write_bytes(self.serializer)
        target.write_bytes(self.payload)

    def restore_serializer(self) -> TypeSerializer:
        return serializer_of(read_java_object(DataInput(self.serializer, self.class_name)).content)


def read_framed_serializer(source: DataInput) -> bytes:
    """Read the frame of a Java-serialized serializer (Flink: ``TypeSerializerSerializationUtil.writeSerializer``)."""
    start = source.position
    if source.read_int() != _SERIALIZER_VERSION:
        raise source.corrupt("version 1 of a serialized serializer expected", start)
    return source.read_bytes(source.read_int(), "serialized serializer")


def _skip_text(source: DataInput) -> None:
    source.read_utf()


def _skip_nested(source: DataInput) -> None:
    """Skip serializers with their snapshots: a count, two offsets each, and a frame.

    Flink: ``writeSerializersAndConfigsWithResilience``.
    """
    source.skip(8 * source.read_count("serializers", 8))
    source.skip(source.read_int(), "serializers and their snapshots")


_PAYLOADS: Final[dict[str, Callable[[DataInput], None]]] = {
    f"{_TYPEUTILS}ParameterlessTypeSerializerConfig": _skip_text,
    f"{_TYPEUTILS}base.CollectionSerializerConfigSnapshot": _skip_nested,
    f"{_TYPEUTILS}base.MapSerializerConfigSnapshot": _skip_nested,
}


def serializer_of(content: Any) -> TypeSerializer:
    """Return the serializer for a Java object of one of Flink's serializer classes."""
    if isinstance(content, JavaEnum):
        raise _unknown(content.class_name)
    if not isinstance(content, JavaInstance):
        raise _unknown(type(content).__name__)
    build = _WITH_NESTED.get(content.class_name)
    if build is not None:
        return build(content)
    short = content.class_name.rpartition(".")[2].rpartition("$")[2]
    snapshot_class = f"{content.class_name}${short}Snapshot"
    source = DataInput(b"", content.class_name)
    try:
        snapshot: TypeSerializerSnapshot = find_snapshot_class(snapshot_class, 3, source, 0).read(snapshot_class, 3, source)
        return snapshot.restore_serializer()
    except UnknownSerializerError:
        raise _unknown(content.class_name) from None


def _unknown(class_name: str) -> UnknownSerializerError:
    return UnknownSerializerError(
        f"a serializer of class {class_name} in Java serialization, from before Flink 1.7, can't be restored without its class; "
        "restore the savepoint with Flink 1.7 to 1.16 and take another one, so that it gets a serializer snapshot"
    )


_WITH_NESTED: Final[dict[str, Callable[[JavaInstance], TypeSerializer]]] = {
    f"{_TYPEUTILS}base.ListSerializer": lambda o: ListSerializer(serializer_of(o.get("elementSerializer"))),
    f"{_TYPEUTILS}base.MapSerializer": lambda o: MapSerializer(
        serializer_of(o.get("keySerializer")), serializer_of(o.get("valueSerializer"))
    ),
    "org.apache.flink.runtime.state.ArrayListSerializer": lambda o: ListSerializer(serializer_of(o.get("elementSerializer"))),
}

for _class in _PAYLOADS:
    provide_snapshots((_class,), LegacyConfigSnapshot)
