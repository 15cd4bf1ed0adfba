"""Writing while workers, executors, commits and drivers are killed: all or nothing, and nothing left over."""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import state_processor as sp
from tests.faults.processes import descendants, kill
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values
from tests.waiting import end_of, line_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE: Final = Path(__file__).parents[1]
ROWS: Final = 8000
WRITES: Final = ("by_writer", "by_sink")
STORE_PATH: Final = str(ORDERS.parent / "orders-rocksdb-native" / "savepoint")
"""The same in files of RocksDB."""
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def digests(directory: Path) -> dict[str, str]:
    """Every file with a digest of its bytes."""
    files = [p for p in directory.rglob("*") if p.is_file()]
    return {str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def check_complete(target: Path, rows: range = range(ROWS)) -> None:
    """The base with new keys; each file is one that the savepoint refers to."""
    found = [(r["key"], r["value"]) for b in sp.arrow.read_state(target, "orders", "total") for r in b.to_pylist()]
    assert len(found) == len(dict(found))
    assert dict(found) == expected_values(ORDERS, "orders", "total") | {f"new-{i}": i for i in rows}
    assert sum(b.num_rows for b in sp.arrow.read_state(target, "catalog", "pending")) == 10
    referenced = {h["path"] for h in sp.arrow.handles(target).to_pylist() if not h["inline"]}
    assert {p.name for p in target.iterdir()} == {"_metadata"} | referenced


class Cluster:
    """The process of ``cluster_program``."""

    def __init__(self, scratch: Path) -> None:
        self._fault = scratch / "fault"
        self._number = 0
        path = os.pathsep.join([str(HERE), str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "cluster_program.py"), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"STATE_PROCESSOR_TEST_FAULT": str(self._fault), "PYTHONPATH": path},
        )

    def start(self, function: str, fault: tuple[str, str, int] | None, **arguments: Any) -> None:
        """Ask for a write during which something fails: where, how, how many times."""
        self._number += 1
        where, how, times = fault or ("", "", 0)
        wanted = {"where": where, "how": how, "times": times, "call": 1 if where == "commit" else 3, "number": self._number}
        self._fault.write_text(json.dumps(wanted if fault else {}))
        assert self.process.stdin is not None
        print(json.dumps({"function": function, **arguments}), file=self.process.stdin, flush=True)

    def failures(self) -> int:
        """How often it has failed so far."""
        log = Path(f"{self._fault}.{self._number}")
        return len(log.read_text().splitlines()) if log.exists() else 0

    def run(self, function: str, target: Path, fault: tuple[str, str, int] | None = None, **arguments: Any) -> dict[str, Any]:
        """The error of a write; empty after success."""
        wanted = {"overwrite": False, "first": 0, "end": ROWS} if function in (*WRITES, "natively") else {}
        self.start(function, fault, **{"base": ORDERS_PATH, "target": str(target)} | wanted | arguments)
        assert self.process.stdout is not None
        answer = json.loads(line_of(self.process.stdout))
        assert isinstance(answer, dict)
        return answer

    def kill(self) -> None:
        """Kill the driver and everything that it has started, all at once."""
        kill(descendants(self.process.pid))
        end_of(self.process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    before = digests(Path(ORDERS_PATH))
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    if running.process.poll() is None:
        running.kill()
    assert digests(Path(ORDERS_PATH)) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_task_that_is_killed_twice(cluster: Cluster, write: str, tmp_path: Path) -> None:
    assert cluster.run(write, tmp_path / "new", ("rows", "worker", 2)) == {}
    assert cluster.failures() == 2
    check_complete(tmp_path / "new")


@pytest.mark.parametrize(
    ("write", "base"), [("by_writer", ORDERS_PATH), ("natively", ORDERS_PATH), ("natively", STORE_PATH)], ids=str
)
def test_a_file_that_is_half_written(cluster: Cluster, write: str, base: str, tmp_path: Path) -> None:
    assert cluster.run(write, tmp_path / "new", ("file", "worker", 2), base=base) == {}
    assert cluster.failures() == 2
    check_complete(tmp_path / "new")


@pytest.mark.parametrize("write", WRITES)
def test_a_task_that_is_killed_each_time(cluster: Cluster, write: str, tmp_path: Path) -> None:
    error = cluster.run(write, tmp_path / "new", ("rows", "worker", 99))
    assert cluster.failures() >= 3
    assert "Python worker exited unexpectedly" in error["message"]
    if write == "by_writer":
        assert error["type"] == "WriteError"
    assert not (tmp_path / "new").exists()
    assert cluster.run(write, tmp_path / "new") == {}
    check_complete(tmp_path / "new")


def test_a_store_whose_task_is_killed_each_time(cluster: Cluster, tmp_path: Path) -> None:
    error = cluster.run("natively", tmp_path / "new", ("file", "worker", 99), base=STORE_PATH)
    assert (error["type"], cluster.failures()) == ("WriteError", 3)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("write", "where"), [("by_writer", "rows"), ("by_writer", "file"), ("by_sink", "rows")])
