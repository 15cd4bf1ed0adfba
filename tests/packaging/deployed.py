"""Reads, patches and writes in a session that somebody else has configured. Prints what it found as JSON.

Arguments: the directory of a savepoint of the orders job, which may be relative, and a new directory.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

import state_processor as sp


def main(path: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    reader = sp.SavepointReader.read(spark, path)
    totals = reader.read_keyed_state("orders", "total")
    bonus = totals.where("key = 'amelia'").selectExpr("key", "value + 1000 AS value")
    sp.SavepointWriter.from_existing(spark, path).update_keyed_state("orders", "total", bonus).write(target)
    patched = sp.SavepointReader.read(spark, target).read_keyed_state("orders", "total", keys=["amelia"])
    sp.register(spark)
    named = spark.read.format("flink-savepoint").option("uid", "nobody").option("state", "total")
    try:
        named.load(os.path.abspath(path)).count()
    except sp.NotFoundError as problem:
        message = str(problem)
    found = {"module": sp.__file__, "keys": totals.count(), "patched": patched.first().value, "message": message}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
