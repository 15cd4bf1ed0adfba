"""Native savepoints from Spark: the same state as in the canonical one, and what can't be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import state_processor as sp
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle, KeyGroupsStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.spark import engine
from state_processor.spark.engine import COPIED_BYTES
from state_processor.write.build import SavepointBuild
from state_processor.write.tasks.local_engine import LocalEngine
from tests.corpus import packed_cases
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types


def tables(path: str | Path) -> dict[str, list[str]]:
    """The rows of each keyed state and timer queue of the operator ``orders`` as text."""
    rows = {}
    for state in sp.arrow.states(path).to_pylist():
        if state["operator_uid_hash"] == sp.OperatorIdentifier.for_uid("orders").uid_hash:
            batches = sp.arrow.read_state(path, "orders", state["state_name"], nanos="string", row_kind=True)
            rows[state["state_name"]] = sorted(str(row) for batch in batches for row in batch.to_pylist())
    return rows


@pytest.mark.parametrize(
    ("backend", "handles"),
    [
        ("rocksdb", IncrementalRemoteKeyedStateHandle),
        ("forst", IncrementalRemoteKeyedStateHandle),
        ("hashmap", KeyGroupsStateHandle),
    ],
)
def test_the_same_state_in_files_of_a_backend_and_back(
    backend: Literal["rocksdb", "forst", "hashmap"], handles: type, spark: SparkSession, tmp_path: Path
) -> None:
    native, back = tmp_path / "native", tmp_path / "back"
    summary = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).write(native, format="native", backend=backend)
    expected = tables(ORDERS_PATH)
    assert len(expected) == 7
    assert tables(native) == expected
    written = {o.uid: (o.entries > 0, o.carried) for o in summary.operators}
    assert (written["orders"], written["catalog"]) == ((True, False), (False, True))
    snapshot = open_snapshot(native)
    keyed = [s.managed_keyed for o in snapshot.metadata.operators for s in o.subtasks if s.managed_keyed is not None]
    assert {type(handle) for handle in keyed} == {handles}
    stores = [handle for handle in keyed if isinstance(handle, IncrementalRemoteKeyedStateHandle)]
    assert all(handle.checkpoint_id == snapshot.metadata.checkpoint_id for handle in stores)
    sp.SavepointWriter.from_existing(spark, native).with_parallelism("orders", 3).write(back)
    assert tables(back) == expected


@pytest.mark.parametrize("backend", ["rocksdb", "forst"])
@pytest.mark.parametrize("name", ["orders-rocksdb-incremental", "keyed-all-rocksdb-heap-timers-incremental"])
def test_files_of_a_store_are_copied(name: str, backend: str, tmp_path: Path) -> None:
    """Also files in shared directories and in ``_metadata``, and with heap timers."""
    plan = SavepointBuild.from_existing(STORES[name])
    plan.choose_format("native", backend)
    summary = plan.write_to(tmp_path / "copy", LocalEngine())
    assert all(operator.carried for operator in summary.operators)
    found, expected = (store_files(path) for path in (tmp_path / "copy", STORES[name]))
    assert len(expected) > 10
    assert found == expected
    handles = sp.arrow.handles(tmp_path / "copy").to_pylist()
    assert {str(Path(handle["path"]).parent) for handle in handles if handle["path"]} == {"."}  # none is elsewhere


NATIVE = Path(ORDERS_PATH).parents[1] / "orders-rocksdb-native" / "savepoint"
STORES = {"orders-rocksdb-incremental": next((Path(ORDERS_PATH).parents[1] / "orders-rocksdb-incremental").rglob("chk-*"))}
STORES |= {case.directory.name: case.snapshot for case in packed_cases() if "heap-timers-incremental" in case.id}


def store_files(path: Path) -> dict[str, bytes]:
    """The files of stores, and raw keyed state, by operator, subtask and name."""
    snapshot = open_snapshot(path)
    files = {}
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            place = f"{operator.operator_id} {subtask.index}"
            if isinstance(handle := subtask.managed_keyed, IncrementalRemoteKeyedStateHandle):
                files |= {f"{place} {file.local_name}": bytes(snapshot.open(file.stream).read()) for file in handle.files}
            if isinstance(handle := subtask.raw_keyed, KeyGroupsStateHandle):
                files[f"{place} timers"] = bytes(snapshot.open(handle.stream).read())
    return files


@pytest.mark.parametrize("name", ["orders-rocksdb-native", "orders-rocksdb-incremental"])
@pytest.mark.parametrize("in_driver", [True, False])
def test_files_of_states_that_nobody_changes_stay(name: str, in_driver: bool, spark: SparkSession, tmp_path: Path) -> None:
    """One state is changed, one is removed, one is added: the files of the others are the same, byte for byte.

    The driver writes few rows. Spark can estimate the size of a query, but not of an RDD.
    """
    base = NATIVE if name == "orders-rocksdb-native" else STORES[name]
    if in_driver:
        rows = spark.sql("SELECT * FROM VALUES ('amelia', 7L), ('nobody yet', 8L) AS rows(key, value)")
    else:
        rows = spark.createDataFrame([("amelia", 7), ("nobody yet", 8)], "key string, value long")
    group = f"{name}-{in_driver}"
    writer = sp.SavepointWriter.from_existing(spark, base).update_keyed_state("orders", "total", rows)
    writer.remove_state("orders", "session")
    writer.with_keyed_state("orders", rows, states={"value": T.LONG()}, columns={"value": "score"})
    spark.sparkContext.setJobGroup(group, "")
    try:
        summary = writer.write(tmp_path / "patched", format="native", backend="rocksdb")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == (1 if in_driver else 2)
    found, expected = tables(tmp_path / "patched"), tables(base)
    assert found.pop("score") == sorted(str({"key": key, "value": value}) for key, value in (("amelia", 7), ("nobody yet", 8)))
    assert len(expected.pop("session")) > 20
    totals = [row for row in expected.pop("total") if "'amelia'" not in row]
    assert found.pop("total") == sorted([*totals, "{'key': 'amelia', 'value': 7}", "{'key': 'nobody yet', 'value': 8}"])
    assert found == expected
    assert next(o for o in summary.operators if o.uid == "orders").entries == 4
    old, new = store_files(Path(base)), store_files(tmp_path / "patched")
    kept = {name for name in old.keys() & new.keys() if name.endswith(".sst")}
    assert len(kept) == len([name for name in old if name.endswith(".sst")]) - 2  # of the removed state and two subtasks
    assert {name for name in kept if old[name] != new[name]} == set()


@pytest.mark.parametrize("in_driver", [True, False])
def test_files_of_timers_stay(in_driver: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of keys that are deleted become tombstones, as the entries of other states do."""
    monkeypatch.setattr(engine, "COPIED_BYTES", COPIED_BYTES if in_driver else -1)
    writer = sp.SavepointWriter.from_existing(spark, NATIVE)
    writer.delete_keys("orders", spark.sql("SELECT * FROM VALUES ('chidi'), ('clara'), ('not there') AS rows(key)"))
    summary = writer.write(tmp_path / "patched", format="native", backend="rocksdb")
    assert next(o for o in summary.operators if o.uid == "orders").entries == 0
    found, expected = tables(tmp_path / "patched"), tables(NATIVE)
    left = {name: [row for row in rows if "'chidi'" not in row and "'clara'" not in row] for name, rows in expected.items()}
    assert found == left
    timers = "_timer_state/event_user-timers"
    assert len(left[timers]) == len(expected[timers]) - 2
    old, new = store_files(NATIVE), store_files(tmp_path / "patched")
    kept = {name for name in old if name.endswith(".sst")}
    assert {name for name in kept if old[name] != new.get(name)} == set()
    assert max(len(data) for name, data in new.items() if name.endswith(".sst") and name not in kept) < 3000


