"""State handles to bytes and back: one reader per code, one writer per class.

The layouts are those of Flink's ``MetadataV2V3SerializerBase`` and ``ChannelStateHandleSerializer``. Codes do not depend on
the version of ``_metadata``: a version 3 file may hold codes that came later.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from state_processor.backends.metadata import handles as h
from state_processor.serializers.io import DataInput, DataOutput, decode_modified_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

_USHORT: Final = struct.Struct(">H")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_TWO_INTS: Final = struct.Struct(">ii")
_TWO_LONGS: Final = struct.Struct(">qq")
_INT_LONG: Final = struct.Struct(">iq")
_RANGE_AND_SEQUENCES: Final = struct.Struct(">iiqq")
_RANGE_AND_SIZE: Final = struct.Struct(">iiq")
_SEGMENT: Final = struct.Struct(">qqi")
_CHANNEL: Final = struct.Struct(">iii")

# The fewest bytes an element of a list can have: its announced number is checked against what is left.
_SMALLEST_HANDLE: Final = 1
_SMALLEST_LOCAL_FILE: Final = 3
_SMALLEST_CHANGE: Final = 8
_SMALLEST_STREAM_AND_OFFSET: Final = 9
_SMALLEST_OPERATOR_STATE: Final = 7


class HandleInput(DataInput):
    """A :class:`DataInput` with fused reads: a ``_metadata`` may hold hundreds of thousands of handles."""

    __slots__ = ("raw",)

    def __init__(self, data: bytes, source: str) -> None:
        super().__init__(data, source)
        self.raw = data

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several numbers in one read."""
        start = self.position
        if start + layout.size > self.end:
            raise self.corrupt(f"{layout.size} bytes expected, {self.remaining} left")
        self.position = start + layout.size
        return layout.unpack_from(self.raw, start)

    def skip_if(self, expected: bytes) -> bool:
        """Step over ``expected`` if it comes next."""
        if not self.raw.startswith(expected, self.position):
            return False
        self.position += len(expected)
        return True

    def read_code(self) -> int:
        """The code that starts a handle."""
        start = self.position
        if start >= self.end:
            raise self.corrupt("state handle expected, nothing left")
        self.position = start + 1
        return self.raw[start]

    def read_utf(self) -> str:
        """Java's modified UTF-8 with a 16-bit length."""
        start = self.position
        (size,) = self.unpack(_USHORT)
        raw = self.take(size, "string")
        try:
            return raw.decode("ascii")
        except UnicodeDecodeError:
            pass
        try:
            return decode_modified_utf8(raw)
        except UnicodeDecodeError as e:
            raise self.corrupt(f"not modified UTF-8: {e.reason}", start) from None

    def take(self, size: int, what: str) -> bytes:
        """Exactly ``size`` bytes."""
        start = self.position
        if size < 0 or start + size > self.end:
            raise self.corrupt(f"{what} of {size} bytes announced, {self.remaining} left")
        self.position = start + size
        return self.raw[start : start + size]

    def read_data(self, what: str) -> bytes:
        """Bytes preceded by their length."""
        return self.take(self.unpack(_INT)[0], what)

    def read_offsets(self, count: int) -> h.Offsets:
        """``count`` longs."""
        return h.Offsets(self.take(8 * count, "offsets"))

    def key_group_range(self, start: int, count: int) -> h.KeyGroupRange:
        """The range of ``count`` key groups from ``start``, which must be one that Flink can have."""
        if start < 0 or count < 0 or start + count > h.MAX_KEY_GROUPS:
            raise self.corrupt(f"{count} key groups from {start} announced, there are at most {h.MAX_KEY_GROUPS}")
        return h.KeyGroupRange(start, start + count - 1)


def _dispatch(inp: HandleInput, readers: Mapping[int, Callable[[HandleInput], _T]], kind: str) -> _T:
    code = inp.read_code()
    reader = readers.get(code)
    if reader is None:
        raise inp.corrupt(f"{code} is no code of a {kind}", inp.position - 1)
    return reader(inp)


