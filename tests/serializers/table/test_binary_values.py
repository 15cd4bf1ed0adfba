"""Values are held to the types of Flink SQL: by the kernel and by Python alike, at every depth, and never changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.table.logical_types import AtomicType, RowField, RowType, TimestampType
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.errors import UNWRITABLE, InvalidRowError, OptionError
from state_processor.types.flink_types import Types as SqlTypes

PLAIN, TEXT = DecodeOptions(), DecodeOptions(nanos="string")
EMOJI, COMBINED = "\N{PILE OF POO}", "e\N{COMBINING ACUTE ACCENT}"
"""One code point of two UTF-16 units; two code points that look like one character."""


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


FITTING = [
    ("INT NOT NULL", 0),
    ("VARCHAR(3)", ""),
    ("VARCHAR(3)", "abc"),
    ("VARCHAR(3)", EMOJI * 3),
    ("VARCHAR(2)", COMBINED),
    ("CHAR(3)", "ab "),
    ("CHAR(1)", EMOJI),
    ("BINARY(2)", b"ab"),
    ("VARBINARY(2)", b""),
    ("VARBINARY(2)", b"ab"),
    ("TIMESTAMP(0)", moment("2024-02-29T01:02:03")),
    ("TIMESTAMP(1)", moment("1969-12-31T23:59:59.900")),
    ("TIMESTAMP(3)", moment("0001-01-01T00:00:00.001")),
    ("TIMESTAMP(6)", moment("9999-12-31T23:59:59.999999")),
    ("TIMESTAMP_LTZ(2)", datetime(2024, 1, 1, 0, 0, 0, 10_000, UTC)),
    ("TIME(0)", "23:59:59"),
    ("TIME(0)", "23:59:59.000"),
    ("TIME(0)", "23:59:59.001"),
    ("TIME(1)", "00:00:00.5"),
    ("TIME(3)", "00:00:00.001"),
    ("DECIMAL(3, 1)", Decimal("-99.9")),
    ("DATE", moment("0001-01-01").date()),
]
REFUSED = [
    ("INT NOT NULL", None, "the type is INT NOT NULL"),
    ("STRING NOT NULL", None, "the type is STRING NOT NULL"),
    ("ROW<a INT> NOT NULL", None, "NOT NULL"),
    ("TIMESTAMP(3) NOT NULL", None, r"the type is TIMESTAMP\(3\) NOT NULL"),
    ("VARCHAR(3)", "abcd", r"a VARCHAR\(3\) has at most 3 code points"),
    ("VARCHAR(1)", COMBINED, "at most 1 code points"),
    ("CHAR(3)", "ab", "exactly 3 code points .Flink pads shorter text with spaces: rpad"),
    ("CHAR(3)", "abcd", "exactly 3 code points"),
    ("CHAR(2)", EMOJI, "exactly 2 code points"),
    ("BINARY(2)", b"a", r"a BINARY\(2\) has exactly 2 bytes"),
    ("BINARY(2)", b"abc", "exactly 2 bytes"),
    ("VARBINARY(2)", b"abc", r"a VARBINARY\(2\) has at most 2 bytes"),
    ("TIMESTAMP(0)", moment("2024-02-29T01:02:03.1"), r"a TIMESTAMP\(0\) has at most 0 digits of a fraction of a second"),
    ("TIMESTAMP(1)", moment("1969-12-31T23:59:59.990"), "at most 1 digits"),
    ("TIMESTAMP(3)", moment("2024-02-29T01:02:03.000001"), "at most 3 digits"),
    ("TIMESTAMP(5)", moment("2024-02-29T01:02:03.000001"), "at most 5 digits"),
    ("TIMESTAMP_LTZ(2)", datetime(2024, 1, 1, 0, 0, 0, 1000, UTC), "at most 2 digits"),
]
NUMBERS = [
    ("DECIMAL(3, 1)", Decimal("100.0"), pa.decimal128(4, 1)),
    ("DECIMAL(3, 1)", Decimal("1.01"), pa.decimal128(4, 2)),
    ("DECIMAL(20, 1)", Decimal("1.01"), pa.decimal128(30, 2)),
]

Nest = tuple[Callable[[str], TypeSerializer], Callable[[Any], Any], str]
T = SqlTypes
PLACES: dict[str, Nest] = {
    "field": (lambda sql: T.ROW_DATA(f"id INT, v {sql}"), lambda v: {"id": 1, "v": v}, "value.v"),
    "row in a row": (lambda sql: T.ROW_DATA(f"r ROW<v {sql}>"), lambda v: {"r": {"v": v}}, "value.r.v"),
    "array": (T.ARRAY_DATA, lambda v: [v], "value[0]"),
    "array in a row": (lambda sql: T.ROW_DATA(f"a ARRAY<{sql}>"), lambda v: {"a": [v]}, "value.a[0]"),
    "map value": (lambda sql: T.MAP_DATA("INT", sql), lambda v: [(1, v)], "value.value"),
    "map key": (lambda sql: T.MAP_DATA(sql, "INT"), lambda v: [(v, 1)], "value.key"),
    "multiset": (lambda sql: T.ROW_DATA(f"m MULTISET<{sql}>"), lambda v: {"m": [(v, 1)]}, "value.m.key"),
    "list of rows": (lambda sql: T.LIST(T.ROW_DATA(f"v {sql}")), lambda v: [{"v": v}], "value[0].v"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("sql", "value"), FITTING)
def test_what_fits(sql: str, value: Any, place: str) -> None:
    make, nest, _ = PLACES[place]
    serializer = make(sql)
    (written,) = encode_column(serializer, pa.array([nest(value)], serializer.arrow_type(PLAIN)))
    assert written == serializer.serialize(serializer.from_column(nest(value)))
    assert serializer.to_column(serializer.deserialize(written), PLAIN) == nest(value if sql[:5] != "TIME(" else _clock(value))


def _clock(text: str) -> str:
    return text.removesuffix(".000").replace(".5", ".500").replace(".5000", ".500")


@pytest.mark.parametrize(
    ("sql", "value", "told", "place"),
    [(*case, place) for case in REFUSED for place in PLACES if case[1] is not None or place not in ("map key", "multiset")],
)
def test_what_does_not_fit_is_refused(sql: str, value: Any, told: str, place: str) -> None:
    """The message has path and value in the second row; content of null rows and lists is ignored."""
    make, nest, path = PLACES[place]
    serializer = make(sql)
    given = pa.array([None, nest(value)], serializer.arrow_type(PLAIN))
    with pytest.raises(InvalidRowError, match=told) as refused:
        encode_column(serializer, given)
    assert f"column {path} of row 1 does not fit" in str(refused.value)
    with pytest.raises(InvalidRowError, match=told):
        serializer.from_column(nest(value))


def test_null_parents_ask_nothing_of_their_fields() -> None:
    serializer = T.ROW_DATA("r ROW<v INT NOT NULL>")
    values = [{"r": None}, {"r": {"v": 1}}]
    written = encode_column(serializer, pa.array(values, serializer.arrow_type(PLAIN)))
    assert list(written) == [serializer.serialize(serializer.from_column(v)) for v in values]


@pytest.mark.parametrize(("sql", "value", "column"), NUMBERS)
def test_digits_of_decimals(sql: str, value: Decimal, column: pa.DataType) -> None:
    for serializer, rows, type_ in (
        (T.ROW_DATA(f"v {sql}"), {"v": value}, pa.struct([("v", column)])),
        (T.SQL_DATA(sql), value, column),
    ):
        with pytest.raises(InvalidRowError):
            encode_column(serializer, pa.array([rows], type_))
        with pytest.raises(InvalidRowError):
            serializer.from_column(rows)


def test_single_values() -> None:
    for precision in (0, 2, 3, 4):
        serializer = T.SQL_DATA(f"TIMESTAMP({precision})")
        for digits in range(7):
            value = datetime(2024, 1, 1, 0, 0, 0, 10 ** (6 - digits) if digits else 0)
            fits = digits <= precision
            assert (_by_kernel(serializer, value) is not None) is fits
            assert _by_kernel(serializer, value) == _by_python(serializer, value)
    for sql in ("VARCHAR(3)", "CHAR(1)", "BINARY(2)", "VARBINARY(9)"):
        with pytest.raises(OptionError, match="the serializer of a single value does not keep the length"):
            T.SQL_DATA(sql)
    assert [str(T.SQL_DATA(sql)) for sql in ("STRING", "BYTES", "STRING NOT NULL")] == ["STRING", "BYTES", "STRING"]


def _by_kernel(serializer: TypeSerializer, value: Any, type_: pa.DataType | None = None) -> bytes | None:
    try:
        return next(iter(encode_column(serializer, pa.array([value], type_ or serializer.arrow_type(PLAIN)))))
    except InvalidRowError:
        return None


def _by_python(serializer: TypeSerializer, value: Any) -> bytes | None:
    try:
        return serializer.serialize(serializer.from_column(value))
    except UNWRITABLE:
        return None


LENGTHS = st.integers(1, 4)
UNITS = [10**digits for digits in range(7)]
CASES = st.one_of(
    st.tuples(st.builds("{}({})".format, st.sampled_from(["CHAR", "VARCHAR"]), LENGTHS), st.text(max_size=5)),
    st.tuples(st.builds("{}({})".format, st.sampled_from(["BINARY", "VARBINARY"]), LENGTHS), st.binary(max_size=5)),
    st.tuples(
        st.builds("TIMESTAMP({})".format, st.integers(0, 6)),
        st.builds(lambda d, unit: d.replace(microsecond=d.microsecond // unit * unit), st.datetimes(), st.sampled_from(UNITS)),
    ),
    st.tuples(
        st.builds("TIME({})".format, st.integers(0, 3)),
        st.builds("{:02}:{:02}:{:02}{}".format, *[st.integers(0, 24)] * 3, st.from_regex(r"(\.[0-9]{1,5})?", fullmatch=True)),
    ),
)


@given(CASES, st.booleans(), st.booleans(), st.sampled_from(list(PLACES)))
def test_the_kernel_and_python_agree(case: tuple[str, Any], not_null: bool, is_null: bool, place: str) -> None:
    """On the verdict, and on the bytes."""
    sql, value = case
    make, nest, path = PLACES[place]
    serializer = make(sql + " NOT NULL" * not_null)
    shown = nest(None if is_null and not path.endswith("key") else value)
    assert _by_kernel(serializer, shown) == _by_python(serializer, shown)


@given(st.integers(0, 9), st.from_regex(r"2024-02-29T01:02:03(\.[0-9]{1,9})?", fullmatch=True))
def test_nanoseconds_in_text(precision: int, value: str) -> None:
    """Text has more digits than Spark's timestamps; zeros at the end don't count."""
    serializer = T.ROW_DATA(f"v TIMESTAMP({precision})")
    fits = len(value.partition(".")[2].rstrip("0")) <= precision
    given_type = serializer.arrow_type(TEXT)
    assert _by_kernel(serializer, {"v": value}, given_type) == _by_python(serializer, {"v": value})
    assert (_by_python(serializer, {"v": value}) is not None) is fits


def test_processing_time_is_null_in_state() -> None:
    """It is ``NOT NULL`` by its type, and Flink takes the time only when it is read."""
    at = TimestampType(nullable=False, precision=3, local_zoned=True, kind="PROCTIME")
    serializer = RowDataSerializer(RowType((RowField("at", at), RowField("id", AtomicType(nullable=False, name="INT")))))
    rows = pa.array([{"at": None, "id": 7}], pa.struct([("at", pa.timestamp("us", "UTC")), ("id", pa.int32())]))
    (data,) = encode_column(serializer, rows)
    assert data == serializer.serialize(serializer.from_column({"at": None, "id": 7}))
    with pytest.raises(InvalidRowError, match="NOT NULL"):
        encode_column(serializer, pa.array([{"at": None, "id": None}], rows.type))
