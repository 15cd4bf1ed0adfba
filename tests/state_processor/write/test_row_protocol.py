"""Keys in columns of Arrow are compared as Java compares them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.support.errors import InvalidRowError
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.rows.row_protocol import check_comparable, key_numbers, shared_key_numbers

ROW = pa.struct([("x", pa.int64()), ("y", pa.float64())])
POINT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None])), max_size=30))
def test_numbers_are_equal_where_keys_are(rows: list[tuple[int, str | None]]) -> None:
    columns = [
        pa.chunked_array([pa.array([r[0] for r in rows], pa.int64())]),
        pa.chunked_array([[r[1] for r in rows]], pa.string()),
    ]
    seen: dict[Any, int] = {}
    assert key_numbers(columns).tolist() == [seen.setdefault(row, len(seen)) for row in rows]


@pytest.mark.parametrize(
    ("values", "type_", "numbers"),
    [
        ([0.0, -0.0, float("nan"), float("nan")], pa.float32(), [0, 1, 2, 2]),
        ([{"x": 1, "y": ["a"]}, {"x": 1, "y": []}, {"x": 1, "y": ["a"]}], POINT, [0, 1, 0]),
        ([{"x": 1, "y": 0.0}, {"x": 1, "y": -0.0}, None, {"x": None, "y": None}, None], ROW, [0, 1, 2, 3, 2]),
        ([b"a", None, b"a", None], pa.binary(), [0, 1, 0, 1]),
        ([None, None], pa.null(), [0, 0]),
        ([], pa.null(), []),
    ],
)
def test_values_of_many_types(values: list[Any], type_: pa.DataType, numbers: list[int]) -> None:
    assert key_numbers([pa.chunked_array([pa.array(values, type_)])]).tolist() == numbers


def test_nan_is_one_key_whatever_its_bits() -> None:
    doubles = np.array([0x7FF8 << 48, 0x7FF8 << 48 | 1, 0xFFF8 << 48], np.uint64).view(np.float64)
    floats = np.array([0x7FC0 << 16, 0x7FC0 << 16 | 1, 0xFFC0 << 16], np.uint32).view(np.float32)
    for numbers in (doubles, floats):
        assert key_numbers([pa.chunked_array([pa.array(numbers)])]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("numbers", "times"), [(pa.int32(), pa.date32()), (pa.int64(), pa.timestamp("us", "UTC"))])
def test_nested_dates_and_times_of_any_year(numbers: pa.DataType, times: pa.DataType) -> None:
    values = [[2**31 - 1], None, [1], [2**31 - 1], []] if numbers == pa.int32() else [[2**62], None, [1], [2**62], []]
    lists = pa.chunked_array([pa.array(values, pa.list_(numbers)).cast(pa.list_(times))])
    entries = [None if value is None else [("a", number) for number in value] for value in values]
    maps = pa.chunked_array([pa.array(entries, pa.map_(pa.string(), numbers)).cast(pa.map_(pa.string(), times))])
    structs = pa.chunked_array([pa.StructArray.from_arrays([lists.combine_chunks()], names=["days"])])
    for column in (lists, maps, structs):
        assert key_numbers([column]).tolist() == [0, 1, 2, 0, 3]


def test_numbers_of_two_tables() -> None:
    one, other = pa.chunked_array([[1, 2, None]], pa.int32()), pa.chunked_array([[2, None]], pa.int64())
    old, new = shared_key_numbers([one], [other])
    assert old.tolist() == [0, 1, -1]
    assert new.tolist() == [1, -1]
    assert np.isin(old, new[new >= 0]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("value", "types"),
    [
        (
            {"name": "a", "id": 1},
            [
                pa.struct([pa.field("name", pa.string(), nullable=False), ("id", pa.int32())]),
                pa.struct([("name", pa.string()), ("id", pa.int64())]),
            ],
        ),
        ([{"x": 1.5}], [pa.list_(pa.struct([("x", kind)])) for kind in (pa.float32(), pa.float64())]),
        ([("a", 1)], [pa.map_(pa.string(), kind) for kind in (pa.int8(), pa.int64())]),
    ],
)
def test_nested_keys_of_types_that_differ_inside(value: Any, types: list[pa.DataType]) -> None:
    one, other = (pa.chunked_array([pa.array([value], type_)]) for type_ in types)
    assert [n.tolist() for n in shared_key_numbers([one], [other])] == [[0], [0]]
    assert [n.tolist() for n in shared_key_numbers([other], [one])] == [[0], [0]]


@pytest.mark.parametrize(
    ("earlier", "later", "told"),
    [
        (pa.int64(), pa.string(), "column 'key' is string, in rows that were given before bigint"),
        (
            POINT,
            pa.struct([("y", pa.list_(pa.string())), ("x", pa.int64())]),
            "the fields are \\(y, x\\), in rows .* before \\(x, y\\)",
        ),
        (pa.list_(pa.int64()), pa.list_(pa.float64()), "is array<double>"),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.bool_()), "is map<string,boolean>"),
    ],
)
def test_types_that_can_not_be_compared(earlier: pa.DataType, later: pa.DataType, told: str) -> None:
    with pytest.raises(InvalidRowError, match=told):
        check_comparable(earlier, "key", later)


def test_types_of_one_family_are_comparable() -> None:
    check_comparable(pa.int32(), "key", pa.int64())
    check_comparable(pa.decimal128(5, 2), "key", pa.decimal128(7, 2))


def test_columns_become_plain() -> None:
    table = pa.table(
        {
            "text": pa.array(["a"], pa.large_string()),
            "fixed": pa.array([b"ab"], pa.binary(2)),
            "when": pa.array([5], pa.timestamp("ms", "Europe/Berlin")),
            "parts": pa.array([[1, 2]], pa.list_(pa.uint8(), 2)),
            "day": pa.array([86_400_000], pa.date64()),
        }
    )
    plain = [pa.string(), pa.binary(), pa.timestamp("us", "UTC"), pa.list_(pa.int16()), pa.date32()]
    assert ArrowRows.of(table).schema.types == plain
    assert ArrowRows.of(table.to_reader()).schema.types == plain
    (batch,) = ArrowRows.of(table.to_reader()).batches(["parts", "text"])
    assert batch.to_pylist() == [{"parts": [1, 2], "text": "a"}]


def test_a_null_equals_a_null_where_it_is_said() -> None:
    one, other = ([pa.chunked_array([[1, None, None]]), pa.chunked_array([[None, 2, None]])] for _ in range(2))
    own, others = shared_key_numbers(one, other, frozenset({1}))
    assert own.tolist() == others.tolist() == [0, -1, -1]
    assert shared_key_numbers(one, other)[0].tolist() == [-1, -1, -1]


def test_no_rows_have_no_numbers() -> None:
    types = (pa.timestamp("us", "UTC"), pa.struct([("at", pa.timestamp("us", "UTC"))]), pa.float64(), pa.list_(pa.string()))
    for type_ in types:
        assert key_numbers([pa.chunked_array([], type_)]).tolist() == []
