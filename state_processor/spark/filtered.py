"""Rows of a state that fulfil an expression of SQL, for programs without a session of Spark."""

from __future__ import annotations

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
from state_processor.read.requests import StateRequest
from state_processor.read.sources import splits_of
from state_processor.serializers.errors import OptionError
from state_processor.spark.java import check_java
from state_processor.spark.planned_read import planned_read
from state_processor.spark.schemas import arrow_schema_of, spark_schema
from state_processor.spark.task_errors import unwrap_spark_errors
from state_processor.types.identifier import OperatorIdentifier

_SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": sys.stderr.isatty(),
    "spark.log.level": "ERROR",
}


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
    opened = request.open(request.find(access.open(path)))
    source, reader = opened.source, opened.reader
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        check_java("--where")
    session = SparkSession.getActiveSession() or SparkSession.builder.config(map=_SETTINGS).master("local[*]").getOrCreate()
    spark = session.newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    getLogger("SQLQueryContextLogger").setLevel(CRITICAL)  # the error has Spark's reason
    serializers = TaskSerializers.of_driver(access.serializers)
    splits, schema = splits_of(reader, source), spark_schema(reader.schema)
    rows = planned_read(spark, reader, splits, schema, serializers, source.label, source.split_size)
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
