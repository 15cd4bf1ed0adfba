"""Splits of Iceberg's source, and committables of its sinks.

Iceberg: ``IcebergSourceSplit``, ``IcebergEnumeratorState``, ``IcebergCommittable``, ``DynamicCommittable``,
``IcebergFilesCommitter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa

from state_processor.connectors import (
    COMMITTABLE,
    ContentSource,
    Format,
    Formats,
    Part,
    SinkConnector,
    SplitListing,
    Values,
    committables,
    json_part,
    part,
)
from state_processor.connectors.codecs import Content, Kept, SnapshotCodec, Versions
from state_processor.connectors.java import JavaEnum, JavaObject, write_java_object
from state_processor.errors import InvalidRowError
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


_FILE: Final = pa.struct([("location", pa.string()), ("start", pa.int64()), ("length", pa.int64()), ("deletes", pa.int32())])


def _files(content: Content) -> list[dict[str, Any]]:
    return list(map(_file, content["tasks"]))


def _file(task: Content) -> dict[str, Any]:
    return {name: task[name] for name in ("location", "start", "length", "deletes")}


def _fixed(content: Content, value: Any) -> None:
    raise InvalidRowError("the files of a split can't be changed; remove the split, or change 'file_offset' and 'record_offset'")


def _pending(content: Content) -> Sequence[SplitListing]:
    def entry(split: Content, assignment: str) -> Content:
        return {"split": split, "status": assignment}

    return (
        SplitListing(
            "pendingSplits",
            split=lambda listed: listed["split"],
            assignment=lambda listed: str(listed["status"]),
            entry=entry,
            accepts=lambda assignment: True,
        ),
    )


ICEBERG: Final = ContentSource(
    name="iceberg",
    what="Iceberg",
    layouts=iceberg.LAYOUTS,
    splits=iceberg.SPLITS,
    enumerator=iceberg.ENUMERATOR,
    parts=(
        part("file_offset", pa.int32(), "fileOffset"),
        part("record_offset", pa.int64(), "recordOffset"),
        Part(pa.field("files", pa.list_(_FILE)), _files, _fixed),
    ),
    split_id=lambda content: ",".join(f"{f['location']}:{f['start']}+{f['length']}" for f in _files(content)),
    split_version=lambda content: int(content["splitVersion"]),
    listings=_pending,
    new_state=lambda rows: {
        "lastEnumeratedPosition": None,
        "splitVersion": 3,
        "pendingSplits": [],
        "enumerationSplitCountHistory": [],
    },
    about=(
        "``file_offset`` and ``record_offset`` are the position in ``files``. The state of the enumerator has the last "
        "snapshot that was planned (``lastEnumeratedPosition``)."
    ),
).connector()

_COMMIT: Final = (
    part("job_id", pa.string(), "jobId"),
    part("operator_id", pa.string(), "operatorId"),
    part("committed_checkpoint_id", pa.int64(), "checkpointId"),
    part("manifest", pa.string(), "manifest"),
)

ICEBERG_SINK: Final = SinkConnector(
    name="iceberg",
    **committables("committables of Iceberg", iceberg.LAYOUTS, iceberg.COMMITTABLES, *_COMMIT),
)

DYNAMIC_SINK: Final = SinkConnector(
    name="iceberg-dynamic",
    **committables(
        "committables of Iceberg's dynamic sink",
        iceberg.LAYOUTS,
        iceberg.DYNAMIC_COMMITTABLES,
        part("table", pa.string(), "tableName"),
        part("branch", pa.string(), "branch"),
        *_COMMIT,
        json_part("manifests", "manifests"),
    ),
    about="``manifests`` is JSON. Before version 2 a committable has one ``manifest``.",
)


# The sink before Sink V2

_CHECKPOINT: Final = "committed_checkpoint_id"
_MANIFESTS: Final = {"data_manifest": "dataManifest", "delete_manifest": "deleteManifest"}
_DATA_FILES: Final = "referenced_data_files"
_COMMITTED: Final = (
    pa.field(_CHECKPOINT, pa.int64()),
    *(pa.field(name, pa.string()) for name in _MANIFESTS),
    pa.field(_DATA_FILES, pa.list_(pa.string())),
)


def _entry_row(entry: Content) -> Values:
    deltas = entry["deltaManifests"] or {}
    manifests = {name: (deltas.get(key) or {}).get("manifest_path") for name, key in _MANIFESTS.items()}
    return {_CHECKPOINT: entry["checkpointId"], **manifests, _DATA_FILES: deltas.get("referencedDataFiles")}


def _read_entries(source: DataInput) -> list[Values]:
    entries = iceberg.COMMITTER_ELEMENT.read(source)["entries"]
    return list(map(_entry_row, entries)) or [dict.fromkeys(field.name for field in _COMMITTED)]


def _write_entries(rows: list[Values], target: DataOutput) -> None:
    by_checkpoint = {}
    for row in rows[:1]:
        source = DataInput(bytes(row["raw"]), "raw")
        by_checkpoint = {entry["checkpointId"]: entry for entry in iceberg.COMMITTER_ELEMENT.read(source)["entries"]}
    entries = [by_checkpoint.get(row[_CHECKPOINT]) for row in rows]
    for row, entry in zip(rows, entries, strict=True):
        if entry is None or any(row[name] != value for name, value in _entry_row(entry).items()):
            raise InvalidRowError(
                f"files of checkpoint {row[_CHECKPOINT]}: files to commit can be left out; they can't be added or changed"
            )
    iceberg.COMMITTER_ELEMENT.write({"entries": entries}, target)


FILES_COMMITTER: Final = SinkConnector(
    name="iceberg-files-committer",
    fields=_COMMITTED,
    own_committer=Formats("files of Iceberg's sink", {0: (Format(_read_entries, _write_entries),)}),
    keeps_emptied=True,
    layouts=COMMITTER_LAYOUTS,
    own_states={COMMITTABLE: iceberg.COMMITTER_STATE_NAME},
    about="``FlinkSink``: the files that a checkpoint has left to commit are a row.",
)

CONNECTORS: Final = (ICEBERG, ICEBERG_SINK, DYNAMIC_SINK, FILES_COMMITTER)
