"""Engine that runs the tasks of a write in this process, and its rows."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from threading import Condition
from typing import Any, Final, NoReturn

import pyarrow as pa

from state_processor.backends.files.ordered_threads import chosen_threads, thread_count
from state_processor.backends.files.scratch import scratch_space
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.write.staging import Staging
from state_processor.display.progress import progress, progress_of_rows
from state_processor.options.access import SnapshotAccess
from state_processor.read.rows import Rows
from state_processor.read.scans import StateRequest
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError
from state_processor.support.locks import process_lock
from state_processor.support.recycled_memory import release
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.tasks.passes import (
    BlobIndex,
    EncodeParts,
    FirstPass,
    RowsPass,
    RunParts,
    SecondPass,
    SourcePart,
    StateFiles,
    Task,
    Written,
    blob_indexes,
    merge_batches,
    results_by_number,
)

_LOCAL_THREADS: Final = 4
_PARTS_PER_THREAD: Final = 4
_ENCODING_THREADS: Final = 2
_REMOTE_THREADS: Final = 16
_WORKING_BYTES: Final = 384 << 20
"""Memory of all threads that write files. A larger key group is written while no other thread writes."""


@dataclass(frozen=True)
class EncodedRows:
    """Rows that tasks elsewhere have encoded, or will encode: only their columns are known here."""

    schema: pa.Schema
    indexes: Sequence[BlobIndex] = ()
    case_sensitive: bool = True

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OptionError(
            "rows of this shape have to be gathered first, and a data source can't do this: write one row per key (read with "
            f"{spelled('flatten', False)}), or use SavepointWriter"
        )

    select = to_arrow = of_values = on_batches = by_key = numbered = once = without = with_matches = _refuse


class LocalEngine:
    """Runs tasks in threads of this process.

    Rows are :class:`EncodedRows` or :class:`~state_processor.write.rows.arrow_rows.ArrowRows`. Tasks call compiled functions
    and wait for files; other threads run meanwhile.

    ``scratch``: directory of the scratch space; ``None`` for the default directory. ``threads``: maximum number of threads;
    ``None`` for the variable ``STATE_PROCESSOR_THREADS``, or else for the default of each pass.
    """

    def __init__(self, scratch: str | None = None, threads: int | None = None) -> None:
        self._scratch = scratch
        self._threads = chosen_threads(threads)

    def run_parts(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """See :class:`~state_processor.write.tasks.passes.Engine`."""
        run = RunParts(task, tuple((numbered,) for numbered in enumerate(parts)))
        results = results_by_number(_run_in_threads(run, len(parts), self._threads or _LOCAL_THREADS))
        return list(map(results.__getitem__, range(len(parts))))

    copy_files = run_parts

    def cancel(self) -> None:
        """Do nothing: threads see that the write is over."""

    def rows(self, source: Any, *columns: str) -> ArrowRows:
        """See :class:`~state_processor.write.tasks.passes.WriterEngine`."""
        return ArrowRows.of(source)

    def read(self, snapshot: Snapshot, access: SnapshotAccess, request: StateRequest) -> ArrowRows:
        """See :class:`~state_processor.write.tasks.passes.WriterEngine`."""
        scan = replace(request, options={**access.values(), **request.options}).open(request.find(snapshot))
        return ArrowRows.of(Rows(scan.schema, scan.read))

    def access_to(self, path: str | PathLike[str], access: SnapshotAccess) -> SnapshotAccess:
        """Return the options of the source savepoint: there is no session with others."""
        return access

    def errors(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: this process raises errors of this library."""
        return nullcontext()

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """See :class:`~state_processor.write.tasks.passes.Engine`.

        Between the passes, entries are in files: in the directory of the write if it is local, or else in scratch space.
        """
        if staging.is_local:
            return [self._written(state_files, staging) for state_files in files]
        directory = scratch_space(self._scratch).directory()
        try:
            return [self._written(state_files, replace(staging, scratch=str(directory))) for state_files in files]
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _written(self, files: StateFiles, staging: Staging) -> Written:
        indexes: list[BlobIndex] = []
        for rows_pass in files.rows:
            indexes += self._encoded(rows_pass, staging)
        for parts_pass in files.parts:
            groups = _groups(parts_pass.parts)
            first_pass = FirstPass(EncodeParts(((0, parts_pass.encode),), groups), staging)
            indexes += blob_indexes(_run_in_threads(first_pass, len(groups), self._threads or _LOCAL_THREADS))
        pa.default_memory_pool().release_unused()  # what encoding the rows took
        release()
        numbers = tuple((i,) for i in range(files.parallelism))
        second_pass = SecondPass(((0, files.write),), staging, indexes, numbers, _SharedMemory(_WORKING_BYTES).reserved)
        local_threads = min(_LOCAL_THREADS, thread_count())  # each has a key group in memory, and waits for the processor alone
        threads = self._threads or (local_threads if staging.is_local else _REMOTE_THREADS)
        return results_by_number(_run_in_threads(second_pass, files.parallelism, threads))

    def _encoded(self, rows_pass: RowsPass, staging: Staging) -> Sequence[BlobIndex]:
        """Encode rows. Each batch has an index of its own, in the order of the batches: a file does not depend on the threads."""
        rows: EncodedRows | ArrowRows = rows_pass.rows
        if isinstance(rows, EncodedRows):
            return rows.indexes
        task = FirstPass(rows_pass.task, staging)
        indexes: list[BlobIndex] = []
        running: deque[Future[list[pa.RecordBatch]]] = deque()
        threads = self._threads or _ENCODING_THREADS
        with ThreadPoolExecutor(threads) as pool:
            batches = merge_batches(rows.batches(rows_pass.columns))
            for batch in progress_of_rows(batches, "encoding", rows.count):
                running.append(pool.submit(copy_context().run, _encode, task, batch))
                if len(running) > threads:  # few batches are in memory
                    indexes += blob_indexes(running.popleft().result())
            for future in running:
                indexes += blob_indexes(future.result())
        return indexes


