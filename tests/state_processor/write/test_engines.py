"""The writer without Spark writes what the writer with Spark writes, in cases of its own; see ``tests.both_engines``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import polars as pl
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.ordered_threads import THREADS_VARIABLE
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.write.staging import Staging
from state_processor.options.access import SnapshotAccess
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.tasks import local_engine
from state_processor.write.tasks.local_engine import LocalEngine
from tests.both_engines import EnginesDifferError
from tests.snapshot_content import content
from tests.state_processor.samples import FIXTURES, ORDERS_PATH, WINDOWS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from state_processor.write.state_writer import StateWriter

T = sp.Types
SINKS = str(FIXTURES / "sinks" / "2.3.0")
TIME = pa.timestamp("us", tz="UTC")
NESTED = pa.list_(pa.list_(pa.string()))
NUMBERS = pa.table(
    {
        "key": pa.array(range(1000), pa.int64()),
        "total": pa.array([None if i % 7 == 0 else i * i for i in range(1000)], pa.int64()),
        "name": [f"n{i}" for i in range(1000)],
        "tags": pa.array([[f"t{j}" for j in range(i % 3)] for i in range(1000)], pa.list_(pa.string())),
        "scores": pa.array([[(f"s{j}", j) for j in range(i % 4)] for i in range(1000)], pa.map_(pa.string(), pa.int64())),
        "_last_access": pa.array([i * 1000 for i in range(1000)], TIME),
    }
)
STATES = {
    "total": T.LONG(),
    "name": sp.ValueState(T.STRING(), ttl=True),
    "tags": sp.ListState(T.STRING()),
    "scores": sp.MapState(T.STRING(), T.LONG()),
}
ELEMENTS = pa.table({"value": pa.chunked_array([[f"a{i}" for i in range(9)], ["b"], [f"c{i}" for i in range(100)]])})
TOTALS = pa.table({"key": ["amelia", "zoe"], "value": pa.array([7, None], pa.int64())})

Change = Callable[["StateWriter"], Any]
NEW: dict[str, Change] = {
    "values, lists, maps, ttl": lambda w: w.with_keyed_state("o", NUMBERS, states=STATES, parallelism=3),
    "several operators": lambda w: w.with_keyed_state("o", NUMBERS.select(["key", "total"])).with_keyed_state(
        "p", NUMBERS.select(["key", "name"]), parallelism=2
    ),
    "timers": lambda w: w.with_timers(
        "t",
        pa.table(
            {
                "key": ["a", "b", "a"],
                "timestamp": pa.array([5, 6, 7], pa.int64()),
                "domain": ["event_time", "processing_time", "event_time"],
            }
        ),
    ),
    "timers by instants": lambda w: w.with_timers("t", pa.table({"key": [1, 2], "fires_at": pa.array([5000, 6000], TIME)})),
    "lists": lambda w: w.with_list_state("l", "pending", ELEMENTS, parallelism=7),
    "no elements, of a nested type": lambda w: w.with_list_state(
        "l", "pending", pa.table({"value": pa.array([], NESTED)}).to_reader().read_all(), T.LIST(T.LIST(T.STRING()))
    ),
    "union lists": lambda w: w.with_union_state("l", "offsets", pa.table({"value": pa.array([1, 2], pa.int64())}), T.LONG()),
    "broadcast": lambda w: w.with_broadcast_state("b", "rules", pa.table({"key": ["x", "y"], "value": [0.5, -0.0]})),
}
EXISTING: dict[str, Change] = {
    "nothing": lambda w: w,
    "updates": lambda w: w.update_keyed_state("orders", "total", TOTALS),
    "updates that are replaced": lambda w: w.update_keyed_state("orders", "total", TOTALS).update_keyed_state(
        "orders", "total", pa.table({"key": ["zoe", "yves"], "value": pa.array([1, 2], pa.int64())})
    ),
    "elements of a list": lambda w: w.update_keyed_state(
        "orders",
        "history",
        pa.table({"key": ["zoe"] * 3, "list_index": pa.array([2, 0, 1], pa.int32()), "list_value": ["c", "a", "b"]}),
    ),
    "entries of a map": lambda w: w.update_keyed_state(
        "orders", "items", pa.table({"key": ["amelia"], "map_key": ["tea"], "map_value": pa.array([3], pa.int64())})
    ),
    "maps, then an entry": lambda w: w.update_keyed_state(
        "orders", "items", pa.table({"key": ["zoe"], "value": pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64()))})
    ).delete_map_entries("orders", "items", pa.table({"key": ["zoe"], "map_key": ["a"]})),
    "deleted keys": lambda w: w.delete_keys("orders", pa.table({"key": ["amelia", "nobody"]})),
    "another parallelism": lambda w: w.with_parallelism("orders", 5).with_max_parallelism(64),
    "the type that it had": lambda w: w.evolve_state("orders", "total", T.LONG()),
    "left out": lambda w: w.remove_state("orders", "session").remove_operator("catalog"),
    "to flink 2": lambda w: w.migrate("2.x"),
}


POINT = T.POJO("org.acme.Point", {"x": T.INT(), "y": T.INT()})
LABELED_POINT = T.POJO("org.acme.Point", {"x": T.INT(), "label": T.STRING()})
WINDOW = {"start": 1_704_067_240_000_000, "end": 1_704_067_250_000_000}
WINDOWS = pa.Table.from_pylist(
    [{"key": "user-5", "window": WINDOW, "value": None}],
    pa.schema(
        [
            ("key", pa.string()),
            ("window", pa.struct([("start", TIME), ("end", TIME)])),
            ("value", pa.struct([("amount", pa.int32()), ("time", pa.int64()), ("user", pa.string())])),
        ]
    ),
)
OTHERS: dict[str, tuple[str, Change]] = {
    "windows": (WINDOWS_PATH, lambda w: w.update_keyed_state("tumbling-reduce", "window-contents", WINDOWS)),
    "timers of keys that are deleted": (WINDOWS_PATH, lambda w: w.delete_keys("session-process", pa.table({"key": ["user-5"]}))),
    "operator state that there was": (
        ORDERS_PATH,
        lambda w: w.with_list_state("catalog", "pending", ELEMENTS).with_broadcast_state(
            "catalog", "discounts", pa.table({"key": ["x"], "value": [0.5]})
        ),
    ),
    "operator state in more subtasks": (ORDERS_PATH, lambda w: w.with_parallelism("catalog", 5)),
    "another uid": (ORDERS_PATH, lambda w: w.change_operator_identifier("orders", "renamed")),
    "expired values": (ORDERS_PATH, lambda w: w.expire("orders", "session", "1s", "2024-01-01T00:00:00Z")),
    "times of last access": (ORDERS_PATH, lambda w: w.touch("orders", "session", "2024-06-01T00:00:00Z")),
    "no time-to-live": (ORDERS_PATH, lambda w: w.with_ttl("orders", "session", enabled=False)),
    "splits of a source": (
        ORDERS_PATH,
        lambda w: w.with_source_splits(
            "kafka",
            pa.table(
                {"topic": ["t", "t"], "partition": pa.array([0, 1], pa.int32()), "starting_offset": pa.array([5, -2], pa.int64())}
            ),
            "kafka",
        ),
    ),
    "files of a sink": (SINKS, lambda w: w.with_sink_state("open", sp.arrow.read_sink_state(SINKS, "open").slice(0, 1))),
}


def written(spark: SparkSession, path: Path, base: str | None, change: Change, **options: Any) -> None:
    """Write with Spark; ``tests.both_engines`` does the same without, and compares."""
    writer = sp.SavepointWriter.new(spark) if base is None else sp.SavepointWriter.from_existing(spark, base)
    change(writer)
    writer.write(path, **options)


@pytest.mark.spark
@pytest.mark.parametrize("case", NEW)
def test_new_savepoints_have_the_same_bytes(spark: SparkSession, case: str, tmp_path: Path) -> None:
    written(spark, tmp_path / "new", None, NEW[case])


@pytest.mark.spark
@pytest.mark.parametrize("case", EXISTING)
def test_changed_savepoints_have_the_same_bytes(spark: SparkSession, case: str, tmp_path: Path) -> None:
    written(spark, tmp_path / "new", ORDERS_PATH, EXISTING[case])


@pytest.mark.spark
@pytest.mark.parametrize("case", OTHERS)
def test_other_changes_have_the_same_bytes(spark: SparkSession, case: str, tmp_path: Path) -> None:
    base, change = OTHERS[case]
    written(spark, tmp_path / "new", base, change)


@pytest.mark.spark
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_native_savepoints_have_the_same_bytes(spark: SparkSession, backend: str, tmp_path: Path) -> None:
    """A new savepoint with a POJO; its copy with updated, deleted and evolved values; the same as a change of the files."""
    rows = pa.table({"key": pa.array(range(9), pa.int64()), "point": [{"x": i, "y": -i} for i in range(9)]})
    options = {"format": "native", "backend": backend}

    def first(writer: StateWriter) -> Any:
        return writer.with_keyed_state("o", rows, states={"point": POINT}, parallelism=2).with_keyed_state(
            "o", NUMBERS, states=STATES
        )

    def changed(writer: StateWriter) -> Any:
        writer.update_keyed_state("o", "total", pa.table({"key": pa.array([1, 5000], pa.int64()), "value": [-1, 5]}))
        return writer.delete_keys("o", pa.table({"key": pa.array([2], pa.int64())}))

    base = str(tmp_path / "new")
    written(spark, tmp_path / "new", None, first, **options)
    written(spark, tmp_path / "patched", base, changed, **options)
    written(spark, tmp_path / "evolved", base, lambda w: changed(w.evolve_state("o", "point", LABELED_POINT)), **options)


@pytest.mark.spark
def test_a_difference_of_the_engines_fails_the_test(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.new(spark)
    with mock.patch.object(ArrowRows, "of", lambda given: ArrowRows(given.slice(1))):
        writer.with_keyed_state("o", NUMBERS.select(["key", "name"]))
    with pytest.raises(EnginesDifferError, match=r"new: with Spark: .*\['managed_keyed'\]\[1\] = \d+; without: .* = \d+"):
        writer.write(tmp_path / "new")
    with mock.patch.object(ArrowRows, "of", mock.Mock(side_effect=sp.OptionError("no rows"))):
        writer.delete_keys("o", pa.table({"key": pa.array([1], pa.int64())}))
    with pytest.raises(EnginesDifferError, match=r"(?s)write: with Spark: WriteSummary.*; without: .*no rows"):
        writer.write(tmp_path / "other")


def test_rows_of_arrow_are_written_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    from state_processor.spark.engine import SparkEngine

    snapshots = []
    for i, engine in enumerate((LocalEngine(), SparkEngine(spark))):
        writer = sp.arrow.SavepointWriter.new().with_keyed_state("o", NUMBERS.select(["key", "name"]).to_reader())
        writer._build.write_to(str(tmp_path / str(i)), engine)
        snapshots.append(SnapshotAccess().open(str(tmp_path / str(i))))
    assert content(snapshots[0]) == content(snapshots[1])


@pytest.mark.parametrize(
    ("parallelism", "dealt"), [(1, [110]), (3, [36, 37, 37]), (4, [27, 28, 27, 28]), (128, [1] * 110 + [0] * 18)]
)
def test_elements_are_dealt_in_ranges(parallelism: int, dealt: list[int], tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new().with_list_state("l", "pending", ELEMENTS.to_reader(), parallelism=parallelism)
    writer.write(tmp_path / "new")
    (operator,) = open_snapshot(tmp_path / "new").metadata.operators
    assert [len(s.managed_operator.states[0].offsets) for s in operator.subtasks if s.managed_operator] == dealt
    assert sp.arrow.read_state(tmp_path / "new", "l", "pending").read_all().column("value").equals(ELEMENTS.column("value"))


@pytest.mark.parametrize("backend", ["rocksdb", "forst", "hashmap"])
def test_native_formats(backend: Any, tmp_path: Path) -> None:
    first = sp.arrow.SavepointWriter.new(flink_version="2.0").with_keyed_state("o", NUMBERS, states=STATES)
    first.write(tmp_path / "first", format="native", backend=backend)
    second = sp.arrow.SavepointWriter.from_existing(tmp_path / "first")
    second.update_keyed_state("o", "total", [{"key": 1, "value": -1}, {"key": 5000, "value": 5}]).delete_keys("o", [{"key": 2}])
    second.write(tmp_path / "second", format="native", backend=backend)
    rows = sp.arrow.read_state(tmp_path / "second", "o", "total").read_all().to_pylist()
    wanted = {i: i * i for i in range(1000) if i % 7 and i != 2} | {1: -1, 5000: 5}
    assert {row["key"]: row["value"] for row in rows} == wanted


def as_pandas(rows: list[dict[str, Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows)


class OnlyAnArray:
    """A producer of one batch, such as a row group of nanoarrow."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "given",
    [
        list,
        pa.Table.from_pylist,
        pa.RecordBatch.from_pylist,
        lambda rows: pa.Table.from_pylist(rows).to_reader(),
        lambda rows: OnlyAnArray(pa.RecordBatch.from_pylist(rows)),
        pl.DataFrame,
        pytest.param(as_pandas, marks=pytest.mark.pandas),
    ],
    ids=["dictionaries", "table", "batch", "reader", "array", "polars", "pandas"],
)
def test_every_kind_of_rows(given: Callable[[list[dict[str, Any]]], Any], tmp_path: Path) -> None:
    rows = [{"key": "a", "total": 1}, {"key": "b", "total": 2}]
    sp.arrow.SavepointWriter.new().with_keyed_state("o", given(rows)).write(tmp_path / "new")
    assert {r["key"]: r["value"] for r in sp.arrow.read_state(tmp_path / "new", "o", "total").read_all().to_pylist()} == {
        "a": 1,
        "b": 2,
    }


