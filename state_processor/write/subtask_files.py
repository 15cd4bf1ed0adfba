"""Files of one subtask: written from its blobs, or copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.write.copied_subtasks import copy_subtask
from state_processor.backends.write.staging import FileSink, Staging
from state_processor.serializers.errors import OptionError, WriteError
from state_processor.write.task_data import Batches, part_numbers, task_result


class staged_file:  # noqa: N801 - used like a function
    """A new file of a write; it goes away again on failure, and where the write was given up or done without this task."""

    def __init__(self, staging: Staging, operator_id: str, what: str, subtask: int) -> None:
        staging.check_open()
        self._staging = staging
        self.sink = staging.open(staging.file_name(operator_id, what, subtask, uuid4().hex[:8]))

    def __enter__(self) -> FileSink:
        return self.sink

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.sink.close()
            if kind is None:
                self._staging.check_open()
                return
        except WriteError:
            self._staging.remove(self.sink.name)
            raise
        self._staging.remove(self.sink.name)


class SubtaskWriter(Protocol):
    """Writes a file of one subtask."""

    @property
    def staging(self) -> Staging:
        """The write that the file is of."""

    def __call__(self, subtask: int, blobs: Batches) -> tuple[Any, int]:
        """The handle, and the number of entries."""


@dataclass(frozen=True)
class WritePartition:
    """Runs a :class:`SubtaskWriter` in each partition, whose number is that of the subtask; gives :data:`TASK_RESULTS`."""

    write: SubtaskWriter

    def __call__(self, blobs: Batches) -> Iterator[pa.RecordBatch]:
        """One message."""
        subtask = _partition()
        handle, entries = self.write(subtask, blobs)
        yield task_result(subtask, handle, entries)


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise OptionError("not inside a task of Spark")
    return int(context.partitionId())


@dataclass(frozen=True)
class CopyPart:
    """A subtask of an operator that is taken over file by file."""

    operator_id: str
    label: str
    subtask: OperatorSubtaskState


@dataclass(frozen=True)
class CopySubtasks:
    """Copies the files of subtasks; rows are the numbers of ``parts``. Gives :data:`TASK_RESULTS`, by the number of the part."""

    snapshot: Snapshot
    staging: Staging
    parts: tuple[CopyPart, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """A message for each part."""
        for number in part_numbers(batches):
            part = self.parts[number]

            def open_sink(what: str, part: CopyPart = part) -> staged_file:
                return staged_file(self.staging, part.operator_id, what, part.subtask.index)

            copied = copy_subtask(part.subtask, self.snapshot, open_sink, f"{part.label}, subtask {part.subtask.index}")
            yield task_result(number, copied, 0)
