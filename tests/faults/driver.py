"""Spark driver that executes writes from its input lines: ``python -m tests.faults.driver MASTER``.

A request is a line of JSON, the fields of a write and its API; so is the answer: empty, or the error. The first answer says that
the session is there.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final

from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.spark import engine
from state_processor.spark.engine import COPIED_BYTES
from tests import spark_jvms
from tests.faults.writes import Write

APIS: Final = ("writer", "sink", "native", "patch", "patch in tasks")
"""Writers of canonical and of native savepoints, the data source, and changes of a store, which the driver or tasks write."""
JAVA_OPTIONS: Final = spark_jvms.options()
_CONFIGURATION: Final = {
    "spark.cores.max": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "spark.log.level": "OFF",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_PARTITIONS: Final = 4


def write(spark: SparkSession, api: str, wanted: Write) -> None:
    """Write with one of :data:`APIS`."""
    engine.COPIED_BYTES = COPIED_BYTES if api != "patch in tasks" else -1
    rows = spark.range(wanted.first, wanted.end, 1, _PARTITIONS).selectExpr("concat('new-', id) AS key", "id AS value")
    if api != "sink":
        writer = sp.SavepointWriter.from_existing(spark, wanted.base).update_keyed_state("orders", "total", rows)
        form = {"format": "native", "backend": "rocksdb"} if api != "writer" else {}
        writer.write(wanted.target, overwrite=wanted.overwrite, **form)
        return
    sink = rows.write.format("flink-savepoint").option("uid", "orders").option("state", "total").option("base", wanted.base)
    sink.mode("overwrite" if wanted.overwrite else "append").save(wanted.target)


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output is not an answer
    builder = SparkSession.builder.master(sys.argv[1]).appName("faults")
    for name, value in _CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    sp.register(spark)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        try:
            write(spark, request.pop("api"), Write(**request))
        except Exception as problem:
            answer = {"type": type(problem).__name__, "message": str(problem), "notes": getattr(problem, "__notes__", [])}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
