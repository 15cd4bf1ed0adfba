"""What is told of rows that can't become state, by both ways to write, and of writes that get in each other's way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.backends.state.descriptions import keyed_header, register
from state_processor.backends.write.staging import Staging
from state_processor.spark.dataframe_rows import SparkRows
from state_processor.spark.engine import SparkEngine
from state_processor.write.tasks.passes import RowsPass, StateFiles
from state_processor.write.tasks.state_tasks import EncodeRows, KeyedTarget, StateColumns, WriteKeyedState, header_bytes
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def by_writer(df: DataFrame, target: str) -> None:
    states = {"value": sp.ValueState(sp.Types.INT())}
    writer = sp.SavepointWriter.new(df.sparkSession).with_keyed_state("orders", df, states=states, columns={"value": "total"})
    writer.write(target)


def by_sink(df: DataFrame, target: str) -> None:
    sink = df.write.format("flink-savepoint").option("uid", "orders").option("state", "total").option("valueType", "INT")
    sink.mode("append").save(target)


def check_nothing_is_left(target: Path) -> None:
    """Spark reports a failed job before all of its tasks have ended; these tasks remove their files."""
    until = time.monotonic() + 60
    while target.exists():
        assert time.monotonic() < until, sorted(p.name for p in target.iterdir())
        time.sleep(0.05)


@pytest.mark.parametrize("write", [by_writer, by_sink])
def test_rows_that_are_refused(spark: SparkSession, write: Callable[[DataFrame, str], None], tmp_path: Path) -> None:
    sp.register(spark)
    cases = {
        "nullif(id, 70) AS key, 7 AS value": r"operator orders, state 'total'.* null; a key can't be",
        "id % 90 AS key, 7 AS value": r"operator orders, subtask 0: state 'total', key group \d+: key \d occurs more than once",
        "id AS key, id * 100000000 AS value": r"operator orders, state 'total', key \d+, value \d+: .*does not fit",
        "id AS key, array(id) AS value": r"column 'value' is of Spark type array<bigint>; the type INT takes int",
    }
    for columns, told in cases.items():
        df = spark.sql(f"SELECT /*+ REPARTITION(3) */ {columns} FROM range(100)")
        with pytest.raises(Exception, match=told) as caught:
            write(df, str(tmp_path / "new"))
        assert isinstance(caught.value, sp.InvalidRowError) or write is by_sink
        check_nothing_is_left(tmp_path / "new")


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ("0, 1, 3", "from 0 to 2 once, found 0, 1, 3"),
        ("1, 2", "from 0 to 1 once, found 1, 2"),
        ("0, 0, 1", "from 0 to 2 once, found 0, 0, 1"),
        ("0, NULL", "from 0 to 1 once, found null, 0"),
        ("-1, 0", "from 0 to 1 once, found -1, 0"),
    ],
)
def test_places_of_elements(spark: SparkSession, places: str, told: str, tmp_path: Path) -> None:
    good = "SELECT 'beth' AS key, CAST(id AS int) AS list_index, concat('v', id) AS list_value FROM range(3)"
    bad = f"SELECT 'amelia' AS key, i AS list_index, 'x' AS list_value FROM (SELECT explode(array({places})) AS i)"
    rows = spark.sql(f"{good} UNION ALL {bad}")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", "history", rows)
    with pytest.raises(sp.InvalidRowError, match=f"operator orders, state 'history', key 'amelia': list_index .* {told}"):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_key_of_a_map_twice(spark: SparkSession, tmp_path: Path) -> None:
    maps = pa.array([[("x", 1), ("y", 2)], [("x", 1), ("x", 2)]], pa.map_(pa.string(), pa.int64()))
    df = spark.createDataFrame(pa.table({"key": pa.array([1, 2]), "scores": maps}))
    for state in (sp.MapState(sp.Types.STRING(), sp.Types.LONG()), sp.Types.MAP(sp.Types.STRING(), sp.Types.LONG())):
        writer = sp.SavepointWriter.new(spark).with_keyed_state("orders", df, states={"scores": state})
        with pytest.raises(sp.InvalidRowError, match=r"operator orders, state 'scores', key 2.* has the key 'x' more than once"):
            writer.write(tmp_path / "new")


def test_an_entry_a_timer_and_a_broadcast_key_twice(spark: SparkSession, tmp_path: Path) -> None:
    twice = spark.sql("SELECT 'amelia' AS key, 'tea' AS map_key, id AS map_value FROM range(2)")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", "items", twice)
    with pytest.raises(sp.InvalidRowError, match=r"operator orders, .*state 'items'.*map_key 'tea' occurs more than once"):
        writer.write(tmp_path / "new")
    timers = spark.sql("SELECT 'amelia' AS key, 1000L AS timestamp FROM range(2)")
    with pytest.raises(sp.InvalidRowError, match=r"operator clock, .*user-timers'.*key 'amelia'.* occurs more than once"):
        sp.SavepointWriter.new(spark).with_timers("clock", timers).write(tmp_path / "new")
    rules = spark.sql("SELECT 'a' AS key, id AS value FROM range(2)")
    with pytest.raises(sp.InvalidRowError, match=r"operator rules, state 'r': key 'a' .*occurs more than once"):
        sp.SavepointWriter.new(spark).with_broadcast_state("rules", "r", rules).write(tmp_path / "new")


def test_rows_that_come_to_another_subtask(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they would if Spark did not keep to the partitions that it is told."""
    key = sp.Types.LONG()
    header = keyed_header(key, [register(sp.ValueState(sp.Types.LONG()).describe("total", key))])
    target = KeyedTarget("0" * 32, "operator orders", header_bytes(header), 2, 2, 128)
    staging = Staging(str(tmp_path / "new"), "token1")
    staging.prepare()
    columns = {"key": "key", "value": "value"}
    rows = SparkRows(spark.range(100).selectExpr("id AS key", "id AS value"))
    passes = [RowsPass(rows, ["key", "value"], EncodeRows(target, (StateColumns(0, columns),)))]
    shuffled = SparkEngine._from_shuffle

    def to_others(blobs: DataFrame, *arguments: Any) -> DataFrame:
        return shuffled(blobs.withColumn("subtask", 1 - f.col("subtask")), *arguments)

    monkeypatch.setattr(SparkEngine, "_from_shuffle", staticmethod(to_others))
    monkeypatch.setattr(Staging, "is_local", False)
    told = r"operator orders, subtask \d: key group \d+ has come to the subtask of \d+ to \d+ \(state 'total', key \d+\)"
    with pytest.raises(sp.InvalidRowError, match=told):
        SparkEngine(spark).write_files([StateFiles(passes, [], 2, WriteKeyedState(target))], staging)
    until = time.monotonic() + 60
    while (left := [p.name for p in (tmp_path / "new").iterdir()]) != ["token1-open"]:  # Spark does not wait for the other task
        assert time.monotonic() < until, left
        time.sleep(0.05)


