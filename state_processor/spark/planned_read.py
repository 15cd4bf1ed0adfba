"""DataFrames of state whose read the driver has planned.

Spark plans a read of a data source in Python processes of its own, two for each read, which import this package first. A read
that the driver has planned needs them only for its tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.stored_operator import snapshot_for_tasks
from state_processor.options.user_serializers import TaskSerializers
from state_processor.spark.task_errors import raise_errors_of_tasks, without_traceback
from state_processor.spark.task_sizes import grouped
from state_processor.spark.worker_package import send_package


class PartReader(Protocol):
    """Reads parts of snapshots in tasks. It can be pickled."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one part."""


@dataclass(frozen=True)
class ReadState:
    """Task that reads parts of snapshots. An input row is a pickled group of parts."""

    reader: PartReader
    snapshots: tuple[Snapshot, ...]
    serializers: TaskSerializers
    label: str

    @property
    def __name__(self) -> str:
        """Spark shows it in plans and in its user interface."""
        return f"Flink state {self.label}"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's parts."""
        with without_traceback():
            self.serializers.enter()
            for snapshot in self.snapshots:
                snapshot.check_plan()
            for group in (group for batch in batches for group in batch.column(0)):
                for part in pickle.loads(group.as_buffer()):
                    yield from self.reader.read(part)


def can_plan(spark: SparkSession) -> bool:
    """Return whether the driver plans reads: for clients of Spark Connect, Spark plans them."""
    return hasattr(spark, "_jsparkSession")


def planned_read(
    spark: SparkSession,
    reader: PartReader,
    snapshots: Sequence[Snapshot],
    parts: Sequence[Any],
    schema: StructType,
    serializers: TaskSerializers,
    label: str,
    split_bytes: int | None = None,
) -> DataFrame:
    """Return the rows of parts of a snapshot.

    ``parts``: what to read; small parts share a task. ``schema``: the columns that ``reader`` yields. ``serializers``:
    serializers that users register. ``label``: what is read, which ``explain()`` and Spark's user interface show.
    ``split_bytes``: size of what one task reads; ``None`` for the default.
    """
    raise_errors_of_tasks()
    send_package(spark)
    read = ReadState(reader, tuple(map(snapshot_for_tasks, snapshots)), serializers, label)
    groups = list(map(pickle.dumps, grouped(parts, split_bytes)))
    return _in_tasks(spark, groups).mapInArrow(read, schema)


def _in_tasks(spark: Any, values: Sequence[bytes]) -> DataFrame:
    """Return rows with one binary column, each in a partition of its own. A partition is sent to its task only.

    Spark does not know the size of rows that come from an RDD, so that it does not take them for few. Clients of Spark
    Connect have no RDDs.
    """
    if not hasattr(spark, "_jsparkSession"):
        rows = spark.createDataFrame([(value,) for value in values], "part binary")
        return rows.repartition(max(1, len(values)))  # type: ignore[no-any-return]
    rows = spark.sparkContext._jsc.parallelize(list(values), max(1, len(values)))
    encoder = spark._jvm.org.apache.spark.sql.Encoders.BINARY()
    return DataFrame(spark._jsparkSession.createDataset(rows.rdd(), encoder).toDF(), spark)
