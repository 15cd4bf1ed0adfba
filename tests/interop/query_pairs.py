"""Pairs of queries: real Flink starts the new one from a savepoint of the old one, and the check has said what will happen.

``python -m tests.interop.query_pairs`` tries all pairs with all versions, and prints a table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import state_processor as sp
from tests.interop import flink, sql_queries
from tests.interop.pair_campaign import Result, run, versions_of
from tests.interop.sql_queries import TWO_PHASES, Query

_NAMES = "abcdefg"
_TTL = {"table.exec.state.ttl": "1 d"}
_OPTIONS = {"table.plan.compile.catalog-objects": "ALL"}
"""Plans have the options of tables: they name the connectors."""


@dataclass(frozen=True)
class QueryPair:
    """An old and a new query."""

    name: str
    old: Query
    new: Query
    is_text: bool = False
    """Whether the old query is submitted as text."""
    changes_results: bool = False
    """Whether the new query has other results with the same values, as rows of a semi join in an anti join."""


def _query(sql: str, sink: str, lines: int = 1, settings: Mapping[str, str] | None = None) -> Query:
    columns = ", ".join(f"{name} {type_.strip()}" for name, type_ in zip(_NAMES, sink.split(";"), strict=False))
    return Query(sql, columns, {**_OPTIONS, **(settings or {})}, lines, 0)


def _grouped(calls: str, sink: str = "BIGINT", where: str = "", keys: str = "customer", **settings: str) -> Query:
    types = "; ".join(["STRING"] * len(keys.split(",")))
    return _query(f"SELECT {keys}, {calls} FROM orders {where} GROUP BY {keys}", f"{types}; {sink}", 1, settings)


def _joined(columns: str, sink: str, kind: str = "", more: str = "") -> Query:
    return _query(f"SELECT {columns} FROM orders o {kind} JOIN customers c ON o.customer = c.id {more}", sink, 1)


def _numbered(order: str, condition: str) -> Query:
    numbers = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY {order}) AS n FROM orders"
    return _query(f"SELECT customer, id, amount FROM ({numbers}) WHERE {condition}", "STRING; BIGINT; BIGINT")


def _windowed(window: str, calls: str = "COUNT(*), SUM(amount)") -> Query:
    call = f"TABLE({window.format('DESCRIPTOR(ts)')})"
    sql = f"SELECT customer, window_start, {calls} FROM {call} GROUP BY customer, window_start, window_end"
    return _query(sql, "STRING; TIMESTAMP(3); BIGINT; BIGINT", 0)  # all windows may stay open


def _over(call: str, minutes: int = 1) -> Query:
    window = f"PARTITION BY customer ORDER BY ts RANGE BETWEEN INTERVAL '{minutes}' MINUTE PRECEDING AND CURRENT ROW"
    return _query(f"SELECT id, {call} OVER ({window}) FROM orders", "BIGINT; BIGINT")


def _interval(minutes: int) -> Query:
    return _joined("o.id, c.city", "BIGINT; STRING", more=f"AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '{minutes}' MINUTE")


def _matched(amount: int) -> Query:
    sql = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.id AS first_id, B.id AS second_id"
        f" ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 6, B AS B.amount > {amount})"
    )
    return _query(sql, "STRING; BIGINT; BIGINT", 0)


_DISTINCT = _query("SELECT DISTINCT customer, item FROM orders", "STRING; STRING")
_TUMBLE = "TUMBLE(TABLE orders, {}, INTERVAL '10' SECOND)"
_HOP = "HOP(TABLE orders, {}, INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
_SESSION = "SESSION(TABLE orders PARTITION BY customer, {}, INTERVAL '5' SECOND)"
_TWO = "BIGINT; BIGINT"
_MAX_SUM, _SUM_MAX = _grouped("MAX(amount), SUM(amount)", _TWO), _grouped("SUM(amount), MAX(amount)", _TWO)
_SUM = _grouped("SUM(amount)")
_PLAIN_JOIN = _joined("o.id, c.city", "BIGINT; STRING")

QUERY_PAIRS = (
    QueryPair("a query stays", _MAX_SUM, _MAX_SUM),
    QueryPair("calls change places", _MAX_SUM, _SUM_MAX),
    QueryPair(
        "a filter changes", _grouped("SUM(amount)", where="WHERE amount > 5"), _grouped("SUM(amount)", where="WHERE amount > 8")
    ),
    QueryPair("a call is added", _SUM, _grouped("SUM(amount), COUNT(*)", _TWO)),
    QueryPair("columns get other names", _grouped("SUM(amount) AS x"), _grouped("SUM(amount) AS y")),
    QueryPair("a query was submitted as text", _SUM, _SUM, is_text=True),
    QueryPair("a call becomes another", _SUM, _grouped("MAX(amount)")),
    QueryPair("the lowest becomes the highest", _grouped("MIN(amount)"), _grouped("MAX(amount)")),
    QueryPair("a call has another argument", _SUM, _grouped("SUM(amount * 2)")),
    QueryPair(
        "the filter of a call changes", _grouped("COUNT(*) FILTER (WHERE id > 2)"), _grouped("COUNT(*) FILTER (WHERE id > 3)")
    ),
    QueryPair("results are filtered", _SUM, replace(_SUM, sql=f"{_SUM.sql} HAVING SUM(amount) > 8")),
    QueryPair("the key changes", _SUM, _grouped("SUM(amount)", keys="item")),
    QueryPair(
        "keys change places", _grouped("SUM(amount)", keys="customer, item"), _grouped("SUM(amount)", keys="item, customer")
    ),
    QueryPair("other values are distinct", _grouped("COUNT(DISTINCT id)"), _grouped("COUNT(DISTINCT amount)")),
    QueryPair("a list has another separator", _grouped("LISTAGG(item)", "STRING"), _grouped("LISTAGG(item, '-')", "STRING")),
    QueryPair("time-to-live is added to a query", _SUM, _grouped("SUM(amount)", **_TTL)),
    QueryPair("one phase becomes two", _SUM, _grouped("SUM(amount)", **TWO_PHASES)),
    QueryPair(
        "batches are switched on",
        _SUM,
        _grouped("SUM(amount)", **{**TWO_PHASES, "table.optimizer.agg-phase-strategy": "ONE_PHASE"}),
    ),
    QueryPair("a join stays", _PLAIN_JOIN, _PLAIN_JOIN),
    QueryPair("a join needs another column", _PLAIN_JOIN, _joined("o.id, o.amount, c.city", "BIGINT; BIGINT; STRING")),
    QueryPair("a join needs a column instead of another", _PLAIN_JOIN, _joined("o.amount, c.city", "BIGINT; STRING")),
    QueryPair("a join becomes outer", _PLAIN_JOIN, _joined("o.id, c.city", "BIGINT; STRING", "LEFT")),
    QueryPair(
        "the condition of a join changes",
        _joined("o.id, c.city", "BIGINT; STRING", more="AND o.amount > 5 AND o.item <> c.city"),
        _joined("o.id, c.city", "BIGINT; STRING", more="AND o.amount > 5 AND o.item > c.city"),
    ),
    QueryPair("more rows are ranked", _numbered("amount DESC", "n <= 2"), _numbered("amount DESC", "n <= 3")),
    QueryPair("rows are ranked the other way", _numbered("amount DESC", "n <= 2"), _numbered("amount", "n <= 2")),
    QueryPair("the first row becomes the last", _numbered("ts", "n = 1"), _numbered("ts DESC", "n = 1")),
    QueryPair("a window stays", _windowed(_TUMBLE), _windowed(_TUMBLE)),
    QueryPair("a window grows", _windowed(_TUMBLE), _windowed(_TUMBLE.replace("10", "20"))),
    QueryPair("windows overlap", _windowed(_TUMBLE), _windowed(_HOP)),
    QueryPair("calls of a window change places", _windowed(_TUMBLE), _windowed(_TUMBLE, "SUM(amount), COUNT(*)")),
    QueryPair("sessions end later", _windowed(_SESSION), _windowed(_SESSION.replace("'5'", "'8'"))),
    QueryPair("the range of OVER grows", _over("SUM(amount)"), _over("SUM(amount)", 2)),
    QueryPair("the call of OVER becomes another", _over("SUM(amount)"), _over("MAX(amount)")),
    QueryPair("an interval grows", _interval(1), _interval(2)),
    QueryPair("a pattern stays", _matched(15), _matched(15)),
    QueryPair("the condition of a pattern changes", _matched(15), _matched(4), changes_results=True),
    QueryPair("distinct rows stay", _DISTINCT, _DISTINCT),
)
"""The first six are tried by the tests."""


def _ranked(order: str, limit: int, keys: str = "customer", number: str = "") -> Query:
    numbers = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS n FROM orders"
    columns = "STRING; BIGINT; BIGINT" + ("; BIGINT" if number else "")
    return _query(f"SELECT customer, id, amount{number} FROM ({numbers}) WHERE n <= {limit}", columns)


def _nested(call: str, more: str = "") -> Query:
    inner = f"SELECT customer, COUNT(*) AS n, {call} AS total FROM orders {more} GROUP BY customer"
    return _query(f"SELECT n, SUM(total), COUNT(*) FROM ({inner}) GROUP BY n", f"BIGINT; {_TWO}")


def _three(first: str, second: str) -> Query:
    joins = {"c": "JOIN customers c ON o.customer = c.id", "h": "JOIN homes h ON o.customer = h.id"}
    return _query(f"SELECT o.id, c.city, h.city FROM orders o {joins[first]} {joins[second]}", "BIGINT; STRING; STRING")


def _semi(condition: str) -> Query:
    return _query(f"SELECT o.id, o.amount FROM orders o WHERE {condition}", _TWO)


def _pattern(pattern: str, more: str = "", skip: str = "PAST LAST ROW", within: str = "") -> Query:
    sql = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.id AS first_id, B.id AS second_id"
        f" ONE ROW PER MATCH AFTER MATCH SKIP {skip} PATTERN ({pattern}) {within}"
        f" DEFINE A AS A.amount > 6, B AS B.amount > 15{more})"
    )
    return _query(sql, "STRING; BIGINT; BIGINT", 0)


def _rows(call: str, frame: str, key: str = "customer") -> Query:
    return _query(f"SELECT id, {call} OVER (PARTITION BY {key} ORDER BY ts {frame}) FROM orders", "BIGINT; BIGINT")


def _temporal(orders: str, versions: str, kind: str = "") -> Query:
    on = f"{kind} JOIN {versions} FOR SYSTEM_TIME AS OF o.ts AS v ON o.customer = v.id"
    return _query(f"SELECT o.id, v.city FROM {orders} o {on}", "BIGINT; STRING", 0)


def _hinted(hint: str, sql: str, sink: str) -> Query:
    return _query(sql.replace("SELECT ", f"SELECT /*+ {hint} */ ", 1), sink)


_JOIN = "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id"
_LAST = "ROWS BETWEEN {} PRECEDING AND CURRENT ROW"
_EVER = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_CUMULATE = "CUMULATE(TABLE orders, {}, INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
_OLD_WINDOW = (
    "SELECT customer, TUMBLE_START(ts, INTERVAL '{0}' SECOND), {1} FROM orders"
    " GROUP BY customer, TUMBLE(ts, INTERVAL '{0}' SECOND)"
)
_OLD_SINK = "STRING; TIMESTAMP(3); BIGINT; BIGINT"
_EXISTS = "{} (SELECT 1 FROM customers c WHERE c.id = o.customer)"
_CITIES = "SELECT city, COUNT(*){} FROM homes GROUP BY city"
_SPLIT = {**TWO_PHASES, "table.optimizer.distinct-agg.split.enabled": "true"}


def _union(*tables: str) -> Query:
    rows = " UNION ALL ".join(f"SELECT city FROM {table}" for table in tables)
    return _query(f"SELECT city, COUNT(*) FROM ({rows}) GROUP BY city", "STRING; BIGINT")


def _old_window(seconds: int, calls: str = "COUNT(*), SUM(amount)") -> Query:
    return _query(_OLD_WINDOW.format(seconds, calls), _OLD_SINK, 0)


PLAN_PAIRS = (
    QueryPair("a call becomes distinct", _grouped("COUNT(item)"), _grouped("COUNT(DISTINCT item)")),
    QueryPair("a call is not distinct any more", _grouped("COUNT(DISTINCT item)"), _grouped("COUNT(item)")),
    QueryPair("a call is removed", _MAX_SUM, _SUM),
    QueryPair("a mean becomes a sum and a count", _grouped("AVG(amount)"), _grouped("SUM(amount), COUNT(amount)", _TWO)),
    QueryPair("the first value becomes the last", _grouped("FIRST_VALUE(amount)"), _grouped("LAST_VALUE(amount)")),
    QueryPair("rows are counted instead of values", _grouped("COUNT(amount)"), _grouped("COUNT(*)")),
    QueryPair("a sum has a narrower type", _grouped("SUM(amount)"), _grouped("SUM(CAST(amount AS INT))", "INT")),
    QueryPair("a sum becomes one of decimals", _SUM, _grouped("SUM(CAST(amount AS DECIMAL(10, 2)))", "DECIMAL(38, 2)")),
    QueryPair("an inner call becomes another", _nested("SUM(amount)"), _nested("MAX(amount)")),
    QueryPair("inner rows are filtered", _nested("SUM(amount)"), _nested("SUM(amount)", "WHERE amount > 5")),
    QueryPair("nested calls stay", _nested("SUM(amount)"), _nested("SUM(amount)")),
    QueryPair(
        "one row for each group becomes one for several sets",
        _grouped("SUM(amount)", keys="customer, item"),
        _query(
            "SELECT customer, item, SUM(amount) FROM orders GROUP BY GROUPING SETS ((customer, item), (customer))",
            "STRING; STRING; BIGINT",
        ),
    ),
    QueryPair(
        "a key is computed",
        _SUM,
        _query("SELECT UPPER(customer), SUM(amount) FROM orders GROUP BY UPPER(customer)", "STRING; BIGINT"),
    ),
    QueryPair(
        "tables of a join change places",
        _PLAIN_JOIN,
        _query("SELECT o.id, c.city FROM customers c JOIN orders o ON o.customer = c.id", "BIGINT; STRING"),
    ),
    QueryPair("joins change places", _three("c", "h"), _three("h", "c")),
    QueryPair("three tables stay", _three("c", "h"), _three("c", "h")),
    QueryPair(
        "an outer join becomes full",
        _joined("o.id, c.city", "BIGINT; STRING", "LEFT"),
        _joined("o.id, c.city", "BIGINT; STRING", "FULL"),
    ),
    QueryPair(
        "a semi join becomes an anti join",
        _semi(_EXISTS.format("EXISTS")),
        _semi(_EXISTS.format("NOT EXISTS")),
        changes_results=True,
    ),
    QueryPair("a semi join becomes an inner join", _semi(_EXISTS.format("EXISTS")), _joined("o.id, o.amount", _TWO)),
    QueryPair(
        "a table of a join is filtered",
        _PLAIN_JOIN,
        _query("SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id AND c.city <> 'Rome'", "BIGINT; STRING"),
    ),
    QueryPair("a side of a join gets time-to-live", _PLAIN_JOIN, _hinted("STATE_TTL('o' = '1 d')", _JOIN, "BIGINT; STRING")),
    QueryPair(
        "the time-to-live of a side grows",
        _hinted("STATE_TTL('o' = '1 d')", _JOIN, "BIGINT; STRING"),
        _hinted("STATE_TTL('o' = '2 d')", _JOIN, "BIGINT; STRING"),
    ),
    QueryPair(
        "time-to-live of a query grows",
        _grouped("SUM(amount)", **_TTL),
        _grouped("SUM(amount)", **{"table.exec.state.ttl": "2 d"}),
    ),
    QueryPair("time-to-live of a query is dropped", _grouped("SUM(amount)", **_TTL), _SUM),
    QueryPair("a join becomes one of an interval", _PLAIN_JOIN, _interval(1)),
    QueryPair("an interval shrinks", _interval(2), _interval(1)),
    QueryPair(
        "an interval has another column",
        _interval(1),
        _joined("o.amount, c.city", "BIGINT; STRING", more="AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE"),
    ),
    QueryPair("a temporal join stays", _temporal("orders", "versions"), _temporal("orders", "versions")),
    QueryPair(
        "a temporal join becomes outer",
        _temporal("late_orders", "late_versions"),
        _temporal("late_orders", "late_versions", "LEFT"),
        changes_results=True,
    ),
    QueryPair(
        "a temporal join becomes a join without time",
        _temporal("orders", "versions"),
        _query("SELECT o.id, v.city FROM orders o JOIN versions v ON o.customer = v.id", "BIGINT; STRING"),
    ),
    QueryPair("fewer rows are ranked", _ranked("amount DESC", 3), _ranked("amount DESC", 2)),
    QueryPair("ranks become a column", _ranked("amount DESC", 2), _ranked("amount DESC", 2, number=", n")),
    QueryPair("rows are ranked for another key", _ranked("amount DESC", 2), _ranked("amount DESC", 2, "item")),
    QueryPair("rows are ranked by another column", _ranked("amount DESC", 2), _ranked("id DESC", 2)),
    QueryPair("many rows become the first", _ranked("ts", 2), _ranked("ts", 1)),
    QueryPair(
        "a range becomes rows",
        _rows("SUM(amount)", "RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW"),
        _rows("SUM(amount)", _LAST.format(2)),
    ),
    QueryPair("more rows are summed", _rows("SUM(amount)", _LAST.format(1)), _rows("SUM(amount)", _LAST.format(2))),
    QueryPair("rows become all rows", _rows("SUM(amount)", _LAST.format(2)), _rows("SUM(amount)", _EVER)),
    QueryPair("the sum of all rows becomes their highest", _rows("SUM(amount)", _EVER), _rows("MAX(amount)", _EVER)),
    QueryPair("the sum of all rows stays", _rows("SUM(amount)", _EVER), _rows("SUM(amount)", _EVER)),
    QueryPair("rows before are summed for another key", _rows("SUM(amount)", _EVER), _rows("SUM(amount)", _EVER, "item")),
    QueryPair("a pattern gets a row", _pattern("A B"), _pattern("A C B", ", C AS C.amount > 0")),
    QueryPair("a pattern repeats a row", _pattern("A B"), _pattern("A+ B")),
    QueryPair(
        "rows of a pattern have other names",
        _matched(15),
        replace(
            _matched(15), sql=_matched(15).sql.replace("A.", "F.").replace("(A B)", "(F B)").replace("DEFINE A ", "DEFINE F ")
        ),
    ),
    QueryPair("a pattern has a time", _pattern("A B"), _pattern("A B", within="WITHIN INTERVAL '1' MINUTE")),
    QueryPair("a pattern goes on elsewhere", _pattern("A B"), _pattern("A B", skip="TO NEXT ROW"), changes_results=True),
    QueryPair("windows accumulate", _windowed(_TUMBLE), _windowed(_CUMULATE)),
    QueryPair("accumulating windows overlap", _windowed(_CUMULATE), _windowed(_HOP)),
    QueryPair("sessions of a query become windows", _windowed(_SESSION), _windowed(_TUMBLE)),
    QueryPair("sessions of a query end earlier", _windowed(_SESSION), _windowed(_SESSION.replace("'5'", "'2'"))),
    QueryPair(
        "windows of a query begin later",
        _windowed(_TUMBLE),
        _windowed(_TUMBLE.replace("'10' SECOND", "'10' SECOND, INTERVAL '3' SECOND")),
    ),
    QueryPair(
        "windows overlap less",
        _windowed(_HOP),
        _windowed(_HOP.replace("'5'", "'10'").replace("INTERVAL '10' SECOND)", "INTERVAL '20' SECOND)")),
    ),
    QueryPair(
        "a call of a window becomes another",
        _windowed(_TUMBLE),
        _windowed(_TUMBLE, "COUNT(*), MAX(amount)"),
        changes_results=True,
    ),
    QueryPair("a call of a window becomes distinct", _windowed(_TUMBLE), _windowed(_TUMBLE, "COUNT(DISTINCT item), SUM(amount)")),
    QueryPair("a window of the older syntax stays", _old_window(10), _old_window(10)),
    QueryPair("a window of the older syntax grows", _old_window(10), _old_window(20)),
    QueryPair(
        "a window of the older syntax has other calls",
        _old_window(10),
        _old_window(10, "COUNT(*), MAX(amount)"),
        changes_results=True,
    ),
    QueryPair("a window of the older syntax becomes one of the newer", _old_window(10), _windowed(_TUMBLE)),
    QueryPair(
        "updates are counted for another column",
        _query(_CITIES.format(""), "STRING; BIGINT"),
        _query("SELECT id, COUNT(*) FROM homes GROUP BY id", "STRING; BIGINT"),
    ),
    QueryPair(
        "updates get a call",
        _query(_CITIES.format(""), "STRING; BIGINT"),
        _query(_CITIES.format(", MAX(id)"), "STRING; BIGINT; STRING"),
    ),
    QueryPair(
        "updates stay",
        _query(_CITIES.format(", MIN(id)"), "STRING; BIGINT; STRING"),
        _query(_CITIES.format(", MIN(id)"), "STRING; BIGINT; STRING"),
    ),
    QueryPair(
        "the lowest of updates becomes the highest",
        _query(_CITIES.format(", MIN(id)"), "STRING; BIGINT; STRING"),
        _query(_CITIES.format(", MAX(id)"), "STRING; BIGINT; STRING"),
    ),
    QueryPair(
        "distinct values are split", _grouped("COUNT(DISTINCT item)", **TWO_PHASES), _grouped("COUNT(DISTINCT item)", **_SPLIT)
    ),
    QueryPair("two phases become one", _grouped("SUM(amount)", **TWO_PHASES), _SUM),
    QueryPair(
        "the time that batches wait changes",
        _grouped("SUM(amount)", **TWO_PHASES),
        _grouped("SUM(amount)", **{**TWO_PHASES, "table.exec.mini-batch.allow-latency": "200 ms"}),
    ),
    QueryPair(
        "distinct rows get a column",
        _DISTINCT,
        _query("SELECT DISTINCT customer, item, amount FROM orders", "STRING; STRING; BIGINT"),
    ),
    QueryPair("distinct rows become groups", _DISTINCT, _grouped("COUNT(*)", keys="customer, item")),
    QueryPair("rows before are compared", _rows("LAG(amount)", ""), _rows("LAG(amount, 2)", "")),
    QueryPair("a union gets a table", _union("customers", "homes"), _union("customers", "homes", "customers")),
)
"""Pairs whose plans change: calls, keys, joins, ranks, windows, patterns, and options."""


def results(pairs: Sequence[QueryPair], version: str, backends: Sequence[str], directory: Path) -> Iterator[Result]:
    """Yield the results of pairs with a version of Flink, or with :data:`~tests.interop.pair_campaign.UPGRADE`.

    The new query also runs without the savepoint. If it has other entries then, it would not have come to those of the old query.
    """
    for backend in backends:
        yield from _results(pairs, version, backend, directory / backend)


def _results(pairs: Sequence[QueryPair], version: str, backend: str, directory: Path) -> Iterator[Result]:
    old_version, new_version = versions_of(version)
    files, plans = directory / "files", directory / "plans"
    plans.mkdir(parents=True)
    sql_queries.write_lines(files, "1", sql_queries.FIRST)

    def request(which: str, place: int, **where: Any) -> dict[str, Any]:
        query = pairs[place].old if which == "old" else pairs[place].new
        return sql_queries.request(query, files, plans / f"{which}-{place}.json", backend=backend, **where)

    def answers(version: str, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return flink.plans(version, requests, sql_queries.AT_ONCE)

    places = range(len(pairs))
    for place in places:  # one at a time: then nodes have the numbers that they have in programs of their own
        sql_queries.answered(old_version, [request("old", place)])
        sql_queries.answered(new_version, [request("new", place)])
    to = str(directory / "savepoints")
    before = answers(old_version, [request("old", place, to=to, text=pairs[place].is_text) for place in places])
    alone = answers(new_version, [request("new", place, to=to) for place in places])
    paths = [_path(answer) for answer in before]
    after = answers(new_version, [request("new", place, to=to, origin=paths[place]) for place in places])
    for place, pair in enumerate(pairs):
        old_plan, new_plan = (plans / f"{which}-{place}.json" for which in ("old", "new"))
        report = sp.check_job(paths[place], new_plan, plan=old_plan, flink=new_version, backend=backend)  # type: ignore[arg-type]
        without = sp.check_job(paths[place], new_plan, flink=new_version, backend=backend)  # type: ignore[arg-type]
        error = after[place].get("error", "")
        outcome = "refused" if error else _compared(paths[place], _path(alone[place]), _path(after[place]))
        yield Result(pair.name, version, backend, report, outcome, error, without, changes_results=pair.changes_results)


def _path(answer: Mapping[str, Any]) -> str:
    assert "error" not in answer, answer["error"][:3000]
    return str(answer["savepoint"])


def _compared(old: str, alone: str, after: str) -> str:
    """Compare the states of operators that the savepoint has with those of the new query alone."""
    before, expected, restored = map(_entries, (old, alone, after))
    operators = {uid_hash for uid_hash, _ in before}
    same = all(restored.get(place, []) == rows for place, rows in expected.items() if place[0] in operators)
    return "same values" if same else "other values"


def _entries(savepoint: str) -> dict[tuple[str, str], list[str]]:
    """Return the rows of the keyed states."""
    found = {}
    for state in sp.arrow.states(savepoint).to_pylist():
        if state["key_type"] is not None:
            place = state["operator_uid_hash"], state["state_name"]
            rows = sp.arrow.read_state(savepoint, *place, nanos="string", row_kind=True)
            found[place] = sorted(map(str, rows.read_all().to_pylist()))
    return found


if __name__ == "__main__":
    raise SystemExit(run((*QUERY_PAIRS, *PLAN_PAIRS), results, sys.argv[1:]))
