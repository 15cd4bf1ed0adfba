"""Tasks of Spark: how much one takes, and DataFrames of state whose read the driver has planned.

Spark plans a read of a data source in Python processes of its own, two for each read, which import this package first. A read
that the driver has planned needs them only for its tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.stored_operator import snapshot_for_tasks
from state_processor.options.user_serializers import TaskSerializers
from state_processor.spark.sessions import send_package
from state_processor.spark.task_errors import raise_errors_of_tasks, without_traceback


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
            for batch in batches:
                for group in batch.column(0):
                    for part in pickle.loads(group.as_buffer()):
                        yield from self.reader.read(part)


def can_plan(spark: SparkSession) -> bool:
    """Return whether the driver plans reads: for clients of Spark Connect, Spark plans them."""
    return hasattr(spark, "_jsparkSession")


def rows_of_parts(
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


_SPLIT_BYTES: Final = 96 << 20
_SMALLEST_GROUP: Final = 4 << 20
_OPEN_BYTES: Final = 256 << 10
_WAYS: Final = 32

_Part = TypeVar("_Part")


def grouped(
    parts: Sequence[_Part], split_bytes: int | None = None, size: Callable[[_Part], Any] = attrgetter("size")
) -> list[list[_Part]]:
    """Return parts in groups of similar size, so that many small ones do not become as many tasks.

    A group has up to ``split_bytes``, but no more than a 32nd of all, for work to spread. Opening a part counts as reading a
    quarter of a megabyte.
    """
    sizes = [size(part) + _OPEN_BYTES for part in parts]
    target = min(split_bytes or _SPLIT_BYTES, max(_SMALLEST_GROUP, sum(sizes) // _WAYS))
    groups: list[list[_Part]] = []
    filled = target
    for part, bytes_ in zip(parts, sizes, strict=True):
        if filled + bytes_ > target:
            groups.append([])
            filled = 0
        groups[-1].append(part)
        filled += bytes_
    return groups


def few_partitions(rows: DataFrame) -> DataFrame:
    """Return rows of many small tables in fewer partitions, if Spark expects little of them; at least one for each core.

    Spark runs a task for each partition of a union, and sends it the plans of all tables.
    """
    if expected_bytes(rows) > _SPLIT_BYTES:
        return rows
    return rows.coalesce(rows.sparkSession.sparkContext.defaultParallelism)


def expected_bytes(rows: DataFrame) -> float:
    """Return the size of rows that Spark expects; infinite with Spark Connect, which does not tell."""
    if not hasattr(rows, "_jdf"):
        return inf
    return float(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
