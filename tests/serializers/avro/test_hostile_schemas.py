"""Avro schemas that are damaged or made to hurt: refused in words, within bounded time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor.serializers.avro.records import MOST_TYPES, AvroSchema, AvroSerializer, AvroSerializerSnapshot
from state_processor.serializers.io import MAX_NESTING
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(fields)]}


def lists(levels: int) -> str:
    return '{"type":"array","items":' * levels + '"int"' + "}" * levels


def test_references_on_every_level_are_refused() -> None:
    schema: Any = record("R0", "int")
    for level in range(1, 30):
        schema = record(f"R{level}", schema, f"R{level - 1}")
    with pytest.raises(UnsupportedFormatError, match=f"more than {MOST_TYPES} fields"):
        AvroSerializer(json.dumps(schema))


def test_records_that_all_refer_to_all_others_are_refused() -> None:
    names = [f"R{i}" for i in range(12)]
    inner = record(names[-1], *names[:-1])
    for name in reversed(names[:-1]):
        inner = record(name, inner, *[other for other in names if other != name])
    with pytest.raises(UnsupportedFormatError, match=f"more than {MOST_TYPES} fields"):
        AvroSerializer(json.dumps(inner))


def test_many_references_to_small_records_are_read() -> None:
    schema = record("Outer", record("Inner", "int", "string"), *["Inner"] * 500)
    assert len(AvroSerializer(json.dumps(schema)).type.children) == 501


@pytest.mark.parametrize("levels", [MAX_NESTING + 1, 300, 1200, 100_000])
def test_types_beyond_the_limit_of_depth_are_refused(levels: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"nested more than {MAX_NESTING} levels deep"):
        AvroSerializer(lists(levels))


def test_types_up_to_the_limit_of_depth_are_read() -> None:
    serializer = AvroSerializer(lists(MAX_NESTING))
    assert serializer.serialize([]) == b"\0"


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "[]]",
        '"no.Such"',
        "17",
        "null",
        "{}",
        '{"type": "record"}',
        '{"type": "record", "name": {}, "fields": []}',
        '{"type": "record", "name": true, "fields": []}',
        '{"type": "record", "name": "A", "fields": 3}',
        '{"type": "record", "name": "A", "fields": [3]}',
        '{"type": "record", "name": "A", "fields": [{"name": true, "type": "int"}]}',
        '{"type": "record", "name": "A", "fields": [{"name": {}, "type": "int"}]}',
        '{"type": "record", "name": "A", "fields": [{"name": "\\ud800", "type": "int"}]}',
        '{"type": "fixed", "name": "F", "size": "x"}',
        '{"type": "fixed", "name": "F", "size": true}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "fixed", "name": "F", "size": 1180591620717411303424}',
        '{"type": "enum", "name": "E", "symbols": [{}]}',
        '{"type": "enum", "name": "E", "symbols": "AB"}',
        '{"type": "enum", "name": "E", "symbols": ["\\ud800"]}',
        '{"type": "array"}',
        '{"type": "array", "items": {"type": {}}}',
        '{"type": {"type": {}}}',
    ],
)
def test_odd_attributes_are_refused(schema: str) -> None:
    with pytest.raises(CorruptSnapshotError, match="not an Avro schema"):
        AvroSchema(schema).type()


def test_an_odd_logical_type_is_its_base_type() -> None:
    assert str(AvroSchema('{"type": "int", "logicalType": {}}').type()) == "int"


def test_a_snapshot_with_a_surrogate_in_its_schema_is_refused() -> None:
    snapshot = AvroSerializerSnapshot("class", 3, "a.B", '{"type": "record", "name": "\ud800", "fields": []}')
    with pytest.raises(CorruptSnapshotError, match="not an Avro schema"):
        snapshot.restore_serializer()
