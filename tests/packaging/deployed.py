"""Reads, patches, writes, and reads damaged state in a preconfigured session. Prints the results as JSON.

Arguments: the directory of a savepoint of the orders job, which may be relative, a new directory, and how often the keys are
counted: once, or with a filter that Spark pushes down and after it, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import state_processor as sp


def module_in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import state_processor

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"module": [state_processor.__file__]})


def main(path: str, target: str, counts: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
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
    worker = spark.range(1).mapInArrow(module_in_worker, "module string").first().module
    frames = (totals, totals.where("key = 'amelia'"), totals)[: int(counts)]
    found = {"patched": patched.first().value, "counts": [frame.count() for frame in frames]}
    frame = sp.SavepointReader.read(spark, target).read_keyed_state("orders", "total")
    for file in Path(target).glob("[!_]*"):  # after the read was planned, so that a task finds it
        file.write_bytes(file.read_bytes()[:-400] + 400 * b"\xff")
    try:
        frame.count()
    except sp.CorruptSnapshotError as problem:
        damage = str(problem)
    modules = {"module": sp.__file__, "worker": worker}
    print(json.dumps(modules | found | {"message": message, "damage": damage}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
