"""Queries whose plans two versions of Flink compile: operators of all kinds that keep state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.interop.sql_queries import TWO_PHASES, Query

_NAMES: Final = "abcdefghi"
_TTL: Final = {"table.exec.state.ttl": "1 d"}
_SPLIT: Final = {**TWO_PHASES, "table.optimizer.distinct-agg.split.enabled": "true"}
_INCREMENTAL: Final = {**_SPLIT, "table.optimizer.incremental-agg-enabled": "true"}
_ONE_PHASE: Final = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
_MATERIALIZED: Final = {"table.exec.sink.upsert-materialize": "FORCE"}
_BY_NUMBER: Final = {**_MATERIALIZED, "table.exec.sink.upsert-materialize-strategy.type": "MAP"}
_ONE_SUBTASK: Final = {"parallelism.default": "1"}
"""For windows of windows: with two, rows of one subtask are late if the other one was idle and comes to the end of time first."""
_TOTALS: Final = "(SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer)"


def _query(sql: str, sink: str, lines: int = 1, more: int = 1, settings: Mapping[str, str] | None = None) -> Query:
    """Return a query; its sink has columns of the types, and after ``|`` a primary key."""
    types, _, key = sink.partition("|")
    columns = [f"{name} {type_.strip()}" for name, type_ in zip(_NAMES, types.split(";"), strict=False)]
    more_of_sink = [f"PRIMARY KEY ({key}) NOT ENFORCED"] if key else []
    return Query(sql, ", ".join([*columns, *more_of_sink]), dict(settings or {}), lines, more)


def _numbered(
    order: str, condition: str, columns: str = "customer, id, amount", table: str = "orders", by: str = "customer"
) -> str:
    partition = f"PARTITION BY {by} " if by else ""
    number = "k" if condition.startswith("k") else "n"
    numbered = f"SELECT *, ROW_NUMBER() OVER ({partition}ORDER BY {order}) AS {number} FROM {table}"
    return f"SELECT {columns} FROM ({numbered}) WHERE {condition}"


def _over(calls: str, window: str, table: str = "orders") -> str:
    return f"SELECT id, {calls} FROM {table} WINDOW w AS (PARTITION BY customer ORDER BY {window})"


def _windowed(call: str, calls: str = "COUNT(*), SUM(amount)") -> str:
    return f"SELECT customer, window_start, {calls} FROM TABLE({call}) GROUP BY customer, window_start, window_end"


_TUMBLE: Final = "TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
_ORDERS_WINDOW: Final = f"TABLE({_TUMBLE.format('orders')})"
_CUSTOMERS_WINDOW: Final = f"TABLE({_TUMBLE.format('customers')})"
_SAME_WINDOW: Final = "o.customer = c.id AND o.window_start = c.window_start AND o.window_end = c.window_end"


def _grouped(calls: str, sink: str, lines: int = 3, settings: Mapping[str, str] | None = None, table: str = "orders") -> Query:
    return _query(f"SELECT customer, {calls} FROM {table} GROUP BY customer", f"STRING; {sink}", lines, 1, settings)


def _joined(kind: str, columns: str, sink: str, condition: str = "o.customer = c.id", lines: int = 1, **more: str) -> Query:
    return _query(f"SELECT {columns} FROM orders o {kind} JOIN customers c ON {condition}", sink, lines, 1, more)


UPGRADED: Final[Mapping[str, Query]] = {
    # aggregates without windows
    "all-calls": _grouped(
        "COUNT(*), COUNT(amount), SUM(amount), AVG(amount), MIN(amount), MAX(item), FIRST_VALUE(item), LAST_VALUE(item)",
        "BIGINT; BIGINT; BIGINT; BIGINT; BIGINT; STRING; STRING; STRING",
    ),
    "deviations": _grouped(
        "STDDEV_POP(amount), STDDEV_SAMP(amount), VAR_POP(amount), VAR_SAMP(amount), LISTAGG(item), LISTAGG(item, '-')",
        "BIGINT; BIGINT; BIGINT; BIGINT; STRING; STRING",
    ),
    "collected": _grouped("CAST(COLLECT(item) AS STRING), CAST(ARRAY_AGG(item) AS STRING)", "STRING; STRING"),
    "objects": _grouped("JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE amount), JSON_ARRAYAGG(amount)", "STRING; STRING"),
    "types": _grouped(
        "SUM(CAST(amount AS DECIMAL(10, 2))), AVG(CAST(amount AS DOUBLE)), MAX(CAST(ts AS DATE)), MIN(CAST(ts AS TIME)), MAX(ts)",
        "DECIMAL(38, 2); DOUBLE; DATE; TIME; TIMESTAMP(3)",
    ),
    "distinct-filtered": _grouped(
        "COUNT(DISTINCT item), COUNT(DISTINCT item) FILTER (WHERE amount > 9), SUM(DISTINCT amount), COUNT(*) FILTER"
        " (WHERE item = 'pen'), AVG(DISTINCT amount)",
        "BIGINT; BIGINT; BIGINT; BIGINT; BIGINT",
    ),
    "distinct-dates": _grouped(
        "COUNT(DISTINCT CAST(ts AS DATE)), COUNT(DISTINCT CAST(ts AS TIME)), COUNT(DISTINCT ts),"
        " COUNT(DISTINCT customer || item)",
        "BIGINT; BIGINT; BIGINT; BIGINT",
    ),
    "named": _query(
        "SELECT customer AS who, SUM(amount) AS total, COUNT(*) FROM orders WHERE id > 0 GROUP BY"
        " customer HAVING SUM(amount) > 1",
        "STRING; BIGINT; BIGINT",
    ),
    "computed": _grouped("SUM(amount * 2 + 1), MAX(CASE WHEN amount > 9 THEN item ELSE 'none' END)", "BIGINT; STRING"),
    "whole-table": _query("SELECT COUNT(*), MAX(amount) FROM orders", "BIGINT; BIGINT"),
    "retracting-calls": _query(
        f"SELECT n, SUM(total), MAX(total), MIN(customer), AVG(total), COUNT(*), COUNT(DISTINCT"
        f" customer) FROM {_TOTALS} GROUP BY n",
        "BIGINT; BIGINT; BIGINT; STRING; BIGINT; BIGINT; BIGINT",
    ),
    "retracting-values": _query(
        f"SELECT n, LISTAGG(customer), FIRST_VALUE(customer), LAST_VALUE(customer), VAR_POP(total) FROM {_TOTALS} GROUP BY n",
        "BIGINT; STRING; STRING; STRING; BIGINT",
    ),
    "retracting-collected": _query(
        f"SELECT n, CAST(COLLECT(customer) AS STRING), CAST(ARRAY_AGG(total) AS STRING) FROM {_TOTALS} GROUP BY n",
        "BIGINT; STRING; STRING",
    ),
    "with-ttl": _grouped("COUNT(*), SUM(amount)", "BIGINT; BIGINT", 3, _TTL),
    "with-hint": _query(
        "SELECT /*+ STATE_TTL('orders' = '1d') */ customer, SUM(amount) FROM orders GROUP BY customer", "STRING; BIGINT"
    ),
    "two-phases": _grouped("COUNT(*), SUM(amount), AVG(amount), MAX(item)", "BIGINT; BIGINT; BIGINT; STRING", 3, TWO_PHASES),
    "two-phases-distinct": _grouped("COUNT(DISTINCT item), SUM(amount) FILTER (WHERE id > 1)", "BIGINT; BIGINT", 3, TWO_PHASES),
    "two-phases-retracting": _query(
        f"SELECT n, SUM(total), MAX(total), COUNT(*) FROM {_TOTALS} GROUP BY n",
        "BIGINT; BIGINT; BIGINT; BIGINT",
        1,
        1,
        TWO_PHASES,
    ),
    "mini-batch": _grouped("COUNT(*), SUM(amount)", "BIGINT; BIGINT", 3, {**TWO_PHASES, **_ONE_PHASE}),
    "split-distinct": _grouped(
        "COUNT(DISTINCT item), SUM(amount)", "BIGINT; BIGINT", 3, {**_SPLIT, "table.optimizer.incremental-agg-enabled": "false"}
    ),
    "incremental": _grouped("COUNT(DISTINCT item), SUM(amount)", "BIGINT; BIGINT", 3, _INCREMENTAL),
    "incremental-two": _grouped(
        "COUNT(DISTINCT item), COUNT(DISTINCT amount), MAX(id)", "BIGINT; BIGINT; BIGINT", 3, _INCREMENTAL
    ),
    "grouping-sets": _query(
        "SELECT customer, item, COUNT(*), SUM(amount) FROM orders GROUP BY GROUPING SETS ((customer, item), (customer), ())",
        "STRING; STRING; BIGINT; BIGINT",
    ),
    "cube": _query(
        "SELECT customer, item, GROUPING_ID(customer, item), COUNT(DISTINCT amount) FROM orders GROUP BY CUBE (customer, item)",
        "STRING; STRING; BIGINT; BIGINT",
    ),
    "distinct-rows": _query("SELECT DISTINCT customer, item FROM orders", "STRING; STRING"),
    "single-value": _query("SELECT id, amount FROM orders WHERE amount < (SELECT MAX(amount) FROM orders)", "BIGINT; BIGINT"),
    "scalar": _query("SELECT id, (SELECT city FROM customers WHERE id = 'dan') FROM orders", "BIGINT; STRING"),
    # joins
    "inner-join": _joined("", "o.id, o.amount, c.city", "BIGINT; BIGINT; STRING", lines=8),
    "inner-join-condition": _joined(
        "", "o.id, c.city", "BIGINT; STRING", "o.customer = c.id AND o.amount > 5 AND o.item <> c.city", lines=5
    ),
    "left-join": _joined("LEFT", "o.id, c.city", "BIGINT; STRING", lines=9),
    "right-join": _joined("RIGHT", "o.id, c.id, c.city", "BIGINT; STRING; STRING", lines=9),
    "full-join": _joined("FULL", "o.id, c.id, c.city", "BIGINT; STRING; STRING", lines=9),
    "join-with-ttl": _query(
        "SELECT /*+ STATE_TTL('o' = '1d', 'c' = '2d') */ o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        "BIGINT; STRING",
        9,
    ),
    "join-not-distinct": _joined("", "o.id, c.city", "BIGINT; STRING", "o.customer IS NOT DISTINCT FROM c.id", lines=8),
    "cross-join": _query("SELECT o.id, c.city FROM orders o CROSS JOIN customers c", "BIGINT; STRING", 24),
    "range-join": _query("SELECT o.id, c.city FROM orders o JOIN customers c ON o.ts < c.ts", "BIGINT; STRING", 9),
    "self-join": _query("SELECT a.id, b.id FROM orders a JOIN orders b ON a.item = b.item AND a.id < b.id", "BIGINT; BIGINT", 4),
    "join-by-unique-key": _query(
        f"SELECT t.customer, t.total, h.city FROM {_TOTALS} t LEFT JOIN homes h ON t.customer = h.id", "STRING; BIGINT; STRING", 3
    ),
    "join-of-changes": _query(
        f"SELECT t.customer, h.id, h.city FROM {_TOTALS} t JOIN homes h ON t.n = CHAR_LENGTH(h.id)", "STRING; STRING; STRING", 1
    ),
    "semi-join": _query("SELECT id, amount FROM orders WHERE customer IN (SELECT id FROM customers)", "BIGINT; BIGINT", 4),
    "exists": _query(
        "SELECT id FROM orders o WHERE EXISTS (SELECT * FROM customers c WHERE c.id = o.customer AND c.city <> o.item)",
        "BIGINT",
        4,
    ),
    "anti-join": _query(
        "SELECT id FROM orders o WHERE NOT EXISTS (SELECT * FROM customers c WHERE c.id = o.customer AND c.city <> 'Lima')",
        "BIGINT",
        1,
    ),
    "not-in": _query(
        "SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers WHERE id IS NOT NULL AND city <> 'Lima')",
        "BIGINT",
        1,
    ),
    "three-joins": _query(
        "SELECT o.id, c.city, h.city FROM orders o JOIN customers c ON o.customer = c.id LEFT JOIN homes h ON o.customer = h.id",
        "BIGINT; STRING; STRING",
        8,
    ),
    "multi-join": _query(
        "SELECT o.id, c.city, h.city FROM orders o JOIN customers c ON o.customer = c.id JOIN homes h ON o.customer = h.id",
        "BIGINT; STRING; STRING",
        3,
        1,
        {"table.optimizer.multi-join.enabled": "true"},
    ),
    "mini-batch-join": _query(
        "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id", "BIGINT; STRING", 8, 1, TWO_PHASES
    ),
    "interval-join": _joined(
        "", "o.id, c.city", "BIGINT; STRING", "o.customer = c.id AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE", lines=6
    ),
    "interval-join-left": _joined(
        "LEFT",
        "o.id, c.city",
        "BIGINT; STRING",
        "o.customer = c.id AND o.ts BETWEEN c.ts - INTERVAL '5' SECOND AND c.ts + INTERVAL '5' SECOND",
        lines=4,
    ),
    "interval-join-full": _joined(
        "FULL",
        "o.id, c.id, c.city",
        "BIGINT; STRING; STRING",
        "o.customer = c.id AND o.ts BETWEEN c.ts - INTERVAL '5' SECOND AND c.ts + INTERVAL '5' SECOND",
        lines=4,
    ),
    "interval-join-processing": _joined(
        "",
        "o.id, c.city",
        "BIGINT; STRING",
        "o.customer = c.id AND o.came BETWEEN c.came - INTERVAL '1' DAY AND c.came + INTERVAL '1' DAY",
        lines=8,
    ),
    "temporal-join": _query(
        "SELECT o.id, v.city FROM orders o LEFT JOIN versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.customer = v.id",
        "BIGINT; STRING",
        5,
    ),
    "temporal-join-waiting": _query(
        "SELECT o.id, v.city FROM late_orders o JOIN late_versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.customer = v.id",
        "BIGINT; STRING",
        4,
    ),
    # one row of each key, some rows of each key
    "first-row": _query(_numbered("came", "n = 1"), "STRING; BIGINT; BIGINT", 3),
    "last-row": _query(_numbered("came DESC", "n = 1"), "STRING; BIGINT; BIGINT", 3),
    "first-row-by-time": _query(_numbered("ts", "n = 1"), "STRING; BIGINT; BIGINT", 3),
    "first-row-by-late-time": _query(_numbered("ts", "n = 1", table="late_orders"), "STRING; BIGINT; BIGINT", 2),
    "first-row-by-waiting-time": _query(_numbered("ts", "n = 1", table="waiting_orders"), "STRING; BIGINT; BIGINT", 1),
    "first-row-by-time-with-ttl": _query(_numbered("ts", "n = 1"), "STRING; BIGINT; BIGINT", 3, 1, _TTL),
    "first-row-by-time-counted": _query(
        f"SELECT item, COUNT(*) FROM ({_numbered('ts', 'n = 1', '*')}) GROUP BY item", "STRING; BIGINT", 2
    ),
    "last-row-by-time": _query(_numbered("ts DESC", "n = 1"), "STRING; BIGINT; BIGINT", 3),
    "last-row-counted": _query(
        f"SELECT item, COUNT(*), SUM(amount) FROM ({_numbered('ts DESC', 'n = 1', '*')}) GROUP BY item",
        "STRING; BIGINT; BIGINT",
        3,
    ),
    "last-row-mini-batch": _query(_numbered("ts DESC", "n = 1"), "STRING; BIGINT; BIGINT", 3, 1, TWO_PHASES),
    "first-row-mini-batch": _query(_numbered("came", "n = 1"), "STRING; BIGINT; BIGINT", 3, 1, TWO_PHASES),
    "top": _query(_numbered("amount DESC", "n <= 2"), "STRING; BIGINT; BIGINT", 5),
    "top-numbered": _query(_numbered("amount DESC, id", "n <= 2", "customer, id, n"), "STRING; BIGINT; BIGINT", 5),
    "top-one": _query(_numbered("amount DESC", "n = 1"), "STRING; BIGINT; BIGINT", 3),
    "top-one-of-updates": _query(
        _numbered("total DESC", "k = 1", "customer, total, k", _TOTALS, "n"), "STRING; BIGINT; BIGINT", 2
    ),
    "top-of-growing": _query(
        _numbered(
            "total DESC", "n <= 2", "customer, total", "(SELECT customer, COUNT(*) AS total FROM orders GROUP BY customer)", ""
        ),
        "STRING; BIGINT",
        2,
    ),
    "top-of-updates": _query(_numbered("total", "k <= 2", "customer, total", _TOTALS, ""), "STRING; BIGINT", 2),
    "top-of-changes": _query(_numbered("id", "n <= 2", "city, id", "homes", "city"), "STRING; STRING", 3),
    "top-second": _query(_numbered("amount DESC, id", "n BETWEEN 2 AND 3"), "STRING; BIGINT; BIGINT", 2),
    "limit": _query("SELECT id, amount FROM orders LIMIT 8", "BIGINT; BIGINT", 6),
    "sort-limit": _query("SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3", "BIGINT; BIGINT", 3),
    "sort-limit-offset": _query("SELECT id, amount FROM orders ORDER BY amount, id LIMIT 2 OFFSET 1", "BIGINT; BIGINT", 2),
    # OVER
    "over-range": _query(
        _over(
            "SUM(amount) OVER w, COUNT(*) OVER w, MAX(item) OVER w",
            "ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW",
        ),
        "BIGINT; BIGINT; BIGINT; STRING",
        6,
    ),
    "over-rows": _query(
        _over("SUM(amount) OVER w, AVG(amount) OVER w", "ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
        "BIGINT; BIGINT; BIGINT",
        6,
    ),
    "over-unbounded-range": _query(
        _over("SUM(amount) OVER w, MIN(amount) OVER w", "ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "BIGINT; BIGINT; BIGINT",
        6,
    ),
    "over-unbounded-rows": _query(
        _over("SUM(amount) OVER w, COUNT(*) OVER w", "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "BIGINT; BIGINT; BIGINT",
        6,
    ),
    "over-unbounded-first-version": _query(
        _over("SUM(amount) OVER w, COUNT(*) OVER w", "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "BIGINT; BIGINT; BIGINT",
        6,
        1,
        {"table.exec.unbounded-over.version": "1"},
    ),
    "over-distinct": _query(
        _over("COUNT(DISTINCT item) OVER w", "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"), "BIGINT; BIGINT", 6
    ),
    "over-distinct-bounded": _query(
        _over("COUNT(DISTINCT item) OVER w", "ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"), "BIGINT; BIGINT", 6
    ),
    "over-late": _query(
        _over("SUM(amount) OVER w", "ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW", "late_orders"),
        "BIGINT; BIGINT",
        5,
    ),
    "over-unbounded-late": _query(
        _over("SUM(amount) OVER w", "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "late_orders"), "BIGINT; BIGINT", 5
    ),
    "over-unbounded-waiting": _query(
        _over("SUM(amount) OVER w, MIN(amount) OVER w", "ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "waiting_orders"),
        "BIGINT; BIGINT; BIGINT",
        2,
    ),
    "over-distinct-waiting": _query(
        _over(
            "COUNT(DISTINCT item) OVER w, MAX(item) OVER w",
            "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "waiting_orders",
        ),
        "BIGINT; BIGINT; STRING",
        2,
    ),
    "over-processing": _query(
        _over("SUM(amount) OVER w, COUNT(*) OVER w", "came ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "BIGINT; BIGINT; BIGINT",
        6,
    ),
    "over-processing-range": _query(
        _over("SUM(amount) OVER w", "came RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"), "BIGINT; BIGINT", 6
    ),
    "over-processing-rows": _query(
        _over("SUM(amount) OVER w", "came ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"), "BIGINT; BIGINT", 6
    ),
    "lag": _query(_over("LAG(amount) OVER w, LAG(item, 2, 'none') OVER w", "ts"), "BIGINT; BIGINT; STRING", 6),
    "lag-waiting": _query(
        _over("LAG(amount) OVER w, LAG(item, 2, 'none') OVER w", "ts", "waiting_orders"), "BIGINT; BIGINT; STRING", 2
    ),
    "lag-processing": _query(_over("LAG(amount) OVER w", "came"), "BIGINT; BIGINT", 6),
    "row-number": _query(_over("ROW_NUMBER() OVER w", "ts"), "BIGINT; BIGINT", 6),
    "ranks": _query(_over("RANK() OVER w, DENSE_RANK() OVER w", "ts"), "BIGINT; BIGINT; BIGINT", 6),
    "first-value-over": _query(
        _over("FIRST_VALUE(item) OVER w, LAST_VALUE(amount) OVER w", "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "BIGINT; STRING; BIGINT",
        6,
    ),
    # windows
    "tumbling": _query(_windowed(_TUMBLE.format("orders")), "STRING; TIMESTAMP(3); BIGINT; BIGINT", 3),
    "tumbling-one-phase": _query(
        _windowed(_TUMBLE.format("orders"), "COUNT(DISTINCT item), AVG(amount)"),
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        3,
        1,
        _ONE_PHASE,
    ),
    "tumbling-offset": _query(
        _windowed("TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)"),
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        1,
    ),
    "hopping": _query(
        _windowed("HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"),
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        5,
    ),
    "hopping-one-phase": _query(
        _windowed("HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)", "MAX(amount), MIN(item)"),
        "STRING; TIMESTAMP(3); BIGINT; STRING",
        5,
        1,
        _ONE_PHASE,
    ),
    "cumulating": _query(
        _windowed("CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"),
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        5,
    ),
    "sessions": _query(
        _windowed("SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '5' SECOND)"),
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        3,
    ),
    "window-grouping-sets": _query(
        f"SELECT customer, item, window_start, COUNT(*) FROM {_ORDERS_WINDOW} GROUP BY window_start, window_end,"
        " GROUPING SETS ((customer), (item))",
        "STRING; STRING; TIMESTAMP(3); BIGINT",
        5,
    ),
    "window-of-window": _query(
        "SELECT window_start, SUM(n) FROM (SELECT customer, window_start, window_end, COUNT(*) AS n FROM"
        f" {_ORDERS_WINDOW} GROUP BY customer, window_start, window_end) GROUP BY window_start, window_end",
        "TIMESTAMP(3); BIGINT",
        1,
        1,
        _ONE_SUBTASK,
    ),
    "window-join": _query(
        f"SELECT o.id, c.city FROM (SELECT * FROM {_ORDERS_WINDOW}) o JOIN (SELECT * FROM"
        f" {_CUSTOMERS_WINDOW}) c ON {_SAME_WINDOW}",
        "BIGINT; STRING",
        5,
    ),
    "window-left-join": _query(
        f"SELECT o.id, c.city FROM (SELECT * FROM {_ORDERS_WINDOW}) o LEFT JOIN (SELECT * FROM"
        f" {_CUSTOMERS_WINDOW}) c ON {_SAME_WINDOW}",
        "BIGINT; STRING",
        5,
    ),
    "window-semi-join": _query(
        f"SELECT o.id FROM (SELECT * FROM {_ORDERS_WINDOW}) o WHERE o.customer IN (SELECT id FROM"
        f" (SELECT * FROM {_CUSTOMERS_WINDOW}) c"
        " WHERE o.window_start = c.window_start AND o.window_end = c.window_end)",
        "BIGINT",
        3,
    ),
    "window-top": _query(
        "SELECT customer, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, customer"
        f" ORDER BY amount DESC) AS n FROM {_ORDERS_WINDOW}) WHERE n <= 2",
        "STRING; BIGINT; BIGINT",
        4,
    ),
    "window-top-of-groups": _query(
        "SELECT customer, total, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start,"
        " window_end ORDER BY total DESC) AS n"
        f" FROM (SELECT customer, window_start, window_end, SUM(amount) AS total FROM {_ORDERS_WINDOW}"
        " GROUP BY customer, window_start, window_end)) WHERE n <= 2",
        "STRING; BIGINT; BIGINT",
        2,
        1,
        _ONE_SUBTASK,
    ),
    "window-last-row": _query(
        "SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, customer"
        f" ORDER BY ts DESC) AS n FROM {_ORDERS_WINDOW}) WHERE n = 1",
        "STRING; BIGINT",
        3,
    ),
    "window-first-row": _query(
        "SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, customer"
        f" ORDER BY ts) AS n FROM {_ORDERS_WINDOW}) WHERE n <= 1",
        "STRING; BIGINT",
        3,
    ),
    "old-tumbling": _query(
        "SELECT customer, TUMBLE_START(ts, INTERVAL '10' SECOND), COUNT(*), SUM(amount) FROM orders"
        " GROUP BY customer, TUMBLE(ts, INTERVAL '10' SECOND)",
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        3,
    ),
    "old-hopping": _query(
        "SELECT customer, HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), COUNT(*), MAX(item) FROM orders"
        " GROUP BY customer, HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
        "STRING; TIMESTAMP(3); BIGINT; STRING",
        5,
    ),
    "old-sessions": _query(
        "SELECT customer, SESSION_START(ts, INTERVAL '5' SECOND), COUNT(*), SUM(amount) FROM orders"
        " GROUP BY customer, SESSION(ts, INTERVAL '5' SECOND)",
        "STRING; TIMESTAMP(3); BIGINT; BIGINT",
        3,
    ),
    "old-tumbling-early": _query(
        "SELECT customer, TUMBLE_START(ts, INTERVAL '10' SECOND), COUNT(*) FROM orders GROUP BY"
        " customer, TUMBLE(ts, INTERVAL '10' SECOND)",
        "STRING; TIMESTAMP(3); BIGINT",
        3,
        1,
        {"table.exec.emit.early-fire.enabled": "true", "table.exec.emit.early-fire.delay": "200 ms"},
    ),
    # patterns, orders, sinks, changes
    "match": _query(
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.id AS first_id, B.id AS second_id"
        " ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 6, B AS B.amount > 15)",
        "STRING; BIGINT; BIGINT",
        1,
    ),
    "match-greedy": _query(
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES FIRST(A.id) AS"
        " b, SUM(A.amount) AS c, B.id AS d"
        " ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) WITHIN INTERVAL '1' MINUTE"
        " DEFINE A AS LAST(A.amount, 1) IS NULL OR A.amount > LAST(A.amount, 1), B AS B.amount < LAST(A.amount))",
        "STRING; BIGINT; BIGINT; BIGINT",
        1,
    ),
    "match-processing": _query(
        "SELECT * FROM orders MATCH_RECOGNIZE (ORDER BY came MEASURES A.id AS first_id, B.id AS second_id"
        " ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A C* B) DEFINE A AS A.item = 'pen',"
        " C AS C.item IS NULL, B AS B.item = 'ink')",
        "BIGINT; BIGINT",
        1,
    ),
    "sorted": _query("SELECT id, amount FROM orders ORDER BY ts", "BIGINT; BIGINT", 6),
    "sorted-late": _query("SELECT id, amount FROM late_orders ORDER BY ts, amount DESC", "BIGINT; BIGINT", 5),
    "sorted-by-processing": _query("SELECT id, amount FROM orders ORDER BY came", "BIGINT; BIGINT", 6),
    "materialized": _query(
        f"SELECT c.city, t.total FROM {_TOTALS} t JOIN customers c ON t.customer = c.id", "STRING; BIGINT|a", 3, 1, _MATERIALIZED
    ),
    "materialized-with-ttl": _query("SELECT city, id FROM homes", "STRING; STRING|a", 2, 1, {**_MATERIALIZED, **_TTL}),
    "materialized-by-number": _query(
        f"SELECT c.city, t.total FROM {_TOTALS} t JOIN customers c ON t.customer = c.id", "STRING; BIGINT|a", 3, 1, _BY_NUMBER
    ),
    "materialized-rows": _query("SELECT item, id FROM orders WHERE item IS NOT NULL", "STRING; BIGINT|a", 2, 1, _MATERIALIZED),
    "normalized": _query("SELECT city, COUNT(*) FROM homes GROUP BY city", "STRING; BIGINT", 5),
    "normalized-filtered": _query("SELECT city, COUNT(*) FROM homes WHERE id <> 'cy' GROUP BY city", "STRING; BIGINT", 5),
    "normalized-only": _query("SELECT id, city FROM homes WHERE city <> 'Bonn'", "STRING; STRING", 3),
    "union-all": _query(
        "SELECT who, COUNT(*) FROM (SELECT customer AS who FROM orders UNION ALL SELECT id FROM customers) GROUP BY who",
        "STRING; BIGINT",
        5,
    ),
    "union": _query("SELECT customer FROM orders UNION SELECT id FROM customers", "STRING", 4),
    "intersect": _query("SELECT customer FROM orders INTERSECT SELECT id FROM customers", "STRING", 2),
    "except": _query(
        "SELECT customer FROM orders EXCEPT SELECT id FROM customers WHERE city NOT IN ('Lima', 'Nice')", "STRING", 1
    ),
    "intersect-all": _query("SELECT customer FROM orders INTERSECT ALL SELECT id FROM customers", "STRING", 3),
    "except-all": _query("SELECT customer FROM orders EXCEPT ALL SELECT id FROM customers", "STRING", 3),
    "unnested": _query(
        "SELECT w, COUNT(*) FROM orders CROSS JOIN UNNEST(ARRAY[customer, item]) AS t (w) GROUP BY w", "STRING; BIGINT", 5
    ),
    "processing-time": _query(
        "SELECT customer, COUNT(*), MAX(CAST(came AS DATE) > DATE '2024-01-01') FROM orders GROUP BY customer",
        "STRING; BIGINT; BOOLEAN",
        3,
    ),
    "processing-time-computed": _query(
        "SELECT id, customer FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY now_) AS n"
        " FROM (SELECT id, customer, PROCTIME() AS now_ FROM orders)) WHERE n = 1",
        "BIGINT; STRING",
        3,
    ),
    "values": _query(
        "SELECT o.customer, v.label, COUNT(*) FROM orders o JOIN (VALUES ('pen', 'to write'), ('ink',"
        " 'to fill')) AS v (item, label)"
        " ON o.item = v.item GROUP BY o.customer, v.label",
        "STRING; STRING; BIGINT",
        3,
    ),
    "chained": _query(
        f"SELECT city, SUM(total), COUNT(*) FROM {_TOTALS} t LEFT JOIN homes h ON t.customer = h.id GROUP BY city",
        "STRING; BIGINT; BIGINT",
        2,
    ),
    "common-part": _query(
        f"WITH t AS {_TOTALS} SELECT a.customer, b.most FROM t a JOIN (SELECT n, MAX(total) AS most FROM"
        f" t GROUP BY n) b ON a.n = b.n",
        "STRING; BIGINT",
        2,
    ),
}

REFUSED: Final = {
    **dict.fromkeys(("deviations", "retracting-values"), r"welford_m2.1\(.*\)"),
    "multi-join": "joins all inputs in one operator",
    "normalized-only": "the condition of changelog-normalize.* differs",
    "materialized-by-number": 'upsertMaterializeStrategy: nothing in the old plan, "MAP" in the new one',
}
"""Queries that have other states in the plans of Flink 2.3, and what the refusal names."""

SAMPLE: Final = (
    *("row-number", "over-unbounded-first-version", "over-unbounded-waiting", "lag-waiting", "first-row-mini-batch"),
    *("first-row-by-time-with-ttl", "match", "materialized-rows", "materialized-by-number", "tumbling", "window-top", "top"),
    *("processing-time", "values", "normalized-only"),
)
"""Those that are tried always: of all kinds, those whose plans differ most."""