def _nothing(_: HandleInput) -> None:
    return None


# Streams


def read_stream(inp: HandleInput) -> h.StreamStateHandle | None:
    """A ``StreamStateHandle`` or null."""
    return _dispatch(inp, _STREAM_READERS, "stream handle")


def _stream(inp: HandleInput) -> h.StreamStateHandle:
    handle = read_stream(inp)
    if handle is None:
        raise inp.corrupt("null where a stream handle must be", inp.position - 1)
    return handle


def _read_byte_stream(inp: HandleInput) -> h.ByteStreamStateHandle:
    return h.ByteStreamStateHandle(inp.read_utf(), inp.read_data("inline state"))


def _read_file(inp: HandleInput) -> h.FileStateHandle:
    (size,) = inp.unpack(_LONG)
    return h.FileStateHandle(_size(inp, size), inp.read_utf())


def _read_relative_file(inp: HandleInput) -> h.RelativeFileStateHandle:
    path = inp.read_utf()
    (size,) = inp.unpack(_LONG)
    return h.RelativeFileStateHandle(path, _size(inp, size))


def _size(inp: HandleInput, size: int) -> int:
    if size < 0:
        raise inp.corrupt(f"negative length {size}")
    return size


def _read_segment(inp: HandleInput) -> h.SegmentFileStateHandle:
    start, size, scope = inp.unpack(_SEGMENT)
    if scope not in (0, 1):
        raise inp.corrupt(f"{scope} is no scope of a segment (0 exclusive, 1 shared)")
    return h.SegmentFileStateHandle(_size(inp, start), _size(inp, size), scope, inp.read_utf(), inp.read_utf())


def _read_empty_segment(_: HandleInput) -> h.EmptySegmentFileStateHandle:
    return h.EmptySegmentFileStateHandle()


def _read_key_groups(code: int, inp: HandleInput) -> h.KeyGroupsStateHandle:
    start, count = inp.unpack(_TWO_INTS)
    key_groups = inp.key_group_range(start, count)
    offsets = inp.read_offsets(count)
    stream = _stream(inp)
    return h.KeyGroupsStateHandle(code, key_groups, offsets, stream, inp.read_utf() if code == h.KEY_GROUPS_V2 else None)


_STREAM_READERS: Final[dict[int, Callable[[HandleInput], h.StreamStateHandle | None]]] = {
    h.NULL: _nothing,
    h.BYTE_STREAM: _read_byte_stream,
    h.FILE: _read_file,
    h.KEY_GROUPS: partial(_read_key_groups, h.KEY_GROUPS),
    h.RELATIVE_FILE: _read_relative_file,
    h.SEGMENT: _read_segment,
    h.EMPTY_SEGMENT: _read_empty_segment,
}


# Keyed state


def read_keyed(inp: HandleInput) -> h.KeyedStateHandle | None:
    """A ``KeyedStateHandle`` or null."""
    return _dispatch(inp, _KEYED_READERS, "keyed state handle")


def _read_incremental(code: int, inp: HandleInput) -> h.IncrementalRemoteKeyedStateHandle:
    (checkpoint_id,) = inp.unpack(_LONG)
    backend_id = inp.read_utf()
    key_groups = inp.key_group_range(*inp.unpack(_TWO_INTS))
    second = code == h.INCREMENTAL_V2
    return h.IncrementalRemoteKeyedStateHandle(
        code,
        checkpoint_id,
        backend_id,
        key_groups,
        checkpointed_size=inp.unpack(_LONG)[0] if second else None,
        meta=_stream(inp),
        shared=_read_local_files(inp),
        private=_read_local_files(inp),
        handle_id=inp.read_utf() if second else None,
    )


def _read_local_files(inp: HandleInput) -> tuple[h.LocalFile, ...]:
    count = inp.read_count("files", _SMALLEST_LOCAL_FILE)
    return tuple([h.LocalFile(inp.read_utf(), _stream(inp)) for _ in range(count)])


