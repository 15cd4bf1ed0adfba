"""Blobs between the two passes of a write: shuffled by Spark, or stored in files of the write that pass 2 reads parts of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.storage import StoredFile
from state_processor.backends.write.arrays import numbers, repeated
from state_processor.backends.write.staging import Staging
from state_processor.write.staged_file import staged_file
from state_processor.write.task_data import Batches

SHUFFLED_BLOBS: Final = pa.schema(
    [
        *(pa.field(n, pa.int32(), nullable=False) for n in ("subtask", "key_group", "state", "phase")),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("blob", pa.binary()),
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
    ]
)
"""Blobs between the passes: their bytes, or the file of the write that has them, with offset and size.

``subtask`` is the number of the file that a blob belongs to, counted over the operators that are written together.
"""

OF_ALL: Final = "0" * 8
"""Stands for the operator in names of files that belong to several."""

_OPEN_FILES: Final = 128


@dataclass(frozen=True)
class ShuffleBlobs:
    """Pass 1: a task that encodes blobs, and yields them as :data:`SHUFFLED_BLOBS`.

    If the savepoint is in a local file system, the bytes are written to a file there, and only offsets are shuffled. An object
    store is too slow for many small reads: there the bytes are shuffled.

    Parameters
    ----------
    encode
        The task.
    staging
        The write.
    in_files
        Whether the bytes are written to files.
    """

    encode: Callable[[Batches], Iterator[pa.RecordBatch]]
    staging: Staging
    in_files: bool = True

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a task's input."""
        if not self.in_files:
            for blobs in self.encode(batches):
                yield _shuffled(blobs, blobs.column("blob"), None, np.zeros(blobs.num_rows, dtype=np.int64))
            return
        sink: FileSink | None = None
        with ExitStack() as stack:
            for blobs in self.encode(batches):
                if sink is None:
                    sink = stack.enter_context(staged_file(self.staging, OF_ALL, "shuffle", 0))
                column = blobs.column("blob")
                bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
                offsets = bounds[:-1].astype(np.int64) - bounds[0] + sink.size
                if bounds[-1] > bounds[0]:
                    sink.write(memoryview(column.buffers()[2])[bounds[0] : bounds[-1]])
                yield _shuffled(blobs, pa.nulls(len(column), pa.binary()), sink.name, offsets)


def _shuffled(blobs: pa.RecordBatch, data: pa.Array, file: str | None, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {n: blobs.column(n) for n in ("subtask", "key_group", "state", "phase", "count")}
    columns["blob"] = data
    count = blobs.num_rows
    columns["file"] = pa.nulls(count, pa.string()) if file is None else repeated(file.encode(), count, pa.string())
    columns["offset"] = numbers(offsets)
    columns["size"] = pc.binary_length(blobs.column("blob")).cast(pa.int64())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=SHUFFLED_BLOBS)


class ShuffledBlob(NamedTuple):
    """Blob in pass 2."""

    key_group: int
    state: int
    phase: int
    entries: int
    data: npt.NDArray[np.uint8]


def fetch_blobs(batches: Batches, staging: Staging) -> Iterator[ShuffledBlob]:
    """Read the blobs of :data:`SHUFFLED_BLOBS` one by one."""
    files: dict[str, StoredFile] = {}
    for batch in batches:
        blobs = batch.column("blob")
        columns = ("key_group", "state", "phase", "count", "file", "offset", "size")
        rows = zip(*(batch.column(c).to_pylist() for c in columns), strict=True)
        for i, (key_group, state, phase, count, name, offset, size) in enumerate(rows):
            if name is None:
                data = np.frombuffer(blobs[i].as_buffer(), dtype=np.uint8)
            else:
                if name not in files and len(files) >= _OPEN_FILES:
                    files.clear()
                file = files.setdefault(name, staging.file(name))
                data = np.frombuffer(file.read(offset, size), dtype=np.uint8)
            yield ShuffledBlob(key_group, state, phase, count, data)
