"""Engine that runs the two passes of a write as jobs of Spark: one for each pass, whatever the number of operators and states."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, chain, zip_longest
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from state_processor.backends.write.staging import Staging
from state_processor.spark.dataframe_rows import SparkRows, quoted, rows_of
from state_processor.spark.planned_read import expected_bytes, few_partitions, grouped
from state_processor.spark.schemas import spark_schema
from state_processor.spark.sessions import send_package
from state_processor.spark.task_errors import failures_of_tasks
from state_processor.spark.versions import REPARTITIONS_BY_ID
from state_processor.support.redaction import redacted
from state_processor.write.tasks.local_engine import EncodedRows, LocalEngine
from state_processor.write.tasks.passes import (
    BLOB_INDEXES,
    SPILLED_BLOBS,
    TASK_RESULTS,
    Batches,
    BlobIndex,
    EncodeParts,
    EncodeTables,
    FirstPass,
    PartEncoder,
    RowsPass,
    RunParts,
    SecondPass,
    SourcePart,
    StateFiles,
    TableEncoding,
    Task,
    Written,
    blob_indexes,
    results_by_number,
)

_MOST_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNMEASURED: Final = str(2**31 - 1)
_ROWS_WITH_TEXT: Final = 500
_OF_ANY_SIZE: Final = (t.ArrayType, t.MapType, t.BinaryType, t.VariantType, t.UserDefinedType)
_TEXT: Final = (t.StringType, t.CharType, t.VarcharType)


def with_counted_batches(query: DataFrame, schemas: Iterable[t.StructType]) -> DataFrame:
    """Return a query with batches that are counted instead of measured, if that bounds them.

    A session whose ``spark.sql.execution.arrow.maxBytesPerBatch`` was set by its user keeps its bounds. So do queries of
    Spark Connect: they can't be moved to another session.

    ``schemas``: schemas of the rows that it hands to Python workers.
    """
    if not hasattr(query, "_jdf"):
        return query
    settings = query.sparkSession.conf
    rows = int(settings.get(_MOST_ROWS) or 0)
    leaves = list(chain.from_iterable(map(_leaves, schemas)))
    if _MOST_BYTES in settings.getAll or rows <= 0 or any(isinstance(leaf, _OF_ANY_SIZE) for leaf in leaves):
        return query
    if any(isinstance(leaf, _TEXT) for leaf in leaves):
        rows = min(rows, _ROWS_WITH_TEXT)
    return _in_clone(query, {_MOST_BYTES: _UNMEASURED, _MOST_ROWS: str(rows)})


def _in_clone(query: Any, settings: dict[str, str]) -> DataFrame:
    """Return a query in a clone of its session with other settings, by Spark's own classes: Python has no API for it."""
    spark = query.sparkSession
    clone = spark._jsparkSession.cloneSession()
    for name, value in settings.items():
        clone.conf().set(name, value)
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(clone, query._jdf.queryExecution().analyzed()), spark)


def _leaves(type_: t.DataType) -> Iterator[t.DataType]:
    if isinstance(type_, t.StructType):
        for field in type_:
            yield from _leaves(field.dataType)
    else:
        yield type_


_ROWS_BYTES: Final = 8 << 20
COPIED_BYTES: Final = 256 << 20
"""Copying so many bytes costs as much as a job; more are copied by tasks, which are on several machines."""


def are_small(files: Sequence[StateFiles]) -> bool:
    """Return whether files are stores with few rows above the files that they had, as far as Spark knows before it runs a job."""
    copied = 0
    frames: dict[int, DataFrame] = {}
    for job in files:
        if job.copied is None or job.parts:
            return False
        copied += job.copied
        for rows_pass in job.rows:
            frames[id(rows_pass.rows.frame)] = rows_pass.rows.frame
    return copied <= COPIED_BYTES and sum(map(expected_bytes, frames.values())) <= _ROWS_BYTES


