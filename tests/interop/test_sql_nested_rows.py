"""Joins of rows with maps, multisets, arrays and rows in them start from tables, and go on as real queries do."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.applications.flink_sql.bootstrap import Input, JoinedRows
from state_processor.applications.flink_sql.operators.registry import history_of
from state_processor.applications.flink_sql.plan import CompiledPlan
from tests.interop import sql_queries
from tests.interop.test_sql_bootstrap import CITIES, EVENTS, HISTORY, LATER, entries, evaluated, frame, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NESTED = """(SELECT id, customer, MAP['itm', item, 'who', customer] AS attrs, ROW(id, MAP['num', amount]) AS pair,
    ARRAY[MAP['pcs', pieces]] AS lists FROM events)"""
COUNTS = """(SELECT item, MAP[customer, n] AS counts FROM
    (SELECT customer, item, COUNT(*) AS n FROM events WHERE customer IS NOT NULL GROUP BY customer, item))"""
BY_ITEM = "(SELECT item, COUNT(*) AS n FROM events GROUP BY item)"
BAGS = """(SELECT UPPER(SUBSTRING(customer FROM 1 FOR 1)) AS letter, bag FROM
    (SELECT customer, COLLECT(customer) AS bag FROM events WHERE customer IS NOT NULL GROUP BY customer))"""
LETTERS = "(SELECT UPPER(SUBSTRING(customer FROM 1 FOR 1)) AS letter, city FROM cities)"
QUERIES = {
    "inner": ("a.id, a.attrs, a.pair, a.lists, b.city", f"FROM {NESTED} a JOIN cities b ON a.customer = b.customer"),
    "left": ("a.id, a.attrs, a.pair, a.lists, b.city", f"FROM {NESTED} a LEFT JOIN cities b ON a.customer = b.customer"),
    "updates": ("a.counts, b.n", f"FROM {COUNTS} a JOIN {BY_ITEM} b ON a.item = b.item"),
    "bags": ("a.bag, b.city", f"FROM {BAGS} a JOIN {LETTERS} b ON a.letter = b.letter"),
}
"""Rows of the first two occur twice. Rows of the last two are taken back: their key is in a map alone."""
INSERTS = "".join(
    f"INSERT INTO results SELECT '{name}', CAST(ROW({columns}) AS STRING) {rest};\n" for name, (columns, rest) in QUERIES.items()
)
IN_SPARK = (
    """SELECT id, customer, map({attrs}) AS attrs, struct(id AS `EXPR$0`, map('num', amount) AS `EXPR$1`) AS
        pair, array(map('pcs', pieces)) AS lists FROM events""",
    """SELECT item, map(customer, n) AS counts FROM
        (SELECT customer, item, count(*) AS n FROM events WHERE customer IS NOT NULL GROUP BY customer, item)""",
    "SELECT item, count(*) AS n FROM events GROUP BY item",
    """SELECT upper(substr(customer, 1, 1)) AS letter, map(customer, CAST(count(*) AS INT)) AS bag FROM events
        WHERE customer IS NOT NULL GROUP BY customer""",
    "SELECT upper(substr(customer, 1, 1)) AS letter, city FROM cities",
    "SELECT customer, city FROM cities",
)
ATTRS = {"itm": "item", "who": "customer"}


def attributes(savepoint: str, plan: Path, uids: list[str]) -> str:
    """Entries of the map ``attrs`` for Spark, in the order of a savepoint. Flink has one or the other in each JVM."""
    for uid in uids:
        row = sp.arrow.read_state(savepoint, uid, "left-records", plan=plan).read_all().to_pylist()[0]["map_key"]
        if "attrs" in row:
            return ", ".join(f"'{name}', {ATTRS[name]}" for name, _ in row["attrs"])
    raise AssertionError("no join has rows with attrs")


def moved(text: str) -> str:
    """The change after the bootstrap: customers in Oslo move to Bergen."""
    return text.replace("Oslo", "Bergen")


def bootstrap(spark: SparkSession, savepoint: str, plan: Path, target: Path) -> list[str]:
    """Replace the state of the joins in a savepoint; return their uids."""
    frame(spark, "events", EVENTS).createOrReplaceTempView("events")
    cities = frame(spark, "cities", CITIES)
    cities.withColumn("city", f.replace("city", f.lit("Oslo"), f.lit("Bergen"))).createOrReplaceTempView("cities")
    joins = [one for one in CompiledPlan.parse(plan.read_text("utf-8")).operators.values() if one.uid == f"{one.node.id}_join"]
    uids = [one.uid for one in joins]
    attrs = attributes(savepoint, plan, uids)
    frames = [evaluated(spark, spark.sql(text.format(attrs=attrs)))[0] for text in IN_SPARK]

    def rows(given: Input) -> DataFrame:
        return next(one for one in frames if set(given.columns) == set(one.columns))

    writer = sp.SavepointWriter.from_existing(spark, savepoint, plan=plan)
    for operator in joins:
        history = history_of(operator)
        assert isinstance(history, JoinedRows)
        writer.bootstrap_query(plan, operator.uid, left=rows(history.left.rows), right=rows(history.right.rows))
    writer.write(target)
    return uids


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_joins_of_nested_rows_go_on(version: str, spark: SparkSession, tmp_path: Path) -> None:
    sql_queries.write_lines(tmp_path / "files", "1", HISTORY)
    plan = tmp_path / "plan.json"

    def run(asked: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        requests = [
            {
                "name": name,
                "tables": tables(tmp_path / "files", name),
                "insert": f"STATEMENT SET BEGIN\n{INSERTS}END",
                "plan": str(plan),
                "settings": sql_queries.SETTINGS,
                "to": str(tmp_path / name),
                **more,
            }
            for name, more in asked.items()
        ]
        return sql_queries.answered(version, requests, at_once=2)

    (first,) = run({"first": {"backend": "hashmap", "lines": 35}})
    made = tmp_path / "made"
    uids = bootstrap(spark, first["savepoint"], plan, made)
    assert len(uids) == len(QUERIES)
    readers = [sp.arrow.SavepointReader.read(path, plan=plan) for path in (made, first["savepoint"])]
    for uid, state in product(uids, ("left-records", "right-records")):
        found, expected = (entries(reader, uid, state) for reader in readers)
        assert found == sorted(map(moved, expected)) != []
    sql_queries.write_lines(tmp_path / "files", "2", LATER)
    after = {
        "uninterrupted": {"from": first["savepoint"], "backend": "hashmap", "lines": 20},
        "bootstrapped": {"from": str(made), "backend": "rocksdb", "lines": 20},
    }
    uninterrupted, bootstrapped = (sql_queries.rows_of(answer["changes"]) for answer in run(after))
    assert bootstrapped == Counter({moved(row): number for row, number in uninterrupted.items()})
    assert {row[1:].partition(",")[0] for row in bootstrapped} == set(QUERIES)
