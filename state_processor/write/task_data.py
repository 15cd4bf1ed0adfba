"""Batches that the tasks of a write take and return."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from state_processor.backends.write.entry_encoder import BLOB_SCHEMA

Batches = Iterable[pa.RecordBatch]
Replaced = Literal["", "keys", "entries"]

TOMBSTONES: Final = 0
"""The phase of keys whose entries of the base are left out."""

PASSED_THROUGH: Final = 1
"""The phase of entries of the base."""

NEW: Final = 2
"""The phase of entries that replace them, or are added."""

PHASED_BLOBS: Final = BLOB_SCHEMA.append(pa.field("phase", pa.int32(), nullable=False))
"""Blobs in the order in which a subtask's file takes them: by key group, state and phase."""

TASK_RESULTS: Final = pa.schema(
    [
        pa.field("subtask", pa.int32(), nullable=False),
        pa.field("handle", pa.binary(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
    ]
)
"""What a task that has written a subtask's file tells the driver: a pickled handle."""

_BATCH_BYTES: Final = 32 << 20

_BATCH_ROWS: Final = 1 << 19


def with_phase(blobs: pa.RecordBatch, phase: int) -> pa.RecordBatch:
    """Blobs of one phase."""
    phases = pa.array(np.full(blobs.num_rows, phase, dtype=np.int32))
    return pa.RecordBatch.from_arrays([*blobs.columns, phases], schema=PHASED_BLOBS)


def merge_batches(batches: Batches, most_bytes: int = _BATCH_BYTES, most_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Small batches as larger ones: each batch becomes one blob per key group, and few large blobs are cheaper than many."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= most_bytes or rows >= most_rows:
            yield _joined(held)
            held, size, rows = [], 0, 0
    if rows:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


def part_numbers(batches: Batches) -> Iterator[int]:
    """The values of the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def task_result(subtask: int, handle: Any, entries: int) -> pa.RecordBatch:
    """A row of :data:`TASK_RESULTS`."""
    row = {"subtask": subtask, "handle": pickle.dumps(handle), "entries": entries}
    return pa.RecordBatch.from_pylist([row], schema=TASK_RESULTS)