class _SharedMemory:
    """Memory that tasks share: a task waits until it fits beside the others, or is alone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._reserved = 0
        self._changed = Condition(process_lock())

    def __reduce__(self) -> tuple[type[_SharedMemory], tuple[int]]:
        return _SharedMemory, (self._size,)  # another process has other memory

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Reserve memory for a block."""
        with self._changed:
            self._changed.wait_for(lambda: not self._reserved or self._reserved + size <= self._size)
            self._reserved += size
        try:
            yield
        finally:
            with self._changed:
                self._reserved -= size
                self._changed.notify_all()


def _groups(parts: Sequence[SourcePart]) -> tuple[tuple[tuple[int, SourcePart], ...], ...]:
    """Divide parts for the threads, each with the number of its only encoder.

    Blobs of a later part are behind blobs of an earlier one.
    """
    count = min(len(parts), _PARTS_PER_THREAD * _LOCAL_THREADS)
    bounds = [i * len(parts) // count for i in range(count + 1)]
    numbered = tuple((0, part) for part in parts)
    return tuple(numbered[begin:end] for begin, end in pairwise(bounds))


def _encode(task: FirstPass, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return list(task([batch]))


def _run_in_threads(task: Task, count: int, threads: int) -> list[pa.RecordBatch]:
    """Run a task on each number up to ``count``, with the context of this thread: registrations may belong to it."""
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(copy_context().run, _run, task, number) for number in range(count)]
        results: list[pa.RecordBatch] = []
        try:
            for future in progress(running, "writing"):
                results += future.result()
        finally:  # after a failure or an interrupt, tasks that have not begun do not run
            pool.shutdown(wait=False, cancel_futures=True)
        return results


def _run(task: Task, number: int) -> list[pa.RecordBatch]:
    return list(task([pa.RecordBatch.from_arrays([pa.array([number])], ["id"])]))
