"""What runs the two passes of a write: Spark, or this process alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from state_processor.row_batches import counted_batches
from state_processor.runs import RUNS, GatherBlobs, NotePlaces, Run, runs_of
from state_processor.same_keys import quoted
from state_processor.spark_versions import REPARTITIONS_BY_ID, spark_schema
from state_processor.task_errors import failures_of_tasks
from state_processor.write_tasks import MESSAGES, PLACED_BLOBS, Batches, InSubtask, PlaceBlobs, SubtaskWriter

_BLOB_SCHEMA: Final = spark_schema(PLACED_BLOBS)
_RUN_SCHEMA: Final = spark_schema(RUNS)
_MESSAGE_SCHEMA: Final = spark_schema(MESSAGES)
_ORDER: Final = ("key_group", "state", "phase")
_COPY_TASKS: Final = 256
_PLACES: Final = RUNS.names[0]
_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 16

Task = Callable[[Batches], Iterator[pa.RecordBatch]]
"""Maps the batches of a partition to others; it can be pickled."""
Written = dict[int, tuple[Any, int]]
"""By subtask: the handle of its file, and the number of entries."""


class Engine(Protocol):
    """Runs tasks. What it takes as rows, and hands from the first pass to the second, is its own business."""

    shuffles: bool
    """Whether large blobs may pass from the first pass to the second, not only their places in files."""

    def encode_rows(self, rows: Any, columns: Sequence[str], task: PlaceBlobs) -> Any:
        """Pass 1 over some columns of rows; ``task`` gives blobs."""

    def encode_parts(self, count: int, task: PlaceBlobs) -> Any:
        """Pass 1 over parts of a base: ``task`` is given their numbers."""

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """What ``task`` has to tell of each part, by number."""

    def write_subtasks(self, blobs: Sequence[Any], parallelism: int, write: SubtaskWriter) -> Written:
        """Pass 2: each subtask's blobs, in order, into its file."""


@dataclass(frozen=True)
class FirstPass:
    """What the tasks of a first pass give, and what rows they are given."""

    frame: DataFrame
    rows: StructType

    @classmethod
    def over(cls, rows: DataFrame, task: PlaceBlobs) -> FirstPass:
        """The blobs of rows, or where in files they are."""
        if task.in_files:
            return cls(rows.mapInArrow(NotePlaces(task), _RUN_SCHEMA), rows.schema)
        return cls(rows.mapInArrow(task, _BLOB_SCHEMA), rows.schema)


class SparkEngine:
    """Runs tasks in the executors of Spark."""

    shuffles = REPARTITIONS_BY_ID

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def encode_rows(self, rows: DataFrame, columns: Sequence[str], task: PlaceBlobs) -> FirstPass:
        """See :class:`Engine`; rows are a DataFrame."""
        return FirstPass.over(rows.select(*(f.col(quoted(c)) for c in columns)), task)

    def encode_parts(self, count: int, task: PlaceBlobs) -> FirstPass:
        """See :class:`Engine`; every part is a task of its own."""
        return FirstPass.over(self._spark.range(0, count, 1, count), task)

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`; small parts share a task."""
        if not count:
            return {}
        parts = self._spark.range(0, count, 1, min(count, _COPY_TASKS))
        with failures_of_tasks():
            messages = parts.mapInArrow(task, _MESSAGE_SCHEMA).collect()
        return {m.subtask: pickle.loads(m.handle) for m in messages}

    def write_subtasks(self, blobs: Sequence[FirstPass], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`; every subtask is a task."""
        written: Written = {}
        if blobs:
            together = reduce(DataFrame.unionAll, [b.frame for b in blobs])
            in_files = _PLACES in together.columns
            gather = self._from_files if in_files else self._from_shuffle
            # A job with a shuffle hands blobs to Python as well, and they are large.
            schemas = [b.rows for b in blobs] if in_files else [_BLOB_SCHEMA]
            with failures_of_tasks(), counted_batches(self._spark, schemas):
                written = {m.subtask: (pickle.loads(m.handle), m.entries) for m in gather(together, parallelism, write).collect()}
        for subtask in set(range(parallelism)) - set(written):  # Spark may leave out what it knows to be empty
            written[subtask] = write(subtask, ())
        return written

    def _from_files(self, runs: DataFrame, parallelism: int, write: SubtaskWriter) -> DataFrame:
        found = [Run(row.places, tuple(row.subtasks)) for row in runs.collect()]
        subtasks = self._spark.range(0, parallelism, 1, parallelism)
        return subtasks.mapInArrow(GatherBlobs(write, found), _MESSAGE_SCHEMA)

    @staticmethod
    def _from_shuffle(blobs: DataFrame, parallelism: int, write: SubtaskWriter) -> DataFrame:
        """A partition has the number of its subtask."""
        ordered = blobs.repartitionById(parallelism, "subtask").sortWithinPartitions(*_ORDER)
        return ordered.mapInArrow(InSubtask(write), _MESSAGE_SCHEMA)


class LocalEngine:
    """Runs tasks in threads of this process; rows are encoded already, by tasks elsewhere.

    The work of tasks is done by compiled functions, and by waiting for files: neither keeps other threads from theirs.
    """

    shuffles = False

    def encode_rows(self, rows: Sequence[Run], columns: Sequence[str], task: PlaceBlobs) -> Sequence[Run]:
        """See :class:`Engine`."""
        return rows

    def encode_parts(self, count: int, task: PlaceBlobs) -> Sequence[Run]:
        """See :class:`Engine`."""
        shares = [range(i, count, _LOCAL_THREADS) for i in range(min(count, _LOCAL_THREADS))]
        return runs_of(_in_threads(NotePlaces(task), shares, _LOCAL_THREADS))

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`."""
        batches = _in_threads(task, [range(i, i + 1) for i in range(count)], _LOCAL_THREADS)
        return {m["subtask"]: pickle.loads(m["handle"]) for b in batches for m in b.to_pylist()}

    def write_subtasks(self, blobs: Sequence[Sequence[Run]], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`."""
        gather = GatherBlobs(write, [run for runs in blobs for run in runs])
        threads = _LOCAL_THREADS if write.staging.is_local else _REMOTE_THREADS
        batches = _in_threads(gather, [range(i, i + 1) for i in range(parallelism)], threads)
        return {m["subtask"]: (pickle.loads(m["handle"]), m["entries"]) for b in batches for m in b.to_pylist()}


def _in_threads(task: Task, shares: Sequence[range], threads: int) -> list[pa.RecordBatch]:
    """What a task gives for each share of numbers."""
    with ThreadPoolExecutor(threads) as pool:
        return [batch for batches in pool.map(partial(_run, task), shares) for batch in batches]


def _run(task: Task, share: range) -> list[pa.RecordBatch]:
    return list(task([pa.RecordBatch.from_pydict({"id": list(share)})]))