def test_what_writes_files_anew_is_said(tmp_path: Path) -> None:
    plan = SavepointBuild.from_existing(NATIVE)
    plan.set_max_parallelism(512)
    plan.choose_format("native", "rocksdb")
    summary = plan.write_to(tmp_path / "new", LocalEngine())
    assert "All keyed state of orders was written anew: max parallelism 128 becomes 512" in str(summary)
    assert "max parallelism 128 becomes 512" in summary._repr_html_()
    assert tables(tmp_path / "new") == tables(NATIVE)
    plan = SavepointBuild.from_existing(NATIVE)
    plan.remove_state("orders", "session")
    plan.choose_format("native", "rocksdb")
    assert "anew" not in str(plan.write_to(tmp_path / "patched", LocalEngine()))


def test_files_that_are_shared(tmp_path: Path) -> None:
    """Those of stores stay where they are, others are copied; the summary says what that means."""
    base = STORES["orders-rocksdb-incremental"]
    plan = SavepointBuild.from_existing(base)
    plan.remove_state("orders", "session")
    plan.choose_format("native", "rocksdb", share_files=True)
    summary = plan.write_to(tmp_path / "new", LocalEngine())
    assert f"It refers to files of {base}, which has to stay" in str(summary)
    assert f"It refers to files of {base}" in summary._repr_html_()
    shared = {h["path"] for h in sp.arrow.handles(tmp_path / "new").to_pylist() if h["path"] and "savepoint" in h["path"]}
    assert len(shared) == 10
    assert {Path(path.removeprefix("file:")).parent for path in shared} <= {base, base.parent / "shared"}
    with pytest.raises(sp.errors.ForbiddenPathError, match="allow_paths"):
        list(sp.arrow.read_state(tmp_path / "new", "orders", "total"))
    batches = sp.arrow.read_state(tmp_path / "new", "orders", "total", allow_paths=[str(base.parent)])
    assert sorted(str(row) for batch in batches for row in batch.to_pylist()) == tables(base)["total"]


