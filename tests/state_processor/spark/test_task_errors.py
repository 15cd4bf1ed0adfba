"""Errors of workers keep their class in the driver."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import state_processor as sp
from state_processor.spark.engine import SparkEngine
from tests.state_processor.samples import ORDERS_PATH

pytestmark = pytest.mark.spark


@pytest.fixture
def damaged(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Rows of a state whose files have other bytes since the read was planned."""
    copy = tmp_path / "savepoint"
    shutil.copytree(ORDERS_PATH, copy)
    frame = sp.SavepointReader.read(spark, copy).read_keyed_state("orders", "total").selectExpr("value + 1 AS more")
    for file in copy.iterdir():
        if file.name != "_metadata":
            data = file.read_bytes()
            half = len(data) // 2
            file.write_bytes(data[:half] + b"\xff" * (len(data) - half))
    return frame


def test_every_action_raises_the_error_of_the_task(damaged: DataFrame, tmp_path: Path) -> None:
    for action in (damaged.count, damaged.collect, lambda: damaged.write.parquet(str(tmp_path / "out"))):
        with pytest.raises(sp.CorruptSnapshotError, match="operator 'orders', subtask") as raised:
            action()
        assert "\n" not in str(raised.value)


def test_so_does_planning_in_sql(spark: SparkSession) -> None:
    sp.register(spark)
    options = f"OPTIONS (path '{ORDERS_PATH}', uid 'nobody')"
    with pytest.raises(sp.NotFoundError, match=r"^no operator 'nobody' in this snapshot\."):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW nothing USING `flink-savepoint` {options}")


def test_the_message_of_a_worker_has_no_traceback(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is where nothing of this library has been called in the driver, and in Spark's log."""
    monkeypatch.setattr("state_processor.spark.task_errors.translated", lambda text: None)
    with pytest.raises(PySparkException) as raised:
        spark.read.format("flink-savepoint").option("uid", "nobody").load(ORDERS_PATH)
    first = str(raised.value).splitlines()[0]
    assert "NotFoundError: no operator 'nobody' in this snapshot" in first
    assert "Traceback" not in str(raised.value)


def test_errors_of_others_remain_theirs(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="is not true"):
        spark.range(3).selectExpr("assert_true(id < 0)").collect()


@pytest.mark.one_engine(reason="the JVM of Spark ends")
@pytest.mark.parametrize("failure", [ConnectionRefusedError("refused"), Py4JNetworkError("no answer"), EOFError()])
def test_the_end_of_the_jvm_in_a_write(
    spark: SparkSession, failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(SparkEngine, "write_files", fail)
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.update_keyed_state("orders", "total", spark.sql("SELECT 'new' AS key, 1L AS value"))
    with pytest.raises(sp.WriteError, match=f"the JVM of Spark does not answer any more .{type(failure).__name__}"):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()
