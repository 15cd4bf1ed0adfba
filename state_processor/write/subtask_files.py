"""Files of one subtask: written from its blobs, or copied."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from state_processor.backends.files.changes import FileSink
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.write.copied_subtasks import copy_subtask
from state_processor.backends.write.staging import Staging
from state_processor.serializers.errors import StateProcessorError
from state_processor.write.task_data import Batches


class staged_file:  # noqa: N801 - used like a function
    """Context manager of a new file, which is removed on failure, and if the write was aborted or completed without this task."""

    def __init__(self, staging: Staging, operator_id: str, what: str, subtask: int) -> None:
        staging.check_open()
        self._staging = staging
        self.sink = staging.open(staging.file_name(operator_id, what, subtask, uuid4().hex[:8]))

    def __enter__(self) -> FileSink:
        return self.sink

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.sink.close()
                self._staging.check_open()
                return
        except StateProcessorError:
            self._discard()
            raise
        self._discard()

    def _discard(self) -> None:
        with suppress(StateProcessorError):  # the first error is the one to tell; the end of the write removes the file
            self.sink.close()
        with suppress(StateProcessorError):
            self._staging.remove(self.sink.name)


class SubtaskWriter(Protocol):
    """Task of pass 2, which writes a file of one subtask."""

    def __call__(self, subtask: int, blobs: Batches) -> tuple[Any, int]:
        """Write the file from its blobs; return its handle and the number of entries."""


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
