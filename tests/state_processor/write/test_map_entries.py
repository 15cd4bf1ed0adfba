"""Deleting single entries of map state, and the effect on earlier and later rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
NATIVE = str(Path(ORDERS_PATH).parents[1] / "orders-rocksdb-native" / "savepoint")
ENTRY = "key string, map_key string"


def items(spark: SparkSession, path: object) -> dict[str, dict[str, int]]:
    reader = sp.SavepointReader.read(spark, str(path))
    return {row.key: row.value for row in reader.read_keyed_state("orders", "items", flatten=False).collect()}


@pytest.mark.parametrize("path", [ORDERS_PATH, NATIVE])
def test_entries_are_deleted_and_all_others_stay(spark: SparkSession, tmp_path: Path, path: str) -> None:
    before = items(spark, path)
    key, held = next((k, v) for k, v in sorted(before.items()) if len(v) > 1)
    gone = sorted(held)[0]
    only, (last,) = next((k, list(v)) for k, v in sorted(before.items()) if len(v) == 1)
    entries = spark.createDataFrame([(key, gone), (only, last), (key, "never there"), ("nobody", gone)], ENTRY)
    writer = sp.SavepointWriter.from_existing(spark, path).delete_map_entries("orders", "items", entries)
    assert "orders: delete map entries" in repr(writer)
    writer.write(tmp_path / "new")
    expected = {k: {m: v for m, v in held.items() if (k, m) not in {(key, gone), (only, last)}} for k, held in before.items()}
    assert items(spark, tmp_path / "new") == {k: v for k, v in expected.items() if v}
    reader, old = (sp.SavepointReader.read(spark, str(p)) for p in (tmp_path / "new", path))
    assert sorted(reader.read_keyed_state("orders", "total").collect()) == sorted(
        old.read_keyed_state("orders", "total").collect()
    )


def test_what_is_said_last_counts(spark: SparkSession, tmp_path: Path) -> None:
    before = items(spark, ORDERS_PATH)
    key = next(k for k, v in sorted(before.items()) if v)
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    maps = [(key, {"a": 1, "b": 2, "c": 3}), ("newcomer", {"a": 4})]
    writer.update_keyed_state("orders", "items", spark.createDataFrame(maps, "key string, value map<string,bigint>"))
    writer.delete_map_entries("orders", "items", spark.createDataFrame([(key, "a"), (key, "b"), ("newcomer", "a")], ENTRY))
    again = spark.createDataFrame([(key, "b", 22)], f"{ENTRY}, map_value bigint")
    writer.update_keyed_state("orders", "items", again)
    writer.write(tmp_path / "new")
    assert items(spark, tmp_path / "new") == before | {key: {"b": 22, "c": 3}}


def test_single_entries_do_not_undo_a_whole_map_that_was_given_before(spark: SparkSession, tmp_path: Path) -> None:
    before = items(spark, ORDERS_PATH)
    key = next(k for k, v in sorted(before.items()) if v)
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    whole = spark.createDataFrame([(key, {"a": 1, "b": 2})], "key string, value map<string,bigint>")
    writer.update_keyed_state("orders", "items", whole)
    writer.update_keyed_state("orders", "items", spark.createDataFrame([(key, "b", 22)], f"{ENTRY}, map_value bigint"))
    writer.write(tmp_path / "new")
    assert items(spark, tmp_path / "new") == before | {key: {"a": 1, "b": 22}}


def test_a_map_in_windows_with_times_of_access(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    window = (times[0], times[1])
    schema = "key bigint, window struct<start:timestamp,end:timestamp>, seen map<string,string>, _last_access timestamp"
    rows: list[tuple[Any, ...]] = [(1, window, {"a": "x", "b": "y"}, times[0]), (1, (times[1], times[2]), {"a": "z"}, times[0])]
    states = {"seen": sp.MapState(T.STRING(), T.STRING(), ttl=True, namespace=T.TIME_WINDOW())}
    base = sp.SavepointWriter.new(spark).with_keyed_state("w", spark.createDataFrame(rows, schema), states=states)
    base.write(tmp_path / "base")
    writer = sp.SavepointWriter.from_existing(spark, str(tmp_path / "base"))
    accesses = "array(timestamp'2024-01-02', timestamp'2024-01-03') AS _last_access"
    whole = spark.createDataFrame([(1, window)], schema[: schema.index(", seen")])
    writer.update_keyed_state("w", "seen", whole.selectExpr("*", "map('c', '1', 'd', '2') AS value", accesses))
    gone = [(1, window, "c"), (1, (times[1], times[2]), "a")]
    entries = "key bigint, window struct<start:timestamp,end:timestamp>, map_key string"
    writer.delete_map_entries("w", "seen", spark.createDataFrame(gone, entries))
    writer.write(tmp_path / "new")
    found = sp.SavepointReader.read(spark, str(tmp_path / "new")).read_window_state("w", "seen", metadata=True)
    assert [(r.map_key, r.map_value, r._last_access.replace(tzinfo=UTC)) for r in found.collect()] == [("d", "2", times[2])]
    with pytest.raises(sp.InvalidRowError, match="one column 'namespace' or 'window' is needed"):
        writer.delete_map_entries("w", "seen", spark.createDataFrame([(1, "c")], "key bigint, map_key string"))


def test_what_is_no_map_and_rows_without_map_key_are_refused(spark: SparkSession) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    entries = spark.createDataFrame([("amelia", "tea")], ENTRY)
    with pytest.raises(sp.InvalidRowError, match="state 'total' is of kind VALUE: only a map state"):
        writer.delete_map_entries("orders", "total", entries)
    with pytest.raises(sp.InvalidRowError, match="state 'items': there is no column 'map_key'; the rows have key"):
        writer.delete_map_entries("orders", "items", entries.select("key"))
    with pytest.raises(sp.NotFoundError, match="items"):
        writer.delete_map_entries("orders", "itemz", entries)