def write_in_driver(files: Sequence[StateFiles], staging: Staging) -> list[Written]:
    """Run both passes in threads of the driver, which collects the rows: a job of Spark would cost more than the change."""
    collected: dict[int, pa.Table] = {}
    encoded = []
    for job in files:
        rows = [_encoded(rows_pass, staging, collected) for rows_pass in job.rows]
        encoded.append(replace(job, rows=rows))
    return LocalEngine().write_files(encoded, staging)


def _encoded(rows_pass: RowsPass, staging: Staging, collected: dict[int, pa.Table]) -> RowsPass:
    rows: SparkRows = rows_pass.rows
    table = collected.get(id(rows.frame))
    if table is None:
        table = collected[id(rows.frame)] = rows.to_arrow()
    first_pass = FirstPass(rows_pass.task, staging, spills=False)
    indexes = blob_indexes(first_pass(table.select(list(rows_pass.columns)).to_batches()))
    return replace(rows_pass, rows=EncodedRows(rows.schema, indexes))


_BLOB_SCHEMA: Final = spark_schema(SPILLED_BLOBS)
_INDEX_SCHEMA: Final = spark_schema(BLOB_INDEXES)
_RESULT_SCHEMA: Final = spark_schema(TASK_RESULTS)
_ORDER: Final = ("key_group", "state", "phase")
_DESCRIPTION: Final = "spark.job.description"
_T = TypeVar("_T")
_FILES_TOGETHER: Final = 1000
"""Operators are written together up to this number of files: tasks are sent the places of the blobs of all of them."""


@dataclass(frozen=True)
class InWorker:
    """A task as workers run it."""

    task: Task

    @property
    def __name__(self) -> str:
        """Spark shows it in plans and in its user interface."""
        return _name(self.task)

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        return self.task(batches)


def _name(task: Callable[..., Any]) -> str:
    return getattr(task, "__name__", type(task).__name__)


@dataclass(frozen=True)
class WritePartition:
    """Pass 2 over shuffled blobs: a partition has the number of its file."""

    second_pass: SecondPass

    def __call__(self, blobs: Batches) -> Iterator[pa.RecordBatch]:
        """Yield one of :data:`~state_processor.write.tasks.passes.TASK_RESULTS`."""
        context = TaskContext.get()
        assert context is not None  # this is a task
        yield self.second_pass.write_file(context.partitionId(), blobs)


