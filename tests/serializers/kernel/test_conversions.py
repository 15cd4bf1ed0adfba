"""What columns of Spark become in types of Flink, cell by cell, with real values; ``docs/conversions.md`` is made from it.

``./dev generate`` writes the page.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.kernel.encode.conversion_table import (
    CHECKED,
    EXACT,
    REFUSED,
    conversion,
    convert,
    is_castable,
    spark_name,
)
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types
from tests.serializers.scalar_samples import SAMPLES

T = Types
WIDEST, TEXT = DecodeOptions(row_kind=True, describe="for_writing"), DecodeOptions(nanos="string")

WHOLE = [0, 1, -1]
SQL_TIMES = [*(datetime(2024, 2, 29, 8, 30, 0, micros) for micros in (0, 123_000, 123_456)), datetime(1582, 10, 10, 8)]
NUMBERS = [0.0, -0.0, 1.5, 0.1, 1e300, 1e-50, 5e-324, math.nan, math.inf, -math.inf]
WORDS = [
    *("x", "tea", "OPEN", "", "1", "-1.50", "1E+2", "2024-02-29", "08:30", "2024-02-29T08:30", "2024-02-29T08:30:00.123Z"),
    *(sample.texts[0] for sample in SAMPLES.values() if sample.texts),
]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [*WHOLE, 127, -128]),
    "smallint": (pa.int16(), [*WHOLE, 128, -32768]),
    "int": (pa.int32(), [*WHOLE, 32768, 2**24 + 1, -(2**31)]),
    "bigint": (pa.int64(), [*WHOLE, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "float": (pa.float32(), np.array(NUMBERS, dtype=np.float64)[[0, 1, 2, 7, 8, 9]].tolist()),
    "double": (pa.float64(), NUMBERS),
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("1.00"), Decimal("-1.50"), Decimal("99999999.99")]),
    "decimal(38,18)": (pa.decimal128(38, 18), [Decimal(f"{n}.{'0' * 17}{d}") for n, d in ((0, 0), (1, 0), (1, 1), (10**19, 0))]),
    "string": (pa.string(), WORDS),
    "binary": (pa.binary(), [b"", b"a", b"\0" * 16]),
    "date": (pa.date32(), [date(2024, 2, 29), date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [m.replace(tzinfo=UTC) for m in SQL_TIMES]),
    "timestamp_ntz": (pa.timestamp("us"), SQL_TIMES),
}
"""Spark's types: as Arrow has them, and values."""

TYPES: dict[str, TypeSerializer] = {
    **{name: scalar.serializer for name, scalar in SCALARS.items()},
    "ENUM": T.ENUM("com.acme.Status", ["OPEN", "PAID"]),
    **{f"SQL {name}": T.SQL_DATA(name) for name in ("STRING", "DECIMAL(10, 2)", "TIMESTAMP(3)", "TIMESTAMP(9)")},
}
"""Flink's types."""


def attempt(serializer: TypeSerializer, type_: pa.DataType, value: Any) -> bytes | None:
    try:
        return next(iter(encode_column(serializer, pa.array([value], type_))))
    except InvalidRowError:
        return None


def refused(serializer: TypeSerializer, type_: pa.DataType) -> str:
    """What is said of a column without values, if anything."""
    try:
        encode_column(serializer, pa.nulls(0, type_))
    except InvalidRowError as problem:
        return str(problem)
    return ""


def is_same(value: Any, shown: Any) -> bool:
    """Whether a value that was written shows as itself."""
    if isinstance(value, bool | bytes | date) or isinstance(shown, bool | bytes | date):
        return type(value) is type(shown) and bool(value == shown)
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(shown)
    if isinstance(value, str):
        return shown.startswith(value.rstrip("Z")) or Decimal(value) == Decimal(shown)  # 08:30 is shown with its seconds
    return Decimal(value) == Decimal(shown) and (value != 0 or str(shown)[0] == str(value)[0])


def measured(serializer: TypeSerializer, column: str) -> str:
    """What becomes of the values of a column; each that is written is the same when it is read."""
    type_, values = COLUMNS[column]
    refusal = refused(serializer, type_)
    if refusal:
        assert f"is of Spark type {column}; the type {serializer} takes " in refusal
        assert ("cast it: CAST(value AS " in refusal) == is_castable(type_, serializer.arrow_type(WIDEST))
        return REFUSED
    written = [(value, attempt(serializer, type_, value)) for value in values]
    kept = [(value, data) for value, data in written if data is not None]
    options = TEXT if column == "string" else DecodeOptions()
    for value, data in kept:
        shown = serializer.to_column(serializer.deserialize(data), options)
        assert is_same(value, shown), (value, shown)
    assert kept, f"{serializer} takes no value of {column}: add a text of the type to tests/serializers/scalar_samples.py"
    return EXACT if len(kept) == len(written) else CHECKED


