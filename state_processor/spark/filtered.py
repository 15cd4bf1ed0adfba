"""Rows of a state that fulfil an expression of SQL, for programs without a session of Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from logging import CRITICAL, getLogger
from os import PathLike, environ
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from state_processor.options.access import SnapshotAccess
from state_processor.options.task_registrations import TaskSerializers
from state_processor.read.scans import StateRequest
from state_processor.read.sources import splits_of
from state_processor.serializers.errors import OptionError
from state_processor.spark.planned_read import planned_read
from state_processor.spark.schemas import arrow_schema_of, spark_schema
from state_processor.spark.task_errors import unwrap_spark_errors
from state_processor.types.identifier import OperatorIdentifier

_SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": sys.stderr.isatty(),
    "spark.log.level": "ERROR",
}
_OLDEST_JAVA: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 60.0


def filtered_batches(
    path: str | PathLike[str], operator: OperatorIdentifier, state: str | None, where: str, options: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Read rows of a state with Spark in this process.

    Parameters
    ----------
    path, operator, state
        As for :func:`state_processor.arrow.read_state`.
    where
        The expression.
    options
        Keyword arguments of :func:`state_processor.arrow.read_state`.

    Returns
    -------
    Iterator[pyarrow.RecordBatch]
        Batches of one schema, at least one, which come one after the other from the tasks.

    Raises
    ------
    OptionError
        If the text is not an expression, or names a column that does not exist.
    """
    given = dict(options)
    access = SnapshotAccess.among(given)
    request = StateRequest(operator, state, given.pop("kind", None), None, given)
    scan = request.open(request.find(access.open(path)))
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        _check_java("--where")
    session = SparkSession.getActiveSession() or SparkSession.builder.config(map=_SETTINGS).master("local[*]").getOrCreate()
    spark = session.newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    getLogger("SQLQueryContextLogger").setLevel(CRITICAL)  # the error has Spark's reason
    serializers = TaskSerializers.of_driver(access.serializers)
    splits, schema, snapshots = splits_of(scan.reader, scan.source), spark_schema(scan.schema), [scan.stored.snapshot]
    rows = planned_read(spark, scan.reader, snapshots, splits, schema, serializers, scan.source.label, scan.source.split_size)
    try:
        chosen = rows.where(where)
    except AnalysisException as problem:
        reason = str(problem).strip().partition("\n")[0].partition(" SQLSTATE")[0]
        columns = ", ".join(rows.columns)
        raise OptionError(f"--where {where!r} is not a condition on the columns {columns}: {reason}") from None
    schema = arrow_schema_of(chosen.schema)
    yield pa.RecordBatch.from_pylist([], schema)
    with unwrap_spark_errors():
        # PySpark does not find columns with dots in their names in the rows for workers.
        numbered = chosen.toDF(*map(str, range(len(schema))))
        for row in numbered.mapInArrow(_streams, "stream binary").toLocalIterator(prefetchPartitions=True):
            for batch in pa.ipc.open_stream(row.stream):
                yield from pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema).to_batches()


def _streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return batches as rows of bytes, which come to the driver one after the other."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"stream": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def _check_java(what: str) -> None:
    """Check that the machine has a Java that runs Spark, which ends with a trace of Java otherwise.

    Parameters
    ----------
    what
        What starts Spark, for the message.

    Raises
    ------
    OptionError
        If Java is missing or too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needs = f"{what} starts Spark, which needs Java {_OLDEST_JAVA} or later; set JAVA_HOME to a JDK"
    if java is None or not os.access(java, os.X_OK):
        raise OptionError(f"{needs}: {java or 'java'} was not found")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False).stderr
    except (OSError, subprocess.SubprocessError) as problem:
        raise OptionError(f"{needs}: {java} does not run ({problem})") from None
    version = _VERSION.search(told)
    if version is not None and int(version[1]) < _OLDEST_JAVA:
        raise OptionError(f"{needs}: {java} is Java {version[1]}")
