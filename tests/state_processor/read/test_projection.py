from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.formats.field_selection import EVERYTHING, Fields
from state_processor.errors import OptionError, UndecodableValueError
from state_processor.read.projection import Projection, overridden, selection

GIVEN = pa.schema(
    [
        ("key", pa.string()),
        ("amount", pa.string()),
        ("count", pa.int32()),
        ("inner", pa.struct([("a", pa.int32()), ("list", pa.list_(pa.int32()))])),
        ("map", pa.map_(pa.string(), pa.float32())),
    ]
)
ROWS = [
    {"key": "x", "amount": "1.50", "count": 1, "inner": {"a": 1, "list": [1, None]}, "map": [("p", 0.5)]},
    {"key": "y", "amount": "1E+3", "count": None, "inner": None, "map": None},
    {"key": "z", "amount": "2.000000", "count": 3, "inner": {"a": None, "list": None}, "map": []},
    {"key": "z", "amount": None, "count": 4, "inner": {"a": 4, "list": []}, "map": [("q", None), ("r", 1.5)]},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, GIVEN)


def projected(wanted: pa.Schema, batch: pa.RecordBatch = BATCH) -> list[dict[str, Any]]:
    result = Projection(batch.schema, wanted).apply(batch)
    result.validate(full=True)
    assert result.schema.equals(wanted)
    return result.to_pylist()


def test_what_a_schema_leaves_out_is_not_selected() -> None:
    wanted = pa.schema([("INNER", pa.struct([("List", pa.list_(pa.int64()))])), ("map", pa.map_(pa.string(), pa.float64()))])
    assert selection(GIVEN, wanted) == {"inner": Fields({"list": EVERYTHING}), "map": EVERYTHING}
    assert selection(GIVEN, pa.schema([GIVEN.field("inner"), pa.field("Key", pa.string())])) == {
        "inner": EVERYTHING,
        "key": EVERYTHING,
    }
    nested = pa.struct([("a", pa.int32()), ("b", pa.string())])
    given = pa.schema([("l", pa.list_(nested)), ("m", pa.map_(pa.string(), nested)), ("s", nested), ("t", nested)])
    few = pa.struct([("b", pa.string())])
    wanted = pa.schema([("l", pa.list_(few)), ("m", pa.map_(pa.string(), few)), ("s", few), ("S", nested), ("t", pa.struct([]))])
    only = Fields({"b": EVERYTHING})
    assert selection(given, wanted) == {
        "l": Fields({"element": only}),
        "m": Fields({"value": only}),
        "s": EVERYTHING,
        "t": EVERYTHING,
    }
    with pytest.raises(OptionError, match=r"no column 'c'.*It has: a, b"):
        selection(given, pa.schema([("s", pa.struct([("c", pa.string())]))]))


def test_columns_are_chosen_and_ordered_by_name() -> None:
    assert projected(pa.schema([("COUNT", pa.int32()), ("key", pa.string())])) == [
        {"COUNT": r["count"], "key": r["key"]} for r in ROWS
    ]


def test_numbers_are_widened() -> None:
    wanted = pa.schema(
        [("count", pa.int64()), ("inner", pa.struct([("a", pa.float64())])), ("map", pa.map_(pa.string(), pa.float64()))]
    )
    assert projected(wanted) == [
        {"count": 1, "inner": {"a": 1.0}, "map": [("p", 0.5)]},
        {"count": None, "inner": None, "map": None},
        {"count": 3, "inner": {"a": None}, "map": []},
        {"count": 4, "inner": {"a": 4.0}, "map": [("q", None), ("r", 1.5)]},
    ]


@pytest.mark.parametrize(("offset", "length"), [(0, 4), (1, 3), (2, 1), (3, 1), (1, 0)])
def test_slices(offset: int, length: int) -> None:
    wanted = pa.schema(
        [("inner", pa.struct([("list", pa.list_(pa.int64())), ("a", pa.int64())])), ("map", pa.map_(pa.string(), pa.float64()))]
    )
    assert projected(wanted, BATCH.slice(offset, length)) == [
        {"inner": None if r["inner"] is None else {"list": r["inner"]["list"], "a": r["inner"]["a"]}, "map": r["map"]}
        for r in ROWS[offset : offset + length]
    ]


def test_text_as_decimals() -> None:
    rows = projected(pa.schema([("amount", pa.decimal128(10, 2)), ("count", pa.decimal128(3, 1))]))
    assert [r["amount"] for r in rows] == [Decimal("1.50"), Decimal("1000.00"), Decimal("2.00"), None]
    assert [r["count"] for r in rows] == [Decimal("1.0"), None, Decimal("3.0"), Decimal("4.0")]


