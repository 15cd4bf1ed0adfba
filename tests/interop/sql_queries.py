"""Queries of Flink SQL over tables whose rows are lines of files, for plans and savepoints of real Flink."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.interop import flink
from tests.interop.jvms import FlinkError

_FIELDS = {
    "orders": ("id BIGINT", "customer STRING", "item STRING", "amount BIGINT", "ts TIMESTAMP(3)"),
    "customers": ("id STRING", "city STRING", "ts TIMESTAMP(3)"),
}
_LATE = "ts - INTERVAL '5' SECOND"
_WATERMARKS = {
    **{table: (table, "ts") for table in _FIELDS},
    **{f"late_{table}": (table, _LATE) for table in _FIELDS},
    "waiting_orders": ("orders", "ts - INTERVAL '8' SECOND"),
}
"""What tables read, and how far time has come for them: rows of late tables wait for it."""

ORDERS = (
    "1,ada,pen,10,2024-01-01 00:00:01",
    "2,ada,ink,20,2024-01-01 00:00:02",
    "3,bob,pen,10,2024-01-01 00:00:03",
    "4,ada,pen,5,2024-01-01 00:00:04",
    "5,cy,ink,,2024-01-01 00:00:05",
    "6,bob,,7,2024-01-01 00:00:11",
)
CUSTOMERS = (
    "ada,Rome,2024-01-01 00:00:00",
    "bob,Oslo,2024-01-01 00:00:02",
    "ada,Bonn,2024-01-01 00:00:03",
    "dan,Nice,2024-01-01 00:00:12",
)
"""Times do not come to an end: a window stays open."""

HOMES = ("+U,ada,Rome", "+U,bob,Oslo", "+U,ada,Bonn", "+U,cy,Rome", "-D,bob,Oslo")
FIRST = {"orders": ORDERS, "customers": CUSTOMERS, "homes": HOMES}
MORE = {
    "orders": (
        "7,bob,pen,20,2024-01-01 00:00:13",
        "8,ada,pen,2,2024-01-01 00:00:14",
        "9,dan,ink,30,2024-01-01 00:00:15",
        "10,cy,pen,8,2024-01-01 00:00:16",
        "11,ada,,50,2024-01-01 00:00:31",
    ),
    "customers": ("cy,Lima,2024-01-01 00:00:13", "bob,Bern,2024-01-01 00:00:14", "eve,Nice,2024-01-01 00:00:30"),
    "homes": ("+U,ada,Oslo", "+U,dan,Rome", "-D,cy,Rome"),
}
"""What comes after the savepoint: its times are later than all before."""


@dataclass(frozen=True)
class Query:
    """A query, the columns of its sink, and how many changes it prints at least before all rows are dealt with."""

    sql: str
    sink: str
    settings: dict[str, str] = field(default_factory=dict)
    lines: int = 1
    more: int = 1
    """As many, for those that it prints after the savepoint."""


SETTINGS = {"table.exec.source.idle-timeout": "300 ms"}
"""A subtask without a file would hold back time."""

TWO_PHASES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "100",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.exec.source.idle-timeout": "0 ms",  # behind idle sources, Flink ignores the ends of batches: their rows do not come
}
_WINDOW = "window_start TIMESTAMP(3), n BIGINT, total BIGINT"


def _window(call: str) -> str:
    return f"SELECT customer, window_start, COUNT(*), SUM(amount) FROM TABLE({call}) GROUP BY customer, window_start, window_end"


QUERIES = {
    "group-aggregate": Query(
        "SELECT customer, COUNT(*), SUM(amount), AVG(amount), MIN(amount), MAX(item) FROM orders GROUP BY customer",
        "customer STRING, n BIGINT, total BIGINT, mean BIGINT, low BIGINT, last STRING",
        lines=9,
    ),
    "distinct": Query(
        "SELECT customer, COUNT(DISTINCT item), COUNT(DISTINCT item) FILTER (WHERE amount > 9), SUM(DISTINCT amount) FROM orders"
        " GROUP BY customer",
        "customer STRING, kinds BIGINT, dear BIGINT, total BIGINT",
        lines=7,
    ),
    "retracting": Query(
        "SELECT n, SUM(total), MAX(total) FROM (SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders"
        " GROUP BY customer) GROUP BY n",
        "n BIGINT, total BIGINT, most BIGINT",
        lines=3,
    ),
    "two-phases": Query(
        "SELECT customer, COUNT(DISTINCT item), SUM(amount) FROM orders GROUP BY customer",
        "customer STRING, kinds BIGINT, total BIGINT",
        TWO_PHASES,
        lines=3,
    ),
    "inner-join": Query(
        "SELECT o.id, o.amount, c.city FROM orders o JOIN customers c ON o.customer = c.id",
        "id BIGINT, amount BIGINT, city STRING",
        lines=8,
    ),
    "left-join": Query(
        "SELECT o.id, o.amount, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        "id BIGINT, amount BIGINT, city STRING",
        lines=9,
    ),
    "join-by-unique-keys": Query(
        "SELECT a.customer, total, a.item, n FROM"
        " (SELECT customer, item, SUM(amount) AS total FROM orders GROUP BY customer, item) a"
        " LEFT JOIN (SELECT id, COUNT(*) AS n FROM customers GROUP BY id) b ON a.customer = b.id",
        "customer STRING, total BIGINT, item STRING, n BIGINT",
        lines=6,
    ),
    "interval-join": Query(
        "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id"
        " AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE",
        "id BIGINT, city STRING",
        lines=6,
    ),
    "temporal-join": Query(
        "SELECT o.id, v.city FROM orders o JOIN versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.customer = v.id",
        "id BIGINT, city STRING",
        lines=5,
    ),
    "temporal-join-waiting": Query(
        "SELECT o.id, v.city FROM late_orders o JOIN late_versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.customer = v.id",
        "id BIGINT, city STRING",
        lines=4,
    ),
    "first-row": Query(
        "SELECT customer, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY came) AS n FROM orders)"
        " WHERE n = 1",
        "customer STRING, id BIGINT, amount BIGINT",
        lines=3,
    ),
    "last-row": Query(
        "SELECT customer, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS n FROM orders)"
        " WHERE n = 1",
        "customer STRING, id BIGINT, amount BIGINT",
        lines=5,
    ),
    "top": Query(
        "SELECT customer, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC) AS n"
        " FROM orders) WHERE n <= 2",
        "customer STRING, id BIGINT, amount BIGINT",
        lines=5,
    ),
    "top-of-updates": Query(
        "SELECT customer, total FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY total) AS n FROM"
        " (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer)) WHERE n <= 2",
        "customer STRING, total BIGINT",
        lines=2,
    ),
    "tumbling": Query(
        _window("TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)"), f"customer STRING, {_WINDOW}", lines=3
    ),
    "hopping": Query(
        _window("HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"),
        f"customer STRING, {_WINDOW}",
        lines=5,
    ),
    "cumulating": Query(
        _window("CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"),
        f"customer STRING, {_WINDOW}",
        lines=5,
    ),
    "sessions": Query(
        _window("SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '5' SECOND)"),
        f"customer STRING, {_WINDOW}",
        lines=3,
    ),
    "over": Query(
        "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING"
        " AND CURRENT ROW) FROM orders",
        "id BIGINT, total BIGINT",
        lines=6,
    ),
    "over-waiting": Query(
        "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING"
        " AND CURRENT ROW) FROM late_orders",
        "id BIGINT, total BIGINT",
        lines=5,
    ),
    "materialized": Query(
        "SELECT c.city, o.total FROM (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer) o"
        " JOIN customers c ON o.customer = c.id",
        "city STRING, total BIGINT, PRIMARY KEY (city) NOT ENFORCED",
        {"table.exec.sink.upsert-materialize": "FORCE"},
        lines=3,
    ),
    "normalized": Query("SELECT city, COUNT(*) FROM homes GROUP BY city", "city STRING, n BIGINT", lines=5),
    "match": Query(
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.id AS first_id, B.id AS second_id"
        " ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 6, B AS B.amount > 15)",
        "customer STRING, first_id BIGINT, second_id BIGINT",
        lines=1,
    ),
    "distinct-times": Query(
        "SELECT customer, COUNT(DISTINCT CAST(ts AS DATE)), COUNT(DISTINCT CAST(ts AS TIME)), COUNT(DISTINCT CAST(ts AS"
        " TIMESTAMP_LTZ(6))) FROM orders GROUP BY customer",
        "customer STRING, days BIGINT, times BIGINT, moments BIGINT",
        lines=7,
    ),
    "distinct-split": Query(
        "SELECT customer, COUNT(DISTINCT item), COUNT(DISTINCT amount), SUM(amount * 2) FROM orders GROUP BY customer",
        "customer STRING, kinds BIGINT, amounts BIGINT, total BIGINT",
        TWO_PHASES | {"table.optimizer.distinct-agg.split.enabled": "true"},
        lines=3,
    ),
    "first-row-by-time": Query(
        "SELECT item, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts) AS n FROM late_orders)"
        " WHERE n = 1",
        "item STRING, id BIGINT, amount BIGINT",
        lines=2,
        more=0,
    ),
    "multi-join": Query(
        "SELECT o.id, c.city, t.item, t.total FROM orders o JOIN customers c ON UPPER(o.customer) = UPPER(c.id) JOIN"
        " (SELECT UPPER(customer) AS who, item, SUM(amount) AS total FROM orders GROUP BY UPPER(customer), item) t"
        " ON UPPER(o.customer) = t.who",
        "id BIGINT, city STRING, item STRING, total BIGINT",
        {"table.optimizer.multi-join.enabled": "true"},
        lines=14,
    ),
    "computed-join": Query(
        "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON UPPER(o.customer) = UPPER(c.id)",
        "id BIGINT, city STRING",
        lines=9,
    ),
    "computed-top": Query(
        "SELECT customer, id, twice FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY UPPER(customer) ORDER BY amount * 2 DESC)"
        " AS n, amount * 2 AS twice FROM orders) WHERE n <= 2",
        "customer STRING, id BIGINT, twice BIGINT",
        lines=5,
    ),
    "computed-over": Query(
        "SELECT id, MAX(amount * 2) OVER (PARTITION BY UPPER(customer) ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
        " FROM orders",
        "id BIGINT, most BIGINT",
        lines=6,
    ),
    "lag": Query(
        "SELECT id, LAG(amount) OVER w, LAG(item, 2) OVER w, LAG(amount, 1, CAST(-1 AS BIGINT)) OVER w, LAG(CAST(ts AS"
        " DATE)) OVER w, LAG(ROW(id, item)) OVER w FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts)",
        "id BIGINT, a BIGINT, b STRING, c BIGINT, d DATE, e ROW<x BIGINT, y STRING>",
        lines=6,
    ),
    "over-rank": Query(
        "SELECT id, RANK() OVER (PARTITION BY customer ORDER BY ts) FROM orders", "id BIGINT, place BIGINT", lines=6
    ),
    "materialized-by-number": Query(
        "SELECT c.city, o.total FROM (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer) o"
        " JOIN customers c ON o.customer = c.id",
        "city STRING, total BIGINT, PRIMARY KEY (city) NOT ENFORCED",
        {"table.exec.sink.upsert-materialize": "FORCE", "table.exec.sink.upsert-materialize-strategy.type": "MAP"},
        lines=3,
    ),
}
_NUMBERS = count()
_VERSIONS = """CREATE VIEW {0}versions AS SELECT id, city, ts
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS n FROM {0}customers) WHERE n = 1"""


def write_lines(directory: Path, file: str, lines: Mapping[str, Sequence[str]]) -> None:
    """Add a file to the directories that tables read."""
    for table, given in lines.items():
        (directory / table).mkdir(parents=True, exist_ok=True)
        (directory / table / f".{file}").write_text("".join(f"{line}\n" for line in given), "utf-8")
        (directory / table / f".{file}").rename(directory / table / file)


def tables(directory: Path, query: Query, name: str) -> list[str]:
    """Return the statements that create the tables of a query; the lines that are printed begin with the name.

    Flink takes as long for a table with computed columns as for a small query.
    """
    files = "'connector' = 'filesystem', 'source.monitor-interval' = '100 ms'"
    views = {f"{kind}versions": _VERSIONS.format(kind) for kind in ("", "late_")}
    names = set(re.findall(r"\w+", query.sql))
    made_views = [view for view_name, view in views.items() if view_name in names]
    names.update(*(re.findall(r"\w+", view) for view in made_views))
    made = []
    if "homes" in names:
        made.append(
            "CREATE TABLE homes (id STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH"
            f" ({files}, 'format' = 'changes', 'path' = '{directory / 'homes'}')"
        )
    for table, (lines, watermark) in _WATERMARKS.items():
        if table not in names:
            continue
        parsed = ", ".join(
            f"{column} AS CAST(NULLIF(SPLIT_INDEX(line, ',', {i}), '') AS {type_})"
            for i, (column, type_) in enumerate(c.split(" ", 1) for c in _FIELDS[lines])
        )
        made.append(
            f"CREATE TABLE {table} (line STRING, {parsed}, came AS PROCTIME(), WATERMARK FOR ts AS {watermark}) WITH"
            f" ({files}, 'format' = 'raw', 'path' = '{directory / lines}')"
        )
    results = f"CREATE TABLE results ({query.sink}) WITH ('connector' = 'print', 'print-identifier' = '{name}')"
    return [*made, *made_views, results]


def generate(version: str, target: Path, names: Sequence[str] = tuple(QUERIES)) -> None:
    """Write ``plan.json``, ``savepoint`` and ``changes.json`` of queries into directories of their names.

    The changes until the savepoint, and the changes of a run without a savepoint until the end of time.

    Raises
    ------
        FlinkError: a query failed.
    """
    with tempfile.TemporaryDirectory(prefix="queries-") as temporary:
        first, whole, aside = (Path(temporary, name) for name in ("first", "whole", "aside"))
        write_lines(first, "1", FIRST)
        write_lines(whole, "1", {table: (*lines, *MORE[table]) for table, lines in FIRST.items()})
        for name in names:
            (target / name).mkdir()
        # Nodes have the numbers that Flink gives them if it compiles one query after the other.
        answered(version, [request(QUERIES[name], first, target / name / "plan.json") for name in names])
        runs = [request(QUERIES[name], first, target / name / "plan.json", to=str(target / name)) for name in names]
        runs += [
            request(query, whole, target / name / "plan.json", lines=query.lines + query.more, to=str(aside), drain=True)
            for name, query in ((name, QUERIES[name]) for name in names)
        ]
        answers = answered(version, runs, AT_ONCE)
        for name, until, to_the_end in zip(names, answers[: len(names)], answers[len(names) :], strict=True):
            Path(until["savepoint"].removeprefix("file:")).rename(target / name / "savepoint")
            changes = {"first": until["changes"], "whole": to_the_end["changes"]}
            (target / name / "changes.json").write_text(json.dumps(changes, indent=1) + "\n", "utf-8")


def generate_text(version: str, target: Path, names: Sequence[str] = tuple(QUERIES)) -> None:
    """Write ``savepoint`` of queries that are submitted as text, and ``plan.json``, which is compiled afterwards.

    Raises
    ------
        FlinkError: a query failed.
    """
    with tempfile.TemporaryDirectory(prefix="queries-") as temporary:
        files = Path(temporary)
        write_lines(files, "1", FIRST)
        for name in names:
            (target / name).mkdir()
        plans = {name: target / name / "plan.json" for name in names}
        runs = [request(QUERIES[name], files, plan, to=str(target / name), text=True) for name, plan in plans.items()]
        for name, answer in zip(names, answered(version, runs, AT_ONCE), strict=True):
            Path(answer["savepoint"].removeprefix("file:")).rename(target / name / "savepoint")
        answered(version, [request(QUERIES[name], files, plan) for name, plan in plans.items()])


AT_ONCE = 4
"""Queries that run at the same time: they wait most of it."""


def answered(version: str, requests: Sequence[dict[str, Any]], at_once: int = 1) -> list[dict[str, Any]]:
    """Return the answers to requests; all requests have to succeed.

    Raises
    ------
        FlinkError: a query failed.
    """
    answers = flink.plans(version, requests, at_once)
    errors = [
        f"{given['insert']}\n{answer['error']}" for given, answer in zip(requests, answers, strict=True) if "error" in answer
    ]
    if errors:
        raise FlinkError("\n".join(errors))
    return answers


def request(
    query: Query,
    files: Path,
    plan: Path,
    *,
    backend: str = "hashmap",
    asynchronous: bool = False,
    origin: Path | str | None = None,
    **where: Any,
) -> dict[str, Any]:
    """Return the request to compile a query, and to run it if a place for its savepoint is given; see :func:`flink.plans`.

    Flink takes no canonical savepoint of ForSt, and of jobs with asynchronous state.
    """
    in_api = {"table.exec.async-state.enabled": "true"} if asynchronous else {}
    name = f"query-{next(_NUMBERS)}"
    return {
        "name": name,
        "tables": tables(files, query, name),
        "insert": f"INSERT INTO results {query.sql}",
        "plan": str(plan),
        "settings": SETTINGS | query.settings | in_api,
        "backend": backend,
        "format": "native" if asynchronous else "canonical",
        "lines": query.lines,
        **({} if origin is None else {"from": str(origin), "lines": query.more}),
        **where,
    }


def rows_of(changes: Sequence[str]) -> Counter[str]:
    """Return the sums of changes by row; retracted rows have negative counts."""
    found: Counter[str] = Counter()
    for change in changes:
        found[change[2:]] += 1 if change[:2] in ("+I", "+U") else -1
    return Counter({row: number for row, number in found.items() if number})
