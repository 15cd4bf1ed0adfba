"""What the summary of a write counts, against the entries of both savepoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.cli import main
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
NATIVE = str(Path(ORDERS_PATH).parents[1] / "orders-rocksdb-native" / "savepoint")


def counted(summary: sp.WriteSummary) -> dict[str, tuple[Any, ...]]:
    """The changes of each state: kind, inserted, updated, deleted, absent."""
    changes = (change for operator in summary.operators for change in operator.changes)
    return {c.state: (c.change, c.counts.inserted, c.counts.updated, c.counts.deleted, c.counts.absent) for c in changes}


def difference(path: Path, state: str, old: str = ORDERS_PATH) -> tuple[int, int, int]:
    """Inserts, updates and deletes of a state by comparison of both savepoints."""
    rows = sp.arrow.diff_summary(old, str(path), "orders").to_pylist()
    (row,) = (r for r in rows if r["state_name"] == state)
    return row["inserts"], row["updates"], row["deletes"]


def entries(state: str) -> dict[str, Any]:
    batches = sp.arrow.read_state(ORDERS_PATH, "orders", state, flatten=False)
    return {row["key"]: row["value"] for batch in batches for row in batch.to_pylist()}


@pytest.mark.parametrize("source", [ORDERS_PATH, NATIVE])
def test_values_that_are_inserted_updated_and_deleted(spark: SparkSession, tmp_path: Path, source: str) -> None:
    one, two, three, *_ = sorted(entries("total"))
    rows = spark.createDataFrame([(one, -1), (two, None), ("new", 7), ("newer", 8)], "key string, total bigint")
    writer = sp.SavepointWriter.from_existing(spark, source).update_keyed_state("orders", "total", rows)
    gone = spark.createDataFrame([(three,), ("nobody",), ("nobody",), ("no one",)], "key string")
    summary = writer.delete_keys("orders", gone, "total").write(tmp_path / "new")
    assert counted(summary) == {"total": ("updated", 2, 1, 2, 2)}
    assert difference(tmp_path / "new", "total", source) == (2, 1, 2)
    assert "Keys to delete without an entry in orders: 2 in total" in str(summary)
    assert not summary.is_copy


def test_entries_of_maps(spark: SparkSession, tmp_path: Path) -> None:
    before = {key: dict(value) for key, value in entries("items").items()}
    key, held = next((k, v) for k, v in sorted(before.items()) if len(v) > 1)
    item = sorted(held)[0]
    rows = spark.createDataFrame([(key, {item: -5, "fresh": 1})], "key string, value map<string,bigint>")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", "items", rows)
    summary = writer.write(tmp_path / "whole")
    assert counted(summary) == {"items": ("updated", 1, 1, len(held) - 1, 0)}
    assert difference(tmp_path / "whole", "items") == (1, 1, len(held) - 1)
    gone = spark.createDataFrame([(key, item), (key, "never")], "key string, map_key string")
    writer.delete_map_entries("orders", "items", gone)
    assert counted(writer.write(tmp_path / "after")) == {"items": ("updated", 1, 0, len(held), 1)}


@pytest.fixture(scope="module", params=["written by Flink", "rocksdb", "forst"])
def native(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A savepoint with native files of the same states, and its backend."""
    if request.param == "written by Flink":
        return NATIVE, "rocksdb"
    path = str(tmp_path_factory.mktemp("native") / request.param)
    sp.SavepointWriter.from_existing(spark, ORDERS_PATH).write(path, format="native", backend=request.param)
    return path, request.param


