"""Rows that change from one evaluation to the next: each use in a write sees the same rows, or the write fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import state_processor as sp
from tests.state_processor.applications.flink_sql.test_query_bootstrap import QUERIES, bootstrap, entries, query
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_engine("each evaluation by Spark gives other rows")]

FIRST: Final = [{"key": "a", "timestamp": 1}, {"key": "b", "timestamp": 2}]
TIMERS: Final = "key string, timestamp long, domain string, service string"
Rows = list[dict[str, Any]]


def changing(spark: SparkSession, folder: Path, schema: Any, *evaluations: Rows | pa.Table) -> DataFrame:
    """Return a frame whose n-th evaluation has the n-th rows; later ones have the last."""
    folder.mkdir()
    tables = [rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows) for rows in evaluations]
    place, arrow = str(folder), [pa.Table.to_batches(table.combine_chunks())[0] for table in tables]

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            number = len(list(Path(place).iterdir()))
            (Path(place) / str(number)).touch()
            yield arrow[min(number, len(arrow) - 1)]

    return spark.range(1, numPartitions=1).mapInArrow(rows, schema)


def timers(*extra: dict[str, Any], domain: str = "event_time") -> Rows:
    return [{"key": "", "timestamp": 0, "domain": domain, "service": "user-timers"} | row for row in (*FIRST, *extra)]


def written_timers(path: Path) -> set[tuple[str, int, str, str]]:
    rows = sp.arrow.read_timers(path, "op").read_all().to_pylist()
    return {(r["key"], r["timestamp"], r["domain"], r["service"]) for r in rows}


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ({"domain": "processing_time"}, "the domain 'processing_time' and the service 'user-timers'. No row had them"),
        ({"service": "other"}, "the domain 'event_time' and the service 'other'. No row had them"),
        ({"domain": None}, "a row has the domain None and the service 'user-timers', which can't be null"),
    ],
)
def test_timers_of_a_queue_that_appears_fail_the_write(
    late: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    row = {"key": "c", "timestamp": 3, "domain": "event_time", "service": "user-timers"} | late
    frame = changing(spark, tmp_path / "evaluations", TIMERS, timers(), timers(row))
    writer = sp.SavepointWriter.new(spark).with_timers("op", frame)
    with pytest.raises(sp.InvalidRowError, match=message):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_timers_that_move_between_queues_are_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """Both queues exist in the first evaluation; afterwards each evaluation has all rows in another queue."""
    of_both = timers() + timers({"key": "c", "timestamp": 3}, domain="processing_time")[2:]
    frame = changing(spark, tmp_path / "evaluations", TIMERS, of_both, timers(), timers(domain="processing_time"))
    sp.SavepointWriter.new(spark).with_timers("op", frame).write(tmp_path / "new")
    assert written_timers(tmp_path / "new") == {("a", 1, "event_time", "user-timers"), ("b", 2, "event_time", "user-timers")}
    assert len(list((tmp_path / "evaluations").iterdir())) == 2


def test_a_time_that_contradicts_later_fails_the_write(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"key": "a", "timestamp": 1, "timestamp_ms": 1}]
    schema = "key string, timestamp long, timestamp_ms long"
    frame = changing(spark, tmp_path / "evaluations", schema, rows, [rows[0] | {"timestamp_ms": 2}])
    writer = sp.SavepointWriter.new(spark).with_timers("op", frame)
    with pytest.raises(sp.InvalidRowError, match="for the key 'a' the columns have different times since 1970"):
        writer.write(tmp_path / "new")


def test_timers_of_a_queue_that_was_removed(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are no error: they were there when the timers were given."""
    rows = timers() + timers(domain="processing_time")
    frame = changing(spark, tmp_path / "evaluations", TIMERS, rows)
    writer = sp.SavepointWriter.new(spark).with_timers("op", frame)
    writer.remove_state("op", "_timer_state/processing_user-timers").write(tmp_path / "new")
    assert written_timers(tmp_path / "new") == {("a", 1, "event_time", "user-timers"), ("b", 2, "event_time", "user-timers")}


TOTAL: Final = expected_values(ORDERS, "orders", "total")
LATER: Final[dict[str, Callable[[sp.SavepointWriter, DataFrame], Any]]] = {
    "update": lambda writer, rows: writer.update_keyed_state("orders", "total", rows.selectExpr("key", "2L AS value")),
    "delete": lambda writer, rows: writer.delete_keys("orders", rows, "total"),
}


@pytest.mark.parametrize("later", LATER)
def test_later_rows_supersede_the_same_rows_that_they_write(later: str, spark: SparkSession, tmp_path: Path) -> None:
    """The first evaluation has amelia, the others have anders."""
    earlier = spark.createDataFrame([("amelia", 1), ("anders", 1)], "key string, value long")
    frame = changing(spark, tmp_path / "evaluations", "key string", [{"key": "amelia"}], [{"key": "anders"}])
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", "total", earlier)
    LATER[later](writer, frame)
    writer.write(tmp_path / "new")
    table = sp.arrow.read_state(tmp_path / "new", "orders", "total").read_all()
    values = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    expected = TOTAL | {"anders": 1} | ({"amelia": 2} if later == "update" else {})
    if later == "delete":
        del expected["amelia"]
    assert values == expected


def test_whole_maps_of_which_entries_change(spark: SparkSession, tmp_path: Path) -> None:
    """Rows with whole maps are evaluated once: for the deletion of their keys, and for their entries."""
    schema = "key string, value map<string,long>"
    states = {"value": sp.MapState(sp.Types.STRING(), sp.Types.LONG())}
    maps = pa.table({"key": ["a", "b"], "value": pa.array([[("x", 1)], [("x", 1)]], pa.map_(pa.string(), pa.int64()))})
    sp.arrow.SavepointWriter.new().with_keyed_state("op", maps, states=states).write(tmp_path / "base")
    maps_of_y = [
        pa.table({"key": [key], "value": pa.array([[("y", 2)]], pa.map_(pa.string(), pa.int64()))}) for key in ("a", "b")
    ]
    frame = changing(spark, tmp_path / "evaluations", schema, *maps_of_y)
    entry = spark.createDataFrame([("a", "z", 3)], "key string, map_key string, map_value long")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base").update_keyed_state("op", "value", frame)
    writer.update_keyed_state("op", "value", entry).write(tmp_path / "new")
    table = sp.arrow.read_state(tmp_path / "new", "op", "value").read_all().to_pylist()
    found = {(row["key"], row["map_key"]): row["map_value"] for row in table}
    assert found == {("a", "y"): 2, ("a", "z"): 3, ("b", "x"): 1}


@pytest.mark.parametrize("name", ["distinct", "left-join", "top-of-updates"])
def test_states_of_a_query_are_of_the_same_rows(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """All states of the operator follow from the first evaluation; the next ones have one row."""
    real, plan = query("2.3.0", name)
    ((operator, queries),) = QUERIES[name].items()
    frames = [spark.sql(text) for text in queries]
    tables = [frame.toArrow() for frame in frames]
    given = [
        changing(spark, tmp_path / f"evaluations{i}", frame.schema, table, table.slice(0, 1))
        for i, (frame, table) in enumerate(zip(frames, tables, strict=True))
    ]
    bootstrap(sp.SavepointWriter.new(spark, flink_version="2.3"), plan, operator, given).write(tmp_path / "new")
    for row in sp.arrow.states(tmp_path / "new", plan=plan).to_pylist():
        uid, state = row["operator_uid"], row["state_name"]
        assert entries(tmp_path / "new", uid, state, plan) == entries(real, uid, state, plan)
