"""What the encode kernel writes is what Python writes, and it refuses what Python refuses; keys and their hash codes."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.avro.records import AvroSchema, AvroSerializer
from state_processor.serializers.core.basic import BigDecimalSerializer, BigIntegerSerializer
from state_processor.serializers.core.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    MillisSerializer,
    SqlTimestampSerializer,
)
from state_processor.serializers.hash_codes import column_hashes, hash_codes
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.runtime.wrapping import WrappingSerializer
from state_processor.serializers.table.binary_values import TimestampData
from state_processor.serializers.table.logical_types import (
    ArrayType,
    AtomicType,
    DateType,
    DecimalType,
    MapType,
    RowField,
    RowType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.rowdata import ArrayDataSerializer, MapDataSerializer, RowDataSerializer
from state_processor.serializers.table.single_values import BinaryRowDataSerializer, StringDataSerializer, TimestampDataSerializer
from state_processor.support.errors import UNWRITABLE, InvalidRowError
from state_processor.types.flink_types import Types

PLAIN, TEXT = DecodeOptions(), DecodeOptions(nanos="string")


def in_python(serializer: TypeSerializer, value: Any) -> bytes | None:
    """The bytes of a value, or nothing where it is refused."""
    try:
        return serializer.serialize(serializer.from_column(value))
    except UNWRITABLE:
        return None


def in_kernel(serializer: TypeSerializer, value: Any, type_: pa.DataType | None = None) -> bytes | None:
    try:
        return next(iter(encode_column(serializer, pa.array([value], type_ or serializer.arrow_type(TEXT)))))
    except InvalidRowError:
        return None


# Text of dates and times

DATES = st.dates().map(str) | st.from_regex(r"[+-]?[0-9]{3,11}-(0[0-9]|1[0-3])-(0[0-9]|[12][0-9]|3[0-2])", fullmatch=True)
CLOCKS = st.from_regex(r"([01][0-9]|2[0-4]):[0-6][0-9](:[0-6][0-9](\.[0-9]{1,10})?)?", fullmatch=True) | st.just("")
SQL_TIMES = st.builds(
    lambda day, gap, clock, end: day + gap + clock + end, DATES, st.sampled_from("T "), CLOCKS, st.sampled_from(["", "Z"])
)
OTHERS = st.text("0123456789:-+.TZ ", max_size=30)

TEMPORAL = [
    *(MillisSerializer(name) for name in ("DATE", "SQL_DATE", "SQL_TIME")),
    *(SqlTimestampSerializer(), InstantSerializer(), LocalDateSerializer(), LocalTimeSerializer(), LocalDateTimeSerializer()),
    *(TimestampDataSerializer(3), TimestampDataSerializer(6)),
    *(RowDataSerializer(RowType.of(t)) for t in (DateType(), TimeType(), TimestampType(3), TimestampType(6, local_zoned=True))),
]


@pytest.mark.parametrize("serializer", TEMPORAL, ids=str)
@given(st.lists(st.one_of(DATES, CLOCKS, SQL_TIMES, OTHERS), min_size=1, max_size=8))
def test_text_of_dates_and_times(serializer: TypeSerializer, texts: list[str]) -> None:
    for text in texts:
        value = {"f0": text} if isinstance(serializer, RowDataSerializer) else text
        assert in_kernel(serializer, value) == in_python(serializer, value), text


@pytest.mark.parametrize(
    "kind", ["date", "time-millis", "time-micros", "timestamp-millis", "timestamp-nanos", "local-timestamp-micros"]
)
@given(st.lists(st.one_of(DATES, CLOCKS, SQL_TIMES), min_size=1, max_size=8))
def test_text_of_avros_dates_and_times(kind: str, texts: list[str]) -> None:
    base = "int" if kind in ("date", "time-millis") else "long"
    serializer = AvroSchema(f'{{"type": "{base}", "logicalType": "{kind}"}}').type()
    for text in texts:
        assert in_kernel(serializer, text) == in_python(serializer, text), text


# Numbers

NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-(10**400), 10**400).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?[0-9]{0,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(
        ["0", "1", "10", "-1", "-0", "-0.0", "1E+1", "100E-1", "128", "-128", "-129", "255", "256", "1E100", ".", "", "NaN", "1E"]
    ),
    st.sampled_from([f"{sign}{'9' * n}" for n in (15, 16, 17, 18, 19, 20, 38, 39, 1000) for sign in ("", "-")]),
)


@given(st.lists(NUMBERS, min_size=1, max_size=10))
def test_numbers_in_digits(texts: list[str]) -> None:
    for serializer in (BigIntegerSerializer(), BigDecimalSerializer()):
        for text in texts:
            if Decimal("Infinity") != _number(text):
                assert in_kernel(serializer, text) == in_python(serializer, text), text


def _number(text: str) -> Decimal:
    """A text's number; infinity where its exponent is beyond all bounds of a test."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return Decimal(0)
    return Decimal("Infinity") if number.is_finite() and abs(number.adjusted()) > 10_000 else number


