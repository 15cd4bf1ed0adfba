"""Messages about rows that can't be written quote the given row, and name the problem."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def test_null_keys_are_quoted_as_given(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(None, 1)], "key string, value bigint")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", "total", rows)
    with pytest.raises(sp.InvalidRowError, match="key None, value 1: column key of row 0 is null; a key can't be"):
        writer.write(tmp_path / "updated")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).delete_keys("orders", rows.select("key"), "total")
    with pytest.raises(sp.InvalidRowError, match="state 'total', key None: column key of row 0 is null") as caught:
        writer.write(tmp_path / "deleted")
    assert "True" not in str(caught.value)


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("state", ["total", "items"])
def test_times_of_access_need_a_time_to_live(spark: SparkSession, tmp_path: Path, state: str, flatten: bool) -> None:
    read = sp.SavepointReader.read(spark, ORDERS_PATH).read_keyed_state("orders", state, metadata=True, flatten=flatten)
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.update_keyed_state("orders", state, read).write(tmp_path / "same")  # without a time-to-live, all times are null
    assert set(sp.arrow.diff_summary(ORDERS_PATH, str(tmp_path / "same"))["updates"].to_pylist()) == {0}
    if flatten:
        given = read.selectExpr("* except (_last_access)", "timestamp'2026-01-01' AS _last_access")
        writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", state, given)
        with pytest.raises(sp.InvalidRowError, match=rf"state '{state}', key .*_last_access has a time, but the state has no"):
            writer.write(tmp_path / "new")


def test_times_of_access_are_those_of_the_states_with_a_time_to_live(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", 1, 2, MOMENT)], "key string, kept bigint, plain bigint, _last_access timestamp")
    states = {"kept": sp.ValueState(T.LONG(), ttl=True), "plain": T.LONG()}
    sp.SavepointWriter.new(spark).with_keyed_state("o", rows, states=states).write(tmp_path / "new")
    (batch,) = sp.arrow.read_state(str(tmp_path / "new"), "o", "kept", metadata=True)
    assert batch.column("_last_access").to_pylist() == [MOMENT]


def test_timers_by_their_instant_alone_need_whole_milliseconds(spark: SparkSession) -> None:
    moment = MOMENT.replace(microsecond=1500)
    rows = spark.createDataFrame([("a", moment)], "key string, fires_at timestamp")
    with pytest.raises(sp.InvalidRowError, match=r"fires_at is .*1500 µs since 1970, expected whole milliseconds") as caught:
        sp.SavepointWriter.new(spark).with_timers("o", rows)
    assert "different times" not in str(caught.value)


class Stream:
    """A stream of Arrow batches as any library offers it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def as_polars_gives_it(table: pa.Table) -> Stream:
    """Keys as a category, whose texts are views."""
    if "key" in table.column_names:
        words = table.column("key").combine_chunks().dictionary_encode()
        keys = pa.DictionaryArray.from_arrays(words.indices.cast(pa.uint32()), words.dictionary.cast(pa.string_view()))
        table = table.set_column(table.column_names.index("key"), "key", keys)
    return Stream(table)


@pytest.mark.parametrize("give", [pa.Table.to_pandas, pa.Table.to_reader, Stream, lambda table: table, as_polars_gives_it])
def test_rows_of_other_libraries(spark: SparkSession, tmp_path: Path, give: Callable[[pa.Table], Any]) -> None:
    rows = pa.table({"key": pa.array(["new", "newer"], pa.large_string()), "value": pa.array([1, 2], pa.int64())})
    timers = pa.table({"key": ["new"], "timestamp": [5]})
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.update_keyed_state("orders", "total", give(rows))
    writer.delete_keys("orders", give(pa.table({"key": ["newer"]})), "total")
    writer.with_list_state("lists", "values", give(pa.table({"value": [1, 2, 3]})))
    writer.with_broadcast_state("lists", "rules", give(rows)).with_timers("timers", give(timers))
    writer.with_keyed_state("more", give(rows)).write(tmp_path / "new")
    found = sp.arrow.diff_summary(ORDERS_PATH, str(tmp_path / "new")).to_pylist()
    inserts = {row["state_name"]: row["inserts"] for row in found if row["operator_uid"] != "orders"}
    assert {"values": 3, "rules": 2, "value": 2}.items() <= inserts.items()
    assert sum(row["inserts"] for row in found if row["operator_uid"] == "orders") == 1


def test_other_rows_are_refused(spark: SparkSession) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    with pytest.raises(sp.OptionError, match=r"operator orders: expected rows as a DataFrame of Spark, pandas or Polars.*a list"):
        writer.delete_keys("orders", [("a",)], "total")


def test_null_elements_of_lists_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Flink stops to read a list at a null."""
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.update_keyed_state("orders", "history", spark.sql("SELECT 'amelia' AS key, array('a', NULL, 'b') AS value"))
    with pytest.raises(sp.InvalidRowError, match=r"state 'history', key 'amelia'.*value\[1\] .*can't be null"):
        writer.write(tmp_path / "keyed")
    writer = sp.SavepointWriter.new(spark).with_list_state("op", "names", spark.sql("SELECT CAST(NULL AS string) AS value"))
    with pytest.raises(sp.InvalidRowError, match="operator op, state 'names': column value of row 0 is null"):
        writer.write(tmp_path / "operator")


def test_nan_of_pandas_is_a_number(spark: SparkSession, tmp_path: Path) -> None:
    import pandas as pd

    rows = pd.DataFrame({"key": [1, 2, 3], "value": pd.array([0.0, None, 1.0], "Float64") / pd.array([0.0, 0.0, 1.0], "Float64")})
    sp.SavepointWriter.new(spark).with_keyed_state("op", rows, states={"value": T.DOUBLE()}).write(tmp_path / "new")
    found = sp.SavepointReader.read(spark, tmp_path / "new").read_keyed_state("op", "value").collect()
    assert {row.key: str(row.value) for row in found} == {1: "nan", 3: "1.0"}


def test_local_times_of_other_libraries_stay_local(spark: SparkSession) -> None:
    """Spark takes them for times in the zone of its session, if it is not told otherwise."""
    local = pa.table({"key": ["a"], "value": pa.array([datetime(2024, 1, 1)], pa.timestamp("us"))})
    for rows in (local, local.to_pandas()):
        with pytest.raises(
            sp.InvalidRowError, match="column 'value' is of Spark type timestamp_ntz; the type INSTANT takes timestamp"
        ):
            sp.SavepointWriter.new(spark).with_keyed_state("op", rows, states={"value": T.INSTANT()})