class SparkEngine:
    """Runs tasks in the executors of Spark; see :class:`~state_processor.write.tasks.passes.Engine` for the methods."""

    def __init__(self, spark: SparkSession) -> None:
        send_package(spark)
        self.spark = spark

    def cancel(self) -> None:
        """Cancel the jobs of the session."""
        self.spark.interruptAll()

    def run_parts(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """Return the result for each part; small parts share a task."""
        if not parts:
            return []
        groups = _groups(list(enumerate(parts)), lambda numbered: numbered[1].size)
        with failures_of_tasks(), described_jobs(self.spark, f"{_name(task)}: {len(parts)} parts of snapshots"):
            rows = self._numbers(len(groups)).mapInArrow(InWorker(RunParts(task, groups)), _RESULT_SCHEMA).collect()
        results = {row.number: pickle.loads(row.value) for row in rows}
        return [results[number] for number in range(len(parts))]

    def copy_files(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """Return the result for each part; a few are copied in the driver."""
        in_driver = sum(part.size for part in parts) <= COPIED_BYTES
        return (LocalEngine() if in_driver else self).run_parts(parts, task)

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """Run a job for each pass, or none for small changes."""
        with described_jobs(self.spark, f"Write savepoint {redacted(str(staging.directory))}"):
            return self._write_files(self._in_frames(files), staging)

    def _in_frames(self, files: Sequence[StateFiles]) -> list[StateFiles]:
        """Return passes over DataFrames: changes that read a snapshot in this process have rows of Arrow."""
        frames: dict[int, SparkRows] = {}

        def in_frame(rows_pass: RowsPass) -> RowsPass:
            rows = rows_pass.rows
            if id(rows) not in frames:
                frames[id(rows)] = rows if isinstance(rows, SparkRows) else rows_of(self.spark, rows.to_arrow())
            return replace(rows_pass, rows=frames[id(rows)])

        return [replace(job, rows=list(map(in_frame, job.rows))) for job in files]

    def _write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        if are_small(files):
            return write_in_driver(files, staging)
        results: dict[int, Written] = {}
        in_files = [staging.is_local or not REPARTITIONS_BY_ID or job.write.deals for job in files]
        for kind in sorted(set(in_files)):
            for batch in _together([(i, job) for i, job in enumerate(files) if in_files[i] == kind]):
                written = self._write_together([job for _, job in batch], staging, in_files=kind)
                results |= {i: files for (i, _), files in zip(batch, written, strict=True)}
        return [results[i] for i in range(len(files))]

    def _write_together(self, files: Sequence[StateFiles], staging: Staging, *, in_files: bool) -> list[Written]:
        *firsts, total = accumulate((job.parallelism for job in files), initial=0)
        second_pass = SecondPass([(first, job.write) for first, job in zip(firsts, files, strict=True)], staging)
        written: Written = {}
        blobs = self._first_passes(files, firsts, staging, in_files)
        if blobs is not None:
            with failures_of_tasks():
                if in_files:
                    second = self._from_files(blobs, total, second_pass)
                else:
                    second = self._from_shuffle(blobs, total, second_pass)
                written = {r.number: pickle.loads(r.value) for r in second.collect()}
        for number in set(range(total)) - set(written):  # Spark may leave out empty partitions
            written |= results_by_number([second_pass.write_file(number, ())])
        by_job = []
        for first, job in zip(firsts, files, strict=True):
            numbers = range(job.parallelism)
            by_job.append({number: written[first + number] for number in numbers})
        return by_job

    def _first_passes(
        self, files: Sequence[StateFiles], firsts: Sequence[int], staging: Staging, in_files: bool
    ) -> DataFrame | None:
        """Return the results of pass 1, not computed yet: index files, or blobs where these are shuffled."""
        passes_over_rows: list[tuple[int, RowsPass]] = []
        encoders: list[tuple[int, PartEncoder]] = []
        numbered: list[tuple[int, SourcePart]] = []
        for first, job in zip(firsts, files, strict=True):
            passes_over_rows += ((first, rows_pass) for rows_pass in job.rows)
            for parts_pass in job.parts:
                numbered += ((len(encoders), part) for part in parts_pass.parts)
                encoders.append((first, parts_pass.encode))
        inputs = list(map(_encoding, _with_same_types(_by_frame(passes_over_rows))))
        if encoders:
            groups = _groups(numbered, lambda numbered_part: numbered_part[1].size)
            inputs.append((self._numbers(len(groups)), EncodeParts(tuple(encoders), groups)))
        if not inputs:
            return None
        return _first_pass(inputs, staging, in_files)

    def _from_files(self, indexes: DataFrame, count: int, second_pass: SecondPass) -> DataFrame:
        """Run pass 1, and return the results of pass 2."""
        blob_indexes = [BlobIndex(row.index_file, tuple(row.subtasks), tuple(row.sizes)) for row in indexes.collect()]
        sizes = Counter[int]()
        for index in blob_indexes:
            sizes.update(dict(zip(index.subtasks, index.sizes, strict=True)))
        groups = _groups(range(count), lambda number: sizes[number])
        task = replace(second_pass, indexes=blob_indexes, groups=groups)
        return self._numbers(len(groups)).mapInArrow(InWorker(task), _RESULT_SCHEMA)

    @staticmethod
    def _from_shuffle(blobs: DataFrame, count: int, second_pass: SecondPass) -> DataFrame:
        """Shuffle blobs so that each partition has the number of its file."""
        ordered = blobs.repartitionById(count, "subtask").sortWithinPartitions(*_ORDER)
        return ordered.mapInArrow(InWorker(WritePartition(second_pass)), _RESULT_SCHEMA)

    def _numbers(self, count: int) -> DataFrame:
        """Return the numbers of tasks, one for each."""
        return self.spark.range(0, count, 1, count)


def _together(files: Sequence[tuple[int, StateFiles]]) -> list[list[tuple[int, StateFiles]]]:
    together: list[list[tuple[int, StateFiles]]] = []
    count = _FILES_TOGETHER
    for number, job in files:
        if count + job.parallelism > _FILES_TOGETHER:
            together.append([])
            count = 0
        together[-1].append((number, job))
        count += job.parallelism
    return together


class _Table(NamedTuple):
    """Columns of a DataFrame, and all that is encoded from them."""

    frame: DataFrame
    types: tuple[str, ...]
    encoding: TableEncoding


def _by_frame(passes: Sequence[tuple[int, RowsPass]]) -> list[_Table]:
    """Group the passes over the same rows, so that the rows are read once."""
    by_frame: dict[int, list[tuple[int, RowsPass]]] = {}
    for first, rows_pass in passes:
        by_frame.setdefault(id(rows_pass.rows.frame), []).append((first, rows_pass))
    tables = []
    for same in by_frame.values():
        columns = tuple(dict.fromkeys(chain.from_iterable(rows_pass.columns for _, rows_pass in same)))
        rows = same[0][1].rows
        types = tuple(str(rows.schema.field(column).type) for column in columns)
        encoding = TableEncoding(columns, tuple((first, rows_pass.encode) for first, rows_pass in same))
        tables.append(_Table(rows.frame, types, encoding))
    return tables


def _with_same_types(tables: Sequence[_Table]) -> list[list[_Table]]:
    by_types: dict[tuple[str, ...], list[_Table]] = {}
    for table in tables:
        by_types.setdefault(table.types, []).append(table)
    return list(by_types.values())


def _encoding(tables: Sequence[_Table]) -> tuple[DataFrame, Task]:
    """Return the rows of tables with the same types, and the task that encodes them."""
    encode = EncodeTables(tuple(table.encoding for table in tables))
    if len(tables) == 1:
        (table,) = tables
        return table.frame.select(*_numbered(table)), encode
    together = _union([table.frame.select(f.lit(i), *_numbered(table)) for i, table in enumerate(tables)])
    return few_partitions(together), encode


def _numbered(table: _Table) -> list[Column]:
    """Return the columns by number: PySpark does not find columns with dots in their names when it hands rows to workers."""
    return [f.col(quoted(column)).alias(f"column{i}") for i, column in enumerate(table.encoding.columns)]


def _first_pass(inputs: Sequence[tuple[DataFrame, Task]], staging: Staging, in_files: bool) -> DataFrame:
    """Return the results of tasks over rows: index files, or blobs where these are shuffled."""
    results = []
    for frame, encode in inputs:
        task = FirstPass(encode, staging, spills=in_files, indexes=in_files)
        results.append(frame.mapInArrow(InWorker(task), _INDEX_SCHEMA if in_files else _BLOB_SCHEMA))
    together = _union(results)
    return with_counted_batches(together, [frame.schema for frame, _ in inputs]) if in_files else together


def _union(frames: list[DataFrame]) -> DataFrame:
    """Return the rows of all; a balanced tree, because Spark analyzes a union together with all that is below it."""
    while len(frames) > 1:
        pairs = zip_longest(frames[::2], frames[1::2])
        frames = [left_frame if right_frame is None else left_frame.unionAll(right_frame) for left_frame, right_frame in pairs]
    return frames[0]


def _groups(items: Sequence[_T], size: Callable[[_T], int]) -> tuple[tuple[_T, ...], ...]:
    return tuple(map(tuple, grouped(items, size=size)))


@contextmanager
def described_jobs(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs that this thread starts in the block. Afterwards the description is the one of the caller again.

    Clients of Spark Connect can't describe jobs.
    """
    if not hasattr(spark, "_jsparkSession"):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, description)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # null removes it
