"""Names and types of columns that queries compute, in the states of operators of all kinds: real Flink compiles and runs them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.interop import sql_queries
from tests.interop.sql_queries import Query

pytestmark = pytest.mark.interop

_WINDOWS = "TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
_BY_WINDOW = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end, UPPER(customer) ORDER BY {0} DESC) AS n"
_CALLS = "COUNT(DISTINCT CAST(ts AS DATE)), SUM(amount * 2) FILTER (WHERE id > 1)"
_ACCUMULATORS = (
    "struct<`count(distinct CAST(ts AS DATE))`:bigint,`sum(amount * 2) filter id > 1`:bigint,`distinct(CAST(ts AS DATE))`:binary>"
)
_KEY = "key struct<`UPPER(customer)`:string>"
_DISTINCT = {
    "CAST(ts AS DATE)": ("date", date(2024, 1, 1)),
    "CAST(ts AS TIME)": ("string", "00:00:01"),
    "ts": ("timestamp_ntz", datetime(2024, 1, 1, 0, 0, 1)),
    "CAST(ts AS TIMESTAMP(6))": ("timestamp_ntz", datetime(2024, 1, 1, 0, 0, 1)),
    "CAST(ts AS TIMESTAMP_LTZ(3))": ("timestamp", datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC)),
    "CAST(ts AS TIMESTAMP_LTZ(9))": ("timestamp", datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC)),
    "CAST(amount AS DECIMAL(10, 2))": ("decimal(10,2)", Decimal(10)),
    "CAST(amount AS DECIMAL(38, 5))": ("decimal(38,5)", Decimal(10)),
    "amount > 5": ("boolean", True),
    "CAST(item AS CHAR(2))": ("string", "pe"),
}
"""Arguments of calls with ``DISTINCT``: the type of the values that are kept, and that of the first order."""

QUERIES: dict[str, tuple[Query, dict[str, str]]] = {
    "distinct": (
        Query(
            f"SELECT customer, {', '.join(f'COUNT(DISTINCT {a})' for a in _DISTINCT)} FROM orders GROUP BY customer",
            ", ".join(["c STRING", *(f"c{i} BIGINT" for i in range(len(_DISTINCT)))]),
        ),
        {
            f"distinctAcc_{i}": f"key struct<customer:string>, map_key {type_}, map_value bigint"
            for i, (type_, _) in enumerate(_DISTINCT.values())
        },
    ),
    "texts": (
        Query(
            "SELECT customer, LISTAGG(CAST(item AS CHAR(3))), LISTAGG(CAST(item AS VARCHAR(5)), '-'), MAX(CAST(item AS CHAR(3))),"
            " MIN(CAST(ts AS TIME(3))), MAX(ts) FROM orders GROUP BY customer",
            "a STRING, b STRING, c STRING, d STRING, e TIME(3), f TIMESTAMP(3)",
        ),
        {
            "accState": "key struct<customer:string>, value struct<`listagg(CAST(item AS CHAR(3))) delimiter`:string,"
            "`listagg(CAST(item AS CHAR(3)))`:string,`listagg(CAST(item AS VARCHAR(5)), '-') delimiter`:string,"
            "`listagg(CAST(item AS VARCHAR(5)), '-')`:string,`max(CAST(item AS CHAR(3)))`:string,"
            "`min(CAST(ts AS TIME(3)))`:string,`max(ts)`:timestamp_ntz>"
        },
    ),
    "rollup": (
        Query(
            f"SELECT UPPER(customer), item, {_CALLS} FROM orders GROUP BY ROLLUP(UPPER(customer), item)",
            "a STRING, b STRING, c BIGINT, d BIGINT",
        ),
        {"accState": f"key struct<`UPPER(customer)`:string,item:string,`GROUPING_ID()`:bigint>, value {_ACCUMULATORS}"},
    ),
    "window": (
        Query(
            f"SELECT UPPER(customer), window_start, {_CALLS} FROM {_WINDOWS.format('orders')}"
            " GROUP BY UPPER(customer), window_start, window_end",
            "a STRING, b TIMESTAMP(3), c BIGINT, d BIGINT",
        ),
        {
            "window-aggs": f"{_KEY}, namespace bigint, value {_ACCUMULATORS}",
            "distinctAcc_0": f"{_KEY}, namespace bigint, map_key date, map_value bigint",
        },
    ),
    "group-window": (
        Query(
            f"SELECT UPPER(customer), {_CALLS} FROM orders GROUP BY UPPER(customer), TUMBLE(ts, INTERVAL '10' SECOND)",
            "a STRING, b BIGINT, c BIGINT",
        ),
        {
            "window-aggs": f"{_KEY}, window struct<start:timestamp,end:timestamp>, value {_ACCUMULATORS}",
            "distinctAcc_0": f"{_KEY}, window struct<start:timestamp,end:timestamp>, map_key date, map_value bigint",
        },
    ),
    "over": (
        Query(
            "SELECT id, SUM(amount * 2) OVER w, LAG(CAST(amount AS DECIMAL(20, 2))) OVER w, LAG(CHAR_LENGTH(customer)) OVER w"
            " FROM orders WINDOW w AS (PARTITION BY UPPER(customer) ORDER BY ts)",
            "a BIGINT, b BIGINT, c DECIMAL(20, 2), d INT",
        ),
        {
            "accState": f"{_KEY}, value struct<`count(amount * 2)`:bigint,`sum0(amount * 2)`:bigint,"
            "`lag(CAST(amount AS DECIMAL(20, 2)))`:struct<offset:int,defaultValue:decimal(20,2),buffer:array<decimal(20,2)>>,"
            "`lag(CHAR_LENGTH(customer))`:struct<offset:int,defaultValue:int,buffer:array<int>>>",
        },
    ),
    "window-join": (
        Query(
            f"SELECT a.id, b.city FROM (SELECT * FROM {_WINDOWS.format('late_orders')}) a JOIN"
            f" (SELECT * FROM {_WINDOWS.format('late_customers')}) b ON UPPER(a.customer) = UPPER(b.id)"
            " AND a.window_start = b.window_start AND a.window_end = b.window_end",
            "a BIGINT, b STRING",
            lines=0,
        ),
        {
            f"{side}-records": f"{_KEY}, namespace bigint, list_index int,"
            f" list_value struct<{own},window_start:timestamp_ntz,window_end:timestamp_ntz,`UPPER({of})`:string>"
            for side, own, of in (("left", "id:bigint", "customer"), ("right", "city:string", "id"))
        },
    ),
    "window-top": (
        Query(
            f"SELECT id, d FROM (SELECT *, amount * 2 AS d, {_BY_WINDOW.format('amount * 2')} FROM {_WINDOWS.format('orders')})"
            " WHERE n <= 2",
            "a BIGINT, b BIGINT",
        ),
        {
            "window_rank": f"{_KEY}, namespace bigint, map_key struct<`amount * 2`:bigint>, map_value array<struct<id:bigint,"
            "window_start:timestamp_ntz,window_end:timestamp_ntz,`amount * 2`:bigint,`UPPER(customer)`:string>>",
        },
    ),
    "interval-join": (
        Query(
            "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON UPPER(o.customer) = UPPER(c.id)"
            " AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE",
            "a BIGINT, b STRING",
        ),
        {
            f"IntervalJoin{side}Cache": f"{_KEY}, map_key bigint, map_value array<struct<record:struct<{own},ts:timestamp_ntz,"
            f"`UPPER({of})`:string>,emitted:boolean>>"
            for side, own, of in (("Left", "id:bigint", "customer"), ("Right", "city:string", "id"))
        },
    ),
    "temporal-join": (
        Query(
            "SELECT o.id, v.city FROM late_orders o LEFT JOIN late_versions FOR SYSTEM_TIME AS OF o.ts AS v"
            " ON LOWER(o.customer) = v.id",
            "a BIGINT, b STRING",
        ),
        {
            "left": "key struct<`LOWER(customer)`:string>, map_key bigint,"
            " map_value struct<id:bigint,ts:timestamp_ntz,`LOWER(customer)`:string>",
        },
    ),
    "sort": (
        Query("SELECT id, amount * 2, UPPER(item) FROM late_orders ORDER BY ts, amount * 2", "a BIGINT, b BIGINT, c STRING"),
        {
            "dataState": "key struct<>, map_key bigint,"
            " map_value array<struct<id:bigint,`amount * 2`:bigint,`UPPER(item)`:string,ts:timestamp_ntz>>"
        },
    ),
    "semi-join": (
        Query("SELECT id FROM orders WHERE UPPER(customer) IN (SELECT UPPER(id) FROM customers)", "a BIGINT"),
        {"right-records": f"{_KEY}, map_key struct<`UPPER(id)`:string>, map_value int"},
    ),
}


def states(savepoint: str, plan: Path) -> dict[str, dict[str, Any]]:
    return {row["state_name"]: row for row in sp.arrow.states(savepoint, plan=plan).to_pylist()}


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_columns_have_the_names_and_types_of_the_plan(version: str, tmp_path: Path) -> None:
    sql_queries.write_lines(tmp_path / "files", "1", sql_queries.FIRST)
    plans = {name: tmp_path / f"{name}.json" for name in QUERIES}
    requests = [
        sql_queries.request(query, tmp_path / "files", plans[name], to=str(tmp_path / name))
        for name, (query, _) in QUERIES.items()
    ]
    answers = sql_queries.answered(version, requests, sql_queries.AT_ONCE)
    savepoints = {name: answer["savepoint"] for name, answer in zip(QUERIES, answers, strict=True)}
    for name, (_, expected) in QUERIES.items():
        found = states(savepoints[name], plans[name])
        assert {state: found[state]["spark_schema"] for state in expected} == expected, name
    kept = states(savepoints["distinct"], plans["distinct"])
    for i, (_, value) in enumerate(_DISTINCT.values()):
        uid = kept[f"distinctAcc_{i}"]["operator_uid"]
        batches = sp.arrow.read_state(savepoints["distinct"], uid, f"distinctAcc_{i}", plan=plans["distinct"], nanos="check")
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert value in [row["map_key"] for row in rows if row["key"] == {"customer": "ada"}]
