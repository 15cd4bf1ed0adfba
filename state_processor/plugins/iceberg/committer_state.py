"""The serializer of the list state of ``IcebergFilesCommitter``, as its snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from state_processor.connectors.codecs import Content, Kept, SnapshotCodec, Versions
from state_processor.connectors.java import JavaEnum, JavaObject, write_java_object
from state_processor.plugins.iceberg import layouts as iceberg
from state_processor.serializers import (
    DataInput,
    DataOutput,
    SortedMapSerializerSnapshot,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
)

_BASE: Final = "org.apache.flink.api.common.typeutils.base"
_LONG: Final = f"{_BASE}.LongSerializer$LongSerializerSnapshot"
_BYTES: Final = f"{_BASE}.array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"
_SIMPLE_VERSION: Final = 3
_SORTED_MAPS: Final = "org.apache.flink.table.runtime.typeutils.SortedMapSerializerSnapshot"


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
    return SortedMapSerializerSnapshot(_SORTED_MAPS, comparator, [_simple(_LONG), _simple(_BYTES)], 3)


def _sorted_content(snapshot: SortedMapSerializerSnapshot) -> Content:
    names = {"java.util.Comparators$NaturalOrderComparator": "org.apache.iceberg.types.Comparators.forType(LongType)"}
    comparator = snapshot.comparator.class_name
    return {
        "what": (
            f"writeVersionedSnapshot of the serializer of {iceberg.COMMITTER_STATE_NAME} (Java-serialized comparator inside)"
        ),
        "stateName": iceberg.COMMITTER_STATE_NAME,
        "comparator": names.get(comparator, comparator),
    }


COMMITTER_LAYOUTS: Final[Mapping[str, Versions]] = {
    **{name: iceberg.LAYOUTS[name] for name in (iceberg.DELTA_MANIFESTS, iceberg.COMMITTER_STATE, iceberg.WRITE_RESULTS)},
    _SORTED_MAPS: {3: Kept(SnapshotCodec(_sorted_content, iceberg_snapshot, SortedMapSerializerSnapshot))},
}
