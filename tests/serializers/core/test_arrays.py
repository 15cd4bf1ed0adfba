"""Arrays of primitives, strings and objects."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataOutput, DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import TypeSerializerSnapshot, Verdict, write_nested_snapshots
from state_processor.serializers.core.arrays import (
    GENERIC_ARRAY_CONFIG_SNAPSHOT,
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    string_array,
)
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.serializers.harness import (
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    specimens,
)

PLAIN = DecodeOptions()
LONG, STRING = NumberSerializer("LONG"), StringSerializer()
LONGS = GenericArraySerializer(LONG, "java.lang.Long")
NAMES = GenericArraySerializer(STRING, "java.lang.String")


def primitive(name: str) -> TypeSerializer:
    return BytesSerializer() if name == "BYTE" else PrimitiveArraySerializer(name)


# Bytes that Flink 2.3.0 wrote
@pytest.mark.parametrize(
    ("serializer", "data", "value", "name", "shown"),
    [
        (string_array(), "0000000302610001", ["a", None, ""], "STRING_ARRAY", ["a", None, ""]),
        (primitive("CHAR"), "00000003006120acd83d", ["a", "€", "\ud83d"], "CHAR_ARRAY", ["a", "€", "\ufffd"]),
        (primitive("BYTE"), "0000000201ff", b"\x01\xff", "BYTES", b"\x01\xff"),
        (primitive("BYTE"), "00000000", b"", "BYTES", b""),
        (primitive("BOOLEAN"), "000000020100", [True, False], "BOOLEAN_ARRAY", [True, False]),
        (primitive("SHORT"), "000000028000ffff", [-32768, -1], "SHORT_ARRAY", [-32768, -1]),
        (primitive("INT"), "0000000180000000", [-(2**31)], "INT_ARRAY", [-(2**31)]),
        (primitive("LONG"), "00000000", [], "LONG_ARRAY", []),
        (primitive("FLOAT"), "000000013fc00000", [1.5], "FLOAT_ARRAY", [1.5]),
        (LONGS, "0000000201000000000000000100", [1, None], "BOXED_LONG_ARRAY", [1, None]),
        (NAMES, "00000002010000", [None, None], "OBJECT_ARRAY<STRING>", [None, None]),
    ],
)
def test_bytes(serializer: TypeSerializer, data: str, value: Any, name: str, shown: Any) -> None:
    payload = bytes.fromhex(data)
    assert str(serializer) == name
    if serializer is NAMES:
        # A present null string and an absent one are the same null; the second form is written.
        assert serializer.deserialize(payload) == value
        assert serializer.serialize(value) == bytes.fromhex("000000020000")
    else:
        assert check_payloads(serializer, [payload, payload]) == [value, value]
    assert decode_with_kernel(serializer, [payload, payload]) == [shown, shown]


def test_not_a_number_and_negative_zero() -> None:
    payload = bytes.fromhex("0000000280000000000000007ff8000000000000")
    value = primitive("DOUBLE").deserialize(payload)
    assert struct.pack(">2d", *value) == payload[4:]
    assert primitive("DOUBLE").serialize(value) == payload


@pytest.mark.parametrize(
    ("component", "name"),
    [
        ("java.lang.Boolean", "BOXED_BOOLEAN_ARRAY"),
        ("java.lang.Integer", "BOXED_INT_ARRAY"),
        ("java.lang.Character", "BOXED_CHAR_ARRAY"),
        ("java.lang.Object", "OBJECT_ARRAY<LONG>"),
    ],
)
def test_names_of_object_arrays(component: str, name: str) -> None:
    assert str(GenericArraySerializer(LONG, component)) == name


@pytest.mark.parametrize(
    ("serializer", "type_"),
    [
        (primitive("BYTE"), pa.binary()),
        (primitive("CHAR"), pa.list_(pa.string())),
        (primitive("FLOAT"), pa.list_(pa.float32())),
        (string_array(), pa.list_(pa.string())),
        (LONGS, pa.list_(pa.int64())),
    ],
)
def test_arrow_types(serializer: TypeSerializer, type_: pa.DataType) -> None:
    assert serializer.arrow_type(PLAIN) == type_


RANDOM: list[tuple[TypeSerializer, st.SearchStrategy[Any]]] = [
    (primitive("BYTE"), st.binary()),
    (primitive("BOOLEAN"), st.lists(st.booleans())),
    (primitive("SHORT"), st.lists(st.integers(-(2**15), 2**15 - 1))),
    (primitive("INT"), st.lists(st.integers(-(2**31), 2**31 - 1))),
    (primitive("LONG"), st.lists(st.integers(-(2**63), 2**63 - 1))),
    (primitive("FLOAT"), st.lists(st.floats(width=32))),
    (primitive("DOUBLE"), st.lists(st.floats())),
    (primitive("CHAR"), st.lists(st.integers(0, 0xFFFF).map(chr))),
    (string_array(), st.lists(st.none() | st.text())),
    (LONGS, st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))),
    (NAMES, st.lists(st.none() | st.text())),
    (GenericArraySerializer(LONGS, "[Ljava.lang.Long;"), st.lists(st.none() | st.lists(st.none() | st.integers(0, 9)))),
]


@pytest.mark.parametrize(("serializer", "values"), RANDOM, ids=str)
def test_random_values(serializer: TypeSerializer, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values, max_size=8))
    def check(sample: list[Any]) -> None:
        check_codec(serializer, sample)

    check()


@pytest.mark.parametrize("serializer", [s for s, _ in RANDOM], ids=str)
@pytest.mark.parametrize("count", [-1, 1, 2**31 - 1])
def test_counts_are_checked_before_anything_is_allocated(serializer: TypeSerializer, count: int) -> None:
    payload = struct.pack(">i", count)
    with pytest.raises(CorruptSnapshotError, match=f"{count} "):
        serializer.deserialize(payload)
    with pytest.raises(CorruptSnapshotError, match="count"):
        decode_with_kernel(serializer, [payload])


@pytest.mark.parametrize("serializer", [s for s, _ in RANDOM], ids=str)
def test_arrays_are_no_keys(serializer: TypeSerializer) -> None:
    with pytest.raises(UnsupportedFormatError, match="key groups"):
        serializer.hash_code([])


def legacy(component: str, element: TypeSerializer, version: int = 2) -> bytes:
    target = DataOutput()
    target.write_utf(GENERIC_ARRAY_CONFIG_SNAPSHOT)
    target.write_int(version)
    target.write_utf(component)
    write_nested_snapshots([element.snapshot()], target)
    return target.to_bytes()


def test_snapshot_of_flink_1_7() -> None:
    data = legacy("java.lang.Long", LONG)
    snapshot = read_serializer_snapshot(data)
    check_snapshot(snapshot)
    assert str(snapshot.restore_serializer()) == "BOXED_LONG_ARRAY"
    assert snapshot.resolve_schema_compatibility(LONGS).verdict is Verdict.COMPATIBLE_AS_IS
    assert LONGS.snapshot().resolve_schema_compatibility(snapshot).is_incompatible


def test_snapshot_of_flink_1_6_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"Flink before 1\.7"):
        read_serializer_snapshot(legacy("java.lang.Long", LONG, version=1))


@pytest.mark.parametrize(
    ("new", "verdict", "reason"),
    [
        (GenericArraySerializer(LONG, "java.lang.Long"), Verdict.COMPATIBLE_AS_IS, ""),
        (GenericArraySerializer(LONG, "java.lang.Number"), Verdict.INCOMPATIBLE, "java.lang.Number"),
        (GenericArraySerializer(STRING, "java.lang.Long"), Verdict.INCOMPATIBLE, "StringSerializer"),
        (primitive("LONG"), Verdict.INCOMPATIBLE, "LongPrimitiveArraySerializer"),
    ],
)
def test_compatibility(new: TypeSerializer, verdict: Verdict, reason: str) -> None:
    result = LONGS.snapshot().resolve_schema_compatibility(new)
    assert result.verdict is verdict
    assert reason in result.reason


def test_snapshot_keeps_the_component_class() -> None:
    snapshot: TypeSerializerSnapshot = GenericArraySerializer(LONGS, "[Ljava.lang.Long;").snapshot()
    check_snapshot(snapshot)
    assert str(snapshot.restore_serializer()) == "OBJECT_ARRAY<BOXED_LONG_ARRAY>"


EXPECTED = {
    "boolean-primitive": [True, False],
    "byte-primitive": bytes(range(10)),
    "char-primitive": [chr(i) for i in range(10)],
    "double-primitive": [struct.unpack(">f", struct.pack(">f", i + 0.1))[0] for i in range(10)],
    "float-primitive": [struct.unpack(">f", struct.pack(">f", i + 0.2))[0] for i in range(10)],
    "int-primitive": list(range(10)),
    "long-primitive": list(range(10)),
    "short-primitive": list(range(10)),
    "string": [str(i) for i in range(10)],
    "generic": ["Apache", "Flink"],
}


@pytest.mark.parametrize("specimen", specimens("flink-core", "*-array-serializer-*"), ids=str)
def test_specimens(specimen: Specimen) -> None:
    assert check_specimen(specimen) == EXPECTED[specimen.name[: specimen.name.index("-array")]]
