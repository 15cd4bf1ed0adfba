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
    QueryPair("the condition of a pattern changes", _matched(15), _matched(25)),
    QueryPair("distinct rows stay", _DISTINCT, _DISTINCT),
)
"""The first six are tried by the tests."""


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
        yield Result(pair.name, version, backend, report, outcome, error, without)


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
    raise SystemExit(run(QUERY_PAIRS, results, sys.argv[1:]))
