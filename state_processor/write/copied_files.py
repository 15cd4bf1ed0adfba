"""Copies of the files of subtasks whose state does not change."""

from __future__ import annotations

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.write.copied_subtasks import copy_subtask
from state_processor.backends.write.staging import Staging
from state_processor.serializers.records import dataclass
from state_processor.write.staged_file import staged_file


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
    """Task that copies the files of a subtask; with ``shares_files`` the files of embedded stores stay where they are."""

    snapshot: Snapshot
    staging: Staging
    shares_files: bool = False

    def __call__(self, part: CopyPart) -> OperatorSubtaskState:
        """Return the subtask with handles of the copies."""

        def open_sink(what: str) -> staged_file:
            return staged_file(self.staging, part.operator_id, what, part.subtask.index)

        where = f"{part.label}, subtask {part.subtask.index}"
        return copy_subtask(part.subtask, self.snapshot, open_sink, where, shares_files=self.shares_files)
