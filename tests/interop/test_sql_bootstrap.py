"""Queries that start from tables: Flink restores their state, and they go on as one that has seen the rows of these tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.flink_sql.bootstrap import Input, JoinedRows
from state_processor.applications.flink_sql.operators.registry import history_of
from state_processor.applications.flink_sql.plan import CompiledPlan
from tests.interop import flink, sql_queries
from tests.interop.selection import EVERY_CASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

EVENTS = {
    "id": "BIGINT",
    "customer": "STRING",
    "item": "VARCHAR(10)",
    "amount": "BIGINT",
    "pieces": "INT",
    "small": "SMALLINT",
    "price": "DECIMAL(10, 2)",
    "ratio": "DOUBLE",
    "share": "FLOAT",
    "ts": "TIMESTAMP(3)",
}
CITIES = {"customer": "STRING", "city": "STRING"}
HISTORY = {
    "events": [
        "1,ada,pen,10,1,32000,0.50,0.25,0.5,2024-01-01 00:00:01",
        "2,ada,ink,9223372036854775807,2147483647,32000,99999999.99,1.5,0.25,2024-01-01 00:00:02",
        "3,bob,pen,-7,3,1,,,,2024-01-01 00:00:03",
        "4,ada,pen,5,,7,12.34,-2.0,4,2024-01-01 00:00:00",
        "5,cy,ink,,,,,,,2024-01-01 00:00:05",
        "6,cy,,,2,,1.00,,,2024-01-01 00:00:06",
        "3,bob,pen,-7,3,1,,,,2024-01-01 00:00:03",
        "7,,pen,1,1,1,1.00,1,1,2024-01-01 00:00:06",
        "8,eve,cup,4,4,4,4.00,4,4,2024-01-01 00:00:07",
    ],
    "cities": ["ada,Rome", "bob,Oslo", "ada,Bonn", "ada,Bonn", "dan,Nice", ",Nowhere"],
    "homes": ["+U,ada,Rome", "+U,bob,Oslo", "+U,ada,Bonn", "+U,cy,Rome", "-D,bob,Oslo", "+U,dan,Oslo"],
}
HOMES = "SELECT * FROM VALUES ('ada', 'Bonn'), ('cy', 'Rome'), ('dan', 'Oslo') AS homes(customer, home)"
"""The homes that are left."""
LATER = {
    "events": [
        "9,bob,pen,1,1,2,0.25,0.125,0.5,2024-01-01 00:00:12",
        "10,ada,zoo,2,5,1000,1.11,3.5,1,2024-01-01 00:00:00.500",
        "11,dan,pen,3,1,1,2.00,,,2024-01-01 00:00:13",
        "12,,ink,2,2,2,2.00,2,2,2024-01-01 00:00:14",
        "13,cy,ink,8,,,,,,2024-01-01 00:00:15",
    ],
    "cities": ["cy,Kyiv", "ada,Rome", "eve,York", "dan,Nice"],
    "homes": ["+U,ada,Oslo", "+U,bob,Oslo", "-D,cy,Rome", "+U,dan,Oslo"],
}

TOTALS = "SELECT customer, COUNT(*) AS n, SUM(id) AS total FROM events GROUP BY customer"
BY_CITY = "SELECT customer, COUNT(*) AS n FROM cities GROUP BY customer"
BY_ITEM = "SELECT customer, item, SUM(amount) AS total FROM events GROUP BY customer, item"
SUMS = "SELECT customer, SUM(id) AS ids, MAX(item) AS high, MAX(price) AS cost, MAX(ts) AS latest FROM events GROUP BY customer"
TIMES = "SELECT customer, COUNT(amount) AS times FROM events GROUP BY customer"


def _first(rows: str, number: int, order: str, by: str = "") -> str:
    numbered = f"SELECT *, ROW_NUMBER() OVER ({by and f'PARTITION BY {by} '}ORDER BY {order}) AS place FROM {rows}"
    return f"FROM ({numbered}) WHERE place <= {number}"


def _one(order: str) -> tuple[str, str]:
    numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY {order}) AS place FROM events"
    return "customer, id, amount", f"FROM ({numbered}) WHERE place = 1"


QUERIES = {
    "groups": (
        "customer, COUNT(*), COUNT(amount), SUM(amount), SUM(pieces), SUM(small), SUM(price), SUM(ratio), SUM(share),"
        " AVG(amount), AVG(pieces), AVG(price), AVG(ratio), AVG(share), MIN(amount), MAX(pieces), MIN(price), MAX(ratio),"
        " MIN(share), MAX(item), MIN(ts), COUNT(*) FILTER (WHERE amount > 4), SUM(amount) FILTER (WHERE item = 'pen'),"
        " MAX(CAST(ts AS DATE)), MIN(CAST(ts AS TIME)), MIN(amount > 4), MAX(CAST(item AS CHAR(2))), SUM(COALESCE(pieces, 0)),"
        " MIN(CAST(ts AS TIMESTAMP_LTZ(3))), MAX(CAST(ts AS TIME(3)))",
        "FROM events GROUP BY customer",
    ),
    "whole": ("COUNT(*), SUM(amount), MIN(pieces)", "FROM events"),
    "different": ("customer, item", "FROM (SELECT DISTINCT customer, item FROM events)"),
    "updates": ("n, SUM(total), COUNT(total), AVG(total)", f"FROM ({TOTALS}) GROUP BY n"),
    "values": (
        "customer, COUNT(DISTINCT item), COUNT(DISTINCT item) FILTER (WHERE amount > 4), SUM(DISTINCT amount),"
        " SUM(DISTINCT small), AVG(DISTINCT price), COUNT(DISTINCT ratio), SUM(DISTINCT share), COUNT(DISTINCT ts), COUNT(*)",
        "FROM events GROUP BY customer",
    ),
    "values-of-all": ("COUNT(DISTINCT customer), SUM(DISTINCT amount)", "FROM events"),
    "values-of-updates": ("n, COUNT(DISTINCT total), SUM(DISTINCT total)", f"FROM ({TOTALS}) GROUP BY n"),
    "number-of-updates": ("COUNT(DISTINCT total), COUNT(*)", f"FROM ({TOTALS})"),
    "two": ("customer, id, price", _first("events", 2, "price DESC, id", "customer")),
    "two-numbered": ("customer, id, place", _first("events", 2, "ratio, item DESC NULLS LAST, id", "customer")),
    "top": ("customer, id, place", _first("events", 1, "id DESC", "customer")),
    "came-first": ("customer, id", _first("events", 2, "came", "customer")),
    "limited": ("id, item", "FROM (SELECT id, item FROM events ORDER BY id DESC LIMIT 3)"),
    "two-of-updates": ("customer, ids, place", _first(f"({SUMS})", 2, "high DESC, cost, latest DESC, ids, customer DESC")),
    "two-of-growing": ("customer, times", _first(f"({TIMES})", 2, "times DESC")),
    "top-of-growing": ("customer, times, place", _first(f"({TIMES})", 1, "times DESC")),
    "homes": ("home, COUNT(*)", "FROM homes GROUP BY home"),
    "first": _one("came"),
    "last": _one("came DESC"),
    "earliest": _one("ts"),
    "latest": _one("ts DESC"),
    "inner": ("e.id, c.city", "FROM events e JOIN cities c ON e.customer = c.customer"),
    "left": ("e.id, c.city", "FROM events e LEFT JOIN cities c ON e.customer = c.customer"),
    "right": ("e.id, c.city", "FROM events e RIGHT JOIN cities c ON e.customer = c.customer"),
    "semi": ("id, customer", "FROM events WHERE customer IN (SELECT customer FROM cities)"),
    "anti": ("id, customer", "FROM events e WHERE NOT EXISTS (SELECT * FROM cities c WHERE c.customer = e.customer)"),
    "full": ("e.id, c.city", "FROM events e FULL JOIN cities c ON e.customer IS NOT DISTINCT FROM c.customer"),
    "unique": (
        "a.customer, a.item, a.total, b.n",
        f"FROM ({BY_ITEM}) a LEFT JOIN ({BY_CITY}) b ON a.customer = b.customer",
    ),
}
OF_CALLS = (
    "coalesce(amount > 4, false)",
    "coalesce(item = 'pen', false)",
    "CAST(ts AS DATE)",
    "date_format(ts, 'HH:mm:ss')",
    "amount > 4",
    "rpad(item, 2, ' ')",
    "coalesce(pieces, 0)",
    "CAST(ts AS TIMESTAMP)",
    "date_format(ts, 'HH:mm:ss.SSS')",
)
"""What the plan computes for the filters and arguments of calls, in Spark's SQL."""
INSERTS = "".join(
    f"INSERT INTO results SELECT '{name}', CAST(ROW({columns}) AS STRING) {rest};\n" for name, (columns, rest) in QUERIES.items()
)


