"""Tables of other libraries: columns of Arrow types that neither Spark nor the encoder knows become plain, or are refused."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from state_processor.options.user_tables import as_key_table, as_table, open_stream
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