def test_an_executor_that_is_lost(cluster: Cluster, write: str, where: str, tmp_path: Path) -> None:
    assert cluster.run(write, tmp_path / "new", (where, "executor", 1)) == {}
    assert cluster.failures() == 1
    check_complete(tmp_path / "new")


@pytest.mark.parametrize(("write", "where"), [("by_writer", "rows"), ("by_writer", "file"), ("by_sink", "rows")])
def test_a_slow_task_that_another_overtakes(cluster: Cluster, write: str, where: str, tmp_path: Path) -> None:
    assert cluster.run(write, tmp_path / "new", (where, "slow", 1)) == {}
    assert cluster.failures() == 1
    check_complete(tmp_path / "new")


@pytest.mark.parametrize(("write", "how"), [("by_writer", "raise"), ("by_sink", "worker")])
def test_a_commit_that_fails(cluster: Cluster, write: str, how: str, tmp_path: Path) -> None:
    """The savepoint to be replaced is unchanged."""
    target = tmp_path / "new"
    assert cluster.run(write, target, first=ROWS, end=ROWS + 10) == {}
    before = digests(target)
    error = cluster.run(write, target, ("commit", how, 1), overwrite=True)
    assert ("the disk is on fire" if how == "raise" else "exited unexpectedly") in error["message"]
    assert digests(target) == before
    assert cluster.run(write, target, overwrite=True) == {}
    check_complete(target)
    assert not set(digests(target)) & set(before) - {"_metadata"}


def test_code_of_the_users_that_fails(cluster: Cluster, tmp_path: Path) -> None:
    error = cluster.run("by_code_that_fails", tmp_path / "new")
    assert error["type"] == "PythonException"
    assert "ValueError: no total for new-" in error["message"]
    assert not (tmp_path / "new").exists()


def test_a_driver_that_is_killed(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """The last test of the cluster, since it ends it. Files of RocksDB come to the directory when they are complete."""
    by_sink, natively = targets = [tmp_path / "by_sink", tmp_path / "natively"]
    arguments: dict[str, Any] = {"overwrite": False, "first": 0, "end": ROWS}
    cluster.start("by_both", ("file", "forever", 99), base=ORDERS_PATH, targets=[str(t) for t in targets], **arguments)
    deadline = time.monotonic() + 600
    while cluster.failures() < 2 or not all(any(t.glob("*-open")) for t in targets):
        assert time.monotonic() < deadline
        assert not select.select([cluster.process.stdout], [], [], 0.1)[0], "it has not waited to be killed"
    cluster.kill()
    for target in targets:
        assert list(target.glob("*-open"))
        with pytest.raises(sp.NotASnapshotError, match="_metadata"):
            sp.arrow.operators(target)
    assert list(sp.list_snapshots(tmp_path)) == []
    rows = spark.range(ROWS).selectExpr("concat('new-', id) AS key", "id AS value")
    sp.SavepointWriter.from_existing(spark, ORDERS_PATH).update_keyed_state("orders", "total", rows).write(
        natively, format="native", backend="rocksdb"
    )
    check_complete(natively)
    sp.register(spark)
    sink = rows.write.format("flink-savepoint").option("uid", "orders").option("state", "total").option("base", ORDERS_PATH)
    sink.mode("append").save(str(by_sink))
    check_complete(by_sink)
