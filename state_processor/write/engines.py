"""Engines, which run the passes of a write: the interface, and the engine that runs them in this process.

Pass 1 encodes rows, and parts of the source savepoint, to blobs. Pass 2 writes a file for each subtask from its blobs. An engine
is given all files of a write at once, and makes as few jobs of them as it can.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa

from state_processor.backends.write.staging import Staging
from state_processor.display.progress import progress
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError
from state_processor.write.first_pass import EncodeParts, EncodeRowsTogether, Part, PartEncoder, RowEncoder, RunParts
from state_processor.write.row_protocol import ColumnNames
from state_processor.write.shuffle import ShuffleBlobs
from state_processor.write.shuffle_index import ShuffleIndex, WriteShuffleIndex, WriteSubtasks, shuffle_indexes
from state_processor.write.subtask_files import SubtaskWriter, WrittenFile
from state_processor.write.task_data import Batches

_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 16

Task = Callable[[Batches], Iterator[pa.RecordBatch]]
"""A function from the batches of a partition to others; it can be pickled."""
Written = dict[int, WrittenFile]
"""The files by subtask: of a task that ran more than once, one attempt."""


@dataclass(frozen=True)
class RowsPass:
    """Pass 1 over some columns of rows, which are :class:`~state_processor.write.row_protocol.Rows` of the engine's kind."""

    rows: Any
    columns: Sequence[str]
    encode: RowEncoder


@dataclass(frozen=True)
class PartsPass:
    """Pass 1 over parts of the source savepoint."""

    parts: Sequence[Part]
    encode: PartEncoder


@dataclass(frozen=True)
class StateFiles:
    """The files of one operator's keyed or operator state, one for each subtask, and the passes that write them.

    ``copied`` is the size of the files of the source savepoint that are copied or read; ``None`` if they contain all entries.
    """

    rows: Sequence[RowsPass]
    parts: Sequence[PartsPass]
    parallelism: int
    write: SubtaskWriter
    copied: int | None = None


class Engine(Protocol):
    """Runs tasks. Each engine encodes its own kind of rows."""

    def run_parts(self, parts: Sequence[Part], task: Callable[[Any], Any]) -> list[Any]:
        """Return the results of ``task`` for each part."""

    def copy_files(self, parts: Sequence[Part], task: Callable[[Any], Any]) -> list[Any]:
        """Return the results of ``task``, which copies files, for each part."""

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """Run both passes over all files."""

    def cancel(self) -> None:
        """End what runs, for a process that ends."""


@dataclass(frozen=True)
class EncodedRows:
    """Rows that tasks elsewhere have encoded, or will: only their columns are known here."""

    schema: pa.Schema
    indexes: Sequence[ShuffleIndex] = ()
    case_sensitive: bool = True

    def encoded(self, encode: RowEncoder, staging: Staging) -> Sequence[ShuffleIndex]:
        """Return what the tasks have encoded."""
        return self.indexes

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OptionError(
            "rows of this shape have to be gathered first, which a data source can't: write one row per key (read with "
            f"{spelled('flatten', False)}), or use SavepointWriter"
        )

    select = to_arrow = of_bytes = explode_map = collect_lists = without = timer_queues = _refuse


@dataclass(frozen=True)
class TableRows:
    """Rows of a table in this process, for operator state; see :class:`~state_processor.write.row_protocol.OperatorRows`."""

    table: pa.Table
    case_sensitive: bool = True

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.table.schema

    def select(self, columns: ColumnNames) -> TableRows:
        """Return some columns under other names."""
        return TableRows(pa.table({name: self.table.column(column) for name, column in columns.items()}))

    def to_arrow(self) -> pa.Table:
        """Return the table."""
        return self.table

    def of_bytes(self, values: Sequence[bytes]) -> TableRows:
        """Return rows with one column ``value``."""
        return TableRows(pa.table({"value": pa.array(values, pa.binary())}))

    def encoded(self, encode: RowEncoder, staging: Staging) -> Sequence[ShuffleIndex]:
        """Encode the rows to blobs of the write."""
        task = WriteShuffleIndex(ShuffleBlobs(EncodeRowsTogether(((0, encode),)), staging))
        return shuffle_indexes(task(self.table.to_batches()))


class LocalEngine:
    """Runs tasks in threads of this process; rows are :class:`EncodedRows` or :class:`TableRows`.

    Tasks spend their time in compiled functions and in waiting for files, both of which let other threads run.
    """

    def run_parts(self, parts: Sequence[Part], task: Callable[[Any], Any]) -> list[Any]:
        """See :class:`Engine`."""
        run = RunParts(task, tuple(((number, part),) for number, part in enumerate(parts)))
        found = _results(_run_in_threads(run, [range(i, i + 1) for i in range(len(parts))], _LOCAL_THREADS))
        return [found[number] for number in range(len(parts))]

    copy_files = run_parts

    def cancel(self) -> None:
        """Do nothing: threads see that the write is over."""

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """See :class:`Engine`."""
        return [self._written(one, staging) for one in files]

    def _written(self, files: StateFiles, staging: Staging) -> Written:
        indexes = [index for given in files.rows for index in given.rows.encoded(given.encode, staging)]
        for given in files.parts:
            count = len(given.parts)
            groups = tuple(tuple((0, part) for part in given.parts[i::_LOCAL_THREADS]) for i in range(min(count, _LOCAL_THREADS)))
            task = WriteShuffleIndex(ShuffleBlobs(EncodeParts(((0, given.encode),), groups), staging))
            indexes += shuffle_indexes(_run_in_threads(task, [range(i, i + 1) for i in range(len(groups))], _LOCAL_THREADS))
        numbers = range(files.parallelism)
        write = WriteSubtasks(((0, files.write),), indexes, staging, tuple((number,) for number in numbers))
        threads = _LOCAL_THREADS if staging.is_local else _REMOTE_THREADS
        return _results(_run_in_threads(write, [range(i, i + 1) for i in numbers], threads))


def _results(batches: Sequence[pa.RecordBatch]) -> dict[int, Any]:
    """Return the results of tasks by number."""
    return {m["subtask"]: pickle.loads(m["value"]) for b in batches for m in b.to_pylist()}


def _run_in_threads(task: Task, shares: Sequence[range], threads: int) -> list[pa.RecordBatch]:
    """Run a task on each share of numbers, with the context of this thread: registrations may belong to it."""
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(copy_context().run, _run, task, share) for share in shares]
        return [batch for future in progress(running, "writing") for batch in future.result()]


def _run(task: Task, share: range) -> list[pa.RecordBatch]:
    return list(task([pa.RecordBatch.from_pydict({"id": list(share)})]))