@pytest.mark.one_engine(reason="another write comes between the jobs of Spark")
@pytest.mark.parametrize("place", [(Staging, "commit"), (SparkEngine, "_from_files")], ids=["at the end", "between the passes"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_that_another_overtakes(
    spark: SparkSession, place: tuple[type, str], overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = place
    original = getattr(owner, name)

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, name, original)
        by_writer(spark.range(10).selectExpr("id AS key", "5 AS value"), str(tmp_path))
        return original(*arguments)

    writer = sp.SavepointWriter.new(spark).with_keyed_state("other", spark.range(50).selectExpr("id AS key", "6 AS value"))
    monkeypatch.setattr(owner, name, overtaken)
    with pytest.raises(sp.StateProcessorError, match=r"filled with another|(complete|another one.*) before") as caught:
        writer.write(tmp_path, overwrite=overwrite)
    assert isinstance(caught.value, sp.WriteError | sp.OptionError)
    found = [r for batch in sp.arrow.read_state(tmp_path, "orders", "total") for r in batch.to_pylist()]
    assert sorted(r["key"] for r in found) == list(range(10))
    referenced = {h["path"] for h in sp.arrow.handles(tmp_path).to_pylist() if not h["inline"]}
    assert {p.name for p in tmp_path.iterdir()} == {"_metadata"} | referenced
