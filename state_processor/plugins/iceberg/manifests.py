"""Descriptions of Iceberg's manifest files, as sinks hand them over: an Avro schema and a record.

Iceberg: ``ManifestFiles.encode`` (``AvroEncoderUtil``), ``ManifestFile.schema``.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import fastavro

from state_processor.connectors import foreign_errors
from state_processor.connectors.codecs import Content, Kept
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
        return [_hex(element) for element in value]
    return {name: _hex(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def _binary(content: Content, name: str = "") -> Any:
    if name in _BINARY and isinstance(content, str):
        return bytes.fromhex(content)
    if isinstance(content, list):
        return [_binary(element) for element in content]
    return {key: _binary(inner, key) for key, inner in content.items()} if isinstance(content, dict) else content


MANIFEST: Final = Kept(_Manifest())
