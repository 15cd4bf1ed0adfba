"""Index files of a write: each task of pass 1 lists its blobs in one, and pass 2 finds the blobs of a subtask by them.

Locations of blobs do not go through Spark's shuffle. Spark recomputes shuffled rows that it loses together with an executor, and
requires the same rows again; names of files differ from attempt to attempt. Results of tasks are kept on the driver, whatever
happens to the executor, and each partition counts once, so that the order of its rows may differ between attempts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.backends.files.streams import FileStream
from state_processor.backends.write.arrays import one_list, repeated
from state_processor.backends.write.staging import Staging
from state_processor.write.shuffle import OF_ALL, SHUFFLED_BLOBS, ShuffleBlobs
from state_processor.write.staged_file import staged_file
from state_processor.write.subtask_files import SubtaskWriter
from state_processor.write.task_data import Batches, part_numbers, task_result

SHUFFLE_INDEXES: Final = pa.schema(
    [
        pa.field("index_file", pa.string(), nullable=False),
        pa.field("subtasks", pa.list_(pa.int32()), nullable=False),
        pa.field("sizes", pa.list_(pa.int64()), nullable=False),
    ]
)
"""Result of a task of pass 1: its index file, the numbers of the files that its blobs belong to, ascending, and their bytes."""

_ORDER: Final = [(name, "ascending") for name in ("subtask", "key_group", "state", "phase")]
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class WriteShuffleIndex:
    """Pass 1 with an index file: a record batch for each subtask, in the order of ``subtasks`` of :data:`SHUFFLE_INDEXES`."""

    shuffle: ShuffleBlobs

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield one row of :data:`SHUFFLE_INDEXES`, or none if there are no blobs."""
        table = pa.Table.from_batches(self.shuffle(batches), SHUFFLED_BLOBS)
        if not table.num_rows:
            return
        table = table.sort_by(_ORDER).combine_chunks()
        with staged_file(self.shuffle.staging, OF_ALL, "index", 0) as sink:
            buffer = pa.BufferOutputStream()
            subtasks, sizes = [], []
            with pa.ipc.new_file(buffer, SHUFFLED_BLOBS, options=_OPTIONS) as file:
                for subtask, blobs in split_by_subtask(table):
                    subtasks.append(subtask)
                    sizes.append(int(np.from_dlpack(blobs.column("size")).sum()))
                    file.write_batch(blobs)
            sink.write(buffer.getvalue())
        columns = [
            repeated(sink.name.encode(), 1, pa.string()),
            one_list(np.array(subtasks, np.int32), SHUFFLE_INDEXES.field("subtasks").type),
            one_list(np.array(sizes, np.int64), SHUFFLE_INDEXES.field("sizes").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SHUFFLE_INDEXES)


def split_by_subtask(table: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a table that is sorted by subtask and has one chunk."""
    subtasks = np.from_dlpack(table.column("subtask").chunk(0))
    begin = 0
    while begin < len(subtasks):
        end = int(subtasks.searchsorted(subtasks[begin], side="right"))
        yield int(subtasks[begin]), table.slice(begin, end - begin).combine_chunks().to_batches()[0]
        begin = end


@dataclass(frozen=True)
class ShuffleIndex:
    """The index file of one task; ``subtasks`` and ``sizes`` as in :data:`SHUFFLE_INDEXES`."""

    file: str
    subtasks: tuple[int, ...]
    sizes: tuple[int, ...]

    def read(self, subtask: int, staging: Staging) -> list[pa.RecordBatch]:
        """Read the rows of one subtask, :data:`~state_processor.write.shuffle.SHUFFLED_BLOBS`."""
        place = bisect_left(self.subtasks, subtask)
        if place == len(self.subtasks) or self.subtasks[place] != subtask:
            return []
        with pa.PythonFile(FileStream(staging.file(self.file)), mode="r") as source:
            return [pa.ipc.open_file(source).get_batch(place)]


def shuffle_indexes(rows: Iterable[pa.RecordBatch]) -> list[ShuffleIndex]:
    """Return indexes from rows of :data:`SHUFFLE_INDEXES`."""
    found = (row for batch in rows for row in batch.to_pylist())
    return [ShuffleIndex(row["index_file"], tuple(row["subtasks"]), tuple(row["sizes"])) for row in found]


FileWriters = Sequence[tuple[int, SubtaskWriter]]
"""Tasks of pass 2, ascending by the number of the first file that each writes."""


def write_file(writers: FileWriters, number: int, blobs: Batches) -> pa.RecordBatch:
    """Write the file with a number from its blobs; return a row of :data:`~state_processor.write.task_data.TASK_RESULTS`."""
    first, write = writers[bisect_right(writers, number, key=itemgetter(0)) - 1]
    return task_result(number, write(number - first, blobs))


@dataclass(frozen=True)
class WriteSubtasks:
    """Pass 2 by index files. Input rows are numbers of ``groups``, which consist of the numbers of files."""

    writers: FileWriters
    indexes: Sequence[ShuffleIndex]
    staging: Staging
    groups: tuple[Sequence[int], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield a result for each file, :data:`~state_processor.write.task_data.TASK_RESULTS`."""
        for number in (number for group in part_numbers(batches) for number in self.groups[group]):
            self.staging.check_open()
            blobs = [batch for index in self.indexes for batch in index.read(number, self.staging)]
            table = pa.Table.from_batches(blobs, SHUFFLED_BLOBS).sort_by(_ORDER)
            yield write_file(self.writers, number, table.to_batches())
