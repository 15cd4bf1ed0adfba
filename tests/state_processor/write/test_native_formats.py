"""Native savepoints from Spark: the same state as in the canonical one, and what can't be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from samples import ORDERS_PATH

import state_processor as sp
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle, KeyGroupsStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "binary"}, "format='binary': expected one of canonical, native"),
        ({"format": "native"}, "backend=None: name the backend that restores it: rocksdb, forst, hashmap"),
        ({"format": "native", "backend": "memory"}, "backend='memory': name the backend"),
        ({"backend": "rocksdb"}, "canonical savepoints have none; leave it out, or set format='native'"),
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