def page() -> str:
    """The table as a page of the documentation."""
    lines = [
        "# Conversions",
        "",
        "Results of writing a column of a Spark type as a Flink type, at any depth of a state's type. No value changes",
        "silently:",
        "",
        "- **exact**: every value is a value of the type.",
        "- **checked**: a value that the type cannot represent exactly is an error, which shows the value, its row and its key.",
        "- **refused**: the types do not match. The error shows both, and the cast to use.",
        "",
        "Text converts to numbers, dates and times if it represents one in ASCII digits, such as `2024-02-29T08:30:00.5Z`. Types",
        "of Flink SQL come last.",
        "",
        "Columns of `decimal` are refused where they name stored keys of type `BIG_DEC`: keys to look up, update or delete. A",
        "`decimal(38,18)` gives every number the scale 18, and a `BigDecimal` equals only numbers of its own scale. Text gives",
        "each key its scale: `CAST(CAST(key AS decimal(38,2)) AS string)` has two decimal places. New state gets the scale",
        "of the column.",
        "",
        "`tests/serializers/kernel/test_conversions.py` generates this page, and tests every cell with values.",
        "",
        "| Flink \\ Spark | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for name, serializer in TYPES.items():
        cells = [measured(serializer, column) for column in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", TYPES)
def test_the_table_of_the_code_agrees(name: str, column: str) -> None:
    told, found = conversion(COLUMNS[column][0], TYPES[name].arrow_type(WIDEST)), measured(TYPES[name], column)
    assert (told == REFUSED) == (found == REFUSED)
    if told == CHECKED:
        assert found == CHECKED  # an exact conversion of column types may still be checked by the Flink type, such as CHAR


@pytest.mark.parametrize("value", [1e300, 1e-50, 0.1, 5e-324, -3.4028235677973366e38])
def test_double_to_float_never_rounds(value: float) -> None:
    with pytest.raises(InvalidRowError, match=r"column value of row 1 does not fit: .*no float is exactly this number"):
        encode_column(T.FLOAT(), pa.array([0.5, value]))
    with pytest.raises(ValueError, match="not exactly a number of 4 bytes"):
        T.FLOAT().from_column(value)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_whole_numbers_to_floating_ones(values: list[int]) -> None:
    for type_ in (pa.float32(), pa.float64()):
        wanted = [float(np.dtype(type_.to_pandas_dtype()).type(v)) for v in values]
        wrong = [i for i, v in enumerate(values) if int(wanted[i]) != v]
        converted, slot, problem = convert(pa.array(values, pa.int64()), type_)
        assert (slot, bool(problem)) == ((wrong[0], True) if wrong else (-1, False))
        assert problem or converted.to_pylist() == values


@given(st.lists(st.none() | st.floats() | st.floats(width=32), min_size=1))
def test_floating_numbers_to_smaller_ones(values: list[float | None]) -> None:
    with np.errstate(over="ignore"):
        wrong = [i for i, v in enumerate(values) if v is not None and not math.isnan(v) and float(np.float32(v)) != v]
    converted, slot, problem = convert(pa.array(values, pa.float64()), pa.float32())
    assert (slot, bool(problem)) == ((wrong[0], True) if wrong else (-1, False))
    assert problem or repr(converted.to_pylist()) == repr(values)


@pytest.mark.parametrize(
    ("type_", "column", "words"),
    [
        (T.LIST(T.STRING()), pa.array([[1]]), r"column 'value\.element' .* bigint; .*takes string there; .*AS array<string>"),
        (T.MAP(T.STRING(), T.CHAR()), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), r"AS map<string, string>\)"),
        (T.TUPLE([T.INT(), T.STRING()]), pa.array([{"f0": 1, "f1": 2}]), r"'value\.f1'.*AS struct<f0: bigint, f1: string>\)"),
        (T.LIST(T.STRING()), pa.array(["a"]), r"of Spark type string; the type LIST<STRING> takes array<string>$"),
        (T.BIG_DEC(), pa.array([0.1]), r"of Spark type double; the type BIG_DEC takes string; cast it: CAST\(value AS string\)"),
        (T.INSTANT(), pa.array(SQL_TIMES, pa.timestamp("us")), r"type timestamp_ntz; the type INSTANT takes timestamp; cast it"),
    ],
)
def test_the_message_has_the_cast_to_write(type_: TypeSerializer, column: pa.Array, words: str) -> None:
    with pytest.raises(InvalidRowError, match=words):
        encode_column(type_, column)


def test_no_cast_is_named_that_means_something_else() -> None:
    """``CAST`` of a timestamp to a number gives seconds, where states keep milliseconds."""
    moments = pa.array([None], pa.timestamp("us", tz="UTC"))
    with pytest.raises(InvalidRowError, match=r"is of Spark type timestamp; the type LONG takes bigint$"):
        encode_column(T.LONG(), moments)
    assert not is_castable(pa.int64(), pa.timestamp("us"))
    assert is_castable(pa.string(), pa.int64())
    assert is_castable(pa.date32(), pa.timestamp("us"))


def test_other_columns_of_arrow() -> None:
    """Units and widths that Spark has not, but tables of Arrow have."""
    nanos = pa.array([1_000, 1_001], pa.timestamp("ns", tz="UTC"))
    (first,) = encode_column(T.INSTANT(), nanos.slice(0, 1))
    assert str(T.INSTANT().deserialize(first)) == "1970-01-01T00:00:00.000001Z"
    with pytest.raises(InvalidRowError, match="row 1 does not fit"):
        encode_column(T.INSTANT(), nanos)
    days = pa.array([86_400_000, 86_400_001], pa.date64())
    assert convert(days.slice(0, 1), pa.date32())[0].to_pylist() == [date(1970, 1, 2)]
    with pytest.raises(InvalidRowError, match="row 1 does not fit"):
        encode_column(T.LOCAL_DATE(), days)
    assert list(encode_column(T.INT(), pa.array([7], pa.uint64()))) == [T.INT().serialize(7)]
    with pytest.raises(InvalidRowError, match="does not fit"):
        encode_column(T.LONG(), pa.array([2**63], pa.uint64()))
    assert spark_name(pa.list_(pa.struct([("a", pa.decimal128(5, 2))]))) == "array<struct<a: decimal(5,2)>>"


def unchecked(*texts: bytes) -> pa.Array:
    """A column as Spark sends it: what a ``CAST`` made text may be any bytes."""
    offsets = pa.array(np.cumsum([0, *map(len, texts)]), pa.int32())
    return pa.Array.from_buffers(pa.string(), len(texts), [None, offsets.buffers()[1], pa.py_buffer(b"".join(texts))])


@pytest.mark.parametrize("text", [b"\xff", b"a\xf0", b"\xed\xa0\x80", b"\x80abc", b"\xff" + bytes(8) + b"\x05"])
@pytest.mark.parametrize("name", ["STRING", "BIG_INT", "LOCAL_DATE"])
def test_text_that_is_not_utf_8(name: str, text: bytes) -> None:
    """The kernel would read beyond such a text."""
    serializer = getattr(Types, name)()
    with pytest.raises(InvalidRowError, match=r"column value of row 2 does not fit: b'.*UTF8"):
        encode_column(serializer, unchecked(b"1", b"2", text, b"\xfe"))
    inside = pa.ListArray.from_arrays(pa.array([0, 1, 1, 2], pa.int32()), unchecked(b"1", text))
    with pytest.raises(InvalidRowError, match=r"column value\[0\] of row 2 does not fit: b'.*UTF8"):
        encode_column(Types.LIST(serializer), inside)
    with pytest.raises(InvalidRowError, match=r"column value of row 0 does not fit: .*utf-8"):
        encode_column(Types.KRYO("java.util.List").for_flink(2), unchecked(text))


def test_messages_have_the_index_in_each_list() -> None:
    """Rows before, nulls and empty lists count no elements; maps are named by key and value."""
    line = Types.ROW_NAMED(["price"], [Types.INT()])
    order = Types.ROW_NAMED(["items"], [Types.LIST(line)])
    prices = pa.struct({"price": pa.int64()})
    good, bad = {"price": 1}, {"price": 1 << 40}
    rows = [{"items": [good] * 5}, None, {"items": []}, {"items": [good, good, good, bad]}]
    given = pa.array(rows, pa.struct({"items": pa.list_(prices)}))
    with pytest.raises(InvalidRowError, match=rf"column value\.items\[3\]\.price of row 3 does not fit: {1 << 40}: ") as refused:
        encode_column(order, given)
    assert refused.value.row == 3
    nested = pa.array([[[1]], [[1, 2], [3, 1 << 40]]])
    for array in (nested, nested[1:], nested.cast(pa.large_list(pa.large_list(pa.int64())))):
        with pytest.raises(InvalidRowError, match=rf"column value\[1\]\[1\] of row {len(array) - 1} does not fit"):
            encode_column(Types.LIST(Types.LIST(Types.INT())), array)
    maps = pa.array([[("a", [1]), ("b", [2, 1 << 40])]], pa.map_(pa.string(), pa.list_(pa.int64())))
    with pytest.raises(InvalidRowError, match=r"column value\.value\[1\] of row 0 does not fit"):
        encode_column(Types.MAP(Types.STRING(), Types.LIST(Types.INT())), maps)


MAPS = pa.map_(pa.int64(), pa.string())


def maps_of(entries: pa.StructArray, offsets: list[int], *, present: int) -> pa.Array:
    """Maps of some entries; ``present`` has a bit for each."""
    buffers = [pa.py_buffer(bytes([present])), pa.array(offsets, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(MAPS, len(offsets) - 1, buffers, children=[entries])


def entries_of(keys: list[int]) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(keys), pa.array(map(str, keys))], fields=[MAPS.key_field, MAPS.item_field])


def written_back(serializer: TypeSerializer, array: pa.Array) -> list[Any]:
    return [serializer.to_column(serializer.deserialize(entry), DecodeOptions()) for entry in encode_column(serializer, array)]


def test_elements_of_null_are_not_written() -> None:
    """A null list, map or struct may have elements, also ones that fit no value and keys that occur twice."""
    maps = T.ROW_NAMED(["m"], [T.MAP(T.INT(), T.STRING())])
    hidden = maps_of(entries_of([7, 7, 1 << 40, 1, 2]), [0, 1, 3, 4, 5], present=0b1001)
    rows = [[(7, "7")], None, None, [(2, "2")]]
    expected = [{"m": row} for row in rows]
    assert written_back(maps, pa.StructArray.from_arrays([hidden], ["m"])) == expected
    full = maps_of(entries_of([7, 7, 1 << 40, 1, 2]), [0, 1, 3, 4, 5], present=0b1111)
    in_null = pa.StructArray.from_arrays([full], ["m"], mask=pa.array([False, True, True, False]))
    outer = pa.StructArray.from_arrays([in_null], ["r"])
    assert written_back(T.ROW_NAMED(["r"], [maps]), outer) == [{"r": row["m"] and row} for row in expected]
    texts = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), unchecked(b"\xff", b"1"), mask=pa.array([True, False]))
    lists = T.ROW_NAMED(["l"], [T.LIST(T.STRING())])
    assert written_back(lists, pa.StructArray.from_arrays([texts], ["l"])) == [{"l": None}, {"l": ["1"]}]


