"""Taking over a subtask's state file by file, for operators that nobody changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TypeVar

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.parallel import at_once
from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.write.carried_files import COPIES, copy_stream, shared_file
from state_processor.backends.write.store_writer import native_handle
from state_processor.serializers.errors import UnsupportedFormatError

OpenSink = Callable[[str], AbstractContextManager[FileSink]]
"""Opens a new file for what it is told: ``keyed``, ``operator``, ``raw-keyed``, ``raw-operator``."""

_Handle = TypeVar("_Handle", h.KeyGroupsStateHandle, h.OperatorStreamStateHandle)


def copy_subtask(
    subtask: OperatorSubtaskState, snapshot: Snapshot, open_sink: OpenSink, context: str, *, shares_files: bool = False
) -> OperatorSubtaskState:
    """Copy the files of a subtask and return the subtask that refers to the copies.

    Parameters
    ----------
    subtask
        The subtask in the source savepoint; its keyed state is in a single file, as in canonical savepoints and with the heap
        backend, or in the files of an embedded store.
    snapshot
        The source savepoint.
    open_sink
        Opens the files to write.
    context
        Operator and subtask, for error messages.
    shares_files
        Whether the files of an embedded store stay where they are.

    Raises
    ------
    UnsupportedFormatError
        If records are in flight, or keyed state is a changelog.
    CorruptSnapshotError
        If operator state and its header do not fit: a copy would lose rows.
    """
    if subtask.input_channels or subtask.result_subpartitions:
        raise UnsupportedFormatError(
            f"{context}: this unaligned checkpoint holds records in flight; they would be lost; start from a savepoint instead"
        )

    def copied(handle: _Handle | None, what: str) -> _Handle | None:
        if handle is None or isinstance(handle.stream, h.ByteStreamStateHandle):
            return handle
        with open_sink(what) as sink:
            return replace(handle, stream=copy_stream(snapshot.open(handle.stream, context), sink))

    def copied_file(stream: h.StreamStateHandle) -> h.StreamStateHandle:
        if isinstance(stream, h.ByteStreamStateHandle):
            return stream
        opened = snapshot.open(stream, context)
        shared = shared_file(opened) if shares_files else None
        if shared is not None:
            return shared
        with open_sink("store") as sink:
            return copy_stream(opened, sink)

    def copied_keyed(handle: h.KeyedStateHandle | None) -> h.KeyedStateHandle | None:
        if not isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            return copied(_single(handle, context), "keyed")
        streams = at_once(copied_file, [file.stream for file in handle.files], COPIES)
        files = tuple(h.LocalFile(file.local_name, stream) for file, stream in zip(handle.files, streams, strict=True))
        return native_handle(handle.backend_id, handle.key_groups, copied_file(handle.meta), files)

    if subtask.managed_operator is not None and subtask.managed_operator.states:
        with suppress(UnsupportedFormatError):  # an unknown serializer: the header can't be read
            operator_header(snapshot, subtask.managed_operator, context)
    return replace(
        subtask,
        managed_operator=copied(_plain(subtask.managed_operator), "operator"),
        raw_operator=copied(_plain(subtask.raw_operator), "raw-operator"),
        managed_keyed=copied_keyed(subtask.managed_keyed),
        raw_keyed=copied(_single(subtask.raw_keyed, context), "raw-keyed"),
    )


def _plain(handle: h.OperatorStateHandle | None) -> h.OperatorStreamStateHandle | None:
    """Return an operator state handle without file merging, which savepoints do not have."""
    if isinstance(handle, h.FileMergingOperatorStreamStateHandle):
        return None if handle.is_empty else h.OperatorStreamStateHandle(handle.states, handle.stream)
    return handle


def _single(handle: h.KeyedStateHandle | None, context: str) -> h.KeyGroupsStateHandle | None:
    if handle is None or isinstance(handle, h.KeyGroupsStateHandle):
        return handle
    raise UnsupportedFormatError(f"{context}: the files of {type(handle).__name__} can't be copied one by one")
