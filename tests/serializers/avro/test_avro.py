"""Avro data in Flink's own encoding: schemas, columns, evolution, specimens of Flink's tests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, read_serializer_snapshot
from state_processor.serializers.avro.containers import AvroBranch
from state_processor.serializers.avro.records import AVRO_SNAPSHOT, AvroSerializer, AvroSerializerSnapshot
from state_processor.serializers.evolution.resolution import resolve
from state_processor.support.errors import (
    CorruptSnapshotError,
    StateMigrationError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from tests.serializers.harness import (
    PLAIN,
    check_payloads,
    check_snapshot,
    check_specimen,
    compiles,
    decode_with_kernel,
    specimens,
)

TRIP: dict[str, Any] = {
    "type": "record",
    "name": "Trip",
    "namespace": "acme",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "driver", "type": ["null", "string"], "default": None},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "started", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CITY", "AIRPORT", "OTHER"]}},
        {
            "name": "stops",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Stop",
                    "fields": [{"name": "place", "type": "string"}, {"name": "km", "type": "float"}],
                },
            },
        },
        {"name": "last", "type": ["Stop", "null"]},
        {"name": "extras", "type": {"type": "map", "values": "int"}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 4}},
        {"name": "either", "type": ["null", "int", "string", "boolean", "Stop"]},
        {"name": "flag", "type": "boolean"},
        {"name": "ratio", "type": "double"},
        {"name": "nothing", "type": "null"},
    ],
}
VALUE = {
    "id": 7,
    "driver": "Ann",
    "fare": bytes.fromhex("fb1e"),
    "started": 1600000000123,
    "kind": "AIRPORT",
    "stops": [{"place": "a", "km": 0.5}],
    "last": {"place": "b", "km": 1.5},
    "extras": [("x", 1)],
    "code": b"\0\1\2\xff",
    "either": AvroBranch(2, "text"),
    "flag": True,
    "ratio": 0.25,
    "nothing": None,
}
BYTES = (
    "0000000000000007"
    "0000000100000003416e6e"
    "00000002fb1e"
    "00000174876e807b"
    "00000001"
    "0100000001613f00000000"
    "0000000000000001623fc00000"
    "0100000001780000000100"
    "000102ff"
    "000000020000000474657874"
    "01"
    "3fd0000000000000"
)


def avro(schema: Any) -> AvroSerializer:
    return AvroSerializer(json.dumps(schema))


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [dict(f) if isinstance(f, dict) else {"name": f[0], "type": f[1]} for f in fields],
    }


def test_bytes_and_columns() -> None:
    serializer = avro(TRIP)
    data = bytes.fromhex(BYTES)
    assert serializer.serialize(VALUE) == data
    assert check_payloads(serializer, [data]) == [VALUE]
    assert compiles(serializer)
    shown = decode_with_kernel(serializer, [data])[0]
    assert shown == {
        "id": 7,
        "driver": "Ann",
        "fare": Decimal("-12.50"),
        "started": datetime(2020, 9, 13, 12, 26, 40, 123000, UTC),
        "kind": "AIRPORT",
        "stops": [{"place": "a", "km": 0.5}],
        "last": {"place": "b", "km": 1.5},
        "extras": [("x", 1)],
        "code": b"\0\1\2\xff",
        "either": {"int": None, "string": "text", "boolean": None, "Stop": None},
        "flag": True,
        "ratio": 0.25,
        "nothing": None,
    }
    assert str(serializer) == "AVRO_GENERIC<acme.Trip>"
    check_snapshot(serializer.snapshot())


STOPS = st.fixed_dictionaries({"place": st.text(max_size=9), "km": st.floats(width=32, allow_nan=False)})
TRIPS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "driver": st.none() | st.text(max_size=9),
        "fare": st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: n.to_bytes(6, "big", signed=True)),
        "started": st.integers(-62_135_596_800_000, 253_402_300_799_999),
        "kind": st.sampled_from(["CITY", "AIRPORT", "OTHER"]),
        "stops": st.lists(STOPS, max_size=5),
        "last": st.none() | STOPS,
        "extras": st.dictionaries(st.text(max_size=5), st.integers(-(2**31), 2**31 - 1), max_size=4).map(lambda m: [*m.items()]),
        "code": st.binary(min_size=4, max_size=4),
        "either": st.none()
        | st.builds(AvroBranch, st.just(1), st.integers(-(2**31), 2**31 - 1))
        | st.builds(AvroBranch, st.just(2), st.text(max_size=5))
        | st.builds(AvroBranch, st.just(3), st.booleans())
        | st.builds(AvroBranch, st.just(4), STOPS),
        "flag": st.booleans(),
        "ratio": st.floats(allow_nan=False),
        "nothing": st.none(),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.lists(TRIPS, max_size=6))
def test_kernel_agrees_with_reference(values: list[dict[str, Any]]) -> None:
    serializer = avro(TRIP)
    payloads = [serializer.serialize(v) for v in values]
    assert check_payloads(serializer, payloads) == values


@pytest.mark.parametrize(
    ("type_", "value", "shown", "arrow_type"),
    [
        ({"type": "int", "logicalType": "date"}, -1, date(1969, 12, 31), pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, 47_107_005, "13:05:07.005", pa.string()),
        ({"type": "long", "logicalType": "time-micros"}, 47_107_000_005, "13:05:07.000005", pa.string()),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            -1,
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            pa.timestamp("us", "UTC"),
        ),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            5000,
            datetime(1970, 1, 1, 0, 0, 0, 5, UTC),
            pa.timestamp("us", "UTC"),
        ),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1000), pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1), pa.timestamp("us")),
        ({"type": "string", "logicalType": "uuid"}, "u", "u", pa.string()),
        (
            {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 4, "scale": 1},
            b"\xff\xff\xff",
            Decimal("-0.1"),
            pa.decimal128(4, 1),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 1}, b"\x01", "0.1", pa.string()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, b"\x01", b"\x01", pa.binary()),
        ({"type": "string", "logicalType": "date"}, "x", "x", pa.string()),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, bytes(12), bytes(12), pa.binary()),
        (["null"], None, None, pa.null()),
        (["int"], 3, 3, pa.int32()),
        ("null", None, None, pa.null()),
    ],
)
def test_types(type_: Any, value: Any, shown: Any, arrow_type: pa.DataType) -> None:
    serializer = avro(record(("a", type_), ("b", "int")))
    assert serializer.arrow_type(PLAIN) == pa.struct([("a", arrow_type), ("b", pa.int32())])
    payload = serializer.serialize({"a": value, "b": 1})
    assert check_payloads(serializer, [payload]) == [{"a": value, "b": 1}]
    array = pa.array([serializer.to_column({"a": value, "b": 1}, PLAIN)], serializer.arrow_type(PLAIN))
    assert array.to_pylist() == [{"a": shown, "b": 1}]


def test_times_as_text() -> None:
    serializer = avro(
        record(
            ("d", {"type": "int", "logicalType": "date"}),
            ("t", {"type": "long", "logicalType": "timestamp-nanos"}),
            ("l", {"type": "long", "logicalType": "local-timestamp-nanos"}),
            ("m", {"type": "long", "logicalType": "timestamp-millis"}),
        )
    )
    options = DecodeOptions(nanos="string")
    value = {"d": 3_000_000, "t": 1, "l": -1, "m": 5}
    assert serializer.to_column(value, options) == {
        "d": "+10183-09-21",
        "t": "1970-01-01T00:00:00.000000001Z",
        "l": "1969-12-31T23:59:59.999999999",
        "m": "1970-01-01T00:00:00.005Z",
    }
    with pytest.raises(UndecodableValueError, match="nanos"):
        serializer.to_column({**value, "d": 1}, PLAIN)
    with pytest.raises(UndecodableValueError, match="range"):
        serializer.to_column({**value, "t": 0, "l": 0}, PLAIN)


def test_wrong_values_of_logical_types() -> None:
    time = avro(record(("a", {"type": "int", "logicalType": "time-millis"})))
    with pytest.raises(UndecodableValueError, match="expected a time of day"):
        time.to_column({"a": -1}, PLAIN)
    decimal = avro(record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0})))
    with pytest.raises(UndecodableValueError, match="more digits"):
        decimal.to_column({"a": b"\x64"}, PLAIN)


def test_branches_of_equal_short_name_keep_their_full_names() -> None:
    stop = {"type": "fixed", "size": 1}
    serializer = avro(record(("a", [{**stop, "name": "x.S"}, {**stop, "name": "y.S"}, "null"])))
    assert serializer.arrow_type(PLAIN) == pa.struct([("a", pa.struct([("x.S", pa.binary()), ("y.S", pa.binary())]))])
    payloads = [serializer.serialize({"a": v}) for v in (AvroBranch(0, b"a"), AvroBranch(1, b"b"), None)]
    check_payloads(serializer, payloads)
    assert decode_with_kernel(serializer, payloads) == [
        {"a": {"x.S": b"a", "y.S": None}},
        {"a": {"x.S": None, "y.S": b"b"}},
        {"a": None},
    ]
    with pytest.raises(ValueError, match="does not name its branch"):
        serializer.serialize({"a": b"a"})


def test_several_blocks_are_read() -> None:
    serializer = avro({"type": "array", "items": "int"})
    assert serializer.deserialize(bytes.fromhex("0100000001" + "020000000200000003" + "00")) == [1, 2, 3]
    assert decode_with_kernel(serializer, [bytes.fromhex("0100000001" + "020000000200000003" + "00")]) == [[1, 2, 3]]


def test_record_inside_itself_is_json() -> None:
    serializer = avro(record(("next", ["null", "R"]), ("value", "bytes")))
    assert serializer.arrow_type(PLAIN) == pa.struct([("next", pa.string()), ("value", pa.binary())])
    assert not compiles(serializer)
    value = {"next": {"next": {"next": None, "value": b"c"}, "value": b"b"}, "value": b"a"}
    payload = serializer.serialize(value)
    assert check_payloads(serializer, [payload]) == [value]
    assert serializer.to_column(value, PLAIN) == {
        "next": '{"next": "{\\"next\\": null, \\"value\\": \\"63\\"}", "value": "62"}',
        "value": b"a",
    }
    with pytest.raises(UndecodableValueError, match="nest too deep"):
        serializer.deserialize(b"\0\0\0\1" * 5000)


@pytest.mark.parametrize("end", range(0, len(BYTES) // 2, 3))
def test_truncation(end: int) -> None:
    with pytest.raises(CorruptSnapshotError):
        avro(TRIP).deserialize(bytes.fromhex(BYTES)[:end])


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (["null", "int"], "00000002"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "00000001"),
        ("string", "7fffffff"),
        ("string", "00000001ff"),
        ({"type": "array", "items": "int"}, "ffffffff0f"),
    ],
)
def test_damage(schema: Any, data: str) -> None:
    with pytest.raises(CorruptSnapshotError):
        avro(record(("a", schema))).deserialize(bytes.fromhex(data))


def test_no_schema() -> None:
    for text in ("{", "{}", '"unheard"', '{"type":"record","name":"R","fields":[{"name":"a","type":"X"}]}'):
        with pytest.raises(CorruptSnapshotError, match="Avro schema"):
            AvroSerializer(text)


def test_snapshot_versions() -> None:
    schema = json.dumps(TRIP)
    for version in (1, 2, 3):
        snapshot = AvroSerializerSnapshot(AVRO_SNAPSHOT, version, "acme.Trip", schema)
        again = read_serializer_snapshot(snapshot.to_bytes())
        assert again.to_bytes() == snapshot.to_bytes()
        assert str(again.restore_serializer()) == "AVRO_SPECIFIC<acme.Trip>"
        assert again.restore_serializer().snapshot().to_bytes() == snapshot.to_bytes()
    with pytest.raises(UnsupportedFormatError, match="version 9"):
        read_serializer_snapshot(AvroSerializerSnapshot(AVRO_SNAPSHOT, 9, "acme.Trip", schema).to_bytes())


def test_hash_code() -> None:
    # Worked out by hand from GenericData.hashCode: 31 * (31 * 1 + 5) + "b" in UTF-8.
    assert avro(record(("a", "int"), ("b", "string"))).hash_code({"a": 5, "b": "b"}) == 31 * (31 + 5) + 98
    ignored = record(("a", "int"), {"name": "b", "type": "int", "order": "ignore"})
    assert avro(ignored).hash_code({"a": 5, "b": 1}) == 36
    reflect = AvroSerializer(
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"int","java-class":"[I"}}]}', "R"
    )
    assert str(reflect) == "AVRO_REFLECT<R>"
    with pytest.raises(UnsupportedFormatError, match="code of the class"):
        reflect.hash_code({"a": []})


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
EVOLUTIONS: list[Any] = [
    # written type, wanted type, written value, wanted value
    ("int", "long", 1, 1),
    ("int", "double", 1, 1.0),
    ("long", "float", 1, 1.0),
    ("float", "double", 0.5, 0.5),
    ("string", "bytes", "ä", "ä".encode()),
    ("bytes", "string", b"a", "a"),
    ("int", ["null", "int"], 1, 1),
    ("int", ["null", "string", "long"], 1, AvroBranch(2, 1)),
    (["null", "int"], ["string", "long", "null"], 1, AvroBranch(1, 1)),
    (["null", "int"], ["string", "long", "null"], None, None),
    (["int", "string"], ["string", "int"], AvroBranch(0, 1), AvroBranch(1, 1)),
    (ENUM, {**ENUM, "symbols": ["B", "A", "C"]}, "A", "A"),
    (ENUM, {**ENUM, "symbols": ["A", "X"], "default": "X"}, "B", "X"),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [1], [1]),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "float"}, [("a", 1)], [("a", 1.0)]),
]


@pytest.mark.parametrize(("written", "wanted", "value", "expected"), EVOLUTIONS)
def test_evolution_of_a_field(written: Any, wanted: Any, value: Any, expected: Any) -> None:
    old, new = avro(record(("f", written))), avro(record(("f", wanted)))
    assert str(old.snapshot().resolve_schema_compatibility(new)) == "compatible_after_migration"
    evolved = resolve(old, new).deserialize(old.serialize({"f": value}))
    assert evolved == {"f": expected}
    assert type(evolved["f"]) is type(expected)
    assert new.deserialize(new.serialize(evolved)) == {"f": expected}


def test_evolution_of_fields() -> None:
    old = avro(record(("a", "int"), ("gone", "string")))
    new = avro(
        record(
            {"name": "b", "type": ["null", "int"], "default": None},
            {"name": "renamed", "type": "long", "aliases": ["a"]},
            {"name": "bytes", "type": "bytes", "default": "\u00ff"},
            {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1]},
            {"name": "map", "type": {"type": "map", "values": "string"}, "default": {"k": "v"}},
            {"name": "inner", "type": record({"name": "x", "type": "int", "default": 3}, name="I"), "default": {}},
            {"name": "union", "type": ["string", "int", "null"], "default": "s"},
        )
    )
    value = resolve(old, new).deserialize(old.serialize({"a": 1, "gone": "x"}))
    assert value == {
        "b": None,
        "renamed": 1,
        "bytes": b"\xff",
        "list": [1],
        "map": [("k", "v")],
        "inner": {"x": 3},
        "union": AvroBranch(0, "s"),
    }
    assert new.deserialize(new.serialize(value)) == value


@pytest.mark.parametrize(
    ("written", "wanted", "reason"),
    [
        (record(("f", "int")), record(("f", "string")), "f: int was written, string is required"),
        (record(("f", "long")), record(("f", "int")), "f: long was written, int is required"),
        (record(("f", "int")), record(("f", "int"), ("g", "int")), "g: a new field needs a default"),
        (record(("f", ENUM)), record(("f", {**ENUM, "symbols": ["A"]})), "f: the wanted enum E lacks B"),
        (
            record(("f", {"type": "fixed", "name": "F", "size": 1})),
            record(("f", {"type": "fixed", "name": "F", "size": 2})),
            "f: F has 1 bytes, 2 are required",
        ),
        (record(("f", ["int", "string"])), record(("f", "int")), "f: string was written, int is required"),
        (record(("f", "string")), record(("f", ["int", "null"])), "f: no branch of the wanted union takes the written string"),
        (record(("f", "int")), record(("f", "int"), name="Other"), "R was written, Other is required"),
    ],
)
def test_incompatible(written: Any, wanted: Any, reason: str) -> None:
    old, new = avro(written), avro(wanted)
    verdict = old.snapshot().resolve_schema_compatibility(new)
    assert verdict.is_incompatible
    assert verdict.reason == reason
    with pytest.raises(StateMigrationError, match="can't be read as"):
        resolve(old, new)


def test_documentation_changes_nothing() -> None:
    old, new = avro(TRIP), avro({**TRIP, "doc": "trips", "aliases": ["Journey"]})
    assert str(old.snapshot().resolve_schema_compatibility(new)) == "compatible_as_is"


@pytest.mark.corpus(instead="tests/serializers/avro/test_avro.py::test_types")
@pytest.mark.parametrize("specimen", specimens("flink-avro", "*"), ids=str)
def test_official_specimens(specimen: Any) -> None:
    assert check_specimen(specimen) == {
        "num": 239,
        "street": "Baker Street",
        "city": "London",
        "state": "London",
        "zip": "NW1 6XE",
    }
