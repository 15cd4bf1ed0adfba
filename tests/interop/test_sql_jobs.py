"""State of Flink SQL's operators, bootstrapped from DataFrames: real queries go on from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.interop import flink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

VERSIONS = ("1.20.5", "2.3.0")
ORDERS = """CREATE TABLE orders (id BIGINT, amount BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '4',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '3',
    'fields.amount.kind' = 'sequence', 'fields.amount.start' = '100', 'fields.amount.end' = '103')"""
NOBODY = """CREATE TABLE names (id BIGINT, name VARCHAR(20)) WITH ('connector' = 'datagen', 'number-of-rows' = '1',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '1000', 'fields.id.end' = '1000')"""
TOTALS = "SELECT id, COUNT(*), SUM(amount), MAX(amount) FROM orders GROUP BY id"
JOINED = "SELECT o.id, o.amount, n.name FROM orders o JOIN names n ON o.id = n.id"


def totals(spark: SparkSession, version: str, target: Path) -> None:
    """What the aggregate has seen before: ids 0, 2 and 7."""
    df = spark.sql(
        """SELECT named_struct('id', id) AS key, named_struct('n', n, 'total', total, 'most', most) AS accState
        FROM VALUES (0L, 3L, 30L, 20L), (2L, 1L, 1000L, 1000L), (7L, 1L, 7L, 7L) AS t(id, n, total, most)"""
    )
    writer = sp.SavepointWriter.new(spark, max_parallelism=128, flink_version=version.rpartition(".")[0])
    accumulator = sp.ValueState(sp.Types.ROW_DATA(["BIGINT", "BIGINT", "BIGINT"]))
    df = df.selectExpr(
        "struct(key.id AS f0) AS key", "struct(accState.n AS f0, accState.total AS f1, accState.most AS f2) AS accState"
    )
    writer.with_keyed_state("group-aggregate", df, "key", sp.Types.ROW_DATA(["BIGINT"]), {"accState": accumulator}, parallelism=2)
    writer.write(target)


def names(spark: SparkSession, version: str, target: Path) -> None:
    """What the right side of the join has seen before: a name of 1 and two of 3, one of them twice."""
    df = spark.sql(
        """SELECT struct(id) AS key, map_from_entries(collect_list(struct(struct(id, name), times))) AS `right-records`
        FROM VALUES (1L, 'one', 1), (3L, 'three, a longer name', 1), (3L, null, 2) AS t(id, name, times) GROUP BY id"""
    )
    writer = sp.SavepointWriter.new(spark, max_parallelism=128, flink_version=version.rpartition(".")[0])
    record = sp.Types.ROW_DATA("id BIGINT, name VARCHAR(20)")
    states = {"right-records": sp.MapState(record, sp.Types.INT())}
    writer.with_keyed_state("5_join", df, "key", sp.Types.ROW_DATA({"id": "BIGINT"}), states, parallelism=2)
    writer.write(target)


@pytest.mark.parametrize("version", VERSIONS)
def test_queries_go_on_from_what_was_bootstrapped(version: str, spark: SparkSession, tmp_path: Path) -> None:
    totals(spark, version, tmp_path / "totals")
    names(spark, version, tmp_path / "names")
    requests = [
        {
            "savepoint": "names",
            "backend": "rocksdb",
            "uids": "<id>_<transformation>",
            "tables": [ORDERS, NOBODY],
            "query": JOINED,
        },
        {"savepoint": "totals", "backend": "hashmap", "uids": "<transformation>", "tables": [ORDERS], "query": TOTALS},
        {"savepoint": "totals", "backend": "rocksdb", "uids": "<transformation>", "tables": [ORDERS], "query": TOTALS},
    ]
    joined, *aggregated = flink.query(version, [{**r, "savepoint": str(tmp_path / str(r["savepoint"]))} for r in requests])
    for changes in aggregated:
        by_id = {i: [(c["kind"], *c["fields"][1:]) for c in changes if c["fields"][0] == i] for i in range(8)}
        assert by_id == {
            0: [("-U", 3, 30, 20), ("+U", 4, 130, 100)],
            1: [("+I", 1, 101, 101)],
            2: [("-U", 1, 1000, 1000), ("+U", 2, 1102, 1000)],
            3: [("+I", 1, 103, 103)],
            **{i: [] for i in (4, 5, 6, 7)},
        }
    found = sorted((c["kind"], *map(str, c["fields"])) for c in joined)
    three = ("+I", "3", "103")
    assert found == [("+I", "1", "101", "one"), (*three, "None"), (*three, "None"), (*three, "three, a longer name")]
