"""Pass 2 of a write: tasks that write the files of subtasks from their blobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from operator import itemgetter
from typing import Any, Protocol

import pyarrow as pa

from state_processor.backends.write.blobs import BLOB_ORDER, DEALT
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.backends.write.staging import Staging
from state_processor.serializers.late import pc
from state_processor.serializers.records import dataclass
from state_processor.write.blob_index import SPILLED_BLOBS, BlobIndex
from state_processor.write.part_tasks import Batches, part_numbers, task_result


@dataclass(frozen=True)
class WrittenFile:
    """File of one subtask: its handle, the number of entries, and by state the changes to the source savepoint."""

    handle: Any
    entries: int
    changes: Mapping[str, ChangeCounts] = field(default_factory=dict)


class SubtaskWriter(Protocol):
    """Writer of the file of one subtask; it can be pickled."""

    @property
    def deals(self) -> bool:
        """Whether each subtask gets the blobs of the first one that have to be dealt, and takes its share of them."""

    def __call__(self, subtask: int, blobs: Batches) -> WrittenFile:
        """Write the file from its blobs, which are in the order of ``BLOB_ORDER`` except for their subtask."""


@dataclass(frozen=True)
class SecondPass:
    """Pass 2: a task that writes files. Input rows are numbers of ``groups``, which consist of the numbers of files.

    Parameters
    ----------
    writers
        The writer of each operator's files with the number of its first file, ascending.
    staging
        The write.
    indexes
        The indexes that tasks of pass 1 have written.
    groups
        The groups of files.
    """

    writers: Sequence[tuple[int, SubtaskWriter]]
    staging: Staging
    indexes: Sequence[BlobIndex] = ()
    groups: tuple[Sequence[int], ...] = ()

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield a result for each file, :data:`~state_processor.write.part_tasks.TASK_RESULTS`."""
        for number in (number for group in part_numbers(batches) for number in self.groups[group]):
            self.staging.check_open()
            first, write = self._writer(number)
            blobs = self._blobs(number)
            if write.deals and number != first:
                dealt = self._blobs(first)
                blobs = pa.concat_tables([blobs, dealt.filter(pc.equal(dealt.column("key_group"), DEALT))])
            yield self.write_file(number, blobs.sort_by(BLOB_ORDER[1:]).to_batches())

    def _blobs(self, number: int) -> pa.Table:
        batches = [batch for index in self.indexes for batch in index.read(number, self.staging)]
        return pa.Table.from_batches(batches, SPILLED_BLOBS)

    def write_file(self, number: int, blobs: Batches) -> pa.RecordBatch:
        """Write the file with a number from its sorted blobs; return its result."""
        first, write = self._writer(number)
        return task_result(number, write(number - first, blobs))

    def _writer(self, number: int) -> tuple[int, SubtaskWriter]:
        """Return the number of the first file of an operator, and the writer of its files."""
        return self.writers[bisect_right(self.writers, number, key=itemgetter(0)) - 1]
