"""Engines, which run the passes of a write: the interface, and the engine that runs them in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa

from state_processor.serializers.errors import OptionError
from state_processor.write.shuffle import ShuffleBlobs
from state_processor.write.shuffle_index import ShuffleIndex, WriteShuffleIndex, WriteSubtasks, shuffle_indexes
from state_processor.write.subtask_files import SubtaskWriter
from state_processor.write.task_data import Batches

_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 16

Task = Callable[[Batches], Iterator[pa.RecordBatch]]
"""A function from the batches of a partition to others; it can be pickled."""
Written = dict[int, tuple[Any, int]]
"""By subtask: the handle of its file, and the number of entries."""


class Engine(Protocol):
    """Runs tasks. Each engine encodes its own kind of rows, and has its own form for the results of pass 1."""

    shuffles: bool
    """Whether pass 1 may hand the bytes of blobs to pass 2; otherwise they go through files."""

    def encode_rows(self, rows: Any, columns: Sequence[str], task: ShuffleBlobs) -> Any:
        """Run pass 1 over some columns of rows, :class:`~state_processor.write.rows.Rows` of the engine's kind."""

    def encode_parts(self, count: int, task: ShuffleBlobs) -> Any:
        """Run pass 1 over parts of the source savepoint: the rows of ``task`` are their numbers."""

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """Return the results of ``task`` by number of the part."""

    def write_subtasks(self, blobs: Sequence[Any], parallelism: int, write: SubtaskWriter) -> Written:
        """Run pass 2 over results of pass 1: write the file of each subtask."""

    def cancel(self) -> None:
        """End what runs, for a process that ends."""


@dataclass(frozen=True)
class EncodedRows:
    """Rows that tasks elsewhere have encoded, or will: only their columns are known here."""

    schema: pa.Schema
    indexes: Sequence[ShuffleIndex] = ()
    case_sensitive: bool = True

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OptionError(
            "rows of this shape have to be gathered first, which a data source can't: write one row per key (read with "
            "flatten=False), or use SavepointWriter"
        )

    select = to_arrow = of_bytes = explode_map = collect_lists = without = timer_queues = _refuse


class LocalEngine:
    """Runs tasks in threads of this process; rows are :class:`EncodedRows`.

    Tasks spend their time in compiled functions and in waiting for files, both of which let other threads run.
    """

    shuffles = False

    def encode_rows(self, rows: EncodedRows, columns: Sequence[str], task: ShuffleBlobs) -> Sequence[ShuffleIndex]:
        """See :class:`Engine`."""
        return rows.indexes

    def cancel(self) -> None:
        """Do nothing: threads see that the write is over."""

    def encode_parts(self, count: int, task: ShuffleBlobs) -> Sequence[ShuffleIndex]:
        """See :class:`Engine`."""
        shares = [range(i, count, _LOCAL_THREADS) for i in range(min(count, _LOCAL_THREADS))]
        return shuffle_indexes(_run_in_threads(WriteShuffleIndex(task), shares, _LOCAL_THREADS))

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`."""
        batches = _run_in_threads(task, [range(i, i + 1) for i in range(count)], _LOCAL_THREADS)
        return {m["subtask"]: pickle.loads(m["handle"]) for b in batches for m in b.to_pylist()}

    def write_subtasks(self, blobs: Sequence[Sequence[ShuffleIndex]], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`."""
        task = WriteSubtasks(write, [index for indexes in blobs for index in indexes])
        threads = _LOCAL_THREADS if write.staging.is_local else _REMOTE_THREADS
        batches = _run_in_threads(task, [range(i, i + 1) for i in range(parallelism)], threads)
        return {m["subtask"]: (pickle.loads(m["handle"]), m["entries"]) for b in batches for m in b.to_pylist()}


def _run_in_threads(task: Task, shares: Sequence[range], threads: int) -> list[pa.RecordBatch]:
    """Run a task on each share of numbers, with the context of this thread: registrations may belong to it."""
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(copy_context().run, _run, task, share) for share in shares]
        return [batch for future in running for batch in future.result()]


def _run(task: Task, share: range) -> list[pa.RecordBatch]:
    return list(task([pa.RecordBatch.from_pydict({"id": list(share)})]))
