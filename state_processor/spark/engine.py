"""Engine that runs the two passes of a write as jobs of Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from state_processor.spark.packages import send_package
from state_processor.spark.row_batches import with_counted_batches
from state_processor.spark.rows import SparkRows
from state_processor.spark.same_keys import quoted
from state_processor.spark.schemas import spark_schema
from state_processor.spark.task_errors import failures_of_tasks
from state_processor.spark.versions import REPARTITIONS_BY_ID
from state_processor.spark.worker_process import spare_modules
from state_processor.write.engines import Task, Written
from state_processor.write.shuffle import SHUFFLED_BLOBS, ShuffleBlobs
from state_processor.write.shuffle_index import SHUFFLE_INDEXES, ShuffleIndex, WriteShuffleIndex, WriteSubtasks
from state_processor.write.subtask_files import SubtaskWriter
from state_processor.write.task_data import TASK_RESULTS, Batches, task_result

_BLOB_SCHEMA: Final = spark_schema(SHUFFLED_BLOBS)
_INDEX_SCHEMA: Final = spark_schema(SHUFFLE_INDEXES)
_RESULT_SCHEMA: Final = spark_schema(TASK_RESULTS)
_ORDER: Final = ("key_group", "state", "phase")
_COPY_TASKS: Final = 256
_INDEX_FILE: Final = SHUFFLE_INDEXES.names[0]


@dataclass(frozen=True)
class InWorker:
    """A task as workers run it."""

    task: Task

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        spare_modules()
        return self.task(batches)


@dataclass(frozen=True)
class FirstPass:
    """Results of a first pass, not computed yet, and the schema of the rows that its tasks are given."""

    frame: DataFrame
    rows: StructType

    @classmethod
    def over(cls, rows: DataFrame, task: ShuffleBlobs) -> FirstPass:
        """Return the index files of the tasks over some rows, or their blobs where these are shuffled."""
        if task.in_files:
            return cls(rows.mapInArrow(InWorker(WriteShuffleIndex(task)), _INDEX_SCHEMA), rows.schema)
        return cls(rows.mapInArrow(InWorker(task), _BLOB_SCHEMA), rows.schema)

    @property
    def is_in_files(self) -> bool:
        """True if the results are index files."""
        return _INDEX_FILE in self.frame.columns


@dataclass(frozen=True)
class WritePartition:
    """Pass 2 over shuffled blobs: the number of a partition is that of its subtask."""

    write: SubtaskWriter

    def __call__(self, blobs: Batches) -> Iterator[pa.RecordBatch]:
        """Yield one of :data:`~state_processor.write.task_data.TASK_RESULTS`."""
        context = TaskContext.get()
        assert context is not None  # this is a task
        subtask = context.partitionId()
        handle, entries = self.write(subtask, blobs)
        yield task_result(subtask, handle, entries)


class SparkEngine:
    """Runs tasks in the executors of Spark; see :class:`~state_processor.write.engines.Engine` for the methods."""

    shuffles = REPARTITIONS_BY_ID

    def __init__(self, spark: SparkSession) -> None:
        send_package(spark)
        self._spark = spark

    def cancel(self) -> None:
        """Cancel the jobs of the session."""
        self._spark.interruptAll()

    def encode_rows(self, rows: SparkRows, columns: Sequence[str], task: ShuffleBlobs) -> FirstPass:
        """Run pass 1 over rows of a DataFrame."""
        return FirstPass.over(rows.frame.select(*(f.col(quoted(c)) for c in columns)), task)

    def encode_parts(self, count: int, task: ShuffleBlobs) -> FirstPass:
        """Run pass 1 over parts of the source savepoint; every part is a task."""
        return FirstPass.over(self._spark.range(0, count, 1, count), task)

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """Return results by number of the part; small parts share a task."""
        if not count:
            return {}
        parts = self._spark.range(0, count, 1, min(count, _COPY_TASKS))
        with failures_of_tasks():
            results = parts.mapInArrow(InWorker(task), _RESULT_SCHEMA).collect()
        return {r.subtask: pickle.loads(r.handle) for r in results}

    def write_subtasks(self, blobs: Sequence[FirstPass], parallelism: int, write: SubtaskWriter) -> Written:
        """Run both passes; every subtask is a task of the second."""
        written: Written = {}
        if blobs:
            together = reduce(DataFrame.unionAll, [b.frame for b in blobs])
            with failures_of_tasks():
                if blobs[0].is_in_files:
                    second = self._from_files(with_counted_batches(together, [b.rows for b in blobs]), parallelism, write)
                else:
                    second = self._from_shuffle(together, parallelism, write)
                written = {r.subtask: (pickle.loads(r.handle), r.entries) for r in second.collect()}
        for subtask in set(range(parallelism)) - set(written):  # Spark may leave out partitions that it knows to be empty
            written[subtask] = write(subtask, ())
        return written

    def _from_files(self, indexes: DataFrame, parallelism: int, write: SubtaskWriter) -> DataFrame:
        found = [ShuffleIndex(row.index_file, tuple(row.subtasks)) for row in indexes.collect()]
        subtasks = self._spark.range(0, parallelism, 1, parallelism)
        return subtasks.mapInArrow(InWorker(WriteSubtasks(write, found)), _RESULT_SCHEMA)

    @staticmethod
    def _from_shuffle(blobs: DataFrame, parallelism: int, write: SubtaskWriter) -> DataFrame:
        """Shuffle blobs so that each partition has the number of its subtask."""
        ordered = blobs.repartitionById(parallelism, "subtask").sortWithinPartitions(*_ORDER)
        return ordered.mapInArrow(InWorker(WritePartition(write)), _RESULT_SCHEMA)
