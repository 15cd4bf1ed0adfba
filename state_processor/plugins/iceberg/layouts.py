"""Layouts of Iceberg: manifests and committables of the sinks, splits and enumerator of the source.

Iceberg: ``DeltaManifestsSerializer``, ``IcebergCommittableSerializer``, ``DynamicCommittableSerializer``,
``IcebergFilesCommitter``, ``IcebergSourceSplitSerializer``, ``IcebergEnumeratorStateSerializer``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import fastavro

from state_processor.connectors import foreign_errors
from state_processor.connectors.codecs import (
    BOOL,
    BYTES,
    INT,
    LONG,
    UTF,
    Codec,
    Constant,
    Content,
    Framed,
    Kept,
    ListOf,
    Mapped,
    OneOf,
    OptionalOf,
    Remark,
    Struct,
    Text,
    Versions,
    decode_modified_utf8,
    encode_modified_utf8,
    of_version,
    read_all,
    to_bytes,
)
from state_processor.errors import InvalidRowError
from state_processor.plugins.iceberg.first_split import first_split
from state_processor.plugins.iceberg.objects import WRITE_RESULT
from state_processor.serializers import DataInput, DataOutput

_MAGIC: Final = b"\xc2\x01"


def _field(name: str, type_: Any, number: int, doc: str, *, optional: bool = False) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": ["null", type_] if optional else type_, "doc": doc}
    return field | ({"default": None} if optional else {}) | {"field-id": number}


_SUMMARY: Final = {
    "type": "record",
    "name": "GenericPartitionFieldSummary",
    "fields": [
        _field("contains_null", "boolean", 509, "True if any file has a null partition value"),
        _field("contains_nan", "boolean", 518, "True if any file has a nan partition value", optional=True),
        _field("lower_bound", "bytes", 510, "Partition lower bound for all files", optional=True),
        _field("upper_bound", "bytes", 511, "Partition upper bound for all files", optional=True),
    ],
}
_SCHEMA: Final = {
    "type": "record",
    "name": "GenericManifestFile",
    "namespace": "org.apache.iceberg",
    "fields": [
        _field("manifest_path", "string", 500, "Location URI with FS scheme"),
        _field("manifest_length", "long", 501, "Total file size in bytes"),
        _field("partition_spec_id", "int", 502, "Spec ID used to write"),
        _field("content", "int", 517, "Contents of the manifest: 0=data, 1=deletes", optional=True),
        _field("sequence_number", "long", 515, "Sequence number when the manifest was added", optional=True),
        _field("min_sequence_number", "long", 516, "Lowest sequence number in the manifest", optional=True),
        _field("added_snapshot_id", "long", 503, "Snapshot ID that added the manifest"),
        _field("added_files_count", "int", 504, "Added entry count", optional=True),
        _field("existing_files_count", "int", 505, "Existing entry count", optional=True),
        _field("deleted_files_count", "int", 506, "Deleted entry count", optional=True),
        _field("added_rows_count", "long", 512, "Added rows count", optional=True),
        _field("existing_rows_count", "long", 513, "Existing rows count", optional=True),
        _field("deleted_rows_count", "long", 514, "Deleted rows count", optional=True),
        _field(
            "partitions",
            {"type": "array", "items": _SUMMARY, "element-id": 508},
            507,
            "Summary for each partition",
            optional=True,
        ),
        _field("key_metadata", "bytes", 519, "Encryption key metadata blob", optional=True),
        _field("first_row_id", "long", 520, "Starting row ID to assign to new rows in ADDED data files", optional=True),
    ],
}
"""The schema that Iceberg 1.11 writes. A reader of any release resolves it by the ids of the fields."""
_TEXT: Final = json.dumps(_SCHEMA, separators=(",", ":"))


@cache
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A magic number, the schema as text, and the record up to the end of the bytes."""

    min_size: int = 4

    def read(self, source: DataInput) -> Content:
        start = source.position
        if source.read_bytes(len(_MAGIC), "manifest") != _MAGIC:
            raise source.corrupt("not a manifest with its Avro schema", start)
        text = source.read_utf()
        stream = io.BytesIO(source.read_bytes(source.remaining))
        with foreign_errors(f"{source.source}, offset {start}: Avro record of a manifest"):
            content: Any = fastavro.schemaless_reader(stream, _parsed(text), None)
        unread = len(stream.getvalue()) - stream.tell()
        source.position -= unread
        return _hex(content)

    def write(self, content: Content, target: DataOutput) -> None:
        target.write_bytes(_MAGIC)
        target.write_utf(_TEXT)
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, _parsed(_TEXT), _binary(content), strict=True)
        target.write_bytes(stream.getvalue())


_BINARY: Final = ("lower_bound", "upper_bound", "key_metadata")


