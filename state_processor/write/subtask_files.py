"""Files of one subtask: written from its blobs, or copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.backends.write.copied_subtasks import copy_subtask
from state_processor.backends.write.staging import Staging
from state_processor.write.staged_file import staged_file
from state_processor.write.task_data import Batches


@dataclass(frozen=True)
class WrittenFile:
    """File of one subtask: its handle, the number of entries, and by state the changes to the source savepoint."""

    handle: Any
    entries: int
    changes: Mapping[str, ChangeCounts] = field(default_factory=dict)


class SubtaskWriter(Protocol):
    """Task of pass 2, which writes a file of one subtask."""

    def __call__(self, subtask: int, blobs: Batches) -> WrittenFile:
        """Write the file from its blobs."""


@dataclass(frozen=True)
class CopyPart:
    """Subtask of an operator whose files are copied."""

    operator_id: str
    label: str
    subtask: OperatorSubtaskState

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return self.subtask.state_size


@dataclass(frozen=True)
class CopySubtasks:
    """Task that copies the files of a subtask, or with ``shares_files`` leaves those of embedded stores where they are."""

    snapshot: Snapshot
    staging: Staging
    shares_files: bool = False

    def __call__(self, part: CopyPart) -> OperatorSubtaskState:
        """Return the subtask with handles of the copies."""

        def open_sink(what: str) -> staged_file:
            return staged_file(self.staging, part.operator_id, what, part.subtask.index)

        where = f"{part.label}, subtask {part.subtask.index}"
        return copy_subtask(part.subtask, self.snapshot, open_sink, where, shares_files=self.shares_files)
