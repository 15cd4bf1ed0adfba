"""Numbers, booleans, characters, strings and big numbers."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import SimpleTypeSerializerSnapshot, Verdict
from state_processor.serializers.core.basic import (
    BigDecimalSerializer,
    BigIntegerSerializer,
    CharSerializer,
    NullValueSerializer,
    NumberSerializer,
    SpelledOut,
    StringSerializer,
    StringValueSerializer,
    VoidSerializer,
)
from state_processor.serializers.registry import BASE
from state_processor.support.errors import CorruptSnapshotError, UnknownSerializerError, UnsupportedFormatError
from tests.serializers.harness import (
    Specimen,
    check_codec,
    check_payloads,
    check_specimen,
    decode_with_kernel,
    skip_with_kernel,
    specimens,
)

PLAIN = DecodeOptions()
BOOLEAN, BYTE, SHORT, INT = (NumberSerializer(n) for n in ("BOOLEAN", "BYTE", "SHORT", "INT"))
LONG, FLOAT, DOUBLE, CHAR = NumberSerializer("LONG"), NumberSerializer("FLOAT"), NumberSerializer("DOUBLE"), CharSerializer()
STRING, STRING_VALUE = StringSerializer(), StringValueSerializer()
BIG_INT, BIG_DEC, VOID, NULL_VALUE = BigIntegerSerializer(), BigDecimalSerializer(), VoidSerializer(), NullValueSerializer()

BYTES: list[tuple[TypeSerializer, str, Any, Any]] = [
    (BOOLEAN, "01", True, True),
    (BOOLEAN, "00", False, False),
    (BYTE, "80", -128, -128),
    (SHORT, "fffe", -2, -2),
    (INT, "7fffffff", 2**31 - 1, 2**31 - 1),
    (LONG, "8000000000000000", -(2**63), -(2**63)),
    (FLOAT, "3fc00000", 1.5, 1.5),
    (DOUBLE, "7ff0000000000000", math.inf, math.inf),
    (CHAR, "20ac", "€", "€"),
    (CHAR, "d83d", "\ud83d", "\ufffd"),
    (STRING, "00", None, None),
    (STRING, "01", "", ""),
    (STRING, "036162", "ab", "ab"),
    (STRING, "02ac41", "€", "€"),
    (STRING, "0200", "\0", "\0"),
    (STRING, "03bdb00380bc03", "😀", "😀"),
    (STRING, "03bdb00361", "\ud83da", "\ufffda"),
    (STRING, "0380bc0361", "\ude00a", "\ufffda"),
    (STRING_VALUE, "00", "", ""),
    (STRING_VALUE, "026162", "ab", "ab"),
    (BIG_INT, "00000000", None, None),
    (BIG_INT, "00000001", 0, "0"),
    (BIG_INT, "00000002", 1, "1"),
    (BIG_INT, "00000003", 10, "10"),
    (BIG_INT, "0000000501", 1, "1"),
    (BIG_INT, "00000005ff", -1, "-1"),
    (BIG_INT, "0000000d008000000000000000", 2**63, str(2**63)),
    (BIG_INT, "0000000c8000000000000000", -(2**63), str(-(2**63))),
    (BIG_DEC, "00000000", None, None),
    (BIG_DEC, "00000001fffffffd", Decimal("0E+3"), "0E+3"),
    (BIG_DEC, "000000060096" + "00000002", Decimal("1.50"), "1.50"),
    (BIG_DEC, "00000002" + "00000007", Decimal("1E-7"), "1E-7"),
    (BIG_DEC, "00000002" + "00000006", Decimal("0.000001"), "0.000001"),
    (BIG_DEC, "00000005f4" + "00000001", Decimal("-1.2"), "-1.2"),
    (BIG_DEC, "000000050a" + "00000001", Decimal("1.0"), "1.0"),
    (VOID, "00", None, None),
    (NULL_VALUE, "", None, None),
]


@pytest.mark.parametrize(("serializer", "data", "value", "shown"), BYTES, ids=str)
def test_bytes(serializer: TypeSerializer, data: str, value: Any, shown: Any) -> None:
    payload = bytes.fromhex(data)
    assert check_payloads(serializer, [payload, payload]) == [value, value]
    assert decode_with_kernel(serializer, [payload, payload]) == [shown, shown]


@pytest.mark.parametrize(
    ("serializer", "name", "length", "type_"),
    [
        (BOOLEAN, "BOOLEAN", 1, pa.bool_()),
        (BYTE, "BYTE", 1, pa.int8()),
        (SHORT, "SHORT", 2, pa.int16()),
        (INT, "INT", 4, pa.int32()),
        (LONG, "LONG", 8, pa.int64()),
        (FLOAT, "FLOAT", 4, pa.float32()),
        (DOUBLE, "DOUBLE", 8, pa.float64()),
        (CHAR, "CHAR", 2, pa.string()),
        (STRING, "STRING", -1, pa.string()),
        (BIG_INT, "BIG_INT", -1, pa.string()),
        (BIG_DEC, "BIG_DEC", -1, pa.string()),
        (VOID, "VOID", 1, pa.null()),
        (NULL_VALUE, "NULL_VALUE", 0, pa.null()),
    ],
)
def test_names_lengths_and_types(serializer: TypeSerializer, name: str, length: int, type_: pa.DataType) -> None:
    assert str(serializer) == name
    assert serializer.length == length
    assert serializer.arrow_type(PLAIN) == type_


big_integers = st.one_of(st.integers(), st.integers(-(10**200), 10**200), st.sampled_from([2**n for n in range(0, 260, 7)]))


def decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), Decimal(unscaled).as_tuple().digits, -scale))


decimals = st.builds(decimal, big_integers, st.integers(-30, 60))
RANDOM: list[tuple[TypeSerializer, st.SearchStrategy[Any]]] = [
    (BOOLEAN, st.booleans()),
    (BYTE, st.integers(-128, 127)),
    (SHORT, st.integers(-(2**15), 2**15 - 1)),
    (INT, st.integers(-(2**31), 2**31 - 1)),
    (LONG, st.integers(-(2**63), 2**63 - 1)),
    (FLOAT, st.floats(width=32)),
    (DOUBLE, st.floats()),
    (CHAR, st.integers(0, 0xFFFF).map(chr)),
    (STRING, st.none() | st.text()),
    (STRING_VALUE, st.text()),
    (BIG_INT, st.none() | big_integers),
    (BIG_DEC, st.none() | decimals),
    (VOID, st.none()),
    (NULL_VALUE, st.none()),
]


@pytest.mark.parametrize(("serializer", "values"), RANDOM, ids=str)
def test_random_values(serializer: TypeSerializer, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values, max_size=20))
    def check(sample: list[Any]) -> None:
        check_codec(serializer, sample)

    check()


@given(st.text(st.characters(), min_size=1))
@example("\ud83d")
@example("\ud83d\ud83d\ude00")
@example("\ude00\ud83d")
def test_lone_surrogates_survive_in_python_and_are_replaced_in_columns(text: str) -> None:
    payload = STRING.serialize(text)
    assert STRING.serialize(STRING.deserialize(payload)) == payload
    assert decode_with_kernel(STRING, [payload]) == [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")]


def test_long_texts() -> None:
    check_codec(STRING, ["x" * 100_000, None, "é€😀" * 30_000, "", "abcdefg" * 3 + "ü" + "abcdefgh" * 5])


@pytest.mark.parametrize("digits", [4_300, 4_301, 20_000])
def test_numbers_of_any_number_of_digits(digits: int) -> None:
    number = 10**digits - 7
    assert check_payloads(BIG_INT, [BIG_INT.serialize(number), BIG_INT.serialize(-number)]) == [number, -number]
    check_codec(BIG_DEC, [decimal(-number, 5)])


@pytest.mark.parametrize("value", [0, 1, 10])
def test_javas_constants_and_their_equals_have_two_forms(value: int) -> None:
    assert len(BIG_INT.serialize(value)) == 4
    assert len(BIG_INT.serialize(SpelledOut(value))) == 5
    assert BIG_INT.deserialize(BIG_INT.serialize(SpelledOut(value))) == value


DAMAGED: list[tuple[TypeSerializer, str]] = [
    (STRING, "0561"),
    (STRING, "ffffffffff7f"),
    (STRING, "808080808001"),
    (STRING, "02ffff04"),
    (STRING, "0280"),
    (BIG_INT, "00000004"),
    (BIG_INT, "ffffffff"),
    (BIG_INT, "7fffffff01"),
    (BIG_DEC, "00000002" + "000000"),
    (BIG_DEC, "00000004" + "00000000"),
]


@pytest.mark.parametrize(("serializer", "data"), DAMAGED, ids=str)
def test_damaged_values(serializer: TypeSerializer, data: str) -> None:
    payload = bytes.fromhex(data)
    with pytest.raises(CorruptSnapshotError):
        serializer.deserialize(payload)
    with pytest.raises(CorruptSnapshotError):
        decode_with_kernel(serializer, [payload])


@pytest.mark.parametrize(("serializer", "data", "value", "shown"), [b for b in BYTES if b[1]], ids=str)
def test_truncated_at_every_byte(serializer: TypeSerializer, data: str, value: Any, shown: Any) -> None:
    payload = bytes.fromhex(data)
    for size in range(len(payload)):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize(payload[:size])
        with pytest.raises(CorruptSnapshotError):
            decode_with_kernel(serializer, [payload[:size]])
        with pytest.raises(CorruptSnapshotError):
            skip_with_kernel(serializer, [payload[:size]])


def test_every_byte_but_zero_is_true() -> None:
    assert BOOLEAN.deserialize(b"\x05") is True
    assert decode_with_kernel(BOOLEAN, [b"\x05"]) == [True]


def test_leftover_bytes_are_an_error() -> None:
    with pytest.raises(CorruptSnapshotError, match="1 bytes are left over after a value of type INT"):
        INT.deserialize(bytes(5))
    with pytest.raises(CorruptSnapshotError, match="left over"):
        decode_with_kernel(INT, [bytes(5)])


@pytest.mark.parametrize("version", [2, 3])
def test_versions_of_simple_snapshots(version: int) -> None:
    name = f"{BASE}LongSerializer$LongSerializerSnapshot"
    payload = f"{BASE}LongSerializer" if version == 2 else ""
    snapshot = SimpleTypeSerializerSnapshot(name, version, LONG, payload)
    again = read_serializer_snapshot(snapshot.to_bytes())
    assert again.to_bytes() == snapshot.to_bytes()
    assert len(snapshot.to_bytes()) == 2 + len(name) + 4 + (2 + len(payload) if version == 2 else 0)
    assert again.restore_serializer() == LONG


def test_compatibility_is_by_class() -> None:
    assert LONG.snapshot().resolve_schema_compatibility(LONG).verdict is Verdict.COMPATIBLE_AS_IS
    result = LONG.snapshot().resolve_schema_compatibility(INT)
    assert result.is_incompatible
    assert "LongSerializerSnapshot was written" in str(result)
    assert LONG.snapshot().resolve_schema_compatibility(LONG.snapshot()).verdict is Verdict.COMPATIBLE_AS_IS


def test_unknown_snapshots_are_named() -> None:
    data = SimpleTypeSerializerSnapshot("com.acme.Unknown", 3, LONG).to_bytes()
    with pytest.raises(UnknownSerializerError, match=r"offset 0.*com\.acme\.Unknown.*register_snapshot"):
        read_serializer_snapshot(data)
    with pytest.raises(CorruptSnapshotError, match="1 bytes are left over"):
        read_serializer_snapshot(LONG.snapshot().to_bytes() + b"\0")


@pytest.mark.parametrize("serializer", [VOID, NULL_VALUE], ids=str)
def test_what_has_no_hash_code_is_no_key(serializer: TypeSerializer) -> None:
    with pytest.raises(UnsupportedFormatError, match="key groups"):
        serializer.hash_code(None)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity")])
def test_java_has_no_infinite_decimals(value: Decimal) -> None:
    with pytest.raises(ValueError, match="neither infinity nor NaN"):
        BIG_DEC.serialize(value)


EXPECTED = {
    "big-dec": Decimal("123456789012345678901234567890123456.789"),
    "big-int": 123456789012345678901234567890123456,
    "boolean": True,
    "boolean-value": True,
    "byte": 42,
    "byte-value": 42,
    "char": "\uffff",
    "char-value": "*",
    "double": 12345.6789,
    "double-value": 12345.6789,
    "float": 123.45600128173828,
    "float-value": 123.45600128173828,
    "int": 123456,
    "int-value": 123456,
    "long": 1234567890,
    "long-value": 1234567890,
    "null-value": None,
    "short": 123,
    "short-value": 123,
    "string": "123456789012345678901234567890123456",
    "string-value": "123456789012345678901234567890123456",
}


@pytest.mark.parametrize("specimen", [s for n in EXPECTED for s in specimens("flink-core", f"{n}-serializer-*")], ids=str)
def test_specimens(specimen: Specimen) -> None:
    assert check_specimen(specimen) == EXPECTED[specimen.name[: specimen.name.index("-serializer")]]
