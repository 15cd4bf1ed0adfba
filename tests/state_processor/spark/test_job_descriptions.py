"""What Spark's user interface shows of reads and writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.options.data_sources import SourceOptions
from tests.state_processor.samples import ORDERS_PATH

pytestmark = pytest.mark.spark


def plan_of(frame: Any, capsys: pytest.CaptureFixture[str]) -> str:
    frame.explain()
    return capsys.readouterr().out


def test_plans_name_operator_and_state(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    reader = sp.SavepointReader.read(spark, ORDERS_PATH)
    total = reader.read_keyed_state("orders", "total")
    assert "Flink state orders.total, all keys (keys= reads fewer)(" in plan_of(total, capsys)
    assert "Flink state orders, all keyed states, keys: 2(" in plan_of(
        reader.read_keyed_state("orders", keys=["amelia", "anders"]), capsys
    )
    assert "Flink state catalog.pending(" in plan_of(reader.read_list_state("catalog", "pending"), capsys)
    assert "Flink state orders, TIMER, all keys (keys= reads fewer)(" in plan_of(reader.read_timers("orders"), capsys)
    difference = sp.diff(spark, ORDERS_PATH, ORDERS_PATH, "orders", "total")
    assert "Flink state differences of orders.total(" in plan_of(difference, capsys)


def test_jobs_of_a_write_are_described(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription("nightly repair")
    try:
        rows = sp.SavepointReader.read(spark, ORDERS_PATH).read_keyed_state("orders", "total")
        writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
        writer.with_keyed_state("orders", rows.withColumnRenamed("value", "copied"))
        writer.write(tmp_path / "described")
        assert context.getLocalProperty("spark.job.description") == "nightly repair"
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]
    jobs = context._jsc.sc().statusStore().jobsList(None)
    described = [str(jobs.apply(i).description()) for i in range(jobs.size())]
    assert any(text == f"Some(Write savepoint {tmp_path / 'described'})" for text in described)


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_plans_name_operator_and_state_whether_filters_are_pushed_or_not(
    spark: SparkSession, pushdown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    session.conf.set("spark.sql.ui.explainMode", "formatted")  # as in sessions of users
    frame = sp.SavepointReader.read(session, ORDERS_PATH).read_keyed_state("orders", "total").where("key = 'elif'")
    scan = r"Flink state orders\.total, all keys \(keys= reads fewer\)"
    assert re.search(scan, plan_of(frame, capsys))
    assert frame.count() == 1
    executions = session._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    assert re.search(scan, executions.apply(executions.size() - 1).physicalPlanDescription())


def test_control_characters_in_names_are_escaped_in_plans() -> None:
    source = SourceOptions.of("/savepoint", {"uid": "a\x1b[31m", "state": "b\n"})
    assert source.label == r"a\x1b[31m.b\n"
