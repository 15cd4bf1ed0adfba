from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.archives import unpacked
from tests.state_processor.samples import ORDERS, ORDERS_OF_1, ORDERS_PATH, TYPES_PATH, expected_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_everything_is_a_view(spark: SparkSession) -> None:
    names = sp.create_views(spark, ORDERS_PATH)
    assert names[:5] == ["operators", "states", "handles", "orders", "orders_history"]
    assert {"orders_timers", "catalog_pending"} <= {*names}
    total = expected_values(ORDERS, "orders", "total")
    assert dict(spark.sql("SELECT key, value FROM orders_total").collect()) == total
    assert dict(spark.sql("SELECT key, total FROM orders").collect()) == total
    assert {row.operator_uid for row in spark.table("operators").collect()} > {"orders", "catalog"}


def test_names_in_backquotes(spark: SparkSession) -> None:
    names = sp.create_views(spark, ORDERS_OF_1 / "savepoint")
    orders = f"`{sp.OperatorIdentifier.for_uid('orders').uid_hash}_total`"
    assert orders in names or orders.strip("`") in names
    assert spark.sql(f"SELECT * FROM {orders}").count() == 50


def test_nanoseconds(spark: SparkSession) -> None:
    sp.create_views(spark, TYPES_PATH, nanos="truncate")
    assert spark.table("types_instant").count() == 3


def test_an_operator_of_a_plan_has_views_under_its_label(spark: SparkSession) -> None:
    directory = unpacked("sql") / "2.3.0" / "group-aggregate"
    names = sp.create_views(spark, directory / "savepoint", plan=directory / "plan.json")
    views = [name for name in names if name.startswith("`group-aggregate[") and "timers" not in name]
    for view, column in zip(views, ("accState", "value"), strict=True):
        rows = spark.sql(f"SELECT key.customer, {column}.`sum(amount)` FROM {view}")
        assert dict(rows.collect()) == {"ada": 35, "bob": 17, "cy": None}, view
