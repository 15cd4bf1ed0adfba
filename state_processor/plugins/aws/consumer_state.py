"""The serializer of the list state of ``FlinkKinesisConsumer``, as its snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from state_processor.connectors.codecs import Content, Kept, SnapshotCodec, Versions
from state_processor.plugins.aws import layouts as aws
from state_processor.serializers import (
    KryoSerializer,
    PojoField,
    PojoSerializer,
    StringSerializer,
    TupleSerializer,
    TupleSerializerSnapshot,
    TypeSerializerSnapshot,
)

_KINESIS: Final = "org.apache.flink.streaming.connectors.kinesis.model"
_SHARD: Final = f"{_KINESIS}.StreamShardMetadata"
_SEQUENCE: Final = f"{_KINESIS}.SequenceNumber"
_TUPLES: Final = "org.apache.flink.api.java.typeutils.runtime.TupleSerializer"


@cache
def kinesis_snapshot() -> TypeSerializerSnapshot:
    """Return the snapshot of the serializer of ``Kinesis-Stream-Shard-State``."""
    fields = [PojoField(name, StringSerializer(), _SHARD) for name in aws.SHARD_FIELDS]
    return TupleSerializer([PojoSerializer(_SHARD, fields), KryoSerializer(_SEQUENCE, [_SEQUENCE], flink=1)]).snapshot()


def _tuple_content(snapshot: TupleSerializerSnapshot) -> Content:
    def field_content(serializer: Any) -> str:
        name = getattr(serializer, "class_name", None) or getattr(serializer, "type_class", "")
        return f"{type(serializer).__name__}<{name}>" if name else type(serializer).__name__

    restored: Any = snapshot.restore_serializer()
    return {
        "what": (
            "TypeSerializerSnapshot.writeVersionedSnapshot of the state's element serializer: "
            "class name (UTF), version (int), then the snapshot"
        ),
        "tupleClass": restored.tuple_class,
        "fieldSerializers": [field_content(field) for field in restored.fields],
    }


CONSUMER_LAYOUTS: Final[Mapping[str, Versions]] = {
    _TUPLES: {0: aws.STREAM_SHARD},
    f"{_TUPLES}Snapshot": {3: Kept(SnapshotCodec(_tuple_content, kinesis_snapshot, TupleSerializerSnapshot))},
}
