"""Tables of SQL that are made of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

pytestmark = pytest.mark.spark
OPTIONS = "uid 'orders', state 'total'"


@pytest.fixture(autouse=True)
def no_tables(spark: SparkSession) -> Iterator[None]:
    sp.register(spark)
    yield
    for name in ("totals", "found"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize(
    "place",
    [f"OPTIONS (path '{ORDERS_PATH}', {OPTIONS})", f"OPTIONS ({OPTIONS}, splitSize '1m') LOCATION '{ORDERS_PATH}' COMMENT 'x'"],
)
def test_a_table_reads_the_state(spark: SparkSession, place: str) -> None:
    spark.sql(f"CREATE TABLE totals USING `flink-savepoint` {place}")
    rows = spark.table("totals").collect()
    assert {r.key: r.value for r in rows} == expected_values(ORDERS, "orders", "total")
    assert spark.sql("SELECT value FROM totals WHERE key = 'amelia'").first().value == 3950


def test_a_table_of_metadata(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE found USING `flink-savepoint-metadata` OPTIONS (table 'states') LOCATION 'file:{ORDERS_PATH}'")
    assert spark.sql("SELECT count(*) FROM found WHERE operator_uid = 'catalog'").first()[0] == 3


def test_a_table_with_columns_says_what_to_do(spark: SparkSession) -> None:
    columns = "key STRING, value BIGINT"
    spark.sql(f"CREATE TABLE totals ({columns}) USING `flink-savepoint` OPTIONS ({OPTIONS}) LOCATION '{ORDERS_PATH}'")
    with pytest.raises(sp.OptionError, match="if CREATE TABLE lists columns: leave these out"):
        spark.table("totals").count()
