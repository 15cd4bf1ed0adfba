"""Serializer snapshots of list states of connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from state_processor.backends.connectors.layouts import aws, iceberg
from state_processor.backends.connectors.layouts.choices import Kept, Versions
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.serializers.base import TypeSerializerSnapshot, read_versioned_snapshot, write_versioned_snapshot
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.core.tuples import TupleSerializer, TupleSerializerSnapshot
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaEnum, JavaObject
from state_processor.serializers.java.object_output import write_java_object
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.table.operator_records import SortedMapSerializerSnapshot

_KINESIS: Final = "org.apache.flink.streaming.connectors.kinesis.model"
_SHARD: Final = f"{_KINESIS}.StreamShardMetadata"
_SEQUENCE: Final = f"{_KINESIS}.SequenceNumber"
_BASE: Final = "org.apache.flink.api.common.typeutils.base"
_LONG: Final = f"{_BASE}.LongSerializer$LongSerializerSnapshot"
_BYTES: Final = f"{_BASE}.array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"
_SIMPLE_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A serializer snapshot with its class and version, as Flink frames it."""

    to_content: Callable[[Any], Content]
    build: Callable[[], TypeSerializerSnapshot]
    kind: type[TypeSerializerSnapshot]
    min_size: int = 6

    def read(self, source: DataInput) -> Content:
        start = source.position
        found = read_versioned_snapshot(source)
        if not isinstance(found, self.kind):
            raise source.corrupt(f"expected a {self.kind.__name__}, found {found.class_name}", start)
        return self.to_content(found)

    def write(self, content: Content, target: DataOutput) -> None:
        data = DataOutput()
        write_versioned_snapshot(self.build(), data)
        usual = self.read(DataInput(data.to_bytes()))
        if usual != {name: value for name, value in content.items() if name in usual}:
            raise ValueError(f"only the snapshot {usual!r} can be written")
        target.write_bytes(data.to_bytes())


@cache
def kinesis_snapshot() -> TypeSerializerSnapshot:
    """Return the snapshot of the serializer of ``Kinesis-Stream-Shard-State``."""
    fields = [PojoField(name, StringSerializer(), _SHARD) for name in aws.SHARD_FIELDS]
    return TupleSerializer([PojoSerializer(_SHARD, fields), KryoSerializer(_SEQUENCE, [_SEQUENCE], flink=1)]).snapshot()


def _tuple_content(found: TupleSerializerSnapshot) -> Content:
    def shown(serializer: Any) -> str:
        name = getattr(serializer, "class_name", None) or getattr(serializer, "type_class", "")
        return f"{type(serializer).__name__}<{name}>" if name else type(serializer).__name__

    restored: Any = found.restore_serializer()
    return {
        "what": (
            "TypeSerializerSnapshot.writeVersionedSnapshot of the state's element serializer: "
            "class name (UTF), version (int), then the snapshot"
        ),
        "tupleClass": restored.tuple_class,
        "fieldSerializers": [shown(field) for field in restored.fields],
    }


def _simple(name: str) -> TypeSerializerSnapshot:
    written = DataOutput()
    written.write_utf(name)
    written.write_int(_SIMPLE_VERSION)
    return read_versioned_snapshot(DataInput(written.to_bytes()))


@cache
def iceberg_snapshot() -> TypeSerializerSnapshot:
    """Return the snapshot of the serializer of ``iceberg-files-committer-state``."""
    order = JavaEnum("java.util.Comparators$NaturalOrderComparator", "INSTANCE")
    comparator = JavaObject(write_java_object(order, {}), order)
    return SortedMapSerializerSnapshot(SORTED_MAPS, comparator, [_simple(_LONG), _simple(_BYTES)], 3)


def _sorted_content(found: SortedMapSerializerSnapshot) -> Content:
    names = {"java.util.Comparators$NaturalOrderComparator": "org.apache.iceberg.types.Comparators.forType(LongType)"}
    comparator = found.comparator.class_name
    return {
        "what": (
            f"writeVersionedSnapshot of the serializer of {iceberg.COMMITTER_STATE_NAME} (Java-serialized comparator inside)"
        ),
        "stateName": iceberg.COMMITTER_STATE_NAME,
        "comparator": names.get(comparator, comparator),
    }


TUPLES: Final = "org.apache.flink.api.java.typeutils.runtime.TupleSerializerSnapshot"
SORTED_MAPS: Final = "org.apache.flink.table.runtime.typeutils.SortedMapSerializerSnapshot"
LAYOUTS: Final[Mapping[str, Versions]] = {
    TUPLES: {3: Kept(_Snapshot(_tuple_content, kinesis_snapshot, TupleSerializerSnapshot))},
    SORTED_MAPS: {3: Kept(_Snapshot(_sorted_content, iceberg_snapshot, SortedMapSerializerSnapshot))},
}
