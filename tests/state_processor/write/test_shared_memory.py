"""Rows whose owner changes them between the call of a writer and the write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pytest

import state_processor as sp

T = sp.Types
KEYS: Final = [1, 2, 3]
Numbers = npt.NDArray[np.int64]


def value_state(writer: Any, rows: Any) -> None:
    writer.with_keyed_state("op", rows, key_type=T.LONG(), states={"value": T.LONG()})


def broadcast(writer: Any, rows: Any) -> None:
    writer.with_broadcast_state("op", "rules", rows, T.LONG(), T.LONG())


def timers(writer: Any, rows: Any) -> None:
    writer.with_timers("op", rows.rename_columns(["key", "timestamp"]), key_type=T.LONG())


def elements(writer: Any, rows: Any) -> None:
    writer.with_list_state("op", "names", rows.select(["value"]))


def table(numbers: Numbers) -> pa.Table:
    return pa.table({"key": KEYS, "value": numbers})


def polars_frame(numbers: Numbers) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table(numbers)))


CASES: Final = [
    pytest.param(table, value_state, id="value state"),
    pytest.param(table, broadcast, id="broadcast state"),
    pytest.param(table, timers, id="timers"),
    pytest.param(table, elements, id="list state"),
    pytest.param(polars_frame, value_state, id="Polars"),
]


@pytest.mark.parametrize(("rows", "add"), CASES)
def test_a_table_that_was_changed_is_refused(
    rows: Callable[[Numbers], Any], add: Callable[[Any, Any], None], tmp_path: Path
) -> None:
    numbers = np.array([10, 20, 30])
    writer = sp.arrow.SavepointWriter.new()
    add(writer, rows(numbers))
    numbers[1] = 99
    with pytest.raises(sp.OptionError, match="operator op: the rows were changed after they were given"):
        writer.write(tmp_path / "savepoint")
    numbers[1] = 20
    writer.write(tmp_path / "savepoint")


def test_a_query_has_the_rows_of_the_time_of_writing(tmp_path: Path) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1::BIGINT AS key, 1::BIGINT AS value")
    writer = sp.arrow.SavepointWriter.new()
    value_state(writer, connection.sql("FROM t"))
    connection.execute("UPDATE t SET value = 2")
    writer.write(tmp_path / "savepoint")
    assert sp.arrow.read_state(tmp_path / "savepoint", "op", "value").read_all().to_pylist() == [{"key": 1, "value": 2}]
    later = sp.arrow.SavepointWriter.new()
    value_state(later, connection.sql("FROM t"))
    connection.execute("CREATE OR REPLACE TABLE t AS SELECT 1::BIGINT AS key, 'x' AS value")
    with pytest.raises(sp.StateProcessorError, match="'value'"):
        later.write(tmp_path / "later")