def tables(directory: Path, name: str) -> list[str]:
    """Return the statements that create the tables."""
    made = []
    for table, types in (("events", EVENTS), ("cities", CITIES)):
        columns = ", ".join(
            f"{column} AS CAST(NULLIF(SPLIT_INDEX(line, ',', {i}), '') AS {type_})"
            for i, (column, type_) in enumerate(types.items())
        )
        time = ", came AS PROCTIME(), WATERMARK FOR ts AS ts" if "ts" in types else ""
        made.append(
            f"CREATE TABLE {table} (line STRING, {columns}{time}) WITH ('connector' = 'filesystem', 'format' = 'raw',"
            f" 'path' = '{directory / table}', 'source.monitor-interval' = '100 ms')"
        )
    made.append(
        "CREATE TABLE homes (customer STRING, home STRING, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'filesystem',"
        f" 'format' = 'changes', 'path' = '{directory / 'homes'}', 'source.monitor-interval' = '100 ms')"
    )
    sink = f"WITH ('connector' = 'print', 'print-identifier' = '{name}')"
    return [*made, f"CREATE TABLE results (query STRING, found STRING) {sink}"]


BOOTSTRAPPED = ("group-aggregate", "global-group-aggregate", "deduplicate", "changelog-normalize", "rank", "join")
SETTINGS: dict[str, dict[str, str]] = {"single": {}, "batches": {**sql_queries.TWO_PHASES, "table.exec.state.ttl": "1 h"}}
"""With batches of rows, aggregates have two phases, and states have time-to-live."""
SETTING_OF = {"1.20.5": "batches", "2.3.0": "single"}
"""Each version has all queries. ``test_query_bootstrap.py`` compares both settings of both versions with states of Flink."""


