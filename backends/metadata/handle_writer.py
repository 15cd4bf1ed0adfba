"""State handles to bytes: one writer per class, the inverse of :mod:`~state_processor.backends.metadata.handle_reader`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.stored_part import StoredPart
from state_processor.serializers.io import DataOutput

_CHANNEL_CODES: Final[dict[type, int]] = {
    h.InputChannelStateHandle: 1,
    h.ResultSubpartitionStateHandle: 2,
    h.MergedInputChannelStateHandle: 3,
    h.MergedResultSubpartitionStateHandle: 4,
}


def write_handle(out: DataOutput, handle: h.StreamStateHandle | h.KeyedStateHandle | h.OperatorStateHandle | None) -> None:
    """Write the code of a stream, keyed state or operator state handle, then the handle; or null."""
    _WRITERS[type(handle)](out, handle)


def write_channel(out: DataOutput, handle: h.InputStateHandle | h.OutputStateHandle, typed: bool) -> None:
    """Write a channel state handle, with its type byte from metadata version 6 on (``typed``)."""
    if typed:
        out.write_byte(_CHANNEL_CODES[type(handle)])
    out.write_int(handle.subtask_index)
    if isinstance(handle, h.ChannelStateHandle):
        out.write_int(handle.group)
        out.write_int(handle.channel)
        _write_offsets(out, handle.offsets)
        out.write_long(handle.size)
        write_handle(out, handle.stream)
    else:
        out.write_long(handle.size)
        write_handle(out, handle.stream)
        _write_data(out, handle.serialized_offsets)


def _write_null(out: DataOutput, _: None) -> None:
    out.write_byte(h.NULL)


def _write_byte_stream(out: DataOutput, handle: h.ByteStreamStateHandle) -> None:
    out.write_byte(h.BYTE_STREAM)
    out.write_utf(handle.name)
    _write_data(out, handle.data)


def _write_file(out: DataOutput, handle: h.FileStateHandle) -> None:
    out.write_byte(h.FILE)
    out.write_long(handle.size)
    out.write_utf(handle.path)


def _write_relative_file(out: DataOutput, handle: h.RelativeFileStateHandle) -> None:
    out.write_byte(h.RELATIVE_FILE)
    out.write_utf(handle.path)
    out.write_long(handle.size)


def _write_segment(out: DataOutput, handle: h.SegmentFileStateHandle) -> None:
    out.write_byte(h.SEGMENT)
    out.write_long(handle.start)
    out.write_long(handle.size)
    out.write_int(handle.scope)
    out.write_utf(handle.path)
    out.write_utf(handle.logical_file_id)


def _write_empty_segment(out: DataOutput, _: h.EmptySegmentFileStateHandle) -> None:
    out.write_byte(h.EMPTY_SEGMENT)


def _write_key_groups(out: DataOutput, handle: h.KeyGroupsStateHandle) -> None:
    out.write_byte(handle.code)
    _write_range(out, handle.key_groups)
    out.write_bytes(handle.offsets.raw)
    write_handle(out, handle.stream)
    _write_optional_utf(out, handle.handle_id)


def _write_incremental(out: DataOutput, handle: h.IncrementalRemoteKeyedStateHandle) -> None:
    out.write_byte(handle.code)
    out.write_long(handle.checkpoint_id)
    out.write_utf(handle.backend_id)
    _write_range(out, handle.key_groups)
    _write_optional_long(out, handle.checkpointed_size)
    write_handle(out, handle.meta)
    for files in (handle.shared, handle.private):
        out.write_int(len(files))
        for file in files:
            out.write_utf(file.local_name)
            write_handle(out, file.stream)
    _write_optional_utf(out, handle.handle_id)


def _write_changelog(out: DataOutput, handle: h.ChangelogStateBackendHandle) -> None:
    out.write_byte(handle.code)
    _write_range(out, handle.key_groups)
    out.write_long(handle.checkpointed_size)
    for part in (handle.materialized, handle.changes):
        out.write_int(len(part))
        for nested in part:
            write_handle(out, nested)
    out.write_long(handle.materialization_id)
    _write_optional_long(out, handle.checkpoint_id)
    out.write_utf(handle.handle_id)


def _write_memory_changelog(out: DataOutput, handle: h.InMemoryChangelogStateHandle) -> None:
    out.write_byte(h.CHANGELOG_BYTES)
    _write_range(out, handle.key_groups)
    out.write_long(handle.from_sequence)
    out.write_long(handle.to_sequence)
    out.write_int(len(handle.changes))
    for change in handle.changes:
        out.write_int(change.key_group)
        _write_data(out, change.data)
    out.write_utf(handle.handle_id)


def _write_file_changelog(out: DataOutput, handle: h.ChangelogFileStateHandle) -> None:
    out.write_byte(handle.code)
    _write_range(out, handle.key_groups)
    out.write_int(len(handle.streams))
    for offset, stream in handle.streams:
        out.write_long(offset)
        write_handle(out, stream)
    out.write_long(handle.size)
    out.write_long(handle.checkpointed_size)
    out.write_utf(handle.handle_id)
    _write_optional_utf(out, handle.storage_identifier)


def _write_operator_stream(out: DataOutput, handle: h.OperatorStreamStateHandle) -> None:
    out.write_byte(h.OPERATOR)
    _write_operator_states(out, handle.states)
    write_handle(out, handle.stream)


def _write_file_merging_operator(out: DataOutput, handle: h.FileMergingOperatorStreamStateHandle) -> None:
    out.write_byte(h.FILE_MERGING_OPERATOR)
    _write_operator_states(out, handle.states)
    out.write_utf(handle.task_owned_dir)
    out.write_utf(handle.shared_dir)
    out.write_boolean(handle.is_empty)
    write_handle(out, handle.stream)


def _write_operator_states(out: DataOutput, states: tuple[h.OperatorStateMeta, ...]) -> None:
    out.write_int(len(states))
    for state in states:
        out.write_utf(state.name)
        out.write_byte(state.mode)
        _write_offsets(out, state.offsets)


def _write_offsets(out: DataOutput, offsets: h.Offsets) -> None:
    out.write_int(len(offsets))
    out.write_bytes(offsets.raw)


def _write_data(out: DataOutput, data: bytes | memoryview | StoredPart) -> None:
    out.write_int(len(data))
    out.write_bytes(data[:])


def _write_range(out: DataOutput, key_groups: h.KeyGroupRange) -> None:
    out.write_int(key_groups.start)
    out.write_int(len(key_groups))


def _write_optional_utf(out: DataOutput, text: str | None) -> None:
    if text is not None:
        out.write_utf(text)


def _write_optional_long(out: DataOutput, number: int | None) -> None:
    if number is not None:
        out.write_long(number)


_WRITERS: Final[dict[type, Callable[[DataOutput, Any], None]]] = {
    type(None): _write_null,
    h.ByteStreamStateHandle: _write_byte_stream,
    h.FileStateHandle: _write_file,
    h.RelativeFileStateHandle: _write_relative_file,
    h.SegmentFileStateHandle: _write_segment,
    h.EmptySegmentFileStateHandle: _write_empty_segment,
    h.KeyGroupsStateHandle: _write_key_groups,
    h.IncrementalRemoteKeyedStateHandle: _write_incremental,
    h.ChangelogStateBackendHandle: _write_changelog,
    h.InMemoryChangelogStateHandle: _write_memory_changelog,
    h.ChangelogFileStateHandle: _write_file_changelog,
    h.OperatorStreamStateHandle: _write_operator_stream,
    h.FileMergingOperatorStreamStateHandle: _write_file_merging_operator,
}
