"""Index files of a write: each task of pass 1 lists its blobs in one, and pass 2 finds the blobs of a subtask by them.

Locations of blobs do not go through Spark's shuffle. Spark recomputes shuffled rows that it loses together with an executor, and
requires the same rows again; names of files differ from attempt to attempt. Results of tasks are kept on the driver, whatever
happens to the executor, and each partition counts once, so that the order of its rows may differ between attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from state_processor.backends.files.streams import FileStream
from state_processor.backends.write.staging import Staging
from state_processor.write.shuffle import SHUFFLED_BLOBS, ShuffleBlobs
from state_processor.write.subtask_files import SubtaskWriter
from state_processor.write.task_data import Batches, part_numbers, task_result

SHUFFLE_INDEXES: Final = pa.schema(
    [
        pa.field("index_file", pa.string(), nullable=False),
        pa.field("subtasks", pa.list_(pa.int32()), nullable=False),
    ]
)
"""Result of a task of pass 1: its index file, and the subtasks that its blobs belong to."""

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
        staging = self.shuffle.staging
        with staging.open(staging.file_name(self.shuffle.operator_id, "index", 0, uuid4().hex[:16])) as sink:
            buffer = pa.BufferOutputStream()
            subtasks = []
            with pa.ipc.new_file(buffer, SHUFFLED_BLOBS, options=_OPTIONS) as file:
                for subtask, blobs in split_by_subtask(table):
                    subtasks.append(subtask)
                    file.write_batch(blobs)
            sink.write(buffer.getvalue())
        yield pa.RecordBatch.from_pylist([{"index_file": sink.name, "subtasks": subtasks}], schema=SHUFFLE_INDEXES)


def split_by_subtask(table: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a table that is sorted by subtask and has one chunk."""
    subtasks = table.column("subtask").to_numpy()
    begin = 0
    while begin < len(subtasks):
        end = int(subtasks.searchsorted(subtasks[begin], side="right"))
        yield int(subtasks[begin]), table.slice(begin, end - begin).combine_chunks().to_batches()[0]
        begin = end


@dataclass(frozen=True)
class ShuffleIndex:
    """The index file of one task."""

    file: str
    subtasks: tuple[int, ...]

    def read(self, subtask: int, staging: Staging) -> list[pa.RecordBatch]:
        """Read the rows of one subtask, :data:`~state_processor.write.shuffle.SHUFFLED_BLOBS`."""
        if subtask not in self.subtasks:
            return []
        with pa.PythonFile(FileStream(staging.file(self.file)), mode="r") as source:
            return [pa.ipc.open_file(source).get_batch(self.subtasks.index(subtask))]


def shuffle_indexes(rows: Iterable[pa.RecordBatch]) -> list[ShuffleIndex]:
    """Return indexes from rows of :data:`SHUFFLE_INDEXES`."""
    return [ShuffleIndex(row["index_file"], tuple(row["subtasks"])) for batch in rows for row in batch.to_pylist()]


@dataclass(frozen=True)
class WriteSubtasks:
    """Pass 2 by index files. Input rows are numbers of subtasks; yields :data:`~state_processor.write.task_data.TASK_RESULTS`."""

    write: SubtaskWriter
    indexes: Sequence[ShuffleIndex]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield a result for each subtask."""
        for subtask in part_numbers(batches):
            self.write.staging.check_open()
            blobs = [batch for index in self.indexes for batch in index.read(subtask, self.write.staging)]
            table = pa.Table.from_batches(blobs, SHUFFLED_BLOBS).sort_by(_ORDER)
            handle, entries = self.write(subtask, table.to_batches())
            yield task_result(subtask, handle, entries)
