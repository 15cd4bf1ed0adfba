"""What the first pass of a write leaves for the second where bytes go through files: runs, and where each blob is in them.

Spark's shuffle is not asked to carry the places. What it has lost together with an executor it computes again, and it insists
on getting the same rows then, which names of files that every attempt has of its own can't be. Results of tasks, on the other
hand, stay, whatever happens to the executor; and each partition counts once, so that it does not matter whether rows come in
the same order another time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from state_processor.backends.write.staging import Staging
from state_processor.write.tasks import PLACED_BLOBS, Batches, PlaceBlobs, SubtaskWriter, message, numbers

RUNS: Final = pa.schema(
    [
        pa.field("places", pa.string(), nullable=False),
        pa.field("subtasks", pa.list_(pa.int32()), nullable=False),
    ]
)
"""What a task of the first pass tells the driver: the file with the places of its blobs, and the subtasks that they are for."""

_ORDER: Final = [(name, "ascending") for name in ("subtask", "key_group", "state", "phase")]
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class NotePlaces:
    """Pass 1 with its places in a file: a record batch for each subtask, in the order of :data:`RUNS`."""

    place: PlaceBlobs

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """At most one row of :data:`RUNS`."""
        table = pa.Table.from_batches(self.place(batches), PLACED_BLOBS)
        if not table.num_rows:
            return
        table = table.sort_by(_ORDER).combine_chunks()
        staging = self.place.staging
        with staging.open(staging.file_name(self.place.operator_id, "places", 0, uuid4().hex[:16])) as sink:
            buffer = pa.BufferOutputStream()
            subtasks = []
            with pa.ipc.new_file(buffer, PLACED_BLOBS, options=_OPTIONS) as file:
                for subtask, places in by_subtask(table):
                    subtasks.append(subtask)
                    file.write_batch(places)
            sink.write(buffer.getvalue())
        yield pa.RecordBatch.from_pylist([{"places": sink.name, "subtasks": subtasks}], schema=RUNS)


def by_subtask(table: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The places of each subtask, of a table in one piece that is sorted by it."""
    subtasks = table.column("subtask").to_numpy()
    begin = 0
    while begin < len(subtasks):
        end = int(subtasks.searchsorted(subtasks[begin], side="right"))
        yield int(subtasks[begin]), table.slice(begin, end - begin).combine_chunks().to_batches()[0]
        begin = end


@dataclass(frozen=True)
class Run:
    """The places of one task's blobs."""

    places: str
    subtasks: tuple[int, ...]

    def of_subtask(self, subtask: int, staging: Staging) -> list[pa.RecordBatch]:
        """The places of blobs for one subtask."""
        if subtask not in self.subtasks:
            return []
        with staging.open_input(self.places) as source:
            return [pa.ipc.open_file(source).get_batch(self.subtasks.index(subtask))]


def runs_of(rows: Iterable[pa.RecordBatch]) -> list[Run]:
    """Runs from rows of :data:`RUNS`."""
    return [Run(row["places"], tuple(row["subtasks"])) for batch in rows for row in batch.to_pylist()]


@dataclass(frozen=True)
class GatherBlobs:
    """Pass 2 over runs; rows are the numbers of subtasks. Gives :data:`~state_processor.write.tasks.MESSAGES`."""

    write: SubtaskWriter
    runs: Sequence[Run]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """A message for each subtask."""
        for subtask in numbers(batches):
            self.write.staging.check_open()
            places = [batch for run in self.runs for batch in run.of_subtask(subtask, self.write.staging)]
            table = pa.Table.from_batches(places, PLACED_BLOBS).sort_by(_ORDER)
            handle, entries = self.write(subtask, table.to_batches())
            yield message(subtask, handle, entries)
