"""The engine that runs the two passes of a write as jobs of Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from state_processor.same_keys import quoted
from state_processor.spark.row_batches import counted_batches
from state_processor.spark.schemas import spark_schema
from state_processor.spark.task_errors import failures_of_tasks
from state_processor.spark.versions import REPARTITIONS_BY_ID
from state_processor.write.engines import Task, Written
from state_processor.write.shuffle import SHUFFLED_BLOBS, ShuffleBlobs
from state_processor.write.shuffle_index import SHUFFLE_INDEXES, ShuffleIndex, WriteShuffleIndex, WriteSubtasks
from state_processor.write.subtask_files import SubtaskWriter, WritePartition
from state_processor.write.task_data import TASK_RESULTS

_BLOB_SCHEMA: Final = spark_schema(SHUFFLED_BLOBS)
_INDEX_SCHEMA: Final = spark_schema(SHUFFLE_INDEXES)
_RESULT_SCHEMA: Final = spark_schema(TASK_RESULTS)
_ORDER: Final = ("key_group", "state", "phase")
_COPY_TASKS: Final = 256
_INDEX_FILE: Final = SHUFFLE_INDEXES.names[0]

@dataclass(frozen=True)
class FirstPass:
    """What the tasks of a first pass give, and what rows they are given."""

    frame: DataFrame
    rows: StructType

    @classmethod
    def over(cls, rows: DataFrame, task: ShuffleBlobs) -> FirstPass:
        """The blobs of rows, or where in files they are."""
        if task.in_files:
            return cls(rows.mapInArrow(WriteShuffleIndex(task), _INDEX_SCHEMA), rows.schema)
        return cls(rows.mapInArrow(task, _BLOB_SCHEMA), rows.schema)


class SparkEngine:
    """Runs tasks in the executors of Spark."""

    shuffles = REPARTITIONS_BY_ID

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def encode_rows(self, rows: DataFrame, columns: Sequence[str], task: ShuffleBlobs) -> FirstPass:
        """See :class:`Engine`; rows are a DataFrame."""
        return FirstPass.over(rows.select(*(f.col(quoted(c)) for c in columns)), task)

    def encode_parts(self, count: int, task: ShuffleBlobs) -> FirstPass:
        """See :class:`Engine`; every part is a task of its own."""
        return FirstPass.over(self._spark.range(0, count, 1, count), task)

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`; small parts share a task."""
        if not count:
            return {}
        parts = self._spark.range(0, count, 1, min(count, _COPY_TASKS))
        with failures_of_tasks():
            messages = parts.mapInArrow(task, _RESULT_SCHEMA).collect()
        return {m.subtask: pickle.loads(m.handle) for m in messages}

    def write_subtasks(self, blobs: Sequence[FirstPass], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`; every subtask is a task."""
        written: Written = {}
        if blobs:
            together = reduce(DataFrame.unionAll, [b.frame for b in blobs])
            in_files = _INDEX_FILE in together.columns
            gather = self._from_files if in_files else self._from_shuffle
            # A job with a shuffle hands blobs to Python as well, and they are large.
            schemas = [b.rows for b in blobs] if in_files else [_BLOB_SCHEMA]
            with failures_of_tasks(), counted_batches(self._spark, schemas):
                written = {m.subtask: (pickle.loads(m.handle), m.entries) for m in gather(together, parallelism, write).collect()}
        for subtask in set(range(parallelism)) - set(written):  # Spark may leave out what it knows to be empty
            written[subtask] = write(subtask, ())
        return written

    def _from_files(self, runs: DataFrame, parallelism: int, write: SubtaskWriter) -> DataFrame:
        found = [ShuffleIndex(row.index_file, tuple(row.subtasks)) for row in runs.collect()]
        subtasks = self._spark.range(0, parallelism, 1, parallelism)
        return subtasks.mapInArrow(WriteSubtasks(write, found), _RESULT_SCHEMA)

    @staticmethod
    def _from_shuffle(blobs: DataFrame, parallelism: int, write: SubtaskWriter) -> DataFrame:
        """A partition has the number of its subtask."""
        ordered = blobs.repartitionById(parallelism, "subtask").sortWithinPartitions(*_ORDER)
        return ordered.mapInArrow(WritePartition(write), _RESULT_SCHEMA)
