"""State of queries that were submitted as text: a plan that is compiled later names it, and its job continues with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.flink_sql.descriptions import match_query
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.backends.metadata.snapshot import open_snapshot
from tests.archives import unpacked
from tests.interop import selection, sql_queries
from tests.interop.sql_queries import QUERIES

pytestmark = pytest.mark.interop

SAMPLE = ("left-join", "tumbling")


def queries(version: str) -> tuple[str, ...]:
    """The queries of the stored savepoints, or a sample."""
    stored = {path.name for path in (unpacked("sql") / version).iterdir()}
    return tuple(name for name in (QUERIES if selection.EVERY_CASE else SAMPLE) if name in stored)


def result(name: str, changes: Sequence[str]) -> Mapping[str, Any]:
    """The rows that changes add up to; the last one of each key where the sink has one, its first column."""
    if "PRIMARY KEY" not in QUERIES[name].sink:
        return sql_queries.rows_of(changes)
    last = {change[2:].partition(",")[0]: change for change in changes}
    return {key: change[2:] for key, change in last.items() if change[:2] != "-D"}


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_a_plan_that_is_compiled_later_continues_the_query(version: str, tmp_path: Path) -> None:
    names, files, plans = queries(version), tmp_path / "files", tmp_path / "plans"
    plans.mkdir()
    sql_queries.write_lines(files, "1", sql_queries.FIRST)

    def requests(**where: Any) -> list[dict[str, Any]]:
        return [sql_queries.request(QUERIES[name], files, plans / f"{name}.json", **where) for name in names]

    text = requests(to=str(tmp_path / "first"), text=True)
    first = dict(zip(names, sql_queries.answered(version, text, sql_queries.AT_ONCE), strict=True))
    sql_queries.answered(version, requests())  # compiles the plans
    for name in names:
        savepoint, plan = first[name]["savepoint"], plans / f"{name}.json"
        snapshot = open_snapshot(savepoint)
        assert {o.uid for o in snapshot.metadata.operators} == {None}, name
        matches = match_query(snapshot, CompiledPlan.parse(plan.read_text("utf-8")))
        assert matches.by_id, name
        assert [one.operator for one in matches.matches if one.plan_operator is None] == [], name
        writer = sp.arrow.SavepointWriter.from_existing(savepoint, plan=plan)
        if name == "left-join":  # its state may also come from tables; its sources continue
            orders = [
                dict(zip(("id", "customer", "item", "amount"), line.split(","), strict=False)) for line in sql_queries.ORDERS
            ]
            left = [{"id": int(o["id"]), "customer": o["customer"], "amount": int(o["amount"] or 0) or None} for o in orders]
            right = [dict(zip(("id", "city"), line.split(","), strict=False)) for line in sql_queries.CUSTOMERS]
            writer.bootstrap_query(plan, "join", left=pa.Table.from_pylist(left), right=pa.Table.from_pylist(right))
        writer.write(tmp_path / "renamed" / name)
    sql_queries.write_lines(files, "2", sql_queries.MORE)
    again = [
        sql_queries.request(
            QUERIES[name],
            files,
            plans / f"{name}.json",
            to=str(tmp_path / "second"),
            origin=tmp_path / "renamed" / name,
            drain=True,
        )
        for name in names
    ]
    for name, second in zip(names, sql_queries.answered(version, again, sql_queries.AT_ONCE), strict=True):
        whole = json.loads((unpacked("sql") / version / name / "changes.json").read_text("utf-8"))["whole"]
        assert result(name, [*first[name]["changes"], *second["changes"]]) == result(name, whole), name


_TOTALS = "(SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders {} GROUP BY customer)"
_PRINTED = "'connector' = 'print', 'print-identifier' = 'none'"
SHAPES: dict[str, tuple[str, str, str]] = {
    "a union": (
        "INSERT INTO results SELECT who, COUNT(*) FROM (SELECT customer AS who FROM orders UNION ALL SELECT id FROM customers)"
        " GROUP BY who",
        "who STRING, n BIGINT",
        _PRINTED,
    ),
    "a required column": (
        "INSERT INTO results SELECT customer, COUNT(*) FROM orders GROUP BY customer",
        "customer STRING, n BIGINT NOT NULL",
        _PRINTED,
    ),
    "one group": ("INSERT INTO results SELECT COUNT(*), SUM(amount) FROM orders", "n BIGINT, total BIGINT", _PRINTED),
    "the same aggregate twice": (
        f"INSERT INTO results SELECT a.customer, a.n, b.n FROM {_TOTALS.format('')} a JOIN {_TOTALS.format('WHERE amount > 9')} b"
        " ON a.customer = b.customer",
        "customer STRING, n BIGINT, m BIGINT",
        _PRINTED,
    ),
    "two sinks": (
        f"STATEMENT SET BEGIN INSERT INTO results SELECT customer, n FROM {_TOTALS.format('')}; INSERT INTO results SELECT"
        " o.item, o.amount FROM orders o JOIN customers c ON o.customer = c.id; INSERT INTO results SELECT id, 1 FROM"
        " customers; END",
        "customer STRING, n BIGINT",
        _PRINTED,
    ),
    "two sinks of one aggregate": (
        "STATEMENT SET BEGIN INSERT INTO results SELECT customer, n FROM totals; INSERT INTO results SELECT customer, total FROM"
        " totals WHERE n > 1; END",
        "customer STRING, n BIGINT",
        _PRINTED,
    ),
    "a join without matches": (
        "INSERT INTO results SELECT o.customer, o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id AND o.ts BETWEEN"
        " c.ts + INTERVAL '9' SECOND AND c.ts + INTERVAL '5' SECOND",
        "customer STRING, id BIGINT",
        _PRINTED,
    ),
    "files": (
        "INSERT INTO results SELECT customer || '!' FROM (SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts"
        " MEASURES A.id AS first_id ONE ROW PER MATCH PATTERN (A) DEFINE A AS A.amount > 6))",
        "line STRING",
        "'connector' = 'filesystem', 'format' = 'raw', 'path' = '{files}'",
    ),
    "an order by time": ("INSERT INTO results SELECT id FROM orders ORDER BY ts", "id BIGINT", _PRINTED),
    "a window of groups": (
        "INSERT INTO results SELECT customer, COUNT(*) FROM orders GROUP BY customer, TUMBLE(ts, INTERVAL '10' SECOND)",
        "customer STRING, n BIGINT",
        _PRINTED,
    ),
    "one subtask": (
        "INSERT INTO results SELECT o.customer, o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        "customer STRING, id BIGINT",
        _PRINTED,
    ),
}
"""Jobs with other shapes: the statement that fills results, the columns of results, and its connector."""


CHOSEN = tuple(SHAPES) if selection.EVERY_CASE else ("two sinks of one aggregate", "files", "one subtask")


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"] if selection.EVERY_CASE else ["2.3.0"])
def test_ids_follow_from_plans_of_all_shapes(version: str, tmp_path: Path) -> None:
    files, plans = tmp_path / "files", tmp_path / "plans"
    plans.mkdir()
    sql_queries.write_lines(files, "1", sql_queries.FIRST)

    def request(name: str, **where: Any) -> dict[str, Any]:
        insert, columns, connector = SHAPES[name]
        view = f"CREATE VIEW totals AS {_TOTALS.format('')}"
        settings = {"parallelism.default": "1"} if name == "one subtask" else {}
        query = sql_queries.Query(f"{insert}; {view}", columns, settings, lines=0)
        made = sql_queries.request(query, files, plans / f"{name.replace(' ', '-')}.json", **where)
        with_files = connector.format(files=tmp_path / "sink")
        insert = f"EXECUTE {insert}" if where and insert.startswith("STATEMENT") else insert
        return made | {
            "insert": insert,
            "tables": [*made["tables"][:-1], view, f"CREATE TABLE results ({columns}) WITH ({with_files})"],
        }

    runs = [request(name, to=str(tmp_path / "savepoints"), text=True) for name in CHOSEN]
    savepoints = [answer["savepoint"] for answer in sql_queries.answered(version, runs, sql_queries.AT_ONCE)]
    sql_queries.answered(version, [request(name) for name in CHOSEN])
    for name, savepoint in zip(CHOSEN, savepoints, strict=True):
        plan = CompiledPlan.parse((plans / f"{name.replace(' ', '-')}.json").read_text("utf-8"))
        matches = match_query(open_snapshot(savepoint), plan)
        assert matches.by_id, name
        assert [one.operator for one in matches.matches if one.plan_operator is None] == [], name


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_options_of_a_plan_that_differ_from_the_job_are_named(version: str, tmp_path: Path) -> None:
    """A plan with other phases is matched by states that have the same layout. Distinct values have another one."""
    settings = {
        "group-aggregate": sql_queries.TWO_PHASES,
        "two-phases": {},
        "left-join": {"table.exec.state.ttl": "1 h"},
    }
    plans = {name: tmp_path / f"{name}.json" for name in settings}
    compiled = [
        sql_queries.request(replace(QUERIES[name], settings=given), tmp_path, plans[name]) for name, given in settings.items()
    ]
    sql_queries.answered(version, compiled)
    found = {}
    for name, plan in plans.items():
        snapshot = open_snapshot(str(unpacked("sql-text") / version / name / "savepoint"))
        found[name] = match_query(snapshot, CompiledPlan.parse(plan.read_text("utf-8")))
        assert found[name].by_id == (name == "left-join")
    advice = {name: " ".join(one.advice) for name, one in found.items()}
    if version == "2.3.0":
        assert "the job ran without mini-batches, the plan was compiled with them" in advice["group-aggregate"]
        assert "SET 'table.exec.mini-batch.enabled' = 'true'" in advice["two-phases"]
    else:
        assert "expected a job with the graph of the plan" in advice["group-aggregate"]
        assert "table.exec.mini-batch.enabled" in advice["two-phases"]
    assert "has time-to-live in the plan, and none in the job" in advice["left-join"]
    by_states = {"source", "global-group-aggregate"} if version == "1.20.5" else {"source"}  # names of 2.3.0 tell the phase
    assert {one.transformation for one in found["group-aggregate"].plan_operators.values()} == by_states
    assert {one.transformation for one in found["two-phases"].plan_operators.values()} == {"source"}