def test_rows_that_were_read_are_written_again(tmp_path: Path) -> None:
    rows = sp.arrow.read_state(ORDERS_PATH, "orders", "total")
    sp.arrow.SavepointWriter.new().with_keyed_state("copies", rows, states={"value": T.LONG()}).write(tmp_path / "new")
    copies = sp.arrow.read_state(tmp_path / "new", "copies", "value").read_all().sort_by("key")
    assert copies.to_pylist() == sp.arrow.read_state(ORDERS_PATH, "orders", "total").read_all().sort_by("key").to_pylist()


@pytest.mark.one_engine(reason="only writers without Spark read streams batch by batch")
def test_a_stream_is_read_once(tmp_path: Path) -> None:
    reader = pa.table({"key": ["a"], "total": [1]}).to_reader()
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("o", reader)
    writer.write(tmp_path / "one")
    with pytest.raises(sp.OptionError, match="a stream that was read before; give the rows as a table"):
        writer.write(tmp_path / "two")
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (7, "expected rows as a table of Arrow, .* found a int"),
        ([], "the list of rows is empty"),
        (
            [{"key": "a", "total": 1}, {"key": "b", "total": "x"}],
            "column 'total' of row 1 can't become a value of Arrow: found 'x' of type str",
        ),
        (pa.table({"key": ["a", None], "total": [1, 2]}), "operator o, state 'total'.* null; a key can't be"),
        (pa.table({"key": ["a", "a"], "total": [1, 2]}), "operator o, .*key 'a' occurs more than once"),
        (pa.table({"key": pa.array([2**63], pa.uint64()), "total": [1]}), "column 'key' is of Arrow type uint64"),
    ],
)
def test_rows_that_are_refused(rows: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(sp.StateProcessorError, match=told):
        sp.arrow.SavepointWriter.new().with_keyed_state("o", rows).write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_timers_with_two_times() -> None:
    writer = sp.arrow.SavepointWriter.new()
    timers = pa.table({"key": ["a"], "timestamp": pa.array([5], pa.int64()), "fires_at": pa.array([9000], TIME)})
    with pytest.raises(sp.InvalidRowError, match="for the key 'a' the columns have different times since 1970: timestamp 5 ms"):
        writer.with_timers("t", timers)


PROGRAM = """
import sys
import state_processor as sp
writer = sp.arrow.SavepointWriter.from_existing({path!r})
writer.update_keyed_state("orders", "total", [{{"key": "amelia", "value": 3}}]).write({target!r})
assert not {{"pyspark", "py4j"}} & {{name.partition(".")[0] for name in sys.modules}}
"""


def test_spark_is_not_imported(tmp_path: Path) -> None:
    program = PROGRAM.format(path=ORDERS_PATH, target=str(tmp_path / "new"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


@pytest.mark.one_engine(reason="writers without Spark store entries between the passes in scratch space")
def test_entries_of_remote_savepoints_are_in_scratch_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_PROCESSOR_SCRATCH", str(tmp_path / "scratch"))
    opened: dict[str, list[str]] = {}
    sink = Staging.open

    def recorded(staging: Staging, name: str) -> FileSink:
        opened.setdefault(staging.directory, []).append(name)
        return sink(staging, name)

    monkeypatch.setattr(Staging, "open", recorded)
    for target in (str(tmp_path / "local"), "memory://engines"):
        writer = sp.arrow.SavepointWriter.new().with_keyed_state("o", NUMBERS, states=STATES, parallelism=3)
        writer.with_list_state("l", "pending", ELEMENTS, parallelism=7).write(target)
    assert [sum("-shuffle-" in n or "-index-" in n for n in names) for names in opened.values()] == [4, 0]
    assert content(open_snapshot("memory://engines")) == content(open_snapshot(tmp_path / "local"))
    assert not list((tmp_path / "scratch").glob("*/run-*/store-*"))


@pytest.mark.one_engine("tasks of Spark have one thread")
@pytest.mark.parametrize(("options", "variable", "threads"), [({}, "1", 1), ({"threads": 3}, "1", 3), ({}, "5", 5)])
def test_the_user_chooses_the_threads_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], variable: str, threads: int
) -> None:
    started: list[int | None] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, max_workers: int | None = None) -> None:
            started.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setenv(THREADS_VARIABLE, variable)
    monkeypatch.setattr(local_engine, "ThreadPoolExecutor", Pool)
    sp.arrow.SavepointWriter.new(**options).with_keyed_state("o", TOTALS).write(tmp_path / "written")
    assert set(started) == {threads}
