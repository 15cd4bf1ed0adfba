"""Blobs: framed entries of one state and key group, on their way from pass 1 to pass 2 of a write.

Pass 1, anywhere, makes batches of blobs (:data:`ORDERED_BLOBS`). Pass 2 takes the blobs of one subtask, sorted by key group,
state and phase; see :class:`~state_processor.backends.write.tombstones.EntryMerge`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.support.errors import InvalidRowError

TOMBSTONES: Final = 0
"""Phase of keys whose entries in the source savepoint are left out."""

PASSED_THROUGH: Final = 1
"""Phase of entries of the source savepoint."""

NEW: Final = 2
"""Phase of entries that are written from rows."""

DEALT: Final = 1
"""In place of the key group: elements of operator state in the first file that the files of all subtasks take their shares of."""

ORDERED_BLOBS: Final = pa.schema(
    [
        *(pa.field(name, pa.int32(), nullable=False) for name in ("subtask", "key_group", "state", "phase")),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("blob", pa.binary(), nullable=False),
    ]
)
"""Blobs with the columns that they are sorted by, the number of their entries, and their bytes.

``subtask`` is the subtask of the operator that a blob belongs to. Between the passes it is the number of the file: the files of
all operators that are written together are numbered consecutively. ``state`` is the id of the state in the header of the file.
"""

BLOB_ORDER: Final = [(name, "ascending") for name in ("subtask", "key_group", "state", "phase")]

_LARGEST_BATCH: Final = 1 << 30


GroupState = tuple[int, int]
"""A key group and the id of a state."""


class Blob(NamedTuple):
    """Blob in pass 2."""

    key_group: int
    state: int
    phase: int
    entries: int
    data: npt.NDArray[np.uint8]

    @property
    def place(self) -> GroupState:
        """The key group and the state."""
        return self.key_group, self.state


@dataclass(frozen=True)
class BlobAddress:
    """Destination of the entries of one state.

    ``parallelism`` and ``max_parallelism``: of the operator.
    """

    state_id: int  # the position of the state in the header of the files to write
    parallelism: int
    max_parallelism: int
    phase: int = NEW  # :data:`TOMBSTONES`, :data:`PASSED_THROUGH` or :data:`NEW`

    def blobs(
        self, data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], groups: npt.NDArray[np.int32]
    ) -> Iterator[pa.RecordBatch]:
        """Yield adjacent ranges of bytes, each of one key group, as :data:`ORDERED_BLOBS`.

        ``data``: the bytes of the entries. ``spans``: a line for each range: begin, end, number of entries. Ranges without
        entries are skipped.
        """
        is_filled = spans[:, 2] > 0
        spans, groups = spans[is_filled], groups[is_filled]
        first = 0
        while first < len(spans):
            base = int(spans[first, 0])
            last = max(first + 1, int(np.searchsorted(spans[:, 1], base + _LARGEST_BATCH, side="right")))
            part, in_groups = spans[first:last], groups[first:last]
            offsets = np.append(part[:, 0], part[-1, 1]) - base
            if offsets[-1] >= 1 << 31:
                raise InvalidRowError(
                    f"the entries of key group {int(in_groups[0])} in one batch exceed 2 GiB; use smaller batches"
                )
            buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[base : int(part[-1, 1])])]
            subtasks = in_groups.astype(np.int64) * self.parallelism // self.max_parallelism
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(subtasks.astype(np.int32)),
                    pa.array(in_groups.astype(np.int32)),
                    pa.array(np.full(len(part), self.state_id, dtype=np.int32)),
                    pa.array(np.full(len(part), self.phase, dtype=np.int32)),
                    pa.array(part[:, 2]),
                    pa.Array.from_buffers(pa.binary(), len(part), buffers),
                ],
                schema=ORDERED_BLOBS,
            )
            first = last


def with_phase(blobs: pa.RecordBatch, phase: int) -> pa.RecordBatch:
    """Return the same blobs in another phase."""
    return _with_column(blobs, "phase", np.full(blobs.num_rows, phase, dtype=np.int32))


def with_file_numbers(blobs: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Return the same blobs with numbers of files instead of subtasks; ``first`` is the number of the operator's first file."""
    if not first:
        return blobs
    subtasks: npt.NDArray[Any] = np.from_dlpack(blobs.column("subtask"))
    return _with_column(blobs, "subtask", subtasks + np.int32(first))


def _with_column(blobs: pa.RecordBatch, name: str, values: npt.NDArray[np.int32]) -> pa.RecordBatch:
    place = ORDERED_BLOBS.get_field_index(name)
    return blobs.set_column(place, ORDERED_BLOBS.field(place), pa.array(values))
