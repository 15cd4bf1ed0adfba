"""Writes of many states and operators in few jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import state_processor as sp
from state_processor.backends.write.staging import Staging
from state_processor.spark import engine
from tests.spark_session import planned_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("shuffled", "together", "jobs"), [(False, 1000, 2), (True, 1000, 2), (False, 3, 4)], ids=["files", "shuffled", "in parts"]
)
def test_operators_are_written_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool, together: int, jobs: int
) -> None:
    if shuffled:
        monkeypatch.setattr(Staging, "is_local", False)
    monkeypatch.setattr(engine, "_FILES_TOGETHER", together)
    same = spark.sql("SELECT id AS key, id * 2 AS twice, cast(id AS string) AS text FROM range(100)")
    writer = sp.SavepointWriter.new(spark)
    writer.with_keyed_state("one", same, states={"twice": sp.Types.LONG()}, parallelism=2)
    writer.with_keyed_state("one", same, states={"text": sp.Types.STRING()})
    writer.with_keyed_state("two", same, states={"twice": sp.Types.LONG()})
    writer.with_keyed_state("two", same.where("key < 10").selectExpr("key", "key AS few"))
    writer.with_list_state("two", "list", same.selectExpr("key AS value"))
    group = uuid4().hex
    spark.sparkContext.setJobGroup(group, "")
    try:
        with planned_again(spark):
            written = writer.write(tmp_path / "new")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == jobs
    assert [operator.entries for operator in written.operators] == [200, 210]

    def values(uid: str, state: str) -> list[object]:
        return sorted(v for batch in sp.arrow.read_state(tmp_path / "new", uid, state) for v in batch["value"].to_pylist())

    states = [("one", "twice"), ("one", "text"), ("two", "twice"), ("two", "few"), ("two", "list")]
    evens = list(range(0, 200, 2))
    assert {state: values(*state) for state in states} == {
        ("one", "twice"): evens,
        ("one", "text"): sorted(map(str, range(100))),
        ("two", "twice"): evens,
        ("two", "few"): list(range(10)),
        ("two", "list"): list(range(100)),
    }
