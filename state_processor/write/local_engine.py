"""Engine that runs the tasks of a write in this process, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa

from state_processor.backends.write.staging import Staging
from state_processor.display.progress import progress
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError
from state_processor.write.blob_index import BlobIndex, blob_indexes
from state_processor.write.engines import StateFiles, Written
from state_processor.write.first_pass import EncodeParts, EncodeTables, FirstPass, RowEncoder, TableEncoding
from state_processor.write.part_tasks import Part, RunParts, Task, results_by_number
from state_processor.write.row_protocol import ColumnNames
from state_processor.write.second_pass import SecondPass

_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 16


@dataclass(frozen=True)
class EncodedRows:
    """Rows that tasks elsewhere have encoded, or will encode: only their columns are known here."""

    schema: pa.Schema
    indexes: Sequence[BlobIndex] = ()
    case_sensitive: bool = True

    def encoded(self, columns: Sequence[str], encode: RowEncoder, staging: Staging) -> Sequence[BlobIndex]:
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

    def encoded(self, columns: Sequence[str], encode: RowEncoder, staging: Staging) -> Sequence[BlobIndex]:
        """Encode the rows to blobs of the write."""
        encode_table = EncodeTables((TableEncoding(tuple(columns), ((0, encode),)),))
        return blob_indexes(FirstPass(encode_table, staging)(self.table.select(list(columns)).to_batches()))


class LocalEngine:
    """Runs tasks in threads of this process; rows are :class:`EncodedRows` or :class:`TableRows`.

    Tasks spend their time in compiled functions and in waiting for files, both of which let other threads run.
    """

    def run_parts(self, parts: Sequence[Part], task: Callable[[Any], Any]) -> list[Any]:
        """See :class:`~state_processor.write.engines.Engine`."""
        run = RunParts(task, tuple(((number, part),) for number, part in enumerate(parts)))
        found = results_by_number(_run_in_threads(run, len(parts), _LOCAL_THREADS))
        return [found[number] for number in range(len(parts))]

    copy_files = run_parts

    def cancel(self) -> None:
        """Do nothing: threads see that the write is over."""

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """See :class:`~state_processor.write.engines.Engine`."""
        return [self._written(one, staging) for one in files]

    def _written(self, files: StateFiles, staging: Staging) -> Written:
        indexes = [index for given in files.rows for index in given.rows.encoded(given.columns, given.encode, staging)]
        for given in files.parts:
            count = min(len(given.parts), _LOCAL_THREADS)
            groups = tuple(tuple((0, part) for part in given.parts[i::_LOCAL_THREADS]) for i in range(count))
            first_pass = FirstPass(EncodeParts(((0, given.encode),), groups), staging)
            indexes += blob_indexes(_run_in_threads(first_pass, len(groups), _LOCAL_THREADS))
        second_pass = SecondPass(((0, files.write),), staging, indexes, tuple((i,) for i in range(files.parallelism)))
        threads = _LOCAL_THREADS if staging.is_local else _REMOTE_THREADS
        return results_by_number(_run_in_threads(second_pass, files.parallelism, threads))


def _run_in_threads(task: Task, count: int, threads: int) -> list[pa.RecordBatch]:
    """Run a task on each number up to ``count``, with the context of this thread: registrations may belong to it."""
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(copy_context().run, _run, task, number) for number in range(count)]
        return [batch for future in progress(running, "writing") for batch in future.result()]


def _run(task: Task, number: int) -> list[pa.RecordBatch]:
    return list(task([pa.RecordBatch.from_pydict({"id": [number]})]))
