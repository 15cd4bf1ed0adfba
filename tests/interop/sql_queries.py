"""Queries of Flink SQL over tables whose rows are lines of files, for plans and savepoints of real Flink."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flink

_FIELDS = {
    "orders": ("id BIGINT", "customer STRING", "item STRING", "amount BIGINT", "ts TIMESTAMP(3)"),
    "customers": ("id STRING", "city STRING", "ts TIMESTAMP(3)"),
}
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


@dataclass(frozen=True)
class Query:
    """A query, the columns of its sink, and how many changes it prints at least before all rows are dealt with."""

    sql: str
    sink: str
    settings: dict[str, str] = field(default_factory=dict)
    lines: int = 1


SETTINGS = {"table.exec.source.idle-timeout": "300 ms"}
"""A subtask without a file would hold back time."""

TWO_PHASES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "100",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
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
    "materialized": Query(
        "SELECT c.city, o.amount FROM orders o JOIN customers c ON o.customer = c.id",
        "city STRING, amount BIGINT, PRIMARY KEY (city) NOT ENFORCED",
        {"table.exec.sink.upsert-materialize": "FORCE"},
        lines=6,
    ),
    "match": Query(
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.id AS first_id, B.id AS second_id"
        " ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 6, B AS B.amount > 15)",
        "customer STRING, first_id BIGINT, second_id BIGINT",
        lines=1,
    ),
}
_VERSIONS = """CREATE VIEW versions AS SELECT id, city, ts
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS n FROM customers) WHERE n = 1"""


def write_lines(directory: Path, file: str, lines: Mapping[str, Sequence[str]]) -> None:
    """Add a file to the directories that tables read."""
    for table, given in lines.items():
        (directory / table).mkdir(parents=True, exist_ok=True)
        (directory / table / f".{file}").write_text("".join(f"{line}\n" for line in given), "utf-8")
        (directory / table / f".{file}").rename(directory / table / file)


def tables(directory: Path, sink: str) -> list[str]:
    """Return the statements that create the tables."""
    made = []
    for name, columns in _FIELDS.items():
        parsed = ", ".join(
            f"{column} AS CAST(NULLIF(SPLIT_INDEX(line, ',', {i}), '') AS {type_})"
            for i, (column, type_) in enumerate(c.split(" ", 1) for c in columns)
        )
        made.append(
            f"CREATE TABLE {name} (line STRING, {parsed}, came AS PROCTIME(), WATERMARK FOR ts AS ts) WITH"
            f" ('connector' = 'filesystem', 'format' = 'raw', 'path' = '{directory / name}',"
            " 'source.monitor-interval' = '100 ms')"
        )
    return [*made, _VERSIONS, f"CREATE TABLE results ({sink}) WITH ('connector' = 'print')"]


def generate(version: str, target: Path, names: Sequence[str] = tuple(QUERIES)) -> dict[str, list[str]]:
    """Write ``plan.json`` and ``savepoint`` of queries into directories of their names, and return the changes of each.

    Raises
    ------
        FlinkError: a query failed.
    """
    with tempfile.TemporaryDirectory(prefix="queries-") as temporary:
        files = Path(temporary)
        write_lines(files, "1", {"orders": ORDERS, "customers": CUSTOMERS})
        for name in names:
            (target / name).mkdir()
        requests = [request(QUERIES[name], files, target / name / "plan.json", to=str(target / name)) for name in names]
        changes = {}
        for name, answer in zip(names, flink.plans(version, requests), strict=True):
            if "error" in answer:
                raise flink.FlinkError(f"{name}: {answer['error']}")
            (written,) = (path for path in (target / name).iterdir() if path.is_dir())
            written.rename(target / name / "savepoint")
            changes[name] = answer["changes"]
        return changes


def request(
    query: Query, files: Path, plan: Path, *, backend: str = "hashmap", asynchronous: bool = False, **where: str
) -> dict[str, Any]:
    """Return the request to compile a query, and to run it if a place for its savepoint is given.

    Flink takes no canonical savepoint of ForSt, and of jobs with asynchronous state.
    """
    in_api = {"table.exec.async-state.enabled": "true"} if asynchronous else {}
    return {
        "tables": tables(files, query.sink),
        "insert": f"INSERT INTO results {query.sql}",
        "plan": str(plan),
        "settings": SETTINGS | query.settings | in_api,
        "backend": backend,
        "format": "native" if asynchronous else "canonical",
        "lines": query.lines,
        **where,
    }
