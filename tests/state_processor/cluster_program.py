"""A Spark driver with a cluster of two hosts on this machine that executes its input lines.

Its master and its two workers run in the driver's JVM, like in ``local-cluster``, but with different addresses: Spark makes no
speculative attempt on the host of the first. The executors are processes of their own.

A request is a line of JSON, the name of a function below and its arguments; so is the answer: empty, or the error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

import state_processor as sp
from state_processor.spark import engine, planned_read
from tests import spark_jvms
from tests.spark_python import interpreter
from tests.waiting import wait_until

_HOSTS = ("127.0.0.1", "127.0.0.2")
_CONFIGURATION = {
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    # Spark hands SPARK_SUBMIT_OPTS to the driver alone
    "spark.executor.extraJavaOptions": spark_jvms.options(),
    "spark.log.level": "OFF",
    "spark.python.worker.module": "pyspark_with_faults",
    "spark.master.rest.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "3",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_FAULTS = "pyspark_with_faults"
engine.COPIED_BYTES = -1  # the driver writes nothing
planned_read._SMALLEST_GROUP = 0  # small parts do not share tasks, so that tasks can overtake others


def cluster(scratch: Path, python: str) -> SparkSession:
    """A session on two hosts with one core each."""
    home = str(Path(pyspark.__file__).parent)
    os.environ |= {"PYSPARK_PYTHON": python, "SPARK_HOME": home, "SPARK_SCALA_VERSION": "2.13"}
    configuration = SparkConf()
    environment = {n: v for n, v in os.environ.items() if n.startswith(("STATE_PROCESSOR", "PYTHONPATH", "NUMBA"))}
    for name, value in (_CONFIGURATION | {f"spark.executorEnv.{n}": v for n, v in environment.items()}).items():
        configuration.set(name, value)
    gateway = launch_gateway(configuration)
    jvm: Any = gateway.jvm
    settings = jvm.org.apache.spark.SparkConf(True)
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint(_HOSTS[0], 0, 0, settings)._1().address()
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = f"spark://{_HOSTS[0]}:{master.port()}"
    for i, host in enumerate(_HOSTS):
        number, none = jvm.scala.Some(i), jvm.scala.Option.empty()
        directory = str(scratch / f"worker-{i}")
        deploy.worker.Worker.startRpcEnvAndEndpoint(host, 0, 0, 1, 1024, masters, directory, number, settings, none)
    SparkContext(conf=configuration.setMaster(masters[0]).setAppName("failing writes"), gateway=gateway)
    session = SparkSession.builder.getOrCreate()
    sp.register(session, allow_serializers=[_FAULTS])
    return session


def rows(spark: SparkSession, first: int, end: int, partitions: int = 4) -> DataFrame:
    """Keys that no fixture has, with totals."""
    return spark.range(first, end, 1, partitions).selectExpr("concat('new-', id) AS key", "id AS value")


def by_writer(spark: SparkSession, base: str, target: str, overwrite: bool, first: int, end: int) -> None:
    """Adds keys to the base's state ``total`` with a :class:`SavepointWriter`."""
    writer = sp.SavepointWriter.from_existing(spark, base, serializers=[_FAULTS])
    writer.update_keyed_state("orders", "total", rows(spark, first, end)).write(target, overwrite=overwrite)


def natively(spark: SparkSession, base: str, target: str, overwrite: bool, first: int, end: int) -> None:
    """The same in files of RocksDB: new files, or files on top of a base with such files."""
    writer = sp.SavepointWriter.from_existing(spark, base, serializers=[_FAULTS])
    writer.update_keyed_state("orders", "total", rows(spark, first, end))
    writer.write(target, overwrite=overwrite, format="native", backend="rocksdb")


def by_sink(spark: SparkSession, base: str, target: str, overwrite: bool, first: int, end: int) -> None:
    """The same with the data source."""
    sink = rows(spark, first, end).write.format("flink-savepoint").option("uid", "orders").option("state", "total")
    sink.option("base", base).option("serializers", _FAULTS).mode("overwrite" if overwrite else "append").save(target)


def by_both(spark: SparkSession, base: str, targets: list[str], **arguments: Any) -> None:
    """Both at once: the second begins after the first, whose commit does not need executors, has begun its files."""
    first, second = targets

    def follow() -> None:
        wait_until(lambda: list(Path(first).glob("*-keyed-*")), "files of the first write")
        natively(spark, base, second, **arguments)

    Thread(target=follow, daemon=True).start()
    by_sink(spark, base, first, **arguments)


def by_code_that_fails(spark: SparkSession, base: str, target: str) -> None:
    """Rows from a function of the user's that fails at one of them."""

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(1)[0].as_py() >= 1000:
                raise ValueError("no total for " + batch.column(0)[0].as_py())
            yield batch

    df = rows(spark, 0, 8000).mapInArrow(failing, "key string, value long")
    sp.SavepointWriter.from_existing(spark, base).update_keyed_state("orders", "total", df).write(target)


def main() -> None:
    """Answer requests until the input ends."""
    sys.path.insert(0, str(Path(__file__).parent))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output is not an answer
    with interpreter() as python:
        spark = cluster(Path(sys.argv[1]), python)
        for line in sys.stdin:
            request = json.loads(line)
            answer = {}
            try:
                globals()[request.pop("function")](spark, **request)
            except Exception as problem:
                answer = {"type": type(problem).__name__, "message": str(problem), "notes": getattr(problem, "__notes__", [])}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
