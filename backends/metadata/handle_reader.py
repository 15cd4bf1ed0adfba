"""State handles from bytes: one reader per code.

Flink's ``MetadataV2V3SerializerBase`` and ``ChannelStateHandleSerializer`` define the layouts. Codes do not depend on the version
of ``_metadata``: a version 3 file may contain codes of later versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.stored_part import MetadataFile, StoredPart
from state_processor.serializers.io import DataInput, decode_name

_USHORT: Final = struct.Struct(">H")

_LARGE: Final = 512
"""Minimum size of inline state that is viewed rather than copied: a copy would double the memory."""
_WINDOW: Final = 1 << 20
"""Number of bytes of a file in memory."""


class HandleInput(DataInput):
    """A :class:`DataInput` with fused reads, for ``_metadata`` files of hundreds of thousands of handles and gigabytes.

    Positions count from the start of the file; ``data`` covers the range from ``base`` to ``loaded``.

    ``data``: the bytes, or a file. One window of a file is in memory at a time; large inline state becomes a :class:`StoredPart`.
    ``source``: name of the data in errors.
    """

    __slots__ = ("base", "file", "loaded")

    def __init__(self, data: bytes | bytearray | memoryview | MetadataFile, source: str) -> None:
        if isinstance(data, (bytes, bytearray, memoryview)):
            super().__init__(memoryview(data).toreadonly(), source)
            self.file: MetadataFile | None = None
            self.loaded = self.end
        else:
            super().__init__(b"", source, end=data.size)
            self.file = data
            self.loaded = 0
        self.base = 0

    def _load(self, size: int) -> None:
        """Move the window to the position. The window has at least ``size`` bytes; the file has to contain them."""
        assert self.file is not None
        self.base = self.position
        self.data = self.file.read(self.base, min(max(size, _WINDOW), self.remaining)).toreadonly()
        self.loaded = self.base + len(self.data)

    def _take(self, size: int, title: str) -> int:
        """Skip ``size`` bytes and return their offset in ``data``."""
        start = self.position
        end = start + size
        if size < 0 or end > self.end:
            raise self.corrupt(f"{title} of {size} bytes announced, {self.remaining} left")
        if end > self.loaded or start < self.base:
            self._load(size)
        self.position = end
        return start - self.base

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read several numbers at once."""
        start = self.position
        end = start + layout.size
        if self.base <= start and end <= self.loaded:  # the most frequent case, without a call
            self.position = end
            return layout.unpack_from(self.data, start - self.base)
        at = self._take(layout.size, "numbers")  # may move the window
        return layout.unpack_from(self.data, at)

    def skip_if(self, expected: bytes) -> bool:
        """Skip ``expected`` if it follows."""
        size, start = len(expected), self.position
        if size > self.remaining:
            return False
        at = self._take(size, "bytes")
        if self.data[at : at + size] == expected:
            return True
        self.position = start
        return False

    def read_code(self) -> int:
        """Read the code at the start of a handle."""
        if self.at_end():
            raise self.corrupt("state handle expected, found the end")
        at = self._take(1, "code")
        return self.data[at]

    def read_utf(self) -> str:
        """Read Java's modified UTF-8 with a 16-bit length."""
        start = self.position
        (size,) = self.unpack(_USHORT)
        raw = self.take(size, "string")
        try:
            return raw.decode("ascii")
        except UnicodeDecodeError:
            pass
        try:
            return decode_name(raw)
        except UnicodeError as e:
            raise self.corrupt(f"not modified UTF-8: {e.args[-1]}", start) from None

    def take(self, size: int, title: str) -> bytes:
        """Return exactly ``size`` bytes."""
        return self.read_bytes(size, title)

    def content(self, size: int, title: str) -> bytes | memoryview:
        """Return exactly ``size`` bytes; a view of the file if all of it is in memory."""
        if size < _LARGE or self.file is not None:
            return self.take(size, title)
        start = self._take(size, title)
        return self.data[start : start + size]

    def read_data(self, title: str) -> bytes:
        """Read bytes preceded by their length."""
        return self.take(self.unpack(_INT)[0], title)

    def read_inline(self, title: str) -> bytes | memoryview | StoredPart:
        """Read bytes preceded by their length. A large part of a file stays in the file."""
        (size,) = self.unpack(_INT)
        if size < _LARGE or self.file is None:
            return self.content(size, title)
        start = self.position
        if size > self.remaining:
            raise self.corrupt(f"{title} of {size} bytes announced, {self.remaining} left")
        self.position = start + size
        return StoredPart(self.file, start, size)

    def read_offsets(self, count: int) -> h.Offsets:
        """Read ``count`` longs."""
        return h.Offsets(self.content(8 * count, "offsets"))

    def key_group_range(self, start: int, count: int) -> h.KeyGroupRange:
        """Return the range of ``count`` key groups from ``start``; check Flink's limit."""
        if start < 0 or count < 0 or start + count > h.MAX_KEY_GROUPS:
            raise self.corrupt(f"{count} key groups from {start} announced; Flink has at most {h.MAX_KEY_GROUPS}")
        return h.KeyGroupRange(start, start + count - 1)


