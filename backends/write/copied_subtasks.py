"""Copies of the files of subtasks whose state does not change."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from state_processor.backends.files.parallel import at_once
from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.write.carried_files import COPIES, carried_stream, copy_stream
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.store_writer import native_handle
from state_processor.serializers.errors import UnsupportedFormatError

_Handle = TypeVar("_Handle", h.KeyGroupsStateHandle, h.OperatorStreamStateHandle)


@dataclass(frozen=True)
class CopyPart:
    """Subtask of an operator whose files are copied.

    Its keyed state is in a single file, as in canonical savepoints and with the heap backend, or in the files of a store.
    """

    operator_id: str
    label: str
    subtask: OperatorSubtaskState

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return self.subtask.state_size


@dataclass(frozen=True)
class CopySubtasks:
    """Task that copies the files of a subtask.

    Parameters
    ----------
    snapshot
        The source savepoint, as it travels to tasks.
    staging
        The write.
    shares_files
        Whether the files of embedded stores stay where they are.
    """

    snapshot: Snapshot
    staging: Staging
    shares_files: bool = False

    def __call__(self, part: CopyPart) -> OperatorSubtaskState:
        """Return the subtask with handles of the copies.

        Raises
        ------
        UnsupportedFormatError
            If the checkpoint has records in flight, or keyed state is a changelog.
        CorruptSnapshotError
            If operator state and its header do not fit: a copy would lose rows.
        """
        subtask, context = part.subtask, f"{part.label}, subtask {part.subtask.index}"
        if subtask.input_channels or subtask.result_subpartitions:
            raise UnsupportedFormatError(
                f"{context}: this unaligned checkpoint has records in flight, which would be lost; start from a savepoint instead"
            )
        if subtask.managed_operator is not None and subtask.managed_operator.states:
            with suppress(UnsupportedFormatError):  # an unknown serializer: the header can't be read
                operator_header(self.snapshot, subtask.managed_operator, context)
        return replace(
            subtask,
            managed_operator=self._copied(_plain(subtask.managed_operator), "operator", part, context),
            raw_operator=self._copied(_plain(subtask.raw_operator), "raw-operator", part, context),
            managed_keyed=self._copied_keyed(part, context),
            raw_keyed=self._copied(_single(subtask.raw_keyed, context), "raw-keyed", part, context),
        )

    def _copied(self, handle: _Handle | None, role: str, part: CopyPart, context: str) -> _Handle | None:
        if handle is None or isinstance(handle.stream, h.ByteStreamStateHandle):
            return handle
        with self.staging.new_file(part.operator_id, role, part.subtask.index) as sink:
            return replace(handle, stream=copy_stream(self.snapshot.open(handle.stream, context), sink))

    def _copied_keyed(self, part: CopyPart, context: str) -> h.KeyedStateHandle | None:
        handle = part.subtask.managed_keyed
        if not isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            return self._copied(_single(handle, context), "keyed", part, context)

        def carried(stream: h.StreamStateHandle) -> h.StreamStateHandle:
            open_sink = partial(self.staging.new_file, part.operator_id, subtask=part.subtask.index)
            return carried_stream(self.snapshot, stream, open_sink, context, shares_files=self.shares_files)

        streams = at_once(carried, [file.stream for file in handle.files], COPIES)
        files = tuple(h.LocalFile(file.local_name, stream) for file, stream in zip(handle.files, streams, strict=True))
        return native_handle(handle.backend_id, handle.key_groups, carried(handle.meta), files)


def _plain(handle: h.OperatorStateHandle | None) -> h.OperatorStreamStateHandle | None:
    """Return an operator state handle without file merging, which savepoints do not have."""
    if isinstance(handle, h.FileMergingOperatorStreamStateHandle):
        return None if handle.is_empty else h.OperatorStreamStateHandle(handle.states, handle.stream)
    return handle


def _single(handle: h.KeyedStateHandle | None, context: str) -> h.KeyGroupsStateHandle | None:
    if handle is None or isinstance(handle, h.KeyGroupsStateHandle):
        return handle
    raise UnsupportedFormatError(f"{context}: the files of {type(handle).__name__} can't be copied one by one")