def _read_changelog(code: int, inp: HandleInput) -> h.ChangelogStateBackendHandle:
    start, count, checkpointed_size = inp.unpack(_RANGE_AND_SIZE)
    key_groups = inp.key_group_range(start, count)
    materialized = [read_keyed(inp) for _ in range(inp.read_count("materialized handles", _SMALLEST_HANDLE))]
    changes = [_read_change(inp) for _ in range(inp.read_count("changelog handles", _SMALLEST_HANDLE))]
    return h.ChangelogStateBackendHandle(
        code,
        key_groups,
        checkpointed_size,
        tuple([m for m in materialized if m is not None]),  # Flink drops nulls here too
        tuple(changes),
        materialization_id=inp.unpack(_LONG)[0],
        checkpoint_id=inp.unpack(_LONG)[0] if code == h.CHANGELOG_V2 else None,
        handle_id=inp.read_utf(),
    )


def _read_change(inp: HandleInput) -> h.ChangelogStateHandle:
    return _dispatch(inp, _CHANGE_READERS, "changelog handle")


def _read_memory_changelog(inp: HandleInput) -> h.InMemoryChangelogStateHandle:
    start, count, from_sequence, to_sequence = inp.unpack(_RANGE_AND_SEQUENCES)
    key_groups = inp.key_group_range(start, count)
    changes = [
        h.StateChange(inp.unpack(_INT)[0], inp.read_data("state change"))
        for _ in range(inp.read_count("state changes", _SMALLEST_CHANGE))
    ]
    return h.InMemoryChangelogStateHandle(key_groups, from_sequence, to_sequence, tuple(changes), inp.read_utf())


def _read_file_changelog(code: int, inp: HandleInput) -> h.ChangelogFileStateHandle:
    key_groups = inp.key_group_range(*inp.unpack(_TWO_INTS))
    count = inp.read_count("changelog files", _SMALLEST_STREAM_AND_OFFSET)
    streams = tuple([(inp.unpack(_LONG)[0], _stream(inp)) for _ in range(count)])
    size, checkpointed_size = inp.unpack(_TWO_LONGS)
    return h.ChangelogFileStateHandle(
        code,
        key_groups,
        streams,
        size,
        checkpointed_size,
        handle_id=inp.read_utf(),
        storage_identifier=inp.read_utf() if code == h.CHANGELOG_FILE_V2 else None,
    )


_CHANGE_READERS: Final[dict[int, Callable[[HandleInput], h.ChangelogStateHandle]]] = {
    h.CHANGELOG_BYTES: _read_memory_changelog,
    h.CHANGELOG_FILE: partial(_read_file_changelog, h.CHANGELOG_FILE),
    h.CHANGELOG_FILE_V2: partial(_read_file_changelog, h.CHANGELOG_FILE_V2),
}
_KEYED_READERS: Final[dict[int, Callable[[HandleInput], h.KeyedStateHandle | None]]] = {
    h.NULL: _nothing,
    h.KEY_GROUPS: partial(_read_key_groups, h.KEY_GROUPS),
    h.SAVEPOINT_KEY_GROUPS: partial(_read_key_groups, h.SAVEPOINT_KEY_GROUPS),
    h.KEY_GROUPS_V2: partial(_read_key_groups, h.KEY_GROUPS_V2),
    h.INCREMENTAL: partial(_read_incremental, h.INCREMENTAL),
    h.INCREMENTAL_V2: partial(_read_incremental, h.INCREMENTAL_V2),
    h.CHANGELOG: partial(_read_changelog, h.CHANGELOG),
    h.CHANGELOG_V2: partial(_read_changelog, h.CHANGELOG_V2),
    **_CHANGE_READERS,
}


# Operator state


def read_operator(inp: HandleInput) -> h.OperatorStateHandle | None:
    """An ``OperatorStateHandle`` or null."""
    return _dispatch(inp, _OPERATOR_READERS, "operator state handle")


def _read_operator_stream(inp: HandleInput) -> h.OperatorStreamStateHandle:
    return h.OperatorStreamStateHandle(_read_operator_states(inp), _stream(inp))


