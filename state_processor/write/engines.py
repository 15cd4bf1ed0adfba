"""Engines: what runs the two passes of a write. Here the interface, and the one that runs them in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa

from state_processor.write.shuffle import ShuffleBlobs
from state_processor.write.shuffle_index import ShuffleIndex, WriteShuffleIndex, WriteSubtasks, shuffle_indexes
from state_processor.write.subtask_files import SubtaskWriter
from state_processor.write.task_data import Batches

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

    def encode_rows(self, rows: Any, columns: Sequence[str], task: ShuffleBlobs) -> Any:
        """Pass 1 over some columns of rows; ``task`` gives blobs."""

    def encode_parts(self, count: int, task: ShuffleBlobs) -> Any:
        """Pass 1 over parts of a base: ``task`` is given their numbers."""

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """What ``task`` has to tell of each part, by number."""

    def write_subtasks(self, blobs: Sequence[Any], parallelism: int, write: SubtaskWriter) -> Written:
        """Pass 2: each subtask's blobs, in order, into its file."""


class LocalEngine:
    """Runs tasks in threads of this process; rows are encoded already, by tasks elsewhere.

    The work of tasks is done by compiled functions, and by waiting for files: neither keeps other threads from theirs.
    """

    shuffles = False

    def encode_rows(self, rows: Sequence[ShuffleIndex], columns: Sequence[str], task: ShuffleBlobs) -> Sequence[ShuffleIndex]:
        """See :class:`Engine`."""
        return rows

    def encode_parts(self, count: int, task: ShuffleBlobs) -> Sequence[ShuffleIndex]:
        """See :class:`Engine`."""
        shares = [range(i, count, _LOCAL_THREADS) for i in range(min(count, _LOCAL_THREADS))]
        return shuffle_indexes(_in_threads(WriteShuffleIndex(task), shares, _LOCAL_THREADS))

    def run_parts(self, count: int, task: Task) -> dict[int, Any]:
        """See :class:`Engine`."""
        batches = _in_threads(task, [range(i, i + 1) for i in range(count)], _LOCAL_THREADS)
        return {m["subtask"]: pickle.loads(m["handle"]) for b in batches for m in b.to_pylist()}

    def write_subtasks(self, blobs: Sequence[Sequence[ShuffleIndex]], parallelism: int, write: SubtaskWriter) -> Written:
        """See :class:`Engine`."""
        gather = WriteSubtasks(write, [run for runs in blobs for run in runs])
        threads = _LOCAL_THREADS if write.staging.is_local else _REMOTE_THREADS
        batches = _in_threads(gather, [range(i, i + 1) for i in range(parallelism)], threads)
        return {m["subtask"]: (pickle.loads(m["handle"]), m["entries"]) for b in batches for m in b.to_pylist()}


def _in_threads(task: Task, shares: Sequence[range], threads: int) -> list[pa.RecordBatch]:
    """What a task gives for each share of numbers."""
    with ThreadPoolExecutor(threads) as pool:
        return [batch for batches in pool.map(partial(_run, task), shares) for batch in batches]


def _run(task: Task, share: range) -> list[pa.RecordBatch]:
    return list(task([pa.RecordBatch.from_pydict({"id": list(share)})]))