def test_numbers_of_more_zeros_than_anyone_means() -> None:
    with pytest.raises(InvalidRowError, match="is not a number in digits"):
        encode_column(BigIntegerSerializer(), pa.array(["1E+999999999"]))
    assert in_kernel(BigIntegerSerializer(), "0E+999999999") == (1).to_bytes(4, "big")
    assert in_kernel(BigDecimalSerializer(), "1E+2147483649") is None


@pytest.mark.parametrize(("precision", "scale"), [(18, 2), (19, 2), (38, 0), (38, 38)])
@given(st.data())
def test_decimals(precision: int, scale: int, data: st.DataObject) -> None:
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    for serializer in (
        Types.SQL_DATA(f"DECIMAL({precision}, {scale})"),
        AvroSchema(f'{{"type": "bytes", "logicalType": "decimal", "precision": {precision}, "scale": {scale}}}').type(),
        AvroSchema(
            f'{{"type": "fixed", "name": "f", "size": 17, "logicalType": "decimal", "precision": {precision}, "scale": {scale}}}'
        ).type(),
    ):
        assert in_kernel(serializer, value) == in_python(serializer, value)


def test_decimals_that_do_not_fit() -> None:
    row = Types.ROW_DATA({"price": "DECIMAL(5, 2)"})
    wide = pa.array([{"price": Decimal("1.50")}, {"price": Decimal("1.505")}], pa.struct([("price", pa.decimal128(38, 18))]))
    assert list(encode_column(row, wide.slice(0, 1))) == [row.serialize(row.from_column({"price": Decimal("1.50")}))]
    with pytest.raises(InvalidRowError, match=r"column value\.price of row 1"):
        encode_column(row, wide)


# Avro's unions

UNION = AvroSerializer(
    """{"type": "record", "name": "R", "fields": [
      {"name": "one", "type": ["null", "int"]},
      {"name": "many", "type": ["string", "null", {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["long", "string"]}]},
        {"type": "fixed", "name": "F", "size": 3}]},
      {"name": "strict", "type": ["boolean", {"type": "array", "items": ["null", "double"]}]},
      {"name": "only", "type": ["bytes"]}]}"""
)
BRANCHES = st.one_of(
    st.none(),
    st.builds(lambda t: {"string": t}, st.text(max_size=9)),
    st.builds(lambda e: {"E": e}, st.sampled_from("AB")),
    st.builds(lambda n: {"N": {"x": {"long": n, "string": None}}}, st.integers(-9, 9)),
    st.builds(lambda t: {"N": {"x": {"long": None, "string": t}}}, st.text(max_size=9)),
    st.builds(lambda b: {"F": b}, st.binary(min_size=3, max_size=3)),
)
STRICT = st.builds(lambda b: {"boolean": b}, st.booleans()) | st.builds(
    lambda a: {"array": a}, st.lists(st.none() | st.floats(allow_nan=False), max_size=4)
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"one": st.none() | st.integers(-9, 9), "many": BRANCHES, "strict": STRICT, "only": st.binary(max_size=9)}
        ),
        min_size=1,
        max_size=8,
    )
)
def test_unions(rows: list[dict[str, Any]]) -> None:
    column = pa.array(rows, UNION.arrow_type(PLAIN))
    assert list(encode_column(UNION, column)) == [in_python(UNION, value) for value in column.to_pylist()]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("strict", None, r"column value\.strict of row 0 is null"),
        ("strict", {"boolean": True, "array": []}, "exactly one branch that is not null"),
        ("many", {}, "exactly one branch that is not null"),
        ("many", {"F": b"four"}, r"column value\.many\.F of row 0 differs from the type in its number of bytes"),
        ("many", {"E": "C"}, "names a constant that the type does not have"),
    ],
)
def test_unions_that_are_none(field: str, value: Any, problem: str) -> None:
    row = {"one": 1, "many": None, "strict": {"boolean": True}, "only": b""} | {field: value}
    with pytest.raises(InvalidRowError, match=problem):
        encode_column(UNION, pa.array([row], UNION.arrow_type(PLAIN)))


