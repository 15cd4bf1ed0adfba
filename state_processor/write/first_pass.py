"""Pass 1 of a write: tasks that encode rows, or parts of the source savepoint, to blobs.

:class:`FirstPass` is the task that engines run. It has one of two sources of blobs: :class:`EncodeTables` or
:class:`EncodeParts`. Rows that several states and operators are written from are read once, and small parts share a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.files.changes import FileSink
from state_processor.backends.formats.row_shapes import concatenate
from state_processor.backends.write.arrays import numbers, repeated
from state_processor.backends.write.blobs import ORDERED_BLOBS
from state_processor.backends.write.staging import Staging
from state_processor.serializers.late import pc
from state_processor.serializers.records import dataclass
from state_processor.write.blob_index import SPILLED_BLOBS, write_index
from state_processor.write.part_tasks import Batches, Task, part_numbers
from state_processor.write.staged_file import file_between_passes

_BATCH_BYTES: Final = 32 << 20
_BATCH_ROWS: Final = 1 << 19

BatchEncoder = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]
"""Encodes the batches of a task one after the other, to :data:`~state_processor.backends.write.blobs.ORDERED_BLOBS`."""


class RowEncoder(Protocol):
    """Encodes rows for the files of one operator; it can be pickled."""

    def encoder(self, first_file: int) -> BatchEncoder:
        """Return a function that encodes the batches of a task; ``first_file`` is the number of the operator's first file."""


PartEncoder = Callable[[Any, int], Iterator[pa.RecordBatch]]
"""Encodes a part for the files of one operator, from the number of the first file on; it can be pickled."""


@dataclass(frozen=True)
class FirstPass:
    """Pass 1: a task that encodes blobs, stores their bytes, and indexes them.

    If the savepoint is in a local file system, the bytes are written to a file there. An object store is too slow for many small
    reads: there the bytes stay with the blobs.

    Parameters
    ----------
    encode
        The source of blobs: a task that yields :data:`~state_processor.backends.write.blobs.ORDERED_BLOBS`.
    staging
        The write.
    spills
        Whether the bytes are written to a file of the write.
    indexes
        Whether the blobs are written to an index file. If not, the task yields them, for an engine that shuffles them itself.
    scratch
        A local directory for the files, instead of the directory of the write; for an engine that runs pass 2 on this machine.
    """

    encode: Task
    staging: Staging
    spills: bool = True
    indexes: bool = True
    scratch: str | None = None

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield :data:`~state_processor.write.blob_index.BLOB_INDEXES`, or ``SPILLED_BLOBS`` without indexes."""
        if not self.indexes:
            return self._blobs(batches)
        return write_index(pa.Table.from_batches(self._blobs(batches), SPILLED_BLOBS), self.staging, self.scratch)

    def _blobs(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sink: FileSink | None = None
        with ExitStack() as stack:
            for blobs in self.encode(batches):
                column = blobs.column("blob")
                if not self.spills:
                    yield _spilled(blobs, column, None, np.zeros(len(column), dtype=np.int64))
                    continue
                if sink is None:
                    sink, name = stack.enter_context(file_between_passes(self.staging, "shuffle", self.scratch))
                bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
                offsets = bounds[:-1].astype(np.int64) - bounds[0] + sink.size
                if bounds[-1] > bounds[0]:
                    sink.write(memoryview(column.buffers()[2])[bounds[0] : bounds[-1]])
                yield _spilled(blobs, pa.nulls(len(column), pa.binary()), name, offsets)


def _spilled(blobs: pa.RecordBatch, data: pa.Array, file: str | None, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {name: blobs.column(name) for name in ORDERED_BLOBS.names}
    sizes = pc.binary_length(columns["blob"]).cast(pa.int64())
    columns["blob"] = data
    count = blobs.num_rows
    columns["file"] = pa.nulls(count, pa.string()) if file is None else repeated(file.encode(), count, pa.string())
    columns["offset"] = numbers(offsets)
    columns["size"] = sizes
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=SPILLED_BLOBS)


class TableEncoding(NamedTuple):
    """Names of the columns of a table, and its encoders with the number of the first file that each encodes for."""

    columns: tuple[str, ...]
    encoders: tuple[tuple[int, RowEncoder], ...]


@dataclass(frozen=True)
class EncodeTables:
    """Source of blobs: rows of one or several tables.

    Of several tables, whose columns have the same types, the first column is the number of the table.
    """

    tables: tuple[TableEncoding, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a task's rows."""
        encoders: dict[int, list[BatchEncoder]] = {}
        for batch in merge_batches(batches):
            for number, rows in self._rows(batch):
                if number not in encoders:
                    encoders[number] = [encoder.encoder(first) for first, encoder in self.tables[number].encoders]
                for encode in encoders[number]:
                    yield from encode(rows)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each table, with its number."""
        if len(self.tables) == 1:
            yield 0, batch.rename_columns(self.tables[0].columns)
            return
        tables = batch.column(0)
        for number in pc.unique(tables).to_pylist():
            rows = batch.filter(pc.equal(tables, number))
            yield number, pa.RecordBatch.from_arrays(rows.columns[1:], names=list(self.tables[number].columns))


@dataclass(frozen=True)
class EncodeParts:
    """Source of blobs: parts of the source savepoint.

    Input rows are numbers of ``groups``, which consist of parts and the indexes of their encoders. Each encoder has the number of
    the first file that it encodes for.
    """

    encoders: tuple[tuple[int, PartEncoder], ...]
    groups: tuple[tuple[tuple[int, Any], ...], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of groups."""
        for number in part_numbers(batches):
            for index, part in self.groups[number]:
                first, encode = self.encoders[index]
                yield from encode(part, first)


def merge_batches(batches: Batches, most_bytes: int = _BATCH_BYTES, most_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Merge small batches: each batch becomes one blob per key group, and few large blobs are cheaper than many small ones."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= most_bytes or rows >= most_rows:
            merged, held, size, rows = concatenate(held), [], 0, 0
            del batch  # the merged one alone is held while it is encoded
            yield merged
    if rows:
        yield concatenate(held)