def test_messages_have_the_row_behind_elements_of_null() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), pa.array([1, 2, 3, 1 << 40]), mask=pa.array([True, False]))
    with pytest.raises(InvalidRowError, match=rf"column value\.l\[1\] of row 1 does not fit: {1 << 40}"):
        encode_column(T.ROW_NAMED(["l"], [T.LIST(T.INT())]), pa.StructArray.from_arrays([lists], ["l"]))


def test_entries_of_maps_may_begin_inside_of_their_memory() -> None:
    """As other libraries may pass them: ``MapArray.keys`` has the keys in front, too."""
    maps = maps_of(entries_of([1, 1, 2, 3]).slice(2), [0, 1, 2], present=0b11)
    assert written_back(T.MAP(T.LONG(), T.STRING()), maps) == [[(2, "2")], [(3, "3")]]


def test_null_in_a_dictionary_of_keys_is_refused() -> None:
    """Arrow ends the process for a map with such a key."""
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1], pa.int32()), pa.array(["a", None]))
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 3], pa.int32()), keys, pa.array([1, 2, 3]))
    with pytest.raises(InvalidRowError, match=r"column value\.key of row 1 does not fit: None: a key of a map can't be null"):
        encode_column(T.MAP(T.STRING(), T.LONG()), maps)
