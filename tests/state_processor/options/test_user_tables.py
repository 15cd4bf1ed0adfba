"""Tables of other libraries and values of Python: types that the encoder does not know become plain, or are refused."""

from __future__ import annotations

import gc
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from state_processor.options.user_tables import (
    as_key_table,
    as_table,
    check_values,
    column_of_values,
    columns_of_dictionaries,
    open_stream,
)
from state_processor.support.errors import OptionError

TEXT = pa.array(["a", "b", "a", None])
VIEWS = TEXT.cast(pa.string_view())
UINT = pa.uint32()
CATEGORIES = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], UINT), pa.array(["a", "b"]).cast(pa.string_view()))
"""Categories and enumerations as Polars exports them."""
NANOS = pa.array([1_000], pa.timestamp("ns", "UTC"))

PLAIN: dict[str, tuple[pa.Array, pa.DataType, list[Any]]] = {
    "views of text": (VIEWS, pa.large_string(), TEXT.to_pylist()),
    "views of bytes": (pa.array([b"a", None]).cast(pa.binary_view()), pa.large_binary(), [b"a", None]),
    "categories": (CATEGORIES, pa.large_string(), TEXT.to_pylist()),
    "a dictionary": (TEXT.dictionary_encode(), pa.string(), TEXT.to_pylist()),
    "a dictionary of numbers": (pa.array([5, 5]).dictionary_encode(), pa.int64(), [5, 5]),
    "runs": (pc.run_end_encode(pa.array(["a", "a", "b"])), pa.string(), ["a", "a", "b"]),
    "lists of views": (pa.array([["a"], None], pa.large_list(pa.string_view())), pa.large_list(pa.large_string()), [["a"], None]),
    "structs of views": (
        pa.array([{"x": "a"}], pa.struct({"x": pa.string_view()})),
        pa.struct({"x": pa.large_string()}),
        [{"x": "a"}],
    ),
    "maps of views": (
        pa.array([[("a", 1)]], pa.map_(pa.string_view(), pa.uint8())),
        pa.map_(pa.large_string(), pa.int16()),
        [[("a", 1)]],
    ),
    "unsigned": (pa.array([2**63 - 1, None], pa.uint64()), pa.int64(), [2**63 - 1, None]),
    "half precision": (pa.array([1.5], pa.float16()), pa.float32(), [1.5]),
    "nanoseconds": (NANOS, pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    "what is plain": (TEXT, pa.string(), TEXT.to_pylist()),
}


@pytest.mark.parametrize(("column", "type_", "values"), PLAIN.values(), ids=PLAIN)
def test_columns_become_plain(column: pa.Array, type_: pa.DataType, values: list[Any]) -> None:
    for table in (as_table(pa.table({"value": column})), as_key_table(pa.chunked_array([column[:1], column[1:]]))):
        assert table.column(0).type == type_
        assert table.column(0).to_pylist() == values


@pytest.mark.parametrize("column", [pa.array([2**63], pa.uint64()), pa.array([1_001], pa.timestamp("ns"))])
def test_values_that_the_plain_type_lacks_are_refused(column: pa.Array) -> None:
    with pytest.raises(OptionError, match=r"column 'value' is of Arrow type .*\. A value does not fit .*; cast"):
        as_table(pa.table({"value": column}))


class Wrapped:
    """A stream that is not an iterator."""

    def __init__(self, table: pa.Table, *, starts_again: bool) -> None:
        self._table, self._reader = table, None if starts_again else table.to_reader()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return (self._reader or self._table).__arrow_c_stream__(requested_schema)


ROWS = pa.table({"value": [1, 2]})


def test_a_stream_is_read_once() -> None:
    for stream in (ROWS.to_reader(), Wrapped(ROWS, starts_again=False)):
        assert as_table(stream).num_rows == 2
        with pytest.raises(OptionError, match=f"these rows, a {type(stream).__name__}, are a stream that was given before"):
            as_table(stream)


def test_a_stream_that_begins_again_is_read_again() -> None:
    stream = Wrapped(ROWS, starts_again=True)
    assert [as_table(rows).num_rows for rows in (stream, stream, ROWS, ROWS, Wrapped(ROWS[:0], starts_again=False))] == [
        2,
        2,
        2,
        2,
        0,
    ]


def test_streams_are_forgotten_at_their_end() -> None:
    for _ in range(100):  # objects that live at the places of objects that are gone
        assert open_stream(ROWS.to_reader()).read_all().num_rows == 2
        gc.collect(0)


DAY = datetime(2024, 1, 1)
AWARE = DAY.replace(tzinfo=UTC)

REFUSED: dict[str, tuple[list[Any], str]] = {
    "a local time among points in time": ([AWARE, DAY], "'v' of row 1 .*without a time zone, in a column of times with one"),
    "a point in time among local times": ([DAY, None, AWARE], "'v' of row 2 .*with a time zone, in a column of times without"),
    "a local time in a field": ([{"at": AWARE}, {"at": DAY}], r"'v\.at' of row 1 .*without a time zone"),
    "a local time in a list": ([[AWARE], [AWARE, DAY]], r"'v\.element' of row 1 .*without a time zone"),
    "a time among dates": ([date(2024, 1, 1), datetime(2024, 1, 1, 5)], "'v' of row 1 .*a time of day, in a column of dates"),
    "a date among times": ([datetime(2024, 1, 1, 5), date(2024, 1, 1)], "'v' of row 1 can't become a value of Arrow"),
    "a time of day with a zone": ([time(1, 2), time(1, 2, tzinfo=UTC)], "'v' of row 1 .*a time of day with a time zone"),
    "text among bytes": (["a", b"b"], "'v' of row 0 .*text, in a column of bytes"),
    "a fraction with more digits": ([Decimal("1.1"), Decimal("1.10")], "'v' of row 0 .*the scale 1, in a column .*scale 2"),
    "a whole number among decimals": ([1, Decimal("1.5")], "'v' of row 0 .*the scale 0, in a column .*scale 1"),
    "a power of ten": ([Decimal("1E+2")], "'v' of row 0 .*the scale -2"),
    "a missing field": ([{"a": 1, "b": 2}, {"a": 1}], "'v' of row 1 does not have the field 'b' of other values"),
    "a missing field in a list": ([[{"a": 1}], [{"a": 1}, {"b": 1}]], r"'v\.element' of row 1 does not have the field 'a'"),
    "a missing field in a field": ([{"x": {"a": 1}}, {"x": {}}], r"'v\.x' of row 1 does not have the field 'a'"),
    "NaN among texts": (["a", math.nan], "'v' of row 1 can't become a value of Arrow: found nan"),
    "a truth among numbers": ([1, True], "'v' of row 1 can't become a value of Arrow"),
    "half of a character": (["a", "\ud800"], "'v' of row 1 can't become a value of Arrow"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_values_of_another_type_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        column_of_values("v", values)


@pytest.mark.pandas
def test_times_of_pandas_that_are_refused() -> None:
    import pandas as pd

    with pytest.raises(OptionError, match=r"'v' of row 1 .*without a time zone"):
        column_of_values("v", [pd.Timestamp(AWARE), pd.Timestamp(DAY)])
    with pytest.raises(OptionError, match=r"'v' of row 1 .*nanoseconds, which microseconds can't hold"):
        column_of_values("v", [DAY, pd.Timestamp("2024-01-01 00:00:00.000000001")])


def test_nulls_and_nan() -> None:
    for values in ([1.5, math.nan, None], [1, np.float64("nan"), None]):
        column = column_of_values("v", values)
        assert (column.null_count, math.isnan(column[1].as_py())) == (1, True)


@pytest.mark.pandas
def test_nulls_of_pandas() -> None:
    import pandas as pd

    assert column_of_values("v", [1, pd.NA, pd.NaT, None]).to_pylist() == [1, None, None, None]
    assert column_of_values("v", [pd.NaT, AWARE]).to_pylist() == [None, AWARE]
    column = column_of_values("v", [1, np.float64("nan"), pd.NA])
    assert (column.null_count, math.isnan(column[1].as_py())) == (1, True)


def test_times_of_several_zones_are_points_in_time() -> None:
    berlin = AWARE.astimezone(ZoneInfo("Europe/Berlin"))
    assert column_of_values("v", [berlin, AWARE]).cast(pa.int64()).to_pylist() == [1_704_067_200_000_000] * 2


def test_each_row_has_each_column() -> None:
    assert columns_of_dictionaries([{"key": 1, "value": None}, {"value": 2, "key": 3}]).to_pydict() == {
        "key": [1, 3],
        "value": [None, 2],
    }
    with pytest.raises(OptionError, match=r"row 1 does not have the column .value. of other rows\. Write None"):
        columns_of_dictionaries([{"key": 1, "value": 1}, {"key": 2}])
    with pytest.raises(OptionError, match="row 0 does not have the column 'b'"):
        columns_of_dictionaries([{"a": 1}, {"a": 1, "b": 1}])
    with pytest.raises(OptionError, match="a column 7; expected text"):
        columns_of_dictionaries([{7: 1}])  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="the list of rows is empty"):
        columns_of_dictionaries([])


def test_values_of_a_declared_type() -> None:
    check_values(pa.decimal128(10, 2), [Decimal("1.5"), 1], "v")
    with pytest.raises(OptionError, match="without a time zone"):
        check_values(pa.timestamp("us", "UTC"), [DAY], "v")