@pytest.mark.parametrize("text", ["9" * 36 + ".99", "-" + "9" * 36 + ".990", "0E-500", "0", "-0.00", "1E+35", "0" * 60 + "1.5"])
def test_decimals_of_all_sizes(text: str) -> None:
    batch = pa.RecordBatch.from_pylist([{"n": text}])
    assert projected(pa.schema([("n", pa.decimal128(38, 2))]), batch) == [{"n": Decimal(text)}]


def test_decimals_are_rescaled() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([Decimal("9" * 38), Decimal(1)], pa.decimal128(38, 0))], names=["n"])
    assert projected(pa.schema([("n", pa.decimal128(10, 3))]), batch.slice(1)) == [{"n": Decimal("1.000")}]
    with pytest.raises(UndecodableValueError, match="does not fit"):
        projected(pa.schema([("n", pa.decimal128(38, 3))]), batch)


def test_text_as_whole_numbers() -> None:
    batch = pa.RecordBatch.from_pylist([{"n": "12"}, {"n": "-3"}, {"n": "5.00"}, {"n": str(-(2**63))}])
    assert projected(pa.schema([("n", pa.int64())]), batch) == [{"n": 12}, {"n": -3}, {"n": 5}, {"n": -(2**63)}]


@pytest.mark.parametrize(
    ("text", "wanted", "name"),
    [
        ("123.45", pa.decimal128(4, 2), r"decimal\(4,2\)"),
        ("0.125", pa.decimal128(10, 2), r"decimal\(10,2\)"),
        ("1E+400", pa.decimal128(38, 0), r"decimal\(38,0\)"),
        ("1E-99999", pa.decimal128(38, 10), r"decimal\(38,10\)"),
        ("1.5", pa.int64(), "bigint"),
        ("abc", pa.decimal128(10, 2), r"decimal\(10,2\)"),
        ("NaN", pa.decimal128(10, 2), r"decimal\(10,2\)"),
        ("9223372036854775808", pa.int64(), "bigint"),
        ("1" * 38, pa.decimal128(38, 2), r"decimal\(38,2\)"),
        ("1E+37", pa.decimal128(38, 2), r"decimal\(38,2\)"),
        ("1E+400", pa.int64(), "bigint"),
    ],
)
def test_values_that_do_not_fit_are_named(text: str, wanted: pa.DataType, name: str) -> None:
    batch = pa.RecordBatch.from_pylist([{"n": "1"}, {"n": None}, {"n": text}])
    with pytest.raises(UndecodableValueError, match=rf"column n: {text.replace('+', '.')} does not fit {name}"):
        Projection(batch.schema, pa.schema([("n", wanted)])).apply(batch)


def test_long_values_are_shortened_in_messages() -> None:
    batch = pa.RecordBatch.from_pylist([{"n": "1" * 500}])
    with pytest.raises(UndecodableValueError) as error:
        Projection(batch.schema, pa.schema([("n", pa.decimal128(38, 0))])).apply(batch)
    assert len(str(error.value)) < 200


def test_not_null() -> None:
    required = pa.schema([pa.field("key", pa.string(), nullable=False)])
    assert projected(required) == [{"key": r["key"]} for r in ROWS]
    with pytest.raises(UndecodableValueError, match="column count has nulls"):
        Projection(GIVEN, pa.schema([pa.field("count", pa.int32(), nullable=False)])).apply(BATCH)


def test_not_null_inside_structs_that_may_be_null() -> None:
    wanted = pa.schema([pa.field("inner", pa.struct([pa.field("a", pa.int32(), nullable=False)]))])
    assert projected(wanted, BATCH.slice(0, 2)) == [{"inner": {"a": 1}}, {"inner": None}]
    with pytest.raises(UndecodableValueError, match=r"inner\.a has nulls"):
        Projection(GIVEN, wanted).apply(BATCH)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (("kee", pa.string()), "no column 'kee' in this read. Did you mean 'key'"),
        (("inner", pa.struct([("b", pa.int32())])), "no column 'b'"),
        (("count", pa.int16()), "count is int, .* to smallint"),
        (("count", pa.string()), "count is .* to string"),
        (("key", pa.binary()), "key is .* to binary"),
        (("map", pa.map_(pa.string(), pa.int32())), r"map \(value\) is float, .* to int"),
        (("inner", pa.list_(pa.int32())), r"inner is struct<a:int,list:array<int>>, .* to array<int>"),
    ],
)
def test_what_can_not_be_had(wanted: tuple[str, pa.DataType], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Projection(GIVEN, pa.schema([wanted]))


def test_types_of_some_columns() -> None:
    changed = overridden(GIVEN, {"amount": pa.decimal128(10, 2)})
    assert changed.names == GIVEN.names
    assert changed.field("amount").type == pa.decimal128(10, 2)
    assert changed.field("count") == GIVEN.field("count")
    with pytest.raises(OptionError, match="Did you mean 'amount'"):
        overridden(GIVEN, {"ammount": pa.int64()})
