"""First steps of a new installation: read, patch and write. Prints the results as JSON.

Arguments: the directory of a savepoint of the orders job, a new directory, and ``arrow`` or ``spark``.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import state_processor as sp

PLACE = ("127.0.0.1", "driver.bindAddress"), ("127.0.0.1", "driver.host"), ("false", "ui.enabled"), ("OFF", "log.level")


def with_arrow(path: str) -> dict[str, Any]:
    batches = sp.arrow.read_state(path, "orders", "total", keys=["amelia", "anders"])
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {"totals": sorted([row["key"], row["value"]] for row in rows), "operators": sp.arrow.operators(path).num_rows}


def with_spark(path: str, target: str) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for value, name in PLACE:
        builder = builder.config(f"spark.{name}", value)
    spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
    repeated = spark.read.format("flink-savepoint").options(uid="orders", state="total").load(path)
    reader = sp.SavepointReader.read(spark, path)
    totals = reader.read_keyed_state("orders", "total")
    bonus = totals.where("key = 'amelia'").selectExpr("key", "value + 1000 AS value")
    sp.SavepointWriter.from_existing(spark, path).update_keyed_state("orders", "total", bonus).write(f"{target}/patched")
    patched = sp.SavepointReader.read(spark, f"{target}/patched")
    numbers = spark.range(1000).selectExpr("id AS key", "CAST(id AS STRING) AS text")
    sp.SavepointWriter.new(spark, 128).with_keyed_state("numbers", numbers).write(f"{target}/new")
    sink = spark.range(100).selectExpr("id AS key", "id * 2 AS value").write.format("flink-savepoint").mode("append")
    sink.option("uid", "doubled").option("state", "double").save(f"{target}/sink")
    found = {
        "operators": reader.operators().count(),
        "states": reader.states().count(),
        "keys": totals.count(),
        "items": reader.read_keyed_state("orders", "items", keys=["amelia"]).count(),
        "patched": patched.read_keyed_state("orders", "total", keys=["amelia"]).first().value,
        "untouched": patched.read_keyed_state("orders", "total").where("key <> 'amelia'").count(),
        "new": sp.SavepointReader.read(spark, f"{target}/new").read_keyed_state("numbers", "text").count(),
        "repeated": [frame.count() for frame in (repeated, repeated.where("key = 'amelia'"), repeated)],
        "sink": sp.SavepointReader.read(spark, f"{target}/sink").read_keyed_state("doubled").selectExpr("sum(double)").first()[0],
    }
    spark.stop()
    return found


def version_of_spark() -> str | None:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    savepoint, new, how = sys.argv[1:]
    result = with_arrow(savepoint) if how == "arrow" else with_spark(savepoint, new)
    print(json.dumps(result | {"module": sp.__file__, "pyspark": version_of_spark()}))
