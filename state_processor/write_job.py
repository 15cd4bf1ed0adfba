"""What runs the two passes of a write: Spark, or this process alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from state_processor.datasource import spark_schema
from state_processor.row_shapes import quoted
from state_processor.task_errors import our_errors
from state_processor.write_tasks import MESSAGES, PLACED_BLOBS, Batches, InSubtask, SubtaskWriter

_BLOB_SCHEMA: Final = spark_schema(PLACED_BLOBS)
_MESSAGE_SCHEMA: Final = spark_schema(MESSAGES)
_ORDER: Final = ("key_group", "state", "phase")
_COPY_TASKS: Final = 256
_LOCAL_THREADS: Final = 4

Task = Callable[[Batches], Iterator[pa.RecordBatch]]
"""Maps the batches of a partition to others; it can be pickled."""
Written = dict[int, tuple[Any, int]]
"""By subtask: the handle of its file, and the number of entries."""


class Engine(Protocol):
    """Runs tasks. What it takes as rows, and hands from the first pass to the second, is its own business."""

    shuffles: bool
    """Whether large blobs may pass from the first pass to the second, not only their places in files."""

    def encode_rows(self, rows: Any, columns: Sequence[str], task: Task) -> Any:
        """Pass 1 over some columns of rows; ``task`` gives blobs."""

    def encode_parts(self, count: int, task: Task) -> Any:
        """Pass 1 over parts of a base: ``task`` is given their numbers."""

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """What ``task`` has to tell of each part, by number."""

    def write_subtasks(self, blobs: Sequence[Any], parallelism: int, write: SubtaskWriter) -> Written:
        """Pass 2: each subtask's blobs, in order, into its file."""


class SparkEngine:
    """Runs tasks in the executors of Spark."""

    shuffles = True

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def encode_rows(self, rows: DataFrame, columns: Sequence[str], task: Task) -> DataFrame:
        """See :class:`Engine`; rows are a DataFrame."""
        return rows.select(*(f.col(quoted(c)) for c in columns)).mapInArrow(task, _BLOB_SCHEMA)

    def encode_parts(self, count: int, task: Task) -> DataFrame:
        """See :class:`Engine`; every part is a task of its own."""
        return self._spark.range(0, count, 1, count).mapInArrow(task, _BLOB_SCHEMA)

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`; small parts share a task."""
        if not count:
            return {}
        parts = self._spark.range(0, count, 1, min(count, _COPY_TASKS))
        with our_errors():
            messages = parts.mapInArrow(task, _MESSAGE_SCHEMA).collect()
        return {m.subtask: pickle.loads(m.handle) for m in messages}

    def write_subtasks(self, blobs: Sequence[DataFrame], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`; every subtask is a task, whose partition has its number."""
        written: Written = {}
        if blobs:
            together = reduce(DataFrame.unionAll, blobs).repartitionById(parallelism, "subtask")
            ordered = together.sortWithinPartitions(*_ORDER)
            with our_errors():
                messages = ordered.mapInArrow(InSubtask(write), _MESSAGE_SCHEMA).collect()
            written = {m.subtask: (pickle.loads(m.handle), m.entries) for m in messages}
        for subtask in set(range(parallelism)) - set(written):  # Spark may leave out what it knows to be empty
            written[subtask] = write(subtask, ())
        return written


class LocalEngine:
    """Runs tasks in this process; rows are blobs already, which tasks elsewhere have encoded."""

    shuffles = False

    def encode_rows(self, rows: pa.Table, columns: Sequence[str], task: Task) -> pa.Table:
        """See :class:`Engine`."""
        return rows

    def encode_parts(self, count: int, task: Task) -> pa.Table:
        """See :class:`Engine`."""
        return pa.Table.from_batches(task([_numbers(count)]), PLACED_BLOBS)

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`."""
        return {m["subtask"]: pickle.loads(m["handle"]) for b in task([_numbers(count)]) for m in b.to_pylist()}

    def write_subtasks(self, blobs: Sequence[pa.Table], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`."""
        table = pa.concat_tables([PLACED_BLOBS.empty_table(), *blobs])
        table = table.sort_by([(c, "ascending") for c in ("subtask", *_ORDER)]).combine_chunks()
        subtasks = table.column("subtask").to_numpy()
        bounds = [int(b) for b in subtasks.searchsorted(range(parallelism + 1))]

        def one(subtask: int) -> tuple[Any, int]:
            own = table.slice(bounds[subtask], bounds[subtask + 1] - bounds[subtask])
            return write(subtask, own.to_batches())

        with ThreadPoolExecutor(_LOCAL_THREADS) as threads:
            return dict(enumerate(threads.map(one, range(parallelism))))


def _numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(count))})
