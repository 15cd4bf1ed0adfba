"""State of queries that is migrated to other queries: Flink restores it, and the new queries go on from it.

Half of the old queries are submitted as text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from tests.interop import flink, sql_queries
from tests.interop.sql_queries import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

MORE = {
    "orders": ["7,bob,pen,1,2024-01-01 00:00:12", "8,ada,cup,15,2024-01-01 00:00:13"],
    "customers": ["cy,Bern,2024-01-01 00:00:13", "ada,Pisa,2024-01-01 00:00:14"],
}
TTL = {"table.exec.state.ttl": "1 d"}


def _query(sql: str, sink: str, lines: int = 0, **settings: str) -> Query:
    names = "abcdefg"
    columns = ", ".join(f"{name} {type_}" for name, type_ in zip(names, sink.split(), strict=False))
    return Query(sql, columns, settings, lines)


def _by_customer(calls: str, sink: str, lines: int = 0, **settings: str) -> Query:
    return _query(f"SELECT customer, {calls} FROM orders GROUP BY customer", f"STRING {sink}", lines, **settings)


def _join(columns: str, sink: str, lines: int = 0, **settings: str) -> Query:
    return _query(f"SELECT {columns}, c.city FROM orders o JOIN customers c ON o.customer = c.id", sink, lines, **settings)


def _ranked(columns: str, order: str, most: int, sink: str, lines: int = 0) -> Query:
    ranks = f"ROW_NUMBER() OVER (PARTITION BY customer ORDER BY {order} DESC) AS n"
    return _query(f"SELECT {columns} FROM (SELECT *, {ranks} FROM orders) WHERE n <= {most}", sink, lines)


def entries(savepoint: str | Path, *, metadata: bool = True) -> dict[tuple[str, str], list[str]]:
    """Return the rows of each state; those that Spark has grouped are in another order."""
    found = {}
    for state in sp.arrow.states(savepoint).to_pylist():
        name = state["operator_uid_hash"], state["state_name"]
        rows = sp.arrow.read_state(savepoint, *name, metadata=metadata, nanos="string", row_kind=True)
        found[name] = sorted(map(str, rows.read_all().to_pylist()))
    return found


def _windows(hopping: str, session: str, group: str, sink: str, lines: int = 0) -> Query:
    """Return a query with three kinds of windows."""
    by_window = "GROUP BY customer, window_start, window_end"
    branches = (
        f"SELECT 'hop', customer, {hopping} FROM {HOP} {by_window}",
        f"SELECT 'session', customer, {session} FROM {SESSION} {by_window}",
        f"SELECT 'group', customer, {group} FROM orders GROUP BY customer, TUMBLE(ts, INTERVAL '10' SECOND)",
    )
    # with two subtasks, rows are late for one that comes to the end of time before the other
    return _query(" UNION ALL ".join(branches), f"STRING STRING {sink}", lines, **ONE_SUBTASK)


def _over(time: str, waiting: str, processing: str, lines: int = 0) -> Query:
    """Return a query with three windows of ``OVER``; calls have two results."""
    windows = (
        ("time", "orders", time, "ts RANGE BETWEEN INTERVAL '11' SECOND PRECEDING AND CURRENT ROW"),
        ("waiting", "waiting_orders", waiting, "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        ("processing", "orders", processing, "came ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
    )
    branches = [
        f"SELECT '{name}', id, {calls} FROM {table} WINDOW w AS (PARTITION BY customer ORDER BY {window})"
        for name, table, calls, window in windows
    ]
    return _query(" UNION ALL ".join(branches), "STRING BIGINT BIGINT BIGINT", lines)


def _materialized(columns: str, source: str, sink: str, key: str, lines: int = 0, strategy: str = "LEGACY") -> Query:
    """Return a query whose sink keeps the rows of its primary key. Flink 1.20 does not know the strategy."""
    forced = "table.exec.sink.upsert-materialize"
    settings = {forced: "FORCE", f"{forced}-strategy.type": strategy, **ONE_SUBTASK}
    return Query(f"SELECT {columns} FROM {source}", f"{sink}, PRIMARY KEY ({key}) NOT ENFORCED", settings, lines)


@dataclass(frozen=True)
class Evolution:
    """A query, a query that continues with its state, the changes that this prints for more rows, and the notes of the report."""

    old: Query
    new: Query
    printed: list[str]
    notes: list[str]
    before_end: int | None = None
    """How many of them it prints before time comes to its end, so that all windows close; ``None`` if time goes on."""

    @property
    def queries(self) -> dict[str, Query]:
        return {
            "old": self.old,
            "new": replace(self.new, lines=len(self.printed) if self.before_end is None else self.before_end),
        }


MOST = "(SELECT customer, SUM(amount) AS total, MAX(item) AS most FROM orders GROUP BY customer)"
LATE = "FILTER (WHERE id > 2)"
LARGE = "FILTER (WHERE total > 9)"
LARGEST = "FILTER (WHERE total > 20)"
TOTALS = "(SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer)"
LOWEST = "(SELECT COUNT(*) AS n, SUM(amount) AS total, MIN(id) AS low FROM orders GROUP BY customer)"
ONE_SUBTASK = {"parallelism.default": "1"}
HOP = "TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND))"
SESSION = "TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
BIG = "COUNT(*) FILTER (WHERE amount > 9)"
EVOLUTIONS = {
    "count-added": Evolution(
        _by_customer("SUM(amount)", "BIGINT", 9, **TTL),
        _by_customer("SUM(amount), COUNT(*)", "BIGINT BIGINT", **TTL),
        ["+U[ada, 50, 1]", "+U[bob, 18, 1]", "-U[ada, 35, 0]", "-U[bob, 17, 0]"],
        ["count(*) is new, and starts with the values of an empty group: 0"],
    ),
    "ttl-added": Evolution(
        _by_customer("COUNT(DISTINCT item), SUM(amount)", "BIGINT BIGINT", 9),
        _by_customer("SUM(amount), COUNT(DISTINCT item)", "BIGINT BIGINT", **TTL),
        ["+U[ada, 50, 3]", "+U[bob, 18, 1]", "-U[ada, 35, 2]", "-U[bob, 17, 1]"],
        ["the order of calls changes", *["gets time-to-live; the time of last access is the time of writing"] * 3],
    ),
    "ttl-removed": Evolution(
        _join("o.id, o.amount", "BIGINT BIGINT STRING", 8, **TTL),
        _join("o.id", "BIGINT STRING"),
        [
            *("+I[1, Pisa]", "+I[2, Pisa]", "+I[4, Pisa]", "+I[5, Bern]"),
            *("+I[7, Oslo]", "+I[8, Bonn]", "+I[8, Pisa]", "+I[8, Rome]"),
        ],
        ["column amount is dropped", *["loses time-to-live; expired values stay"] * 2],
    ),
    "max-added": Evolution(
        _by_customer(f"SUM(amount), {BIG}", "BIGINT BIGINT", 9),
        _by_customer(f"MAX(item), SUM(amount), {BIG}, COUNT(DISTINCT item)", "STRING BIGINT BIGINT BIGINT"),
        ["+U[ada, cup, 50, 3, 1]", "+U[bob, pen, 18, 1, 1]", "-U[ada, null, 35, 2, 0]", "-U[bob, null, 17, 1, 0]"],
        [
            "max(item) is new, and starts with the values of an empty group: null",
            "count(distinct item) is new, and starts with the values of an empty group: 0",
        ],
    ),
    "calls-reordered": Evolution(
        _by_customer("COUNT(*), SUM(amount), AVG(amount), MIN(amount)", "BIGINT BIGINT BIGINT BIGINT", 9),
        _by_customer("AVG(amount), SUM(amount), COUNT(*)", "BIGINT BIGINT BIGINT"),
        ["+U[ada, 12, 50, 4]", "+U[bob, 6, 18, 3]", "-U[ada, 11, 35, 3]", "-U[bob, 8, 17, 2]"],
        ["the order of calls changes", "min(amount) is dropped"],
    ),
    "distinct-changed": Evolution(
        _by_customer(
            f"COUNT(DISTINCT item), COUNT(DISTINCT amount), SUM(DISTINCT amount) {LATE}, COUNT(DISTINCT ts)",
            "BIGINT BIGINT BIGINT BIGINT",
            9,
        ),
        _by_customer(
            f"SUM(DISTINCT id), SUM(amount), SUM(DISTINCT amount) {LATE}, COUNT(DISTINCT item)", "BIGINT BIGINT BIGINT BIGINT"
        ),
        ["+U[ada, 8, 15, 20, 3]", "+U[bob, 7, 1, 18, 1]", "-U[ada, null, null, 5, 2]", "-U[bob, null, null, 17, 1]"],
        [
            "sum(distinct id) is new, and starts with the values of an empty group: null",
            "sum(amount) is new, and starts with the values of an empty group: null",
            *("the order of calls changes", "count(distinct amount) is dropped", "count(distinct ts) is dropped"),
            *("becomes distinctAcc_2_null_state", "becomes distinctAcc_2"),
            *("other calls count its values", "other calls count its values"),
            *("no call of the new query needs it", "no call of the new query needs it"),
        ],
    ),
    "distinct-of-updates": Evolution(
        _query(
            f"SELECT n, COUNT(DISTINCT customer), COUNT(DISTINCT customer) {LARGE}, MAX(total), COUNT(DISTINCT total),"
            f" SUM(DISTINCT total), COUNT(DISTINCT customer) {LARGEST} FROM {TOTALS} GROUP BY n",
            "BIGINT BIGINT BIGINT BIGINT BIGINT BIGINT BIGINT",
        ),
        _query(
            f"SELECT n, MAX(total), COUNT(DISTINCT total), COUNT(DISTINCT customer) {LARGEST}, COUNT(DISTINCT customer)"
            f" FROM {TOTALS} GROUP BY n",
            "BIGINT BIGINT BIGINT BIGINT BIGINT",
        ),
        ["+I[3, 18, 1, 0, 1]", "+I[4, 50, 1, 1, 1]", "-D[2, 17, 1, 0, 1]", "-D[3, 35, 1, 1, 1]"],
        [
            *("the order of calls changes", "count(distinct customer) filter total > 9 is dropped", "becomes agg0$map"),
            *("sum(distinct total) is dropped", *["other calls count its values"] * 4),
            *("becomes distinctAcc_1_null_state", "becomes distinctAcc_1"),
            *("becomes distinctAcc_0_null_state", "becomes distinctAcc_0"),
        ],
    ),
    "two-phases": Evolution(
        _by_customer("SUM(amount)", "BIGINT", 3, **sql_queries.TWO_PHASES),
        _by_customer("COUNT(*), SUM(amount)", "BIGINT BIGINT", **sql_queries.TWO_PHASES),
        ["+U[ada, 1, 50]", "+U[bob, 1, 18]", "-U[ada, 0, 35]", "-U[bob, 0, 17]"],
        ["count(*) is new, and starts with the values of an empty group: 0"],
    ),
    "join-column-added": Evolution(
        _join("o.id", "BIGINT STRING", 8),
        _join("o.id, o.amount", "BIGINT BIGINT STRING"),
        [
            *("+I[1, null, Pisa]", "+I[2, null, Pisa]", "+I[4, null, Pisa]", "+I[5, null, Bern]"),
            *("+I[7, 1, Oslo]", "+I[8, 15, Bonn]", "+I[8, 15, Pisa]", "+I[8, 15, Rome]"),
        ],
        ["column amount is new, and null"],
    ),
    "join-column-removed": Evolution(
        _join("o.id, o.item", "BIGINT STRING STRING", 8, **TTL),
        _join("o.item", "STRING STRING", **TTL),
        [
            *("+I[cup, Bonn]", "+I[cup, Pisa]", "+I[cup, Rome]", "+I[ink, Bern]", "+I[ink, Pisa]", "+I[pen, Oslo]"),
            *("+I[pen, Pisa]", "+I[pen, Pisa]"),
        ],
        ["column id is dropped"],
    ),
    "last-row-with-column": Evolution(
        _ranked("customer, id", "ts", 1, "STRING BIGINT", 9),
        _ranked("customer, id, amount", "ts", 1, "STRING BIGINT BIGINT"),
        ["+U[ada, 8, 15]", "+U[bob, 7, 1]", "-U[ada, 4, null]", "-U[bob, 6, null]"],
        ["column amount is new, and null"],
    ),
    "top-with-column": Evolution(
        _ranked("customer, id, amount", "amount", 2, "STRING BIGINT BIGINT", 5),
        _ranked("customer, id, amount, item", "amount", 2, "STRING BIGINT BIGINT STRING"),
        ["+I[ada, 8, 15, cup]", "-D[ada, 1, 10, null]"],
        ["column item is new, and null"],
    ),
    "windows": Evolution(
        _windows(
            "SUM(amount), COUNT(DISTINCT item)",
            "SUM(amount), COUNT(*)",
            "SUM(amount), COUNT(DISTINCT amount)",
            "BIGINT BIGINT",
            14,
        ),
        _windows(
            "MAX(item), COUNT(DISTINCT item), SUM(amount)",
            "MAX(item), SUM(id), SUM(amount)",
            "MAX(item), COUNT(DISTINCT id), SUM(amount)",
            "STRING BIGINT BIGINT",
        ),
        [
            "+I[group, ada, cup, 1, 15]",
            "+I[group, bob, pen, 1, 8]",
            "+I[hop, ada, cup, 1, 15]",
            "+I[hop, ada, cup, 1, 15]",
            "+I[hop, bob, null, 0, 7]",
            "+I[hop, bob, pen, 1, 1]",
            "+I[hop, bob, pen, 1, 8]",
            "+I[session, ada, cup, 8, 15]",
            "+I[session, bob, pen, 7, 8]",
        ],
        [
            "max(item) is new, and starts with the values of an empty group: null",
            "the order of calls changes",
            "max(item) is new, and starts with the values of an empty group: null",
            "sum(id) is new, and starts with the values of an empty group: null",
            "count(*) is dropped",
            "max(item) is new, and starts with the values of an empty group: null",
            "count(distinct id) is new, and starts with the values of an empty group: 0",
            "count(distinct amount) is dropped",
            "no call of the new query needs it",
            "no call of the new query needs it",
        ],
        before_end=1,
    ),
    "materialized-with-column": Evolution(
        _materialized("customer, total", TOTALS, "a STRING, b BIGINT", "a", 9, "MAP"),
        _materialized("total, most, customer", MOST, "b BIGINT, c STRING, a STRING", "a", 0, "MAP"),
        ["+I[18, pen, bob]", "+I[50, cup, ada]", "-D[17, null, bob]", "-D[35, null, ada]"],
        ["max(item) is new, and starts with the values of an empty group: null", "column c is new, and null"],
    ),
    "over": Evolution(
        _over(
            "SUM(amount) OVER w, COUNT(DISTINCT item) OVER w",
            "SUM(amount) OVER w, MIN(amount) OVER w",
            "SUM(amount) OVER w, SUM(id) OVER w",
            15,
        ),
        _over(
            "COUNT(DISTINCT item) OVER w, COUNT(UPPER(item)) OVER w",
            "MAX(id) OVER w, SUM(amount) OVER w",
            "SUM(amount) OVER w, COUNT(UPPER(item)) OVER w",
        ),
        [
            "+I[processing, 7, 8, 1]",
            "+I[processing, 8, 20, 1]",
            "+I[time, 7, 1, 1]",
            "+I[time, 8, 3, 1]",
            "+I[waiting, 4, 4, 35]",
            "+I[waiting, 5, 5, null]",
            "+I[waiting, 6, 6, 17]",
            "+I[waiting, 7, 7, 18]",
            "+I[waiting, 8, 8, 50]",
        ],
        [
            "max(id) is new, and starts with the values of an empty group: null",
            "min(amount) is dropped",
            "count(UPPER(item)) is new, and starts with the values of an empty group: 0",
            "count(id) is dropped",
            "sum0(id) is dropped",
            "column $4 is new, and null",
            "count(UPPER(item)) is new, and starts with the values of an empty group: 0",
            "count(amount) is dropped",
            "sum0(amount) is dropped",
            "column $4 is new, and null",
            "column amount is dropped",
        ],
        before_end=6,
    ),
    "materialized-without-column": Evolution(
        _materialized("n, total, low", LOWEST, "a BIGINT, b BIGINT, c BIGINT", "a", 8),
        _materialized("total, n", LOWEST, "b BIGINT, a BIGINT", "a"),
        ["+I[50, 4]", "+U[18, 3]", "-D[17, 2]"],
        ["min(id) is dropped", "column c is dropped"],
    ),
}


ANY_ORDER = ("distinct-of-updates",)
"""Queries with groups that get rows from several other groups, in any order: rows may come and go in between."""


def settled(changes: list[str]) -> list[str]:
    """Return what is left of changes in any order."""
    left = Counter[str]()
    for change in changes:
        left[change[2:]] += 1 if change.startswith("+") else -1
    return sorted(f"{count:+d} {row}" for row, count in left.items() if count)


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_queries_go_on_with_the_state_of_others(version: str, spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"
    sql_queries.write_lines(files, "1", {"orders": sql_queries.ORDERS, "customers": sql_queries.CUSTOMERS})
    plans = {(name, which): tmp_path / f"{name}-{which}.json" for name in EVOLUTIONS for which in ("old", "new")}

    def ask(which: str, **where: dict[str, str]) -> list[dict[str, Any]]:
        return [
            sql_queries.request(e.queries[which], files, plans[name, which], **{k: w[name] for k, w in where.items()})
            for name, e in EVOLUTIONS.items()
        ]

    def run(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = flink.plans(version, requests, sql_queries.AT_ONCE)
        assert [a["error"] for a in answers if "error" in a] == []
        return answers

    old = ask("old", to={name: str(tmp_path / f"{name}-first") for name in EVOLUTIONS})
    texts = [{**request, "text": True} if number % 2 else request for number, request in enumerate(old)]
    later = [request for number, request in enumerate(ask("old")) if number % 2]  # the plans of the texts
    first = run([*texts, *later, *ask("new")])
    migrated = {name: str(tmp_path / f"{name}-migrated") for name in EVOLUTIONS}
    notes = {}
    for number, (name, answer) in enumerate(zip(EVOLUTIONS, first, strict=False)):
        writer = sp.arrow.SavepointWriter.from_existing(answer["savepoint"], plan=plans[name, "old"])
        writer.migrate_query(plans[name, "old"], plans[name, "new"]).write(migrated[name])
        notes[name] = sorted(change for state in writer.query_migration_report() for change in state.changes)
        if number % 2 == (version == "2.3.0"):  # Spark writes it too, for one of the versions, and Flink restores that
            without_spark, migrated[name] = migrated[name], str(tmp_path / f"{name}-spark")
            of_spark = sp.SavepointWriter.from_existing(spark, answer["savepoint"], plan=plans[name, "old"])
            of_spark.migrate_query(plans[name, "old"], plans[name, "new"]).write(migrated[name])
            is_same = name != "ttl-added"  # else the time of the last access is that of the write
            assert entries(without_spark, metadata=is_same) == entries(migrated[name], metadata=is_same)
            assert of_spark.query_migration_report() == writer.query_migration_report()
    assert notes == {name: sorted(e.notes) for name, e in EVOLUTIONS.items()}
    sql_queries.write_lines(files, "2", MORE)
    asked = ask("new", to={name: str(tmp_path / f"{name}-second") for name in EVOLUTIONS})
    second = run(
        [
            {**request, "from": migrated[name], "drain": EVOLUTIONS[name].before_end is not None}
            for name, request in zip(EVOLUTIONS, asked, strict=True)
        ]
    )
    found = {name: sorted(map(str, a["changes"])) for name, a in zip(EVOLUTIONS, second, strict=True)}
    expected = {name: e.printed for name, e in EVOLUTIONS.items()}
    for changes in (found, expected):
        changes |= {name: settled(changes[name]) for name in ANY_ORDER}
    assert found == expected


_TOP = "SELECT line FROM (SELECT line, ROW_NUMBER() OVER (ORDER BY line) AS n FROM words) WHERE n <= 2"
_LAST = "SELECT line, 1 FROM (SELECT line, ROW_NUMBER() OVER (PARTITION BY line ORDER BY came DESC) AS n FROM words) WHERE n = 1"
GROWING = {
    "calls": Query(
        "SELECT line, COUNT(*), MAX(line), LISTAGG(line) FROM words GROUP BY line",
        "a STRING, b BIGINT, c STRING, d STRING",
        lines=4,
    ),
    "last-row": Query(_LAST, "a STRING, b INT", lines=2),
    "join": Query("SELECT a.line FROM words a JOIN words b ON a.line = b.line", "a STRING", lines=5),
    "top": Query(_TOP, "a STRING", lines=2),
    "groups-of-updates": Query("SELECT city, COUNT(*) FROM towns GROUP BY city", "a STRING, b BIGINT", lines=2),
    "join-by-unique-keys": Query("SELECT a.id, b.id FROM towns a JOIN towns b ON a.city = b.city", "a STRING, b STRING", lines=2),
}
"""Queries whose keys and kept columns get longer types, and become nullable."""
LONG = "a-very-long-name"
GROWN = {
    "calls": [
        "+I[a-very-long-name, 1, a-very-long-name, a-very-long-name]",
        "+U[ada, 3, ada, ada,ada,ada]",
        "-U[ada, 2, ada, ada,ada]",
    ],
    "last-row": ["+I[a-very-long-name, 1]"],
    "join": ["+I[a-very-long-name]", *["+I[ada]"] * 5],
    "top": ["+I[a-very-long-name]", "-D[ada]"],
    "groups-of-updates": ["+I[a-very-long-name, 1]", "+U[Rome, 2]", "-U[Rome, 1]"],
    "join-by-unique-keys": ["+I[ada, cy]", "+I[cy, ada]", "+I[cy, cy]", "+I[dan, dan]"],
}


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_keys_get_longer_types_and_become_nullable(version: str, tmp_path: Path) -> None:
    """The keys keep their bytes and their key groups. A native savepoint keeps its files, with other headers."""
    files, format = tmp_path / "files", "native" if version == "2.3.0" else "canonical"
    sql_queries.write_lines(files, "1", {"words": ["ada", "bob", "ada"], "towns": ["+I,ada,Rome", "+I,bob,Oslo"]})

    def ask(which: str, text: str, key: str, **where: Any) -> list[dict[str, Any]]:
        more = "'connector' = 'filesystem', 'source.monitor-interval' = '100 ms'"
        made = [
            f"CREATE TABLE words (line {text}, came AS PROCTIME()) WITH ({more}, 'format' = 'raw', 'path' = '{files / 'words'}')",
            f"CREATE TABLE towns (id {key}, city {text}, PRIMARY KEY (id) NOT ENFORCED) WITH"
            f" ({more}, 'format' = 'changes', 'path' = '{files / 'towns'}')",
        ]
        found = [
            sql_queries.request(query, files, tmp_path / f"{name}-{which}.json", backend="rocksdb", **where)
            for name, query in GROWING.items()
        ]
        settings = {"table.exec.source.idle-timeout": "0 ms", **ONE_SUBTASK}
        return [{**one, "tables": [*one["tables"], *made], "format": format, "settings": settings} for one in found]

    old = ask("old", "VARCHAR(10) NOT NULL", "VARCHAR(10)", to=str(tmp_path / "first"))
    first = sql_queries.answered(version, old, sql_queries.AT_ONCE)
    sql_queries.answered(version, ask("new", "VARCHAR(20)", "VARCHAR(20)"))
    sql_queries.write_lines(files, "2", {"words": ["ada", LONG], "towns": ["+I,cy,Rome", f"+I,dan,{LONG}"]})
    requests = ask("new", "VARCHAR(20)", "VARCHAR(20)", to=str(tmp_path / "second"))
    for name, answer, request in zip(GROWING, first, requests, strict=True):
        plans = [tmp_path / f"{name}-{which}.json" for which in ("old", "new")]
        writer = sp.arrow.SavepointWriter.from_existing(answer["savepoint"], plan=plans[0]).migrate_query(*plans)
        request |= {"from": str(tmp_path / f"{name}-migrated"), "lines": len(GROWN[name])}
        summary = writer.write(request["from"], format=format, **({"backend": "rocksdb"} if format == "native" else {}))
        assert summary is not None
    second = sql_queries.answered(version, requests, sql_queries.AT_ONCE)
    found = {name: sorted(map(str, answer["changes"])) for name, answer in zip(GROWING, second, strict=True)}
    assert found == {name: sorted(changes) for name, changes in GROWN.items()}