def test_changes_on_top_of_native_files(spark: SparkSession, tmp_path: Path, native: tuple[str, str]) -> None:
    source, backend = native
    one, two, three, four, *_ = sorted(entries("total"))
    maps = {key: dict(value) for key, value in entries("items").items()}
    whole, partly = sorted(key for key, held in maps.items() if len(held) > 1)[:2]
    item, other = sorted(maps[whole])[0], sorted(maps[partly])[0]
    listed, *_ = sorted(entries("history"))
    kind = sp.SavepointReader.read(spark, source).read_keyed_state("orders", "history", flatten=False).schema["value"].dataType

    writer = sp.SavepointWriter.from_existing(spark, source)
    totals = spark.createDataFrame([(one, -1), (two, None), ("new", 7), ("newer", 8)], "key string, total bigint")
    writer.update_keyed_state("orders", "total", totals)
    gone = spark.createDataFrame([(three,), (four,), ("nobody",), ("nobody",), ("no one",)], "key string")
    writer.delete_keys("orders", gone, "total")
    items = spark.createDataFrame([(whole, {item: -5, "fresh": 1})], "key string, value map<string,bigint>")
    writer.update_keyed_state("orders", "items", items)
    some = spark.createDataFrame([(partly, other), (partly, "never")], "key string, map_key string")
    writer.delete_map_entries("orders", "items", some)
    lists = spark.createDataFrame(
        [(listed, []), ("fresh", entries("history")[listed])], f"key string, value {kind.simpleString()}"
    )
    writer.update_keyed_state("orders", "history", lists)
    writer.delete_keys("orders", spark.createDataFrame([("nobody",)], "key string"), "history")

    summary = writer.write(tmp_path / "new", format="native", backend=backend)  # type: ignore[arg-type]
    assert counted(summary) == {
        "total": ("updated", 2, 1, 3, 2),
        "items": ("updated", 1, 1, len(maps[whole]) - 1 + 1, 1),
        "history": ("updated", 1, 0, 1, 1),
    }
    for state, (_, inserted, updated, deleted, _) in counted(summary).items():
        assert difference(tmp_path / "new", state, source) == (inserted, updated, deleted), state
    assert "?" not in str(summary)


def test_states_that_are_added_replaced_and_removed(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", 1, 2), ("b", 3, None)], "key string, total bigint, other bigint")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).with_keyed_state("orders", rows)
    summary = writer.remove_state("orders", "items").write(tmp_path / "new")
    assert counted(summary) == {
        "total": ("replaced", None, None, None, 0),
        "other": ("added", 1, 0, 0, 0),
        "items": ("removed", 0, 0, None, 0),
    }
    lists = sp.SavepointWriter.new(spark)
    lists.with_list_state("source", "offsets", spark.createDataFrame([(1,), (2,), (3,)], "value bigint"))
    pairs = spark.createDataFrame([("x", 1), ("y", 2)], "key string, value bigint")
    made = lists.with_broadcast_state("source", "rules", pairs).write(tmp_path / "lists")
    assert counted(made) == {"offsets": ("added", 3, 0, 0, 0), "rules": ("added", 2, 0, 0, 0)}
    again = sp.SavepointWriter.from_existing(spark, str(tmp_path / "lists"))
    again.with_list_state("source", "offsets", spark.createDataFrame([(9,)], "value bigint"))
    assert counted(again.write(tmp_path / "replaced")) == {"offsets": ("replaced", 1, 0, 3, 0)}


def _nothing(spark: SparkSession, writer: sp.SavepointWriter) -> None:
    """Change nothing."""


def _absent(spark: SparkSession, writer: sp.SavepointWriter) -> None:
    writer.delete_keys("orders", spark.createDataFrame([("nobody",)], "key string"), "total")


def _renamed(spark: SparkSession, writer: sp.SavepointWriter) -> None:
    writer.change_operator_identifier("orders", "sales")


@pytest.mark.parametrize(("change", "is_copy"), [(_nothing, True), (_absent, True), (_renamed, False)])
def test_a_write_that_changes_nothing_says_so(
    spark: SparkSession, tmp_path: Path, change: Callable[[SparkSession, sp.SavepointWriter], None], is_copy: bool
) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    change(spark, writer)
    summary = writer.write(tmp_path / "new")
    assert summary.is_copy == is_copy
    assert ("Nothing was changed" in str(summary)) == is_copy
    assert ("sales was orders" in str(summary)) == (change is _renamed)


def test_keys_of_an_operator_without_keyed_state_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    new = sp.SavepointWriter.new(spark)
    new.with_list_state("source", "offsets", spark.createDataFrame([(1,)], "value bigint")).write(tmp_path / "lists")
    writer = sp.SavepointWriter.from_existing(spark, str(tmp_path / "lists"))
    with pytest.raises(sp.NotFoundError, match="operator source has no keyed state"):
        writer.delete_keys("source", spark.createDataFrame([("a",)], "key string"))
    assert writer.write(tmp_path / "copy").is_copy


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("drop-state", "--uid", "orders", "--state", "items"), ("items", "removed", "?: unknown")),
        (("drop-state", "--uid", "orders"), ("Left out with all their state: orders",)),
        (("rename-uid", "--from", "orders", "--to", "sales"), ("sales was orders",)),
        (("copy",), ("Nothing was changed",)),
        (("convert", "--format", "native", "--backend", "rocksdb"), ("Nothing was changed",)),
    ],
)
def test_commands_print_what_they_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    name, *flags = command
    assert main([name, ORDERS_PATH, str(tmp_path / "new"), *flags]) in (0, None)
    printed = capsys.readouterr().out
    assert [text for text in shown if text not in printed] == []
