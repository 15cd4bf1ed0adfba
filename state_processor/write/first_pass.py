"""Tasks of pass 1 for several files at a time, and tasks over parts of the source savepoint.

Small tasks cost more than what they do. So rows that several states and operators are written from are read once, and small parts
share a task. The files of all operators are numbered consecutively.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.write.arrays import numbers
from state_processor.write.task_data import Batches, merge_batches, part_numbers, task_result

BatchEncoder = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]
"""Encodes the batches of a task one after the other, to :data:`~state_processor.write.task_data.ORDERED_BLOBS`."""


class RowEncoder(Protocol):
    """Encodes rows for the files of one operator; it can be pickled."""

    def encoder(self) -> BatchEncoder:
        """Return a function that encodes the batches of a task."""


class Part(Protocol):
    """Part of the source savepoint; it can be pickled."""

    @property
    def size(self) -> int:
        """Bytes to read."""


PartEncoder = Callable[[Any], Iterator[pa.RecordBatch]]
"""Encodes a part for the files of one operator; it can be pickled."""


@dataclass(frozen=True)
class EncodeRowsTogether:
    """Pass 1 over rows. ``tasks`` have the number of the first file that each encodes for.

    ``columns`` are the names of the columns, if batches come with others.
    """

    tasks: tuple[tuple[int, RowEncoder], ...]
    columns: tuple[str, ...] | None = None

    def encoder(self) -> BatchEncoder:
        """Return a function that encodes the batches of a task."""
        encoders = [(first, task.encoder()) for first, task in self.tasks]

        def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            for first, encode_one in encoders:
                yield from (_numbered(blobs, first) for blobs in encode_one(batch))

        return encode

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a task's rows."""
        encode = self.encoder()
        for batch in merge_batches(batches):
            yield from encode(batch if self.columns is None else batch.rename_columns(self.columns))


@dataclass(frozen=True)
class EncodeUnion:
    """Pass 1 over the union of several tables, whose columns have the same types: names of their columns, and their tasks.

    The first column of a row is the number of its table.
    """

    tables: tuple[tuple[tuple[str, ...], EncodeRowsTogether], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a task's rows."""
        encoders: dict[int, BatchEncoder] = {}
        for batch in merge_batches(batches):
            tables = batch.column(0)
            for number in pc.unique(tables).to_pylist():
                names, tasks = self.tables[number]
                rows = batch.filter(pc.equal(tables, number))
                if number not in encoders:
                    encoders[number] = tasks.encoder()
                yield from encoders[number](pa.RecordBatch.from_arrays(rows.columns[1:], names=list(names)))


@dataclass(frozen=True)
class EncodeParts:
    """Pass 1 over parts. Input rows are numbers of ``groups``, which consist of parts and the indexes of their tasks."""

    tasks: tuple[tuple[int, PartEncoder], ...]
    groups: tuple[tuple[tuple[int, Any], ...], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of groups."""
        for number in part_numbers(batches):
            for index, part in self.groups[number]:
                first, encode = self.tasks[index]
                yield from (_numbered(blobs, first) for blobs in encode(part))


@dataclass(frozen=True)
class RunParts:
    """Task that returns a result for each part. Input rows are numbers of ``groups``, which consist of numbered parts."""

    task: Callable[[Any], Any]
    groups: tuple[tuple[tuple[int, Any], ...], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the results, :data:`~state_processor.write.task_data.TASK_RESULTS`."""
        for group in part_numbers(batches):
            for number, part in self.groups[group]:
                yield task_result(number, self.task(part))


def _numbered(blobs: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Return blobs with numbers of files in the place of subtasks."""
    if not first:
        return blobs
    place = blobs.schema.get_field_index("subtask")
    shifted = numbers(np.add(np.from_dlpack(blobs.column(place)), first, dtype=np.int32))
    return blobs.set_column(place, blobs.schema.field(place), shifted)
