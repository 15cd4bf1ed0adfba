"""Maps with a key twice, which Arrow allows, wherever in a column they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types

T = Types
TEXT = pa.map_(pa.string(), pa.int64())
MAP = T.MAP(T.STRING(), T.LONG())
TWICE = [("a", 1), ("b", 2), ("a", 3)]
ONCE = [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("serializer", "type_", "rows", "told"),
    [
        (MAP, TEXT, [ONCE, [], ONCE, TWICE], "column value of row 3 has the key 'a' more than once"),
        (T.LIST(MAP), pa.list_(TEXT), [[ONCE], [ONCE, TWICE]], "column value.element of row 1 has the key 'a' more than once"),
        (
            T.MAP(T.LONG(), MAP),
            pa.map_(pa.int64(), TEXT),
            [[(1, ONCE), (2, ONCE)], [(1, TWICE)]],
            "column value.value of row 1 has the key 'a' more than once",
        ),
        (
            T.ROW_NAMED(["m"], [MAP]),
            pa.struct([("m", TEXT)]),
            [{"m": ONCE}, {"m": TWICE}],
            "column value.m of row 1 has the key 'a' more than once",
        ),
        (
            T.MAP(T.DOUBLE(), T.LONG()),
            pa.map_(pa.float64(), pa.int64()),
            [[(0.0, 1), (-0.0, 2)], [(float("nan"), 1), (float("nan"), 2)]],
            "column value of row 1 has the key nan more than once",
        ),
        (
            T.MAP(T.TUPLE([T.STRING(), T.LONG()]), T.LONG()),
            pa.map_(pa.struct([("f0", pa.string()), ("f1", pa.int64())]), pa.int64()),
            [[(("a", 1), 1), (("a", 2), 2), (("b", 1), 3)], [(("a", 1), 1), (("b", 1), 2), (("a", 1), 3)]],
            "column value of row 1 has the key",
        ),
        (
            T.MAP(T.LIST(T.LONG()), T.LONG()),
            pa.map_(pa.list_(pa.int64()), pa.int64()),
            [[([1, 2], 1), ([1], 2)], [([1, 2], 1), ([1, 2], 2)]],
            r"column value of row 1 has the key \[1, 2\]",
        ),
        (
            T.MAP(T.BIG_INT(), T.LONG()),
            TEXT,
            [[("5", 1), ("-5", 2)], [("5", 1), ("05", 2)]],
            "column value of row 1 has the key '05' more than once",
        ),
        (
            T.MAP(T.INSTANT(), T.LONG()),
            TEXT,
            [[("2024-02-29T12:00:00Z", 1)], [("2024-02-29T12:00:00Z", 1), ("2024-02-29T12:00:00.000Z", 2)]],
            "column value of row 1 has the key '2024-02-29T12:00:00.000Z' more than once",
        ),
        (
            T.MAP_DATA("TIMESTAMP(3)", "BIGINT"),
            TEXT,
            [[("2024-02-29T12:00:00", 1)], [("2024-02-29T12:00:00", 1), ("2024-02-29T12:00:00.0", 2)]],
            "column value of row 1 has the key '2024-02-29T12:00:00.0' more than once",
        ),
        (
            T.SET(T.LONG()),
            pa.list_(pa.int64()),
            [[1, 2], [1, 2, 1]],
            "column value of row 1 has the element 1 more than once; a set holds it once",
        ),
        (
            T.SET(T.BIG_INT()),
            pa.list_(pa.string()),
            [["1", "2"], ["1", "+1"]],
            "column value of row 1 has the element",
        ),
        (
            T.LIST(T.SET(T.STRING())),
            pa.list_(pa.list_(pa.string())),
            [[["a"], ["a"]], [["a", None], ["b", None, None]]],
            "column value.element of row 1 has the element None more than once",
        ),
    ],
)
def test_a_key_twice(serializer: Any, type_: pa.DataType, rows: list[Any], told: str) -> None:
    with pytest.raises(InvalidRowError, match=told):
        encode_column(serializer, pa.array(rows, type_))
    at = int(told.split("row ")[1][0])
    assert len(encode_column(serializer, pa.array(rows[:at], type_))) == at


def test_rows_before_the_slice_do_not_count() -> None:
    rows = pa.array([TWICE, ONCE, ONCE], TEXT)
    assert len(encode_column(MAP, rows.slice(1))) == 2
    with pytest.raises(InvalidRowError, match="column value of row 1 has"):
        encode_column(MAP, pa.array([ONCE, ONCE, TWICE], TEXT).slice(1))


def test_numbers_that_differ_in_scale_are_two_keys() -> None:
    """So they are for Java's ``BigDecimal.equals``."""
    values = pa.array([[("1.0", 1), ("1.00", 2)]], TEXT)
    assert len(encode_column(T.MAP(T.BIG_DEC(), T.LONG()), values)) == 1
    assert len(encode_column(T.SET(T.BIG_DEC()), pa.array([["1.0", "1.00"]], pa.list_(pa.string())))) == 1
