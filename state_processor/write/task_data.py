"""Batches that the tasks of a write take and return."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_shapes import concatenate
from state_processor.backends.write.arrays import numbers, repeated
from state_processor.backends.write.entry_encoder import BLOB_SCHEMA

Batches = Iterable[pa.RecordBatch]
Replaced = Literal["", "keys", "entries"]
"""What a row replaces of the source savepoint: nothing, all entries of its key, or one entry of a map."""

TOMBSTONES: Final = 0
"""Phase of keys whose entries in the source savepoint are left out."""

PASSED_THROUGH: Final = 1
"""Phase of entries of the source savepoint."""

NEW: Final = 2
"""Phase of entries that are written from rows."""

ORDERED_BLOBS: Final = BLOB_SCHEMA.append(pa.field("phase", pa.int32(), nullable=False))
"""Blobs with their phase. A subtask's file is written from blobs that are sorted by key group, state and phase."""

TASK_RESULTS: Final = pa.schema(
    [
        pa.field("subtask", pa.int32(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""Results of tasks for the driver, by number of the subtask or part: a pickled value."""

_BATCH_BYTES: Final = 32 << 20

_BATCH_ROWS: Final = 1 << 19


def with_phase(blobs: pa.RecordBatch, phase: int) -> pa.RecordBatch:
    """Return blobs with a phase."""
    phases = numbers(np.full(blobs.num_rows, phase, dtype=np.int32))
    return pa.RecordBatch.from_arrays([*blobs.columns, phases], schema=ORDERED_BLOBS)


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


def part_numbers(batches: Batches) -> Iterator[int]:
    """Yield the numbers of parts that a task is given: the values of the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def task_result(subtask: int, value: Any) -> pa.RecordBatch:
    """Return a row of :data:`TASK_RESULTS`."""
    columns = [numbers(np.array([subtask], np.int32)), repeated(pickle.dumps(value), 1, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=TASK_RESULTS)
