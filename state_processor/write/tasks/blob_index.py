"""Index files of a write: each task of pass 1 lists its blobs in one, and pass 2 finds the blobs of a subtask by them.

Locations of blobs do not go through Spark's shuffle. Spark recomputes shuffled rows that it loses together with an executor, and
requires the same rows again; names of files differ from attempt to attempt. Results of tasks are kept on the driver, whatever
happens to the executor, and each partition counts once, so that the order of its rows may differ between attempts.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.storage import Storage, StoredFile
from state_processor.backends.write.blobs import BLOB_ORDER, ORDERED_BLOBS, Blob
from state_processor.backends.write.staging import Staging

SPILLED_BLOBS: Final = pa.schema(
    [
        *(field for field in ORDERED_BLOBS if field.name != "blob"),
        pa.field("blob", pa.binary()),
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
    ]
)
"""Blobs between the passes: their bytes, or the file that has them, with offset and size.

``file`` is the name of a file of the write, or the absolute path of a file in scratch space.
"""

BLOB_INDEXES: Final = pa.schema(
    [
        pa.field("index_file", pa.string(), nullable=False),
        pa.field("subtasks", pa.list_(pa.int32()), nullable=False),
        pa.field("sizes", pa.list_(pa.int64()), nullable=False),
    ]
)
"""Result of a task of pass 1: its index file, the numbers of the files that its blobs belong to, ascending, and their bytes."""

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_OPEN_FILES: Final = 128
_OF_ALL_OPERATORS: Final = "0" * 8
"""Stands for the operator in names of files that belong to several operators."""


@dataclass(frozen=True)
class BlobIndex:
    """The index file of one task; ``subtasks`` and ``sizes`` as in :data:`BLOB_INDEXES`."""

    file: str
    subtasks: tuple[int, ...]
    sizes: tuple[int, ...]

    def read(self, subtask: int, staging: Staging) -> list[pa.RecordBatch]:
        """Read the rows of one subtask, :data:`SPILLED_BLOBS`."""
        place = bisect_left(self.subtasks, subtask)
        if place == len(self.subtasks) or self.subtasks[place] != subtask:
            return []
        with pa.PythonFile(FileStream(read_between_passes(staging, self.file)), mode="r") as source:
            return [pa.ipc.open_file(source).get_batch(place)]


def blob_indexes(rows: Iterable[pa.RecordBatch]) -> list[BlobIndex]:
    """Return indexes from rows of :data:`BLOB_INDEXES`."""
    indexes: list[BlobIndex] = []
    for batch in rows:
        indexes += [BlobIndex(row["index_file"], tuple(row["subtasks"]), tuple(row["sizes"])) for row in batch.to_pylist()]
    return indexes


def write_index(table: pa.Table, staging: Staging) -> Iterator[pa.RecordBatch]:
    """Write an index file: a record batch for each subtask, in the order of ``subtasks`` of :data:`BLOB_INDEXES`.

    ``table``: blobs, as :data:`SPILLED_BLOBS`.

    Returns: one row of :data:`BLOB_INDEXES`, or nothing without blobs.
    """
    if not table.num_rows:
        return
    table = table.sort_by(BLOB_ORDER).combine_chunks()
    with file_between_passes(staging, "index") as (sink, name):
        buffer = pa.BufferOutputStream()
        subtasks, sizes = [], []
        with pa.ipc.new_file(buffer, SPILLED_BLOBS, options=_OPTIONS) as file:
            for subtask, blobs in split_by_subtask(table):
                subtasks.append(subtask)
                sizes.append(int(np.from_dlpack(blobs.column("size")).sum()))
                file.write_batch(blobs)
        sink.write(buffer.getvalue())
    index = {"index_file": name, "subtasks": subtasks, "sizes": sizes}
    yield pa.RecordBatch.from_pylist([index], BLOB_INDEXES)


def split_by_subtask(table: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a table that is sorted by subtask and has one chunk."""
    subtasks = np.from_dlpack(table.column("subtask").chunk(0))
    begin = 0
    while begin < len(subtasks):
        end = int(subtasks.searchsorted(subtasks[begin], side="right"))
        yield int(subtasks[begin]), table.slice(begin, end - begin).combine_chunks().to_batches()[0]
        begin = end


def fetch_blobs(batches: Iterable[pa.RecordBatch], staging: Staging) -> Iterator[Blob]:
    """Read the blobs of :data:`SPILLED_BLOBS` one by one."""
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
                file = files.setdefault(name, read_between_passes(staging, name))
                data = np.frombuffer(file.read(offset, size), dtype=np.uint8)
            yield Blob(key_group, state, phase, count, data)


@contextmanager
def file_between_passes(staging: Staging, purpose: str) -> Iterator[tuple[FileSink, str]]:
    """Open a new file that pass 2 reads, and return it with the name for :func:`read_between_passes`."""
    if staging.scratch is None:
        with staging.new_file(_OF_ALL_OPERATORS, purpose, 0) as sink:
            yield sink, sink.name
        return
    path = os.path.join(staging.scratch, f"{purpose}-{uuid4().hex}")
    with closing(FileSink(Storage(), path)) as sink:
        yield sink, path


def read_between_passes(staging: Staging, name: str) -> StoredFile:
    """Open a file that pass 1 has written."""
    return Storage().open(name) if os.path.isabs(name) else staging.file(name)


class FileStream(io.RawIOBase):
    """A file as a Python stream, for pyarrow.

    ``file``: the file. Reads raise its errors.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, and return it."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the file."""
        remaining = max(0, self._file.size - self._position)
        data = bytes(self._file.read(self._position, remaining if size < 0 else min(size, remaining)))
        self._position += len(data)
        return data
