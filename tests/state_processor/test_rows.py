"""Rows as an iterator, and as a stream for other libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.read.rows import Rows
from tests.state_processor.read.scan_spy import spied
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES_PATH, expected_values

TYPED = [
    (row["operator_uid"], row["state_name"])
    for row in sp.arrow.states(TYPES_PATH).to_pylist()
    if "TIMER" not in row["state_kind"] and row["operator_uid"] == "types"
]
LIMITS = pa.table(
    {
        "empty": pa.array([{}, None], pa.struct([])),
        "fields": pa.array([{"id": 1, "ID": 2}, None]),
        "null": pa.nulls(2),
        "instant": pa.array([-62135596800000000, 253402300799999999], pa.timestamp("us", "UTC")),
        "local": pa.array([-62135596800000000, 253402300799999999], pa.timestamp("us")),
        "date": pa.array([-719162, 2932896], pa.date32()),
        "decimal": pa.array([Decimal("1" * 20 + "." + "2" * 18), None], pa.decimal128(38, 18)),
        "map": pa.array([[("a", 1), ("b", None)], None], pa.map_(pa.string(), pa.int64())),
        "structs": pa.array([[({"x": 1}, [1, None])], []], pa.map_(pa.struct([("x", pa.int64())]), pa.list_(pa.int8()))),
        "bytes": pa.array([b"\x00\xff", None]),
        "text": pa.array(["\x00", "🛒"]),
        "long": pa.array([2**63 - 1, None]),
        "boolean": pa.array([True, None]),
    }
)
"""Values at the ends of their types, of all types that a state is read in."""


def in_duckdb(rows: Rows) -> pa.Table:
    return duckdb.sql("FROM rows").to_arrow_table()


def total() -> Rows:
    return sp.arrow.read_state(ORDERS_PATH, "orders", "total")


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Compare as text: NaN is equal to NaN there, and a struct may have two fields of one name but for case."""
    return _text(found) == _text(expected) and found.column_names == expected.column_names


def _text(table: pa.Table) -> str:
    """Return the rows as text, with one name of UTC: old versions of pyarrow make time zones of pytz."""
    return str(table.to_pylist()).replace("<StaticTzInfo 'Etc/UTC'>", "<UTC>").replace("Etc/UTC", "UTC")


def limits() -> Rows:
    return Rows(LIMITS.schema, lambda: iter(LIMITS.to_batches()))


def test_a_stream_begins_anew_each_time() -> None:
    rows = total()
    assert rows.read_all().equals(rows.read_all())
    assert pa.table(rows).equals(rows.reader().read_all())
    assert rows.schema == pa.schema([pa.field("key", pa.string(), nullable=False), ("value", pa.int64())])
    assert repr(rows).startswith("Rows(key: string, value: int64)\n")
    assert len(list(rows)) == 2


def test_iteration_is_possible_once() -> None:
    rows = total()
    first = next(rows)
    with pytest.raises(sp.StateProcessorError, match="taken by iteration"):
        rows.read_all()
    with pytest.raises(sp.StateProcessorError, match="taken by iteration"):
        pl.DataFrame(rows)
    rest = sum(batch.num_rows for batch in rows)
    assert (first.num_rows + rest, next(rows, None)) == (50, None)
    with pytest.raises(sp.StateProcessorError, match="iterated twice"):
        list(rows)


@pytest.mark.parametrize("problem", [sp.CorruptSnapshotError("damaged"), KeyboardInterrupt()])
def test_an_iteration_that_failed_does_not_look_complete(problem: BaseException) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield LIMITS.to_batches()[0]
        raise problem

    rows = Rows(LIMITS.schema, batches)
    with pytest.raises(type(problem)):
        list(rows)
    with pytest.raises(sp.StateProcessorError, match=rf"ended with {type(problem).__name__}: read them again"):
        next(rows)
    with pytest.raises(sp.StateProcessorError, match=rf"ended with {type(problem).__name__}, and can't be iterated twice"):
        list(rows)
    with pytest.raises(sp.StateProcessorError, match="taken by iteration"):
        rows.read_all()


def test_closed_rows() -> None:
    with closing(total()) as rows:
        first = next(rows)
    assert first.num_rows
    rows.close()
    with pytest.raises(sp.StateProcessorError, match="these rows were closed: read them again"):
        next(rows)
    unread = total()
    unread.close()
    with pytest.raises(sp.StateProcessorError, match="these rows were closed, and can't be iterated twice"):
        list(unread)


def test_batches_are_read_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spied(monkeypatch)
    reader = total().reader()
    assert asked == []
    reader.read_next_batch()
    assert (len(asked), asked.batches) == (1, 1)


@pytest.mark.parametrize(("uid", "state"), TYPED, ids=[state for _, state in TYPED])
def test_all_types_survive(uid: str, state: str) -> None:
    rows = sp.arrow.read_state(TYPES_PATH, uid, state, nanos="truncate")
    expected = rows.read_all()
    assert same(pl.DataFrame(rows).to_arrow(), expected)
    assert same(in_duckdb(rows), expected)


@pytest.mark.pandas
@pytest.mark.parametrize(("uid", "state"), TYPED, ids=[state for _, state in TYPED])
def test_all_types_survive_in_pandas(uid: str, state: str) -> None:
    import pandas as pd

    rows = sp.arrow.read_state(TYPES_PATH, uid, state, nanos="truncate")
    expected = rows.read_all()
    assert same(pa.Table.from_pandas(rows.to_pandas(types_mapper=pd.ArrowDtype), expected.schema), expected)


def test_polars() -> None:
    assert same(pl.DataFrame(limits()).to_arrow(), LIMITS)
    assert dict(pl.DataFrame(total()).iter_rows()) == expected_values(ORDERS, "orders", "total")


def test_duckdb_reads_anew_for_each_query() -> None:
    rows = total()
    relation = duckdb.sql("SELECT sum(value) FROM rows")
    assert relation.fetchall() == duckdb.sql("SELECT sum(value) FROM rows").fetchall() == [(404350,)]
    assert rows.read_all().num_rows == 50
    assert same(in_duckdb(limits()), LIMITS)


def test_pandas_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(sp.OptionError, match=r"need the package pandas: pip install 'state-processor\[pandas\]'"):
        limits().to_pandas()


@pytest.mark.pandas
def test_pandas() -> None:
    import pandas as pd

    frame = limits().to_pandas()
    assert (frame["long"][0], frame["long"].dtype, frame["boolean"].dtype) == (2**63 - 1, "Int64", "boolean")
    assert same(pa.Table.from_pandas(frame, LIMITS.schema), LIMITS)
    with pytest.raises(TypeError, match=r"rows\.to_pandas"):
        pd.DataFrame(total())


def test_timers_and_differences_are_rows() -> None:
    assert pa.table(sp.arrow.read_timers(TYPES_PATH, "kinds")).num_rows == 43
    assert sp.arrow.diff(ORDERS_PATH, ORDERS_PATH, "orders", "total").read_all().num_rows == 0


@pytest.mark.parametrize("consume", [pl.DataFrame, pa.table, lambda rows: duckdb.sql("FROM rows").fetchall()])
def test_errors_of_a_read_reach_the_other_library(consume: Callable[[Rows], object]) -> None:
    def failing() -> object:
        raise sp.CorruptSnapshotError("the bytes are damaged at 17")
        yield

    rows = Rows(LIMITS.schema, failing)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="the bytes are damaged at 17"):
        consume(rows)
