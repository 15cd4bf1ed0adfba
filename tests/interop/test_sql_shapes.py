"""Every keyed state of queries of all shapes, rewritten with the names of their compiled plans: Flink restores it.

Until a savepoint and after it, a query comes to the rows of a run that was not interrupted. Some states are
also changed, each in one of the versions of Flink.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.backends.write.assembly import metadata_version
from state_processor.backends.write.keyed_formats import HeapFormat, StoreFormat
from tests.archives import unpacked
from tests.interop import sql_queries
from tests.interop.rewriting import rewrite
from tests.interop.selection import in_turn
from tests.interop.test_sql_plans import uid_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NOT_WRITTEN = ("match",)
"""Queries whose state is taken over as bytes: it is only read."""

Row = dict[str, Any]


def change_window(spark: SparkSession, savepoint: Path, plan: Path) -> sp.SavepointWriter:
    """Bob has bought for 100 more in the window that is open."""
    uid = uid_of(str(savepoint), plan, "global-window-aggregate")
    open_ = sp.SavepointReader.read(spark, str(savepoint), plan=plan).read_keyed_state(uid, "window-aggs")
    more = open_.withColumn("value", open_.value.withField("`sum(amount)`", open_.value["sum(amount)"] + 100))
    return sp.SavepointWriter.from_existing(spark, str(savepoint), plan=plan).update_keyed_state(uid, "window-aggs", more)


def buy_more(row: Row) -> None:
    """All have bought for 100 more than the query has seen."""
    for name, total in row["value"].items():
        if name.startswith("sum"):
            row["value"][name] = total + 100


def raise_last(row: Row) -> None:
    """The last order of Bob was of 700."""
    if row["value"]["id"] == 6:
        row["value"]["amount"] = 700


def raise_first(row: Row) -> None:
    """The first order was of 40: it is the largest so far."""
    for amount, orders in row["value"]:
        if orders[0]["id"] == 1:
            amount["amount"] = orders[0]["amount"] = 40


def move_home(row: Row) -> None:
    """Ada lives in Nice."""
    if row["value"]["id"] == "ada":
        row["value"]["city"] = "Nice"


def move_to_bergen(row: Row) -> None:
    """Bob lives in Bergen: the versions of a customer by time."""
    for _, version in row["value"]:
        for customer in (kept["record"] for kept in version) if isinstance(version, list) else (version,):
            customer["city"] = customer["city"].replace("Oslo", "Bergen")


def remember_more(row: Row) -> None:
    """The last order of Ada was of 50 more."""
    if row["key"]["customer"] == "ada":
        row["value"]["lag(amount)"]["buffer"][-1] += 50


IN_PLACE: dict[str, tuple[str, Callable[[Row], None]]] = {
    "last-row": ("deduplicate-state", raise_last),
    "top": ("data-state-with-append", raise_first),
    "over": ("accState", buy_more),
    "sessions": ("window-aggs", buy_more),
    "interval-join": ("IntervalJoinRightCache", move_to_bergen),
    "temporal-join-waiting": ("right", move_to_bergen),
    "normalized": ("deduplicate-state", move_home),
    "lag": ("accState", remember_more),
}
"""The state of a query that changes, and how each of its rows does."""

OTHERWISE: dict[str, dict[str, str | None]] = {
    "tumbling": {"[bob, 2024-01-01T00:00:10, 2, 27]": "[bob, 2024-01-01T00:00:10, 2, 127]"},
    "last-row": {"[bob, 6, 7]": "[bob, 6, 700]"},
    "top": {"[ada, 1, 10]": "[ada, 2, 20]"},
    "over": {"[7, 37]": "[7, 137]", "[8, 37]": "[8, 137]", "[10, 8]": "[10, 108]", "[11, 87]": "[11, 187]"},
    "sessions": {"[bob, 2024-01-01T00:00:11, 2, 27]": "[bob, 2024-01-01T00:00:11, 2, 127]"},
    "interval-join": {"[7, Oslo]": "[7, Bergen]"},
    "temporal-join-waiting": {"[6, Oslo]": "[6, Bergen]", "[7, Oslo]": "[7, Bergen]"},
    "normalized": {"[Bonn, 1]": None},
    "lag": {"[8, 5, ink, 5, 2024-01-01, +I[4, pen]]": "[8, 55, ink, 5, 2024-01-01, +I[4, pen]]"},
}
"""The rows that changed queries print, or take back, in the place of others. A group that was never seen is not taken back."""

NATIVE = {"hashmap": HeapFormat(), "rocksdb": StoreFormat("rocksdb")}
VERSIONS = ("1.20.5", "2.3.0")


def changing(state: str, change: Callable[[Row], None]) -> Callable[[str, pa.RecordBatch], pa.RecordBatch]:
    """Return the change of a state whose rows are changed one by one."""

    def changed(name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.to_pylist() if name == state else []
        for row in rows:
            change(row)
        return pa.RecordBatch.from_pylist(rows, batch.schema) if name == state else batch

    return changed


def expected_rows(fixture: Path, otherwise: dict[str, str | None]) -> Counter[str]:
    """The rows of a query after its savepoint: the rows of an uninterrupted run, minus the rows before the savepoint."""
    changes = json.loads((fixture / "changes.json").read_text("utf-8"))
    rows = sql_queries.rows_of(changes["whole"])
    rows.subtract(sql_queries.rows_of(changes["first"]))
    assert otherwise.keys() <= rows.keys()
    found: Counter[str] = Counter()
    for row, number in rows.items():
        if (new := otherwise.get(row, row)) is not None:
            found[new] += number
    return Counter({row: number for row, number in found.items() if number})


@pytest.mark.parametrize("version", VERSIONS)
def test_queries_go_on_from_what_was_rewritten_by_names(version: str, spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"
    sql_queries.write_lines(files, "2", sql_queries.MORE)
    fixtures = unpacked("sql") / version
    requests: dict[tuple[str, str], dict[str, Any]] = {}
    expected = {}

    def go_on(name: str, target: Path, how: str = "as it was", backend: str = "hashmap") -> None:
        plan = fixtures / name / "plan.json"
        query = sql_queries.QUERIES[name]
        given = {"backend": backend, "origin": target, "to": str(tmp_path / "aside"), "drain": True}
        requests[name, how] = sql_queries.request(query, files, plan, **given)
        expected[name, how] = expected_rows(fixtures / name, OTHERWISE[name] if how == "changed" else {})

    def plan_of(name: str) -> CompiledPlan:
        return CompiledPlan.parse((fixtures / name / "plan.json").read_text("utf-8"))

    for name in sql_queries.QUERIES:
        target = tmp_path / f"{name}-rewritten"
        carried = lambda _, name=name: name in NOT_WRITTEN  # noqa: E731
        rewrite(fixtures / name / "savepoint", target, 3, metadata_version(version), carried, plan=plan_of(name))
        go_on(name, target)
    for number, name in enumerate(in_turn(list(IN_PLACE), VERSIONS.index(version))):
        state, change = IN_PLACE[name]
        target = tmp_path / f"{name}-changed"
        backend = list(NATIVE)[number % 2]
        rewrite(
            fixtures / name / "savepoint",
            target,
            2,
            metadata_version(version),
            format=NATIVE[backend],
            plan=plan_of(name),
            change=changing(state, change),
        )
        go_on(name, target, "changed", backend)
    through_spark = tmp_path / "tumbling-by-spark"
    change_window(spark, fixtures / "tumbling" / "savepoint", fixtures / "tumbling" / "plan.json").write(through_spark)
    go_on("tumbling", through_spark, "changed")
    answers = sql_queries.answered(version, list(requests.values()), sql_queries.AT_ONCE)
    found = {asked: sql_queries.rows_of(answer["changes"]) for asked, answer in zip(requests, answers, strict=True)}
    assert found == expected