def frame(spark: SparkSession, table: str, types: Mapping[str, str]) -> DataFrame:
    """The rows of a table, in Spark's types, with the number of the line as the time when it came."""
    lines = spark.createDataFrame(list(enumerate(HISTORY[table])), "came int, line string")
    in_spark = {"VARCHAR(10)": "STRING", "TIMESTAMP(3)": "TIMESTAMP_NTZ"}
    columns = [
        f"CAST(NULLIF(split_part(line, ',', {i + 1}), '') AS {in_spark.get(type_, type_)}) AS {column}"
        for i, (column, type_) in enumerate(types.items())
    ]
    return lines.selectExpr(*columns, "came")


def evaluated(spark: SparkSession, rows: DataFrame) -> tuple[DataFrame, pa.Table]:
    """Return rows for Spark and for Arrow, so that no job computes them again."""
    table = rows.toArrow()
    return spark.createDataFrame(table, rows.schema), table


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> list[tuple[DataFrame, pa.Table]]:
    """The rows that operators have as inputs, in Spark and in Arrow."""
    events, cities = frame(spark, "events", EVENTS), frame(spark, "cities", CITIES)
    events.createOrReplaceTempView("events")
    cities.createOrReplaceTempView("cities")
    of_calls = events.selectExpr("*", *(f"{text} AS `$f{i}`" for i, text in enumerate(OF_CALLS, 9)), f"{OF_CALLS[0]} AS `$f2`")
    ranked = [spark.sql(SUMS), spark.sql(TIMES), spark.sql(HOMES), spark.sql(HOMES).drop("customer")]
    found = [cities, *ranked, spark.sql(TOTALS).drop("customer"), spark.sql(BY_ITEM), spark.sql(BY_CITY), of_calls]
    return [evaluated(spark, one) for one in found]


