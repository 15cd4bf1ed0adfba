"""States of queries from tables: equal to those of savepoints that real queries wrote after the same rows, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

VERSIONS = ("1.20.5", "2.3.0")
ORDERS = """SELECT * FROM VALUES
    (1L, 'ada', 'pen', 10L, timestamp_ntz'2024-01-01 00:00:01'), (2L, 'ada', 'ink', 20L, timestamp_ntz'2024-01-01 00:00:02'),
    (3L, 'bob', 'pen', 10L, timestamp_ntz'2024-01-01 00:00:03'), (4L, 'ada', 'pen', 5L, timestamp_ntz'2024-01-01 00:00:04'),
    (5L, 'cy', 'ink', null, timestamp_ntz'2024-01-01 00:00:05'), (6L, 'bob', null, 7L, timestamp_ntz'2024-01-01 00:00:11')
    AS orders(id, customer, item, amount, ts)"""
CUSTOMERS = """SELECT * FROM VALUES
    ('ada', 'Rome', timestamp_ntz'2024-01-01 00:00:00'), ('bob', 'Oslo', timestamp_ntz'2024-01-01 00:00:02'),
    ('ada', 'Bonn', timestamp_ntz'2024-01-01 00:00:03'), ('dan', 'Nice', timestamp_ntz'2024-01-01 00:00:12')
    AS customers(id, city, ts)"""
TOTALS = f"SELECT customer, item, sum(amount) AS total FROM ({ORDERS}) GROUP BY customer, item"
CITIES = f"SELECT id, count(*) AS n FROM ({CUSTOMERS}) GROUP BY id"

# By query: for each operator its rows, or those of its sides.
QUERIES: dict[str, dict[str, tuple[str, ...]]] = {
    "group-aggregate": {"group-aggregate": (f"SELECT customer, amount, item FROM ({ORDERS})",)},
    "inner-join": {"join": (f"SELECT id, customer, amount FROM ({ORDERS})", f"SELECT id, city FROM ({CUSTOMERS})")},
    "left-join": {"join": (f"SELECT id, customer, amount FROM ({ORDERS})", f"SELECT id, city FROM ({CUSTOMERS})")},
    "join-by-unique-keys": {"join": (TOTALS, CITIES)},
    "first-row": {"deduplicate": (f"SELECT id, customer, amount FROM ({ORDERS})",)},
    "last-row": {"deduplicate": (f"SELECT id, customer, amount, ts FROM ({ORDERS})",)},
    "temporal-join": {"deduplicate": (f"SELECT id, city, ts FROM ({CUSTOMERS})",)},
}


def query(version: str, name: str) -> tuple[str, str]:
    directory = unpacked("sql") / version / name
    return str(directory / "savepoint"), str(directory / "plan.json")


def bootstrap(writer: sp.SavepointWriter, plan: str, operator: str, rows: list[DataFrame]) -> sp.SavepointWriter:
    if len(rows) == 2:
        return writer.bootstrap_query(plan, operator, left=rows[0], right=rows[1])
    return writer.bootstrap_query(plan, operator, rows[0])


def entries(path: str | Path, uid: str, state: str, plan: str) -> list[str]:
    return sorted(str(row) for batch in sp.arrow.read_state(path, uid, state, plan=plan) for row in batch.to_pylist())


@pytest.mark.parametrize("version", VERSIONS)
def test_states_are_those_that_queries_wrote(version: str, spark: SparkSession, tmp_path: Path) -> None:
    for name, operators in QUERIES.items():
        real, plan = query(version, name)
        writer = sp.SavepointWriter.new(spark, flink_version=version.rpartition(".")[0])
        for operator, rows in operators.items():
            bootstrap(writer, plan, operator, [spark.sql(given) for given in rows])
        made = tmp_path / name
        writer.write(made)
        columns = ("operator_uid", "state_name", "state_kind", "key_type", "value_type", "map_key_type", "ttl")
        found = [tuple(row[c] for c in columns) for row in sp.arrow.states(made, plan=plan).to_pylist()]
        known = [tuple(row[c] for c in columns) for row in sp.arrow.states(real, plan=plan).to_pylist()]
        assert found
        assert set(found) <= set(known)
        for uid, state, *_ in found:
            assert entries(made, uid, state, plan) == entries(real, uid, state, plan) != []