@pytest.mark.parametrize("options", [{}, {"format": "native", "backend": "rocksdb", "share_files": True}])
def test_a_savepoint_with_files_that_the_source_refers_to_is_not_replaced(tmp_path: Path, options: dict[str, Any]) -> None:
    old, source = tmp_path / "old", tmp_path / "source"
    rows = [{"key": i, "v": str(i) * 100} for i in range(3000)]
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("o", rows, states={"v": sp.ValueState(sp.Types.STRING())})
    writer.write(old, format="native", backend="rocksdb")
    writer = sp.arrow.SavepointWriter.from_existing(old).with_list_state("l", "pending", [{"value": 1}])
    writer.write(source, format="native", backend="rocksdb", share_files=True)
    before = sorted(old.iterdir())
    writer = sp.arrow.SavepointWriter.from_existing(source, allow_paths=[tmp_path])
    with pytest.raises(sp.OptionError, match=f"of the source savepoint {source}; write to another directory"):
        writer.write(old, overwrite=True, **options)
    assert sorted(old.iterdir()) == before
    writer.write(tmp_path / "new", **options)
    moved = tmp_path / "moved"
    writer.write(moved)
    writer.write(moved, overwrite=True, **options)  # no file of it belongs to the source


def test_deleted_keys_without_timers(tmp_path: Path) -> None:
    """Nothing is deleted from the column family of the timers, and no file is written for it."""
    source = STORES["orders-rocksdb-incremental"]
    rows = tables(source)
    writer = sp.arrow.SavepointWriter.from_existing(source).delete_keys("orders", [{"key": "magnus"}])
    writer.write(tmp_path / "out", format="native", backend="rocksdb")
    expected = {name: [row for row in texts if "'key': 'magnus'" not in row] for name, texts in rows.items()}
    timers = "_timer_state/event_user-timers"
    assert expected[timers] == rows[timers] != []
    assert expected["total"] != rows["total"]
    assert tables(tmp_path / "out") == expected


def test_changed_timers_on_the_heap(tmp_path: Path) -> None:
    """A job that has its timers there would not look for them in the files of the backend."""
    source = STORES["keyed-all-rocksdb-heap-timers-incremental"]
    plan = SavepointBuild.from_existing(source)
    plan.set_max_parallelism(512)
    plan.choose_format("native", "rocksdb")
    plan.write_to(tmp_path / "out", LocalEngine())

    def timers(path: str | Path) -> list[str]:
        return sorted(str(row) for batch in sp.arrow.read_timers(path, "keyed-int") for row in batch.to_pylist())

    assert len(timers(source)) > 20
    assert timers(tmp_path / "out") == timers(source)
    handles = [s.raw_keyed for o in open_snapshot(tmp_path / "out").metadata.operators for s in o.subtasks if s.managed_keyed]
    assert len(handles) == sum(handle is not None for handle in handles) == 10  # the service is there without timers too


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "binary"}, "format='binary': expected one of canonical, native"),
        ({"format": "native"}, "format='native': name the backend that restores it by backend: rocksdb, forst, hashmap"),
        ({"format": "native", "backend": "memory"}, "backend='memory': name the backend"),
        ({"backend": "rocksdb"}, "canonical savepoints have none; leave it out, or set format='native'"),
        ({"share_files": True}, "share_files=True with format='canonical', backend=None: only files of RocksDB and ForSt"),
        ({"share_files": True, "format": "native", "backend": "hashmap"}, "share_files=True with .* only files of RocksDB"),
        ({"format": "native", "backend": "hashmap"}, r"flink_version='1.14' can't restore native savepoints.* 1.15"),
    ],
)
def test_what_can_not_be_asked_for(spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH, flink_version="1.14")
    with pytest.raises(sp.errors.OptionError, match=message):
        writer.write(tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_version_without_forst(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(sp.errors.OptionError, match=r"flink_version='1.20' has no ForSt; the first that has is 2.0"):
        sp.SavepointWriter.new(spark).write(tmp_path / "out", format="native", backend="forst")


def test_a_state_named_as_a_column_family_of_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.new(spark)
    writer.with_keyed_state("orders", spark.range(3).selectExpr("id AS key", "id AS default"))
    with pytest.raises(sp.errors.OptionError, match="operator orders: RocksDB has no place for a state named 'default'"):
        writer.write(tmp_path / "out", format="native", backend="rocksdb")
    assert not (tmp_path / "out").exists()