_T = TypeVar("_T")

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_TWO_INTS: Final = struct.Struct(">ii")
_TWO_LONGS: Final = struct.Struct(">qq")
_INT_LONG: Final = struct.Struct(">iq")
_RANGE_AND_SEQUENCES: Final = struct.Struct(">iiqq")
_RANGE_AND_SIZE: Final = struct.Struct(">iiq")
_SEGMENT: Final = struct.Struct(">qqi")
_CHANNEL: Final = struct.Struct(">iii")

# The minimum size of an element of a list in bytes. The announced number of elements is checked against the remaining bytes.
_SMALLEST_HANDLE: Final = 1
_SMALLEST_LOCAL_FILE: Final = 3
_SMALLEST_CHANGE: Final = 8
_SMALLEST_STREAM_AND_OFFSET: Final = 9
_SMALLEST_OPERATOR_STATE: Final = 7


def _dispatch(inp: HandleInput, readers: Mapping[int, Callable[[HandleInput], _T]], kind: str) -> _T:
    code = inp.read_code()
    reader = readers.get(code)
    if reader is None:
        raise inp.corrupt(f"{code} is not a code of a {kind}", inp.position - 1)
    return reader(inp)


def _nothing(_: HandleInput) -> None:
    return None


# Streams


def read_stream(inp: HandleInput) -> h.StreamStateHandle | None:
    """Read a ``StreamStateHandle`` or null."""
    return _dispatch(inp, _STREAM_READERS, "stream handle")


def _stream(inp: HandleInput) -> h.StreamStateHandle:
    handle = read_stream(inp)
    if handle is None:
        raise inp.corrupt("expected a stream handle, found null", inp.position - 1)
    return handle


def _read_byte_stream(inp: HandleInput) -> h.ByteStreamStateHandle:
    return h.ByteStreamStateHandle(inp.read_utf(), inp.read_inline("inline state"))


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
        raise inp.corrupt(f"{scope} is not a scope of a segment (0 exclusive, 1 shared)")
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
    """Read a ``KeyedStateHandle`` or null."""
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
    """Read an ``OperatorStateHandle`` or null."""
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
            raise inp.corrupt(f"{mode} is not a mode of an operator state (0 split, 1 union, 2 broadcast)", inp.position - 1)
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


def read_typed_input(inp: HandleInput) -> h.InputStateHandle:
    """Read an input channel handle with its type byte (metadata version 6 and later)."""
    return _dispatch(inp, _INPUT_READERS, "input channel handle")


def read_typed_output(inp: HandleInput) -> h.OutputStateHandle:
    """Read a result subpartition handle with its type byte (metadata version 6 and later)."""
    return _dispatch(inp, _OUTPUT_READERS, "result subpartition handle")