def _hex(value: Any) -> Content:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return list(map(_hex, value))
    return {name: _hex(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def _binary(content: Content, name: str = "") -> Any:
    if name in _BINARY and isinstance(content, str):
        return bytes.fromhex(content)
    if isinstance(content, list):
        return list(map(_binary, content))
    return {key: _binary(inner, key) for key, inner in content.items()} if isinstance(content, dict) else content


MANIFEST: Final = Kept(_Manifest())


_PACKAGE: Final = "org.apache.iceberg.flink"
DELTA_MANIFESTS: Final = f"{_PACKAGE}.sink.DeltaManifestsSerializer"
COMMITTABLES: Final = f"{_PACKAGE}.sink.IcebergCommittableSerializer"
DYNAMIC_COMMITTABLES: Final = f"{_PACKAGE}.sink.dynamic.DynamicCommittableSerializer"
COMMITTER_STATE: Final = "org.apache.flink.table.runtime.typeutils.SortedMapSerializer"
SPLITS: Final = f"{_PACKAGE}.source.split.IcebergSourceSplitSerializer"
WRITE_RESULTS: Final = f"{_PACKAGE}.sink.WriteResultSerializer"
ENUMERATOR: Final = f"{_PACKAGE}.source.enumerator.IcebergEnumeratorStateSerializer"
COMMITTER_STATE_NAME: Final = "iceberg-files-committer-state"


# Sinks

_FRAMED: Final = Framed(MANIFEST, empty_is_null=True)
DELTAS: Final[Versions] = {
    1: Struct.of(("dataManifest", MANIFEST), (None, Remark("deleteManifest", None)), (None, Remark("referencedDataFiles", []))),
    2: Struct.of(("dataManifest", _FRAMED), ("deleteManifest", _FRAMED), ("referencedDataFiles", ListOf(UTF))),
}
_VERSIONED_DELTAS: Final = Struct.of(
    ("version", INT), ("deltas", lambda content: Framed(of_version(DELTAS, content["version"], DELTA_MANIFESTS)))
)


def _with_deltas(entry: dict[str, Any]) -> Content:
    value = entry["value"]
    deltas = read_all(_VERSIONED_DELTAS, DataInput(bytes.fromhex(value), "value"))["deltas"] if value else None
    return {"checkpointId": entry["checkpointId"], "deltaManifests": deltas, "value": value}


def _without_deltas(entry: Content) -> Any:
    """Return an entry with the bytes of its manifests. They take precedence over the manifests."""
    if entry.get("value") is not None:
        return entry
    deltas = entry["deltaManifests"]
    value = to_bytes(_VERSIONED_DELTAS, {"version": 2, "deltas": deltas}).hex() if deltas is not None else ""
    return {**entry, "value": value}


_ENTRY: Final = Mapped(
    Struct.of(("checkpointId", LONG), (None, Constant(BOOL, False)), ("value", BYTES)), _with_deltas, _without_deltas
)
_WHAT: Final = (
    f"one element of operator list state {COMMITTER_STATE_NAME}; a value is 4 bytes version 2, 4 bytes length, "
    "then DeltaManifests; an empty value is a checkpoint without files"
)
COMMITTER_ELEMENT: Final = Struct.of((None, Remark("what", _WHAT)), ("entries", ListOf(_ENTRY)))
_COMMITTABLE: Final = Struct.of(("jobId", UTF), ("operatorId", UTF), ("checkpointId", LONG), ("manifest", BYTES))
_TARGET: Final = Struct.of(("tableName", UTF), ("branch", UTF))
_FIRST_TARGET: Final = _TARGET + Struct.of(
    ("schemaId", INT), ("specId", INT), ("upsertMode", BOOL), ("equalityFields", ListOf(INT))
)
_JOB: Final = Struct.of(("jobId", UTF), ("operatorId", UTF), ("checkpointId", LONG))
_ONE_MANIFEST: Final = _JOB + Struct.of(("manifest", BYTES))


# Source


def _task(text: str) -> Content:
    """Return a task as its text, and what most readers look for in it."""
    fields = json.loads(text)
    return {
        "json": text,
        "location": fields["data-file"]["file-path"],
        "start": fields["start"],
        "length": fields["length"],
        "deletes": len(fields.get("delete-files", ())),
    }


def _task_text(content: Content) -> str:
    if not isinstance(content, Mapping) or not isinstance(content.get("json"), str):
        raise InvalidRowError(f"a task needs its text 'json', found {content!r}")
    text: str = content["json"]
    return text


def _split(text: Codec) -> Codec:
    task = Mapped(text, _task, _task_text)
    return Struct.of(("fileOffset", INT), ("recordOffset", LONG), ("tasks", ListOf(task)))


SPLIT: Final[Versions] = {
    1: first_split(_task, _task_text),
    2: _split(UTF),
    3: _split(Text(INT, encode_modified_utf8, decode_modified_utf8)),
}
_POSITION: Final = Struct.of(("snapshotId", OptionalOf(LONG)), ("snapshotTimestampMs", OptionalOf(LONG)))
_POSITION_VERSION: Final = 1
_VERSIONED_POSITION: Final = OptionalOf(Struct.of((None, Constant(INT, _POSITION_VERSION)), ("position", Framed(_POSITION))))


def _flat_position(content: Content) -> Content:
    position = content["position"] if content is not None else None
    return {"lastEnumeratedPosition": position, "positionVersion": _POSITION_VERSION}


def _nested_position(content: Content) -> Any:
    position = content["lastEnumeratedPosition"]
    return {"position": position} if position is not None else None


def _pending(content: Mapping[str, Any]) -> Codec:
    return ListOf(Struct.of(("split", Framed(of_version(SPLIT, content["splitVersion"], SPLITS))), ("status", UTF)))


_STATE: Final = Struct.of(
    (None, Mapped(_VERSIONED_POSITION, _flat_position, _nested_position)), ("splitVersion", INT), ("pendingSplits", _pending)
)

LAYOUTS: Final[Mapping[str, Versions]] = {
    DELTA_MANIFESTS: DELTAS,
    COMMITTABLES: {1: _COMMITTABLE},
    DYNAMIC_COMMITTABLES: {
        1: OneOf((_FIRST_TARGET + _ONE_MANIFEST, _TARGET + _ONE_MANIFEST)),
        2: _TARGET + _JOB + Struct.of(("manifests", ListOf(BYTES))),
    },
    COMMITTER_STATE: {0: COMMITTER_ELEMENT},
    WRITE_RESULTS: {1: WRITE_RESULT},
    SPLITS: SPLIT,
    ENUMERATOR: {1: _STATE, 2: _STATE + Struct.of(("enumerationSplitCountHistory", ListOf(INT)))},
}
