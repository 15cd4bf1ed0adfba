"""State of queries that is changed by the names of their compiled plans: Flink restores it, and the queries go on from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import flink
import pytest
import sql_queries

import state_processor as sp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

MORE = {"orders": ["7,bob,pen,1,2024-01-01 00:00:12", "8,ada,pen,2,2024-01-01 00:00:13"]}


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


def uid_of(savepoint: str, plan: Path, operation: str) -> str:
    (uid,) = (
        r["operator_uid"]
        for r in sp.arrow.operators(savepoint, plan=plan).to_pylist()
        if (r["operator_uid"] or "").endswith(f"_{operation}")
    )
    return str(uid)


CHANGES = {"group-aggregate": change_totals, "inner-join": forget_bonn}
AFTERWARDS = {
    "group-aggregate": [
        "+U[ada, 4, 37, 9, 2, pen]",
        "+U[bob, 3, 118, 6, 1, pen]",
        "-U[ada, 3, 35, 11, 5, pen]",
        "-U[bob, 2, 117, 8, 7, pen]",
    ],
    "inner-join": ["+I[7, 1, Rome]", "+I[8, 2, Rome]"],
}


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_queries_go_on_from_what_was_changed_by_names(version: str, spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"
    sql_queries.write_lines(files, "1", {"orders": sql_queries.ORDERS, "customers": sql_queries.CUSTOMERS})
    plans = {name: tmp_path / f"{name}.json" for name in CHANGES}

    def run(**where: dict[str, str]) -> list[dict[str, object]]:
        asked = [
            sql_queries.request(sql_queries.QUERIES[name], files, plan, **{k: w[name] for k, w in where.items()})
            for name, plan in plans.items()
        ]
        if "origin" in where:
            asked = [{**{k: v for k, v in a.items() if k != "origin"}, "from": a["origin"], "lines": 2} for a in asked]
        answers = flink.plans(version, asked)
        assert [a["error"] for a in answers if "error" in a] == []
        return answers

    first = run(to={name: str(tmp_path / f"{name}-first") for name in plans})
    changed = {name: str(tmp_path / f"{name}-changed") for name in plans}
    for (name, plan), answer in zip(plans.items(), first, strict=True):
        CHANGES[name](spark, str(answer["savepoint"]), plan).write(changed[name])
    sql_queries.write_lines(files, "2", MORE)
    second = run(origin=changed, to={name: str(tmp_path / f"{name}-second") for name in plans})
    found = {name: sorted(map(str, a["changes"])) for name, a in zip(plans, second, strict=True)}  # type: ignore[call-overload]
    assert found == AFTERWARDS
