"""State of queries that is changed by the names of their compiled plans: Flink restores it, and the queries go on from it.

Operators with asynchronous state in Flink 2 are included: joins, groups and windows, first and last rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.state.state_headers import KEY_VALUE_V2
from state_processor.backends.write.keyed_formats import BackendName
from state_processor.write.plan.source_operator import SourceOperator
from tests.archives import unpacked
from tests.interop import flink, sql_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

MORE = {
    "orders": [
        "7,bob,pen,1,2024-01-01 00:00:12",
        "8,ada,pen,2,2024-01-01 00:00:13",
        "9,ada,ink,50,2024-01-01 00:00:14",
        "10,dan,pen,3,2024-01-01 00:00:25",
    ]
}
"""The last one comes when the window of the others is over."""


def change_totals(spark: SparkSession, savepoint: str, plan: Path) -> sp.SavepointWriter:
    """Bob has bought for 100 more than the query has seen."""
    uid = uid_of(savepoint, plan, "group-aggregate")
    reader = sp.SavepointReader.read(spark, savepoint, plan=plan)
    bob = reader.read_keyed_state(uid, "accState", keys=[{"customer": "bob"}])
    more = bob.withColumn("value", bob.value.withField("`sum(amount)`", bob.value["sum(amount)"] + 100))
    return sp.SavepointWriter.from_existing(spark, savepoint, plan=plan).update_keyed_state(uid, "accState", more)


def forget_bonn(spark: SparkSession, savepoint: str, plan: Path) -> sp.SavepointWriter:
    """Ada has never lived in Bonn, and Bob has moved."""
    uid = uid_of(savepoint, plan, "join")
    row = "named_struct('customer', '{0}') AS key, named_struct('id', '{0}', 'city', '{1}') AS map_key"
    writer = sp.SavepointWriter.from_existing(spark, savepoint, plan=plan)
    for gone in (("ada", "Bonn"), ("bob", "Oslo")):
        writer.delete_map_entries(uid, "right-records", spark.sql(f"SELECT {row.format(*gone)}"))
    moved = spark.sql(f"SELECT {row.format('bob', 'Rome')}, 1 AS map_value")
    return writer.update_keyed_state(uid, "right-records", moved)


def write_anew(spark: SparkSession, savepoint: str, plan: Path) -> sp.SavepointWriter:
    """For other subtasks, so that the entries of all files go into others."""
    writer = sp.SavepointWriter.from_existing(spark, savepoint, plan=plan)
    for row in sp.arrow.operators(savepoint, plan=plan).to_pylist():
        if row["operator_uid"] is not None and any(s["operator_uid"] == row["operator_uid"] for s in keyed(savepoint, plan)):
            writer.with_parallelism(row["operator_uid"], 3)
    return writer


def keyed(savepoint: str, plan: Path) -> list[dict[str, Any]]:
    return [s for s in sp.arrow.states(savepoint, plan=plan).to_pylist() if s["key_type"] is not None]


def uid_of(savepoint: str, plan: Path, operation: str) -> str:
    (uid,) = (
        r["operator_uid"]
        for r in sp.arrow.operators(savepoint, plan=plan).to_pylist()
        if (r["operator_uid"] or "").endswith(f"_{operation}")
    )
    return str(uid)


Change = Callable[["SparkSession", str, Path], "sp.SavepointWriter"]

GROUPS = [
    "+I[dan, 1, 3, 3, 3, pen]",
    "+U[ada, 4, 37, 9, 2, pen]",
    "+U[ada, 5, 87, 17, 2, pen]",
    "-U[ada, 3, 35, 11, 5, pen]",
    "-U[ada, 4, 37, 9, 2, pen]",
]
CHANGED = {
    change_totals: [*GROUPS, "+U[bob, 3, 118, 6, 1, pen]", "-U[bob, 2, 117, 8, 7, pen]"],
    forget_bonn: ["+I[7, 1, Rome]", "+I[8, 2, Rome]", "+I[9, 50, Rome]", "+I[10, 3, Nice]"],
}
UNCHANGED = {
    "group-aggregate": [*GROUPS, "+U[bob, 3, 18, 6, 1, pen]", "-U[bob, 2, 17, 8, 7, pen]"],
    "inner-join": [
        *(f"+I[{order}, {city}]" for order in ("8, 2", "9, 50") for city in ("Bonn", "Rome")),
        *("+I[7, 1, Oslo]", "+I[10, 3, Nice]"),
    ],
    "last-row": [
        *("+I[dan, 10, 3]", "+U[ada, 8, 2]", "+U[ada, 9, 50]", "+U[bob, 7, 1]"),
        *("-U[ada, 4, 5]", "-U[ada, 8, 2]", "-U[bob, 6, 7]"),
    ],
    "top": ["+I[ada, 9, 50]", "+I[dan, 10, 3]", "-D[ada, 1, 10]"],
    "tumbling": ["+I[ada, 2024-01-01T00:00:10, 2, 52]", "+I[bob, 2024-01-01T00:00:10, 2, 8]"],
}
"""What comes of the lines of MORE."""


@dataclass(frozen=True)
class Job:
    """A query that is run until a savepoint."""

    query: str
    backend: str = "hashmap"
    asynchronous: bool = False

    def request(self, files: Path, plan: Path, **where: Any) -> dict[str, Any]:
        query = sql_queries.QUERIES[self.query]
        if self.asynchronous:
            query = replace(query, settings={**query.settings, "table.optimizer.agg-phase-strategy": "ONE_PHASE"})
        return sql_queries.request(
            query, files, plan, backend=self.backend, asynchronous=self.asynchronous, **{k: str(v) for k, v in where.items()}
        )


@dataclass(frozen=True)
class Move:
    """A change to the state of a job, written canonically or for a backend, for another job."""

    first: Job
    then: Job
    change: Change
    native: BackendName | None = None

    @property
    def expected(self) -> list[str]:
        return CHANGED.get(self.change) or UNCHANGED[self.first.query]

    def write(self, spark: SparkSession, savepoint: str, plan: Path, target: Path) -> None:
        writer = self.change(spark, savepoint, plan)
        if self.native is None:
            writer.write(target)
            return
        if self.then.asynchronous and not self.first.asynchronous:
            for uid in {s["operator_uid"] for s in keyed(savepoint, plan)}:
                writer.with_async_state(uid)
        writer.write(target, format="native", backend=self.native)


def asynchronous(query: str, change: Change, backend: BackendName = "forst") -> Move:
    job = Job(query, backend, asynchronous=True)
    return Move(job, job, change, backend)


CANONICAL = [Move(Job(q), Job(q), change) for q, change in (("group-aggregate", change_totals), ("inner-join", forget_bonn))]
MOVES: dict[str, list[Move]] = {
    "1.20.5": CANONICAL,
    "2.0.2": [asynchronous(query, write_anew) for query in ("inner-join", "top", "tumbling")],
    "2.3.0": [
        *CANONICAL,
        asynchronous("group-aggregate", change_totals),
        asynchronous("inner-join", forget_bonn),
        asynchronous("inner-join", forget_bonn, "rocksdb"),
        *(asynchronous(query, write_anew) for query in UNCHANGED),
        Move(Job("inner-join"), Job("inner-join", "forst", asynchronous=True), forget_bonn, "forst"),
        Move(Job("inner-join", "forst", asynchronous=True), Job("inner-join"), forget_bonn),
    ],
}


@pytest.mark.parametrize("version", MOVES)
def test_queries_go_on_from_what_was_changed(version: str, spark: SparkSession, tmp_path: Path) -> None:
    moves = MOVES[version]
    files = tmp_path / "files"
    sql_queries.write_lines(files, "1", {"orders": sql_queries.ORDERS, "customers": sql_queries.CUSTOMERS})
    firsts = {move.first: tmp_path / f"first-{n}" for n, move in enumerate(moves)}

    def plan(job: Job) -> Path:
        return tmp_path / f"{job.query}.json"

    def answers(requests: Sequence[Mapping[str, Any]], at_once: int = 1) -> list[dict[str, Any]]:
        found = flink.plans(version, requests, at_once)
        assert [a["error"] for a in found if "error" in a] == []
        return found

    answers([job.request(files, plan(job)) for job in firsts])  # jobs of a query have the plan that is compiled for the first
    begun = answers([job.request(files, plan(job), to=where) for job, where in firsts.items()], sql_queries.AT_ONCE)
    first = {job: answer["savepoint"] for job, answer in zip(firsts, begun, strict=True)}
    for job, savepoint in first.items():
        check_rows(version, job, savepoint, plan(job))
    targets = [tmp_path / f"changed-{n}" for n in range(len(moves))]
    for move, target in zip(moves, targets, strict=True):
        move.write(spark, first[move.first], plan(move.first), target)
    sql_queries.write_lines(files, "2", MORE)
    requests = []
    for n, (move, target) in enumerate(zip(moves, targets, strict=True)):
        request = move.then.request(files, plan(move.then), to=tmp_path / f"second-{n}")
        requests.append(request | {"from": str(target), "lines": len(move.expected)})
    for move, answer in zip(moves, answers(requests, sql_queries.AT_ONCE), strict=True):
        assert sorted(map(str, answer["changes"])) == sorted(move.expected), move


def check_rows(version: str, job: Job, savepoint: str, plan: Path) -> None:
    """The states of an asynchronous job equal the states of a synchronous job, with and without the names of the plan."""
    snapshot = open_snapshot(savepoint)
    apis = {
        meta.backend_type == KEY_VALUE_V2
        for operator in snapshot.metadata.operators
        if (header := SourceOperator(snapshot, operator).header) is not None
        for meta in header.states
        if meta.backend_type != "PRIORITY_QUEUE"
    }
    assert apis == {job.asynchronous and job.backend == "forst"}
    if version != "2.3.0" or job.query == "tumbling":  # the fixture has two phases of it
        assert all(rows(savepoint, plan, names) for names in (plan, None))
        return
    stored = unpacked("sql") / version / job.query
    for plans in ((plan, stored / "plan.json"), None):
        found, expected = (
            rows(path, own, None if plans is None else own)
            for path, own in ((savepoint, plan), (str(stored / "savepoint"), stored / "plan.json"))
        )
        assert found == expected
        assert sum(map(len, expected.values())) > 2


def rows(savepoint: str, naming: Path, plan: Path | None) -> dict[str, list[str]]:
    """The rows of keyed states as text, by operation and state; maps are in an order of their own."""
    found = {}
    for state in keyed(savepoint, naming):
        uid = state["operator_uid"]
        operator = uid if plan is not None else state["operator_uid_hash"]
        options = {} if plan is None else {"plan": plan}
        batches = sp.arrow.read_state(savepoint, operator, state["state_name"], **options)
        found[f"{uid.partition('_')[2]} {state['state_name']}"] = sorted(str(r) for b in batches for r in b.to_pylist())
    return found
