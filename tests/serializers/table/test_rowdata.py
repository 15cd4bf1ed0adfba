"""Serializers of the table runtime: Flink's bytes, the kernel against plain Python, snapshots, hash codes."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataInput, DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import COMPOSITE_MAGIC, Verdict, read_versioned_snapshot, write_nested_snapshots
from state_processor.serializers.big_numbers import to_java_bytes
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.rows import ROW_KINDS
from state_processor.serializers.io import DataOutput, encode_modified_utf8
from state_processor.serializers.java.hashing import hash_bytes, hash_words
from state_processor.serializers.table import rowdata
from state_processor.serializers.table.binary_values import TimestampData, Variant
from state_processor.serializers.table.logical_types import (
    ArrayType,
    AtomicType,
    BytesType,
    DateType,
    DecimalType,
    DistinctType,
    IntervalType,
    LinkedListType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowField,
    RowType,
    StructuredType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.rowdata import (
    ArrayDataSerializer,
    BinaryDataSerializer,
    MapDataSerializer,
    RowDataSerializer,
)
from state_processor.serializers.table.single_values import (
    TABLE,
    BinaryRowDataSerializer,
    BitmapSerializer,
    DecimalDataSerializer,
    RawValueDataSerializer,
    StringDataSerializer,
    TimestampDataSerializer,
    VariantSerializer,
)
from state_processor.support.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from tests.serializers import java_streams as js
from tests.serializers.harness import PLAIN, check_codec, check_payloads, check_snapshot, decode_with_kernel, skip_with_kernel

TEXT, KINDS = DecodeOptions(nanos="string"), DecodeOptions(row_kind=True)
INT, LONG, STRING = AtomicType("INT"), AtomicType("BIGINT"), TextType()
PAIR = RowDataSerializer(RowType.of(INT, STRING))

# Bytes as Flink lays them out


def test_row_bytes() -> None:
    value = PAIR.row((5, "short"), "-U")
    header, five, text = bytes([1]) + bytes(7), struct.pack("<q", 5), b"short\0\0\x85"
    assert value.data == header + five + text
    assert PAIR.serialize(value) == struct.pack(">i", 24) + value.data
    assert value.content() == (5, "short")
    assert value.row_kind == "-U"


def test_longer_values_lie_behind_the_slots() -> None:
    data = PAIR.row((None, "more than seven")).data
    assert data == struct.pack("<qqii", 1 << 8, 0, 15, 24) + b"more than seven\0"


def test_null_bits_beyond_the_first_word() -> None:
    wide = RowDataSerializer(RowType.of(*[AtomicType("BOOLEAN")] * 57))
    data = wide.row([True] * 56 + [None]).data
    assert data[:16] == bytes(8) + bytes([1]) + bytes(7)
    assert wide.slot.wrap(data).content() == (True,) * 56 + (None,)


def test_decimals_and_timestamps() -> None:
    row = RowDataSerializer(RowType.of(DecimalType(10, 2), DecimalType(20, 1), TimestampType(3), TimestampType(9)))
    fields = (Decimal("-1.50"), Decimal("-0.2"), TimestampData(-1), TimestampData(7, 999_999))
    data = row.row(fields).data
    assert data[8:16] == struct.pack("<q", -150)
    assert data[16:24] == struct.pack("<ii", 1, 40)
    assert data[40:56] == b"\xfe" + bytes(15)
    assert data[24:32] == struct.pack("<q", -1)
    assert data[32:40] == struct.pack("<ii", 999_999, 56)
    assert data[56:] == struct.pack("<q", 7)
    assert row.slot.wrap(data).content() == fields


def test_room_kept_for_nulls() -> None:
    row = RowDataSerializer(RowType.of(DecimalType(20, 1), TimestampType(9), INT))
    plain, kept = row.row((None, None, None)), row.row((None, None, None), reserve_nulls=True)
    assert plain.data == bytes([0, 7]) + bytes(30)
    assert kept.data == bytes([0, 7]) + bytes(6) + struct.pack("<iiiiq", 0, 32, 0, 48, 0) + bytes(24)
    assert kept.content() == plain.content()


def test_array_and_map_bytes() -> None:
    array = ArrayDataSerializer(ArrayType(AtomicType("SMALLINT")))
    ints = struct.pack("<iihhh", 3, 2, 1, 0, -1) + bytes(2)
    assert array.serialize([1, None, -1]) == struct.pack(">i", 16) + ints
    pairs = MapDataSerializer(MapType(STRING, INT))
    keys = struct.pack("<ii", 1, 0) + b"a\0\0\0\0\0\0\x81"
    assert pairs.serialize([("a", 9)]) == struct.pack(">ii", 36, 16 << 24) + keys + struct.pack("<iiii", 1, 0, 9, 0)


def test_hash_codes() -> None:
    assert StringDataSerializer().hash_code("héllo") == 1212979866
    assert DecimalDataSerializer(3, 2).hash_code(Decimal("1.50")) == 4652
    assert TimestampDataSerializer(6).hash_code(TimestampData(1 << 33, 5)) == 31 * 2 + 5
    assert hash_words(bytes(8)) != hash_words(bytes(12))
    assert hash_bytes(b"abcd") == hash_words(b"abcd")
    assert PAIR.hash_code((5, "short")) == hash_words(PAIR.row((5, "short")).data)


# Every type, at random


def _decimals(type_: DecimalType) -> st.SearchStrategy[Decimal]:
    limit = 10**type_.precision - 1
    return st.integers(-limit, limit).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -type_.scale)))


MILLIS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
FLOATS = st.floats(width=32, allow_nan=False)
VALUES: list[tuple[LogicalType, st.SearchStrategy[Any]]] = [
    (AtomicType("BOOLEAN"), st.booleans()),
    (AtomicType("TINYINT"), st.integers(-128, 127)),
    (AtomicType("SMALLINT"), st.integers(-(2**15), 2**15 - 1)),
    (INT, st.integers(-(2**31), 2**31 - 1)),
    (LONG, st.integers(-(2**63), 2**63 - 1)),
    (AtomicType("FLOAT"), FLOATS),
    (AtomicType("DOUBLE"), st.floats(allow_nan=False)),
    (DateType(), st.integers(-719_162, 2_932_896)),
    (TimeType(3), st.integers(0, 86_399_999)),
    (STRING, st.text(st.characters(exclude_categories=["Cs"]))),
    (BytesType(), st.binary(max_size=20)),
    (RawType("a.B"), st.binary(max_size=20)),
    (AtomicType("BITMAP"), st.binary(max_size=20)),
    (DecimalType(18, 3), _decimals(DecimalType(18, 3))),
    (DecimalType(19, 0), _decimals(DecimalType(19, 0))),
    (DecimalType(38, 38), _decimals(DecimalType(38, 38))),
    (AtomicType("VARIANT"), st.builds(Variant, st.binary(max_size=9), st.binary(max_size=9))),
    (TimestampType(3), MILLIS.map(TimestampData)),
    (TimestampType(6), st.builds(lambda ms, us: TimestampData(ms, us * 1000), MILLIS, st.integers(0, 999))),
    (TimestampType(6, local_zoned=True), st.builds(lambda ms, us: TimestampData(ms, us * 1000), MILLIS, st.integers(0, 999))),
    (IntervalType("MONTH"), st.integers(-100, 100)),
    (IntervalType("SECOND"), st.integers(-(2**40), 2**40)),
    (DistinctType("`d`", INT), st.integers(0, 9)),
    (LinkedListType("java.util.LinkedList", LONG), st.lists(st.none() | st.integers(-9, 9), max_size=9)),
    (LinkedListType("java.util.LinkedList", STRING), st.lists(st.none() | st.text("abcd", max_size=9), max_size=9)),
    (LinkedListType("java.util.LinkedList", DateType(), has_null_mask=False), st.lists(st.integers(0, 19_782), max_size=3)),
    (LinkedListType("java.util.LinkedList", STRING, None), st.binary(max_size=20)),
    (
        LinkedListType("java.util.LinkedList", RowType.of(INT, STRING)),
        st.lists(st.none() | st.tuples(st.integers(-9, 9), st.none() | st.text("abcd", max_size=9)), max_size=3),
    ),
]


def _key(pair: tuple[Any, Any]) -> str:
    return repr(pair[0])


def _of(kind: int, inner: tuple[LogicalType, st.SearchStrategy[Any]]) -> tuple[LogicalType, st.SearchStrategy[Any]]:
    type_, values = inner
    optional = st.none() | values
    if kind == 0:
        return ArrayType(type_), st.lists(optional, max_size=40)
    if kind == 1:
        return MapType(type_, INT), st.lists(st.tuples(values, st.none() | st.integers(0, 9)), max_size=4, unique_by=_key)
    if kind == 2:
        return MultisetType(type_), st.lists(st.tuples(values, st.integers(1, 9)), max_size=4, unique_by=_key)
    if kind == 3:
        return RowType((RowField("a", type_), RowField("b", AtomicType("NULL")))), st.tuples(optional, st.none())
    return StructuredType((RowField("x", type_),), class_name="a.B"), st.tuples(optional)


TYPES = st.recursive(st.sampled_from(VALUES), lambda inner: st.builds(_of, st.integers(0, 4), inner), max_leaves=3)


def _plain(value: Any) -> Any:
    """Containers as their content, all the way down."""
    if hasattr(value, "content"):
        value = value.content()
    if isinstance(value, TimestampData | Variant):
        return value
    return type(value)(map(_plain, value)) if isinstance(value, list | tuple) else value


@given(st.data(), st.sampled_from([PLAIN, TEXT, KINDS]))
def test_rows_of_all_types(data: st.DataObject, options: DecodeOptions) -> None:
    fields = data.draw(st.lists(TYPES, max_size=4))
    serializer = RowDataSerializer(RowType.of(*[t for t, _ in fields]))
    rows = data.draw(st.lists(st.tuples(st.sampled_from(ROW_KINDS), st.tuples(*[st.none() | v for _, v in fields])), max_size=5))
    values = [serializer.row(r, kind, reserve_nulls=data.draw(st.booleans())) for kind, r in rows]
    found = check_payloads(serializer, [serializer.serialize(v) for v in values], options)
    assert [(v.row_kind, _plain(v)) for v in found] == [(kind, _plain(r)) for kind, r in rows]
    for value in found:
        again = serializer.slot.wrap(serializer.slot.build(serializer.to_column(value, PLAIN), value.row_kind))
        assert _plain(again) == _plain(value)


@given(st.data(), st.sampled_from([PLAIN, TEXT]))
def test_arrays_and_maps_by_themselves(data: st.DataObject, options: DecodeOptions) -> None:
    element, values = data.draw(st.sampled_from(VALUES))
    array = ArrayDataSerializer(ArrayType(element))
    check_payloads(array, [array.serialize(data.draw(st.lists(st.none() | values, max_size=70)))], options)
    multiset = MapDataSerializer(MultisetType(element))
    check_payloads(multiset, [multiset.serialize([(data.draw(values), 1)]), multiset.serialize([])], options)


@given(st.data())
def test_damaged_rows_never_read_elsewhere(data: st.DataObject) -> None:
    nested = RowType((RowField("s", STRING), RowField("m", MapType(STRING, ArrayType(DecimalType(20, 2))))))
    serializer = RowDataSerializer(
        RowType.of(
            *(STRING, nested, ArrayType(STRING), TimestampType(9), BytesType(), DecimalType(38, 9)),
            LinkedListType("java.util.LinkedList", STRING),
        )
    )
    fields = (
        "a long enough text",
        ("t", [("k", [Decimal("1.25")])]),
        ["x", None],
        TimestampData(1, 1000),
        b"12345678",
        Decimal(3),
        ["a", None, "eight characters"],
    )
    raw = bytearray(serializer.row(fields).data)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    payload = struct.pack(">i", len(raw)) + raw
    outcomes = []
    for decode in (
        lambda: [serializer.to_column(serializer.deserialize(payload), TEXT)],
        lambda: decode_with_kernel(serializer, [payload], TEXT),
    ):
        try:
            outcomes.append(repr(decode()))
        except StateProcessorError as e:
            outcomes.append(type(e).__name__)
    assert outcomes[0] == outcomes[1]
    assert skip_with_kernel(serializer, [payload]) in (0, 1)


@given(
    st.lists(
        st.binary(max_size=30)
        | st.sampled_from([b"\xe2\x82", b"\xf0\x9f\x98\x80" * 3, b"\xed\xa0\x80abc", b"12345678\xff1234567"])
    )
)
def test_text_that_is_no_utf8(texts: list[bytes]) -> None:
    serializer = StringDataSerializer()
    payloads = [struct.pack(">i", len(t)) + t for t in texts]
    check_payloads(serializer, payloads)
    assert decode_with_kernel(serializer, payloads) == [t.decode("utf-8", "replace") for t in texts]


# Errors

DAMAGE = [
    (PAIR, "00 00 00 17" + 23 * "00"),
    (PAIR, "ff ff ff ff"),
    (PAIR, "00 00 00 20" + 24 * "00"),
    (ArrayDataSerializer(ArrayType(INT)), "00 00 00 08 ff ff ff ff 00 00 00 00"),
    (ArrayDataSerializer(ArrayType(INT)), "00 00 00 08 01 00 00 00 00 00 00 00"),
    (MapDataSerializer(MapType(INT, INT)), "00 00 00 0c 20 00 00 00 00 00 00 00 00 00 00 00"),
    (MapDataSerializer(MapType(INT, INT)), "00 00 00 14 04 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00"),
    (StringDataSerializer(), "00 00 00 02 41"),
    (StringDataSerializer(), "ff ff ff ff"),
    (DecimalDataSerializer(20, 0), "ff ff ff ff"),
    (TimestampDataSerializer(6), "00 00 00 00 00 00 00 00 00 0f 42 40"),
    (RawValueDataSerializer(NumberSerializer("LONG")), "00 00 00 05 00"),
]


@pytest.mark.parametrize(("serializer", "data"), DAMAGE)
def test_damage(serializer: TypeSerializer, data: str) -> None:
    payload = bytes.fromhex(data)
    with pytest.raises(CorruptSnapshotError):
        serializer.to_column(serializer.deserialize(payload), PLAIN)
    with pytest.raises(CorruptSnapshotError):
        decode_with_kernel(serializer, [payload])


def _unrepresentable() -> list[tuple[TypeSerializer, Any, DecodeOptions]]:
    late, nanos = RowDataSerializer(RowType.of(DateType())), RowDataSerializer(RowType.of(TimestampType(9)))
    keys = MapDataSerializer(MapType(INT, INT))
    return [(late, (2_932_897,), PLAIN), (nanos, (TimestampData(0, 1),), PLAIN), (keys, [(None, 1)], PLAIN)]


@pytest.mark.parametrize(("serializer", "value", "options"), _unrepresentable())
def test_values_that_columns_can_not_hold(serializer: BinaryDataSerializer, value: Any, options: DecodeOptions) -> None:
    payload = serializer.serialize(value)
    with pytest.raises(UndecodableValueError):
        serializer.to_column(serializer.deserialize(payload), options)
    with pytest.raises(UndecodableValueError):
        decode_with_kernel(serializer, [payload], options)


def test_decimals_beyond_their_precision() -> None:
    for precision, unscaled in [(2, 100), (2, -100), (19, 10**19), (38, -(10**38))]:
        serializer = DecimalDataSerializer(precision, 0)
        data = to_java_bytes(unscaled)
        payload = struct.pack(">q", unscaled) if precision == 2 else struct.pack(">i", len(data)) + data
        with pytest.raises(UndecodableValueError):
            serializer.to_column(serializer.deserialize(payload), PLAIN)
        with pytest.raises(UndecodableValueError):
            decode_with_kernel(serializer, [payload])
        with pytest.raises(InvalidRowError):
            serializer.serialize(Decimal(unscaled))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (INT, 2**31),
        (INT, "1"),
        (STRING, 5),
        (DecimalType(3, 1), Decimal("1.25")),
        (DecimalType(3, 1), Decimal("NaN")),
        (TimestampType(3), TimestampData(0, 1)),
        (TimeType(), 86_400_000),
        (AtomicType("NULL"), 1),
        (ArrayType(INT), ["x"]),
    ],
)
def test_values_that_rows_can_not_hold(type_: LogicalType, value: Any) -> None:
    with pytest.raises(InvalidRowError, match="field 'f0'"):
        RowDataSerializer(RowType.of(type_)).row((value,))


def test_python_values() -> None:
    row = RowDataSerializer(
        RowType.of(DateType(), TimeType(3), TimestampType(6), TimestampType(3, local_zoned=True), DecimalType(3, 1))
    )
    fields = (date(2024, 2, 29), "10:00:01.500", datetime(2024, 1, 1, 0, 0, 0, 7), datetime(2024, 1, 1, tzinfo=UTC), 5)
    assert row.row(fields).content() == (19782, 36_001_500, TimestampData(1704067200000, 7000), TimestampData(1704067200000), 5)
    rest = dict.fromkeys(["f1", "f2", "f3", "f4"])
    assert row.row({"f0": date(1970, 1, 1), **rest, "row_kind": "-D"}).content() == (0, None, None, None, None)
    with pytest.raises(InvalidRowError, match=r"a struct of \(f0, f1\); the type has the fields \(f0, f1, f2, f3, f4\)"):
        row.row({"f0": date(1970, 1, 1), "f1": None})
    with pytest.raises(InvalidRowError, match=r"is \(1, 2\) of type tuple; expected the fields \(f0, .*, f4\), by name or"):
        row.row((1, 2))


# Snapshots


def _snapshot(name: str, version: int, payload: bytes) -> bytes:
    return struct.pack(">H", len(name)) + encode_modified_utf8(name) + struct.pack(">i", version) + payload


def _nested(*serializers: TypeSerializer) -> bytes:
    target = DataOutput()
    write_nested_snapshots([s.snapshot() for s in serializers], target)
    return target.to_bytes()


INT_TYPE, TEXT_TYPE = js.logical("IntType"), js.logical("VarCharType", length=2**31 - 1)


def _row_snapshot(*types: bytes, name: str = "RowData") -> bytes:
    streams = b"".join(map(js.stream, types))
    nested = _nested(*[NumberSerializer("INT") for _ in types])
    return _snapshot(f"{TABLE}{name}Serializer${name}SerializerSnapshot", 3, struct.pack(">i", len(types)) + streams + nested)


@pytest.mark.parametrize("name", ["RowData", "BaseRow"])
def test_row_snapshot(name: str) -> None:
    data = _row_snapshot(INT_TYPE, js.row(a=TEXT_TYPE), name=name)
    serializer = read_serializer_snapshot(data).restore_serializer()
    assert str(serializer) == "ROW<`f0` INT, `f1` ROW<`a` STRING>>"
    check_snapshot(serializer.snapshot())
    assert serializer.snapshot().to_bytes() == data


def _collection(name: str, *types: bytes) -> bytes:
    objects = [*types, *[js.instance("a.Serializer", {}) for _ in types]]
    return _snapshot(f"{TABLE}{name}Serializer${name}SerializerSnapshot", 3, b"".join(map(js.stream, objects)))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (_collection("ArrayData", INT_TYPE), "ARRAY<INT>"),
        (_collection("BaseArray", TEXT_TYPE), "ARRAY<STRING>"),
        (_collection("MapData", TEXT_TYPE, INT_TYPE), "MAP<STRING, INT>"),
        (_snapshot(f"{TABLE}BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot", 3, b"\0\0\0\2"), None),
        (_snapshot(f"{TABLE}DecimalSerializer$DecimalSerializerSnapshot", 3, b"\0\0\0\x0a\0\0\0\2"), "DECIMAL(10, 2)"),
        (_snapshot(f"{TABLE}SqlTimestampSerializer$SqlTimestampSerializerSnapshot", 1, b"\0\0\0\3"), "TIMESTAMP(3)"),
    ],
)
def test_other_snapshots(data: bytes, text: str | None) -> None:
    serializer = read_serializer_snapshot(data).restore_serializer()
    assert text is None or str(serializer) == text
    assert serializer.snapshot().to_bytes() == data
    check_snapshot(serializer.snapshot())


def _external(data_type: bytes, internal: bytes, *nested: TypeSerializer) -> TypeSerializer:
    content = js.stream(js.instance("org.apache.flink.table.types.FieldsDataType", {"logicalType": data_type})) + b"\0"
    block = _nested(*nested) if nested else struct.pack(">iii", 1333245, 1, 1) + internal
    data = _snapshot(
        f"{TABLE}ExternalSerializer$ExternalSerializerSnapshot", 3, struct.pack(">ii", COMPOSITE_MAGIC, 1) + content + block
    )
    serializer = read_serializer_snapshot(data).restore_serializer()
    assert serializer.snapshot().to_bytes() == data
    return serializer


def test_external_rows_have_names() -> None:
    serializer = _external(js.row(user=INT_TYPE, at=TEXT_TYPE), _row_snapshot(INT_TYPE, TEXT_TYPE))
    assert str(serializer) == "ROW<`user` INT, `at` STRING>"
    value = PAIR.row((1, "x"))
    assert serializer.to_column(serializer.deserialize(PAIR.serialize(value)), PLAIN) == {"user": 1, "at": "x"}


def test_external_timestamps_have_a_zone() -> None:
    serializer = _external(js.timestamp("LocalZonedTimestampType", 6), b"", TimestampDataSerializer(6))
    assert decode_with_kernel(serializer, [bytes(12)]) == [datetime(1970, 1, 1, tzinfo=UTC)]
    assert decode_with_kernel(serializer, [bytes(12)], TEXT) == ["1970-01-01T00:00:00Z"]
    assert decode_with_kernel(TimestampDataSerializer(6), [bytes(12)], TEXT) == ["1970-01-01T00:00"]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (js.logical("DateType"), "DATE", date(2024, 2, 29)),
        (js.logical("TimeType", precision=3), "TIME(3)", "00:00:19.782"),
        (js.logical("IntType"), "INT", 19_782),
    ],
)
def test_external_days_and_times_are_no_numbers(type_: bytes, text: str, value: date | str | int) -> None:
    serializer = _external(type_, b"", NumberSerializer("INT"))
    assert str(serializer) == text
    assert decode_with_kernel(serializer, [struct.pack(">i", 19_782)]) == [value]


def test_simple_values() -> None:
    check_codec(StringDataSerializer(), ["", "short", "much longer than that", "é€😀\0"])
    check_codec(DecimalDataSerializer(10, 2), [Decimal("1.50"), Decimal("-99999999.99")])
    check_codec(DecimalDataSerializer(38, 2), [Decimal("0.00"), Decimal("-99999999999999999999.01")])
    check_codec(TimestampDataSerializer(3), [TimestampData(-1), TimestampData(1)])
    check_codec(TimestampDataSerializer(9), [TimestampData(-1, 999_000)], DecodeOptions(nanos="truncate"))
    check_codec(RawValueDataSerializer(NumberSerializer("LONG")), [b"", b"12345678"])
    check_codec(BinaryRowDataSerializer(1), [bytes(16), bytes(24)])
    check_codec(VariantSerializer(), [Variant(b"v", b"meta"), Variant(b"", b"")])
    check_codec(BitmapSerializer(), [b"", b"bits"])


def test_variant_in_a_row() -> None:
    row = RowDataSerializer(RowType.of(AtomicType("VARIANT")))
    value = row.row((Variant(b"value", b"names"),))
    assert value.data[16:] == b"\0\0\0\5namesvalue\0\0"
    assert row.to_column(value, PLAIN) == {"f0": {"value": b"value", "metadata": b"names"}}
    assert check_payloads(row, [row.serialize(value)]) == [value]


def test_no_snapshot_of_user_classes() -> None:
    for type_ in (RawType("a.B"), StructuredType((RowField("x", INT),), class_name="a.B"), ArrayType(RawType("a.B"))):
        with pytest.raises(UnsupportedFormatError, match="not made"):
            RowDataSerializer(RowType.of(type_)).snapshot()


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (_row_snapshot(INT_TYPE), _row_snapshot(INT_TYPE), Verdict.COMPATIBLE_AS_IS, ""),
        (
            _row_snapshot(INT_TYPE),
            _row_snapshot(TEXT_TYPE),
            Verdict.INCOMPATIBLE,
            "field 0 was written as INT, STRING is required",
        ),
        (_row_snapshot(INT_TYPE), _row_snapshot(), Verdict.INCOMPATIBLE, "a row of 1 fields was written, one of 0 is required"),
        (
            _row_snapshot(INT_TYPE),
            _row_snapshot(js.logical("IntType", nullable=False)),
            Verdict.INCOMPATIBLE,
            "NOT NULL is required",
        ),
        (_collection("ArrayData", INT_TYPE), _collection("ArrayData", TEXT_TYPE), Verdict.INCOMPATIBLE, "INT was written"),
        (_collection("ArrayData", INT_TYPE), _collection("ArrayData", INT_TYPE), Verdict.COMPATIBLE_AS_IS, ""),
        (DecimalDataSerializer(5, 2), DecimalDataSerializer(5, 3), Verdict.INCOMPATIBLE, "scale 2 was written, 3 is required"),
        (TimestampDataSerializer(3), TimestampDataSerializer(3), Verdict.COMPATIBLE_AS_IS, ""),
    ],
)
def test_compatibility(old: Any, new: Any, verdict: Verdict, reason: str) -> None:
    before, after = (read_serializer_snapshot(s if isinstance(s, bytes) else s.snapshot().to_bytes()) for s in (old, new))
    found = before.resolve_schema_compatibility(after)
    assert found.verdict is verdict
    assert reason in found.reason


def test_skipping_is_bounded() -> None:
    with pytest.raises(CorruptSnapshotError):
        PAIR.skip(DataInput(b"\x7f\xff\xff\xff" + bytes(30)))


def test_the_same_types_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that differ are other types, and bytes that end early are refused."""
    monkeypatch.setattr(rowdata, "_PARSED", [])
    shorter, longer = (RowDataSerializer(RowType.of(INT, TextType("VARCHAR", length))).snapshot() for length in (7, 8))
    first, other, again = (read_versioned_snapshot(DataInput(snapshot.to_bytes())) for snapshot in (shorter, longer, shorter))
    assert again == first != other
    assert [type_ is before for type_, before in zip(again.types, first.types, strict=True)] == [True, True]
    assert [type_ is before for type_, before in zip(other.types, first.types, strict=True)] == [True, False]
    assert other.logical_types == (INT, TextType("VARCHAR", 8))
    data = shorter.to_bytes()
    end = data.index(first.types[1].raw) + len(first.types[1].raw)
    with pytest.raises(CorruptSnapshotError):
        read_versioned_snapshot(DataInput(data, end=end - 1))


def test_large_types_are_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would keep the memory of damaged files."""
    monkeypatch.setattr(rowdata, "_PARSED", [])
    monkeypatch.setattr(rowdata, "_LARGEST_PARSED", 1)
    data = RowDataSerializer(RowType.of(INT)).snapshot().to_bytes()
    first, again = (read_versioned_snapshot(DataInput(data)).types for _ in range(2))
    assert first == again
    assert first[0] is not again[0]
