"""Columns whose values would change on the way into state: refused in words that name the place, the types and the cast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
INT_KEY = r"operator orders: state '\w+'.*column 'key' is of Spark type int; the type STRING takes string; cast it: CAST\(key AS"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, s: w.update_keyed_state("orders", "total", s.sql("SELECT 1 AS key, 1L AS value")), INT_KEY),
        (lambda w, s: w.delete_keys("orders", s.sql("SELECT 1 AS key")), INT_KEY),
        (lambda w, s: w.delete_keys("orders", s.sql("SELECT 1 AS key"), state="total"), INT_KEY),
        (lambda w, s: w.delete_map_entries("orders", "items", s.sql("SELECT 1 AS key, 'a' AS map_key")), INT_KEY),
        (
            lambda w, s: w.update_keyed_state("orders", "items", s.sql("SELECT 'a' AS key, 1 AS map_key, 1L AS map_value")),
            "state 'items'.*column 'map_key' is of Spark type int; the type STRING takes string",
        ),
        (
            lambda w, s: w.with_list_state("catalog", "pending", s.sql("SELECT 1L AS value"), T.STRING()),
            r"operator catalog: state 'pending': column 'value' is of Spark type bigint; the type STRING takes string",
        ),
        (
            lambda w, s: w.with_broadcast_state("catalog", "rules", s.sql("SELECT 1 AS key, 2 AS value"), T.STRING(), T.INT()),
            r"operator catalog: state 'rules': column 'key' is of Spark type int; the type STRING takes string",
        ),
    ],
)
def test_other_types_are_not_made_into_text(
    spark: SparkSession,
    tmp_path: Path,
    change: Callable[[sp.SavepointWriter, SparkSession], sp.SavepointWriter],
    message: str,
) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    with pytest.raises(sp.InvalidRowError, match=message):
        change(writer, spark).write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.parametrize("value", ["1e300D", "1e-50D", "0.1D", "16777217L"])
def test_numbers_that_a_float_can_not_hold(spark: SparkSession, tmp_path: Path, value: str) -> None:
    df = spark.sql(f"SELECT 7 AS key, {value} AS score")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("scores", df, states={"score": T.FLOAT()})
    with pytest.raises(sp.InvalidRowError, match=r"operator scores, state 'score', key 7, value .*no float is exactly this"):
        writer.write(tmp_path / "new")


def test_what_is_exact_is_written(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(
        """SELECT 1 AS key, 0.5D AS float, 1 AS double, 12345678901L AS big, CAST(1.50 AS decimal(10, 2)) AS price,
           CAST(2 AS tinyint) AS long"""
    )
    states = {"float": T.FLOAT(), "double": T.DOUBLE(), "big": T.BIG_INT(), "price": T.BIG_DEC(), "long": T.LONG()}
    sp.SavepointWriter.new(spark).with_keyed_state("o", df, states=states).write(tmp_path / "new")
    (row,) = sp.SavepointReader.read(spark, tmp_path / "new").read_keyed_state("o").collect()
    assert row.asDict() == {"key": 1, "float": 0.5, "double": 1.0, "big": "12345678901", "price": "1.50", "long": 2}
