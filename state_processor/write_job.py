"""Writing one operator with Spark: encode rows everywhere, bring key groups together, write one file per subtask."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from state_processor import errors
from state_processor.datasource import spark_schema
from state_processor.write_tasks import MESSAGES, PHASED_BLOBS, InSubtask, SubtaskWriter

_BLOB_SCHEMA: Final = spark_schema(PHASED_BLOBS)
_MESSAGE_SCHEMA: Final = spark_schema(MESSAGES)
_COPY_TASKS: Final = 256
_RAISED: Final = re.compile(r"^state_processor(?:\.\w+)*\.(\w+): ", re.MULTILINE)
_JVM_TRACE: Final = re.compile(r"\n(?:\s+at |\s*JVM stacktrace|Driver stacktrace|\n)")


def encode_rows(frame: DataFrame, task: Any) -> DataFrame:
    """Pass 1: rows as blobs; ``task`` maps record batches to batches of blobs."""
    return frame.mapInArrow(task, _BLOB_SCHEMA)


def encode_parts(spark: SparkSession, count: int, task: Any) -> DataFrame:
    """Pass 1 over parts of a base: ``task`` is given their numbers, one in each of ``count`` partitions."""
    return spark.range(0, count, 1, count).mapInArrow(task, _BLOB_SCHEMA)


def run_parts(spark: SparkSession, count: int, task: Any) -> dict[int, Any]:
    """What ``task`` has to tell of each part, by number; small parts share a task."""
    if not count:
        return {}
    tasks = min(count, _COPY_TASKS)
    with our_errors():
        messages = spark.range(0, count, 1, tasks).mapInArrow(task, _MESSAGE_SCHEMA).collect()
    return {m.subtask: pickle.loads(m.handle) for m in messages}


def write_subtasks(
    blobs: Sequence[DataFrame], parallelism: int, write: SubtaskWriter
) -> dict[int, tuple[Any, int]]:
    """Pass 2: each subtask's blobs, in order, into its file.

    Returns
    -------
    dict[int, tuple[Any, int]]
        By subtask: the handle, and the number of entries.
    """
    written: dict[int, tuple[Any, int]] = {}
    if blobs:
        together = reduce(DataFrame.unionAll, blobs).repartitionById(parallelism, "subtask")
        ordered = together.sortWithinPartitions("key_group", "state", "phase")
        with our_errors():
            messages = ordered.mapInArrow(InSubtask(write), _MESSAGE_SCHEMA).collect()
        written = {m.subtask: (pickle.loads(m.handle), m.entries) for m in messages}
    for subtask in set(range(parallelism)) - set(written):  # Spark may leave out what it knows to be empty
        written[subtask] = write(subtask, ())
    return written


@contextmanager
def our_errors() -> Iterator[None]:
    """Errors that were raised in tasks, as what they were there, instead of Spark's wrapping with the stack of everything."""
    try:
        yield
    except PySparkException as failure:
        found = translated(str(failure))
        if found is None:
            raise
        raise found from failure


def translated(text: str) -> errors.StateProcessorError | None:
    """The error of this library that a task's failure reports; ``None`` where there is none."""
    places = list(_RAISED.finditer(text))
    if not places:
        return None
    kind = getattr(errors, places[0][1], None)
    if kind is None:
        return None
    return kind(_JVM_TRACE.split(text[places[0].end() :], maxsplit=1)[0].strip())  # type: ignore[no-any-return]