def _read_file_merging_operator(inp: HandleInput) -> h.FileMergingOperatorStreamStateHandle:
    return h.FileMergingOperatorStreamStateHandle(
        _read_operator_states(inp), inp.read_utf(), inp.read_utf(), inp.read_boolean(), _stream(inp)
    )


def _read_operator_states(inp: HandleInput) -> tuple[h.OperatorStateMeta, ...]:
    states = []
    for _ in range(inp.read_count("operator states", _SMALLEST_OPERATOR_STATE)):
        name, mode = inp.read_utf(), inp.read_code()
        if mode >= len(h.MODE_NAMES):
            raise inp.corrupt(f"{mode} is no mode of an operator state (0 split, 1 union, 2 broadcast)", inp.position - 1)
        states.append(h.OperatorStateMeta(name, mode, _counted_offsets(inp)))
    return tuple(states)


def _counted_offsets(inp: HandleInput) -> h.Offsets:
    return inp.read_offsets(inp.read_count("offsets", 8))


_OPERATOR_READERS: Final[dict[int, Callable[[HandleInput], h.OperatorStateHandle | None]]] = {
    h.NULL: _nothing,
    h.OPERATOR: _read_operator_stream,
    h.FILE_MERGING_OPERATOR: _read_file_merging_operator,
}


# In-flight data


_C = TypeVar("_C", h.InputChannelStateHandle, h.ResultSubpartitionStateHandle)
_M = TypeVar("_M", h.MergedInputChannelStateHandle, h.MergedResultSubpartitionStateHandle)


def _read_channel(cls: type[_C], inp: HandleInput) -> _C:
    subtask, group, channel = inp.unpack(_CHANNEL)
    offsets = _counted_offsets(inp)
    (size,) = inp.unpack(_LONG)
    return cls(subtask, group, channel, offsets, size, _stream(inp))


def _read_merged_channels(cls: type[_M], inp: HandleInput) -> _M:
    subtask, size = inp.unpack(_INT_LONG)
    return cls(subtask, size, _stream(inp), inp.read_data("channel offsets"))


read_input_channel: Final = partial(_read_channel, h.InputChannelStateHandle)
read_result_subpartition: Final = partial(_read_channel, h.ResultSubpartitionStateHandle)

_INPUT_READERS: Final[dict[int, Callable[[HandleInput], h.InputStateHandle]]] = {
    1: read_input_channel,
    3: partial(_read_merged_channels, h.MergedInputChannelStateHandle),
}
_OUTPUT_READERS: Final[dict[int, Callable[[HandleInput], h.OutputStateHandle]]] = {
    2: read_result_subpartition,
    4: partial(_read_merged_channels, h.MergedResultSubpartitionStateHandle),
}
_CHANNEL_CODES: Final[dict[type, int]] = {
    h.InputChannelStateHandle: 1,
    h.ResultSubpartitionStateHandle: 2,
    h.MergedInputChannelStateHandle: 3,
    h.MergedResultSubpartitionStateHandle: 4,
}


def read_typed_input(inp: HandleInput) -> h.InputStateHandle:
    """An input channel handle with its type byte (metadata version 6 and later)."""
    return _dispatch(inp, _INPUT_READERS, "input channel handle")


def read_typed_output(inp: HandleInput) -> h.OutputStateHandle:
    """A result subpartition handle with its type byte (metadata version 6 and later)."""
    return _dispatch(inp, _OUTPUT_READERS, "result subpartition handle")


# Writing


def write_handle(out: DataOutput, handle: h.StreamStateHandle | h.KeyedStateHandle | h.OperatorStateHandle | None) -> None:
    """A stream, keyed state or operator state handle, or null, code first."""
    _WRITERS[type(handle)](out, handle)


def write_channel(out: DataOutput, handle: h.InputStateHandle | h.OutputStateHandle, typed: bool) -> None:
    """A channel state handle, with its type byte from metadata version 6 on (``typed``)."""
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


def _write_data(out: DataOutput, data: bytes) -> None:
    out.write_int(len(data))
    out.write_bytes(data)


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