# Rows of Flink SQL

INT, STRING = AtomicType("INT"), TextType()
WIDE = RowDataSerializer(
    RowType(
        (
            RowField("id", AtomicType("BIGINT")),
            RowField("name", STRING),
            RowField("price", DecimalType(20, 2)),
            RowField("at", TimestampType(6)),
            RowField("inner", RowType((RowField("price", DecimalType(30, 2)), RowField("tags", ArrayType(STRING))))),
            RowField("counts", MapType(STRING, ArrayType(INT))),
        )
    )
)
PRICES = st.none() | st.decimals(-(10**15), 10**15, places=2)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": TEXTS,
        "price": PRICES,
        "at": st.none() | st.datetimes(),
        "inner": st.none() | st.fixed_dictionaries({"price": PRICES, "tags": st.none() | st.lists(TEXTS, max_size=40)}),
        "counts": st.none()
        | st.lists(
            st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), st.lists(st.integers(-9, 9))),
            max_size=3,
            unique_by=lambda pair: pair[0],
        ),
    }
)


@given(st.lists(ROWS, min_size=1, max_size=8))
def test_keys_and_their_hash_codes(rows: list[dict[str, Any]]) -> None:
    column = pa.array(rows, WIDE.arrow_type(PLAIN))
    keys = [WIDE.key_from_column(value) for value in column.to_pylist()]
    assert list(encode_column(WIDE, column, as_keys=True)) == [WIDE.serialize(k) for k in keys]
    assert hash_codes(WIDE, column).tolist() == [WIDE.hash_code(k) for k in keys]
    assert list(encode_column(WIDE, column)) == [in_python(WIDE, value) for value in column.to_pylist()]


def test_keys_keep_room_for_nulls() -> None:
    row = Types.ROW_DATA("price DECIMAL(20, 1), at TIMESTAMP(9), id INT")
    nothing = pa.array([{"price": None, "at": None, "id": None}], row.arrow_type(PLAIN))
    (key,), (value,) = encode_column(row, nothing, as_keys=True), encode_column(row, nothing)
    assert len(key) == len(value) + 24
    assert row.deserialize(key).content() == row.deserialize(value).content() == (None, None, None)
    wrapped = WrappingSerializer(row, lambda inner: inner)
    assert list(encode_column(wrapped, nothing, as_keys=True)) == [key]
    assert hash_codes(wrapped, nothing).tolist() == [row.hash_code(row.deserialize(key))]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1),
    st.lists(st.binary(min_size=16, max_size=16)),
)
def test_other_hash_codes(texts: list[str], rows: list[bytes]) -> None:
    text, row = StringDataSerializer(), BinaryRowDataSerializer(1)
    assert hash_codes(text, pa.array(texts)).tolist() == [text.hash_code(t) for t in texts]
    assert hash_codes(row, pa.array(rows, pa.binary())).tolist() == [row.hash_code(r) for r in rows]
    array, map_ = ArrayDataSerializer(ArrayType(STRING)), MapDataSerializer(MapType(STRING, INT))
    assert hash_codes(array, pa.array([texts])).tolist() == [array.hash_code(texts)]
    pairs = [(t, n) for n, t in enumerate(dict.fromkeys(texts))]
    assert hash_codes(map_, pa.array([pairs], map_.arrow_type(PLAIN))).tolist() == [map_.hash_code(pairs)]


def test_rows_beyond_the_first_guess_of_room() -> None:
    """Rows of very different sizes: the output grows in the middle of nested ones."""
    rows = [
        {
            "id": n,
            "name": "x" * (n * 37 % 5000),
            "price": Decimal(n),
            "at": None,
            "inner": {"price": None, "tags": ["y" * (n % 50)] * (n * 11 % 300)},
            "counts": [("k", list(range(n * 7 % 200)))],
        }
        for n in range(300)
    ]
    column = pa.array(rows, WIDE.arrow_type(PLAIN))
    assert list(encode_column(WIDE, column)) == [in_python(WIDE, value) for value in column.to_pylist()]


