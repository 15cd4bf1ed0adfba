"""SQL is compiled to plans by the planner of an installed Flink."""

from __future__ import annotations

from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.support.errors import OptionError
from tests.interop import flink_jars, sql_queries

pytestmark = pytest.mark.interop

TABLES = """
SET 'table.exec.state.ttl' = '1 d';
SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
CREATE TABLE orders (customer STRING, amount BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE results (customer STRING, total BIGINT) WITH ('connector' = 'print');
"""


def test_a_query_is_compiled_without_a_job() -> None:
    sql = f"{TABLES} INSERT INTO results SELECT customer, SUM(amount) FROM orders GROUP BY customer;"
    plan = sp.plan_from_sql(sql, flink=flink_jars.distribution("2.3.0"), options=sql_queries.TWO_PHASES)
    nodes = CompiledPlan.parse(plan).nodes
    kinds = ["table-source-scan", "mini-batch-assigner", "local-group-aggregate", "exchange", "global-group-aggregate", "sink"]
    assert [node.kind for node in nodes] == kinds  # options of the call are set after the options of the text
    assert nodes[4].has_ttl == {0: True}


def test_the_reason_of_a_refusal_is_shown() -> None:
    with pytest.raises(OptionError, match=r"Flink 2\.3\.0 did not compile the SQL: (?s:.*)missing"):
        sp.plan_from_sql(f"{TABLES} INSERT INTO results SELECT missing, 1 FROM orders", flink=flink_jars.distribution("2.3.0"))


def test_other_versions_and_missing_jars_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_HOME", str(tmp_path))
    with pytest.raises(OptionError, match="expected a Flink distribution with lib/flink-dist"):
        sp.plan_from_sql("INSERT INTO results SELECT 1")
    (tmp_path / "lib").mkdir()
    for name in ("flink-dist-2.3.0", "flink-table-planner", "flink-table-runtime", "flink-table-api-java"):
        (tmp_path / "lib" / f"{name}.jar").touch()
    with pytest.raises(OptionError, match=r"expected Flink 1\.20, found Flink 2\.3\.0 in .*apache-flink-libraries==1\.20"):
        sp.plan_from_sql("INSERT INTO results SELECT 1", flink="1.20")
    monkeypatch.delenv("FLINK_HOME")
    monkeypatch.setattr("state_processor.applications.jobs.plan_compiler.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"neither FLINK_HOME nor the package apache-flink-libraries; pip install"):
        sp.plan_from_sql("INSERT INTO results SELECT 1")