def bootstrap(
    writer: sp.SavepointWriter | sp.arrow.SavepointWriter,
    frames: list[tuple[DataFrame, pa.Table]],
    plan: Path,
    target: Path,
    *,
    shown: bool,
) -> list[tuple[str, str]]:
    """Write the state that all operators of the plan have after the rows; return the uids and names of the states.

    Columns of the rows have the names that reading shows, or the names in the plan.
    """

    def rows(given: Input) -> Any:
        of_spark, of_arrow = next(pair for pair in frames if set(given.columns) <= set(pair[0].columns))
        names = [dict(given.read_names).get(column, column) if shown else column for column in given.columns]
        if isinstance(writer, sp.SavepointWriter):
            return of_spark.select(*given.columns).toDF(*names)
        return of_arrow.select(list(given.columns)).rename_columns(names)

    for operator in CompiledPlan.parse(plan.read_text("utf-8")).operators.values():
        if operator.transformation not in BOOTSTRAPPED or operator.uid != f"{operator.node.id}_{operator.transformation}":
            continue
        history = history_of(operator)
        if isinstance(history, JoinedRows):
            writer.bootstrap_query(plan, operator.label, left=rows(history.left.rows), right=rows(history.right.rows))
        else:
            writer.bootstrap_query(plan, operator.uid, rows(history.rows))
    writer.write(target)
    return [(row["operator_uid"], row["state_name"]) for row in sp.arrow.states(target, plan=plan).to_pylist()]


def entries(reader: sp.arrow.SavepointReader, uid: str, state: str) -> list[str]:
    return sorted(str(row) for batch in reader.read_keyed_state(uid, state) for row in batch.to_pylist())


@pytest.mark.parametrize("version", SETTING_OF)
def test_queries_go_on_where_tables_end(
    version: str, spark: SparkSession, frames: list[tuple[DataFrame, pa.Table]], tmp_path: Path
) -> None:
    """Spark writes one of the savepoints. Both writers write the same (test_query_bootstrap.py)."""
    sql_queries.write_lines(tmp_path / "files", "1", HISTORY)
    plans = {name: tmp_path / f"{name}.json" for name in (SETTINGS if EVERY_CASE else [SETTING_OF[version]])}

    def run(asked: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        answers = flink.plans(
            version,
            [
                {
                    "name": name,
                    "tables": tables(tmp_path / ("later" if name.endswith("-bootstrapped") else "files"), name),
                    "insert": f"STATEMENT SET BEGIN\n{INSERTS}END",
                    "plan": str(plans[name.partition("-")[0]]),
                    "settings": sql_queries.SETTINGS | SETTINGS[name.partition("-")[0]],
                    "to": str(tmp_path / name),
                    **more,
                }
                for name, more in asked.items()
            ],
            at_once=2,
        )
        assert "".join(a.get("error", "") for a in answers) == ""
        return answers

    first = run({name: {"backend": "hashmap", "lines": 40} for name in plans})
    restored: dict[str, dict[str, Any]] = {}
    for (name, plan), answer in zip(plans.items(), first, strict=True):
        made = tmp_path / f"{name}-table"
        flink_version = version.rpartition(".")[0]
        writer: sp.SavepointWriter | sp.arrow.SavepointWriter = sp.arrow.SavepointWriter.new(flink_version=flink_version)
        if (version, name) == ("2.3.0", "single"):
            writer = sp.SavepointWriter.new(spark, flink_version=flink_version)
        states = bootstrap(writer, frames, plan, made, shown=name == "single")
        assert len(states) == 65
        operators = CompiledPlan.parse(plan.read_text("utf-8")).operators.values()
        numbered = {o.uid for o in operators if o.node.at("outputRowNumber")}  # Flink keeps rows behind the last rank
        differ = []
        readers = [sp.open(path, plan=plan) for path in (made, answer["savepoint"])]
        for uid, state in states:
            found, known = (entries(reader, uid, state) for reader in readers)
            known = [entry for entry in known if "'map_value': [0, 0]" not in entry]  # left by merges of Flink
            if uid in numbered:
                known = [entry for entry in known if entry in found]
            if found != known:
                differ.append((uid, state, found, known))
        assert differ == []
        restored[f"{name}-uninterrupted"] = {"from": answer["savepoint"], "backend": "hashmap", "lines": 30}
        backend = "rocksdb" if name == "single" else "hashmap"  # a heap is restored by comparators in the savepoint
        restored[f"{name}-bootstrapped"] = {"from": str(made), "backend": backend, "lines": 30}
    for directory in ("files", "later"):  # a source without a position reads everything
        sql_queries.write_lines(tmp_path / directory, "2", LATER)
    found = dict(zip(restored, (sql_queries.rows_of(a["changes"]) for a in run(restored)), strict=True))
    for name in plans:
        assert found[f"{name}-bootstrapped"] == found[f"{name}-uninterrupted"]
        assert {row[1:].partition(",")[0] for row in found[f"{name}-uninterrupted"]} == set(QUERIES)