def test_rows_inside_of_other_types() -> None:
    """Lists, maps, tuples, null flags and time-to-live around rows."""
    row = Types.ROW_DATA("a INT, b STRING")
    value = {"a": 1, "b": "longer than seven"}
    for serializer, given_ in (
        (Types.LIST(row), [value, value]),
        (Types.MAP(Types.STRING(), row), [("k", value), ("n", None)]),
        (Types.TUPLE([row, Types.LONG()]), {"f0": value, "f1": 7}),
        (Types.NULLABLE(row), value),
        (Types.NULLABLE(row), None),
        (Types.LIST(Types.BIG_DEC()), ["1.50", "-7E+3"]),
        (Types.MAP(Types.LOCAL_TIME(), Types.BIG_INT()), [("08:30", "12345678901234567890")]),
    ):
        assert in_kernel(serializer, given_, serializer.arrow_type(PLAIN)) == in_python(serializer, given_)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"row_kind": "+X", "at": None, "span": None}, r"column value\.row_kind of row 0 names a constant"),
        ({"row_kind": None, "at": "2024-01-01T00:00:00.0001", "span": None}, "at of row 0 does not fit: .* at most 3 digits"),
        ({"row_kind": "+I", "at": "yesterday", "span": None}, r"column value\.at of row 0 is not a date or time"),
        ({"row_kind": "+I", "at": None, "span": "24:00"}, r"column value\.span of row 0 is not a date or time"),
    ],
)
def test_rows_that_can_not_be_written(row: dict[str, Any], problem: str) -> None:
    serializer = Types.ROW_DATA({"at": "TIMESTAMP(3)", "span": "TIME(3)"})
    with pytest.raises(InvalidRowError, match=problem):
        encode_column(serializer, pa.array([row], serializer.arrow_type(DecodeOptions(nanos="string", row_kind=True))))


def test_timestamps_are_milliseconds_and_nanoseconds() -> None:
    row = Types.ROW_DATA(["TIMESTAMP(9)"])
    data = in_kernel(row, {"f0": "2024-01-01T00:00:00.123456789"})
    assert data is not None
    assert row.deserialize(data).content() == (TimestampData(1704067200123, 456_789),)


@pytest.mark.parametrize("serializer", TEMPORAL[:-4], ids=str)
@given(st.lists(st.none() | st.one_of(DATES, CLOCKS, SQL_TIMES), min_size=1, max_size=8))
def test_hash_codes_of_dates_and_times(serializer: TypeSerializer, texts: list[str | None]) -> None:
    kept = [text for text in texts if text is None or in_python(serializer, text) is not None]
    expected = [0 if text is None else serializer.hash_code(serializer.from_column(text)) for text in kept]
    assert column_hashes(serializer, pa.array(kept, pa.string())).tolist() == expected


@pytest.mark.parametrize(("name", "bits"), [("FLOAT", "7fc00000"), ("DOUBLE", "7ff8000000000000")])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_nan_is_written_as_javas(name: str, bits: str, sign: float) -> None:
    """Arithmetic gives a negative NaN on most machines; RocksDB would not find a key that holds it."""
    serializer = getattr(Types, name)()
    nan = math.copysign(math.nan, sign)
    assert in_python(serializer, nan) == in_kernel(serializer, nan) == bytes.fromhex(bits)
    infinity = math.copysign(math.inf, sign)
    assert in_python(serializer, infinity) == in_kernel(serializer, infinity) == struct.pack(f">{name[0].lower()}", infinity)


@pytest.mark.parametrize("serializer", [MillisSerializer("DATE"), SqlTimestampSerializer()], ids=str)
@pytest.mark.parametrize(
    ("moment", "millis"),
    [
        ("-292275055-05-16T16:47:04.191Z", None),
        ("-292275055-05-16T16:47:04.193Z", 1 - (1 << 63)),
        ("+292278994-08-17T07:12:55.807Z", (1 << 63) - 1),
        ("+292278994-08-17T07:12:55.808Z", None),
    ],
)
def test_the_first_and_the_last_millisecond(serializer: TypeSerializer, moment: str, millis: int | None) -> None:
    """One more would be the number for null. In Java's calendar the years of the past begin earlier."""
    if isinstance(serializer, SqlTimestampSerializer) and moment.startswith("-"):
        millis = None
    expected = None if millis is None else struct.pack(">q", millis)
    for found in (in_python(serializer, moment), in_kernel(serializer, moment)):
        assert (found and found[:8]) == expected
