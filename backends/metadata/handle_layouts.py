"""State handles as bytes. One table of layouts reads and writes them.

Flink's ``MetadataV2V3SerializerBase`` and ``ChannelStateHandleSerializer`` define the layouts. Codes do not depend on the version
of ``_metadata``: a version 3 file may contain codes of later versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.handles import MetadataFile, StoredPart
from state_processor.serializers.io import INT, LONG, USHORT, DataInput, DataOutput, decode_name
from state_processor.support.mappings import without_none

_LARGE: Final = 512
"""Minimum size of inline state that is viewed rather than copied: a copy would double the memory."""
_WINDOW: Final = 1 << 20
"""Number of bytes of a file in memory."""


class HandleInput(DataInput):
    """A :class:`DataInput` with fused reads, for ``_metadata`` files of hundreds of thousands of handles and gigabytes.

    Positions count from the start of the file; ``data`` covers the range from ``base`` to ``loaded``. Frequent reads take bytes
    that are loaded without a call of another method.

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

    def unpack(self, layout: struct.Struct, title: str = "numbers") -> tuple[Any, ...]:
        """Read several numbers at once."""
        start = self.position
        end = start + layout.size
        if self.base <= start and end <= self.loaded:
            self.position = end
            return layout.unpack_from(self.data, start - self.base)
        at = self._take(layout.size, title)  # may move the window
        return layout.unpack_from(self.data, at)

    def skip_if(self, expected: bytes) -> bool:
        """Skip ``expected`` if it follows."""
        size, start = len(expected), self.position
        if self.base <= start and start + size <= self.loaded:
            if self.data[start - self.base : start - self.base + size] != expected:
                return False
            self.position = start + size
            return True
        if size > self.remaining:
            return False
        at = self._take(size, "bytes")
        if self.data[at : at + size] == expected:
            return True
        self.position = start
        return False

    def read_code(self) -> int:
        """Read the code at the start of a handle."""
        start = self.position
        if self.base <= start < self.loaded:
            self.position = start + 1
            return self.data[start - self.base]
        if self.at_end():
            raise self.corrupt("state handle expected, found the end")
        at = self._take(1, "code")
        return self.data[at]

    def read_utf(self) -> str:
        """Read Java's modified UTF-8 with a 16-bit length."""
        start = self.position
        at = start - self.base
        if at >= 0 and start + 2 <= self.loaded:
            data = self.data
            size = data[at] << 8 | data[at + 1]
            end = start + 2 + size
            if end <= self.loaded:
                raw = data[at + 2 : at + 2 + size].tobytes()
                if raw.isascii():
                    self.position = end
                    return raw.decode("ascii")
        (size,) = self.unpack(USHORT)
        raw = self.take(size, "string")
        try:
            return decode_name(raw)
        except UnicodeError as e:
            raise self.corrupt(f"not modified UTF-8: {e.args[-1]}", start) from None

    def read_int(self) -> int:
        """Read a signed 32-bit integer."""
        return self.unpack(INT, "int")[0]  # type: ignore[no-any-return]

    take = DataInput.read_bytes

    def content(self, size: int, title: str) -> bytes | memoryview:
        """Return exactly ``size`` bytes; a view of the file if all of it is in memory."""
        start = self._take(size, title)
        part = self.data[start : start + size]
        return part if size >= _LARGE and self.file is None else bytes(part)

    def read_data(self, title: str) -> bytes:
        """Read bytes preceded by their length."""
        return self.take(self.unpack(INT)[0], title)

    def read_inline(self, title: str) -> bytes | memoryview | StoredPart:
        """Read bytes preceded by their length. A large part of a file stays in the file."""
        (size,) = self.unpack(INT)
        if size < _LARGE or self.file is None:
            return self.content(size, title)
        start = self.position
        if size > self.remaining:
            raise self.corrupt(f"{title} of {size} bytes announced, {self.remaining} left")
        self.position = start + size
        return StoredPart(self.file, start, size)

    def key_group_range(self, start: int, count: int) -> h.KeyGroupRange:
        """Return the range of ``count`` key groups from ``start``; check Flink's limit."""
        if start < 0 or count < 0 or start + count > h.MAX_KEY_GROUPS:
            raise self.corrupt(f"{count} key groups from {start} announced; Flink has at most {h.MAX_KEY_GROUPS}")
        return h.KeyGroupRange(start, start + count - 1)


_TWO_INTS: Final = struct.Struct(">ii")
_TWO_LONGS: Final = struct.Struct(">qq")
_INT_LONG: Final = struct.Struct(">iq")
_RANGE_AND_SEQUENCES: Final = struct.Struct(">iiqq")
_RANGE_AND_SIZE: Final = struct.Struct(">iiq")
_SEGMENT: Final = struct.Struct(">qqi")
_CHANNEL: Final = struct.Struct(">iii")


class Part(NamedTuple):
    """An attribute of handles or, if ``names`` is a tuple, attributes that are read at once: ``read`` returns their values."""

    names: str | tuple[str, ...]
    read: Callable[[HandleInput], Any]
    write: Callable[..., None]  # called with the output and the values of the attributes


class Layout:
    """The bytes of a class of handles, after the code. A handle whose class has several codes has its code as an attribute.

    ``parts``: the parts in the order of their bytes. Their names are the fields of the class, in order.
    """

    def __init__(self, handle: type[Any], *parts: Part) -> None:
        self.handle = handle
        self.parts = parts
        self._reads = [(isinstance(part.names, str), part.read) for part in parts]
        self._has_code = hasattr(handle, "code")

    def read(self, inp: HandleInput, code: int = 0) -> Any:
        """Read a handle, or an element of a list in one."""
        values = [code] if self._has_code else []
        for is_single, read in self._reads:
            if is_single:
                values.append(read(inp))
            else:
                values += read(inp)
        return self.handle(*values)

    def write(self, out: DataOutput, handle: Any) -> None:
        """Write a handle."""
        for names, _, write in self.parts:
            if isinstance(names, str):
                write(out, getattr(handle, names))
            else:
                write(out, *map(partial(getattr, handle), names))


class HandleKind:
    """The handles that may occur in one place, by their codes. ``null``: code of their absence."""

    def __init__(self, name: str, layouts: dict[int, Layout], null: int | None = h.NULL) -> None:
        self.name = name
        self.layouts = layouts
        self.null = null

    def read(self, inp: HandleInput) -> Any:
        """Read a code and the handle, or null."""
        code = inp.read_code()
        layout = self.layouts.get(code)
        if layout is None:
            if code == self.null:
                return None
            raise inp.corrupt(f"{code} is not a code of a {self.name}", inp.position - 1)
        return layout.read(inp, code)

    def read_untyped(self, inp: HandleInput) -> Any:
        """Read a handle of the first layout, without a code."""
        code, layout = next(iter(self.layouts.items()))
        return layout.read(inp, code)


def write_handle(out: DataOutput, handle: h.StreamStateHandle | h.KeyedStateHandle | h.OperatorStateHandle | None) -> None:
    """Write the code of a stream, keyed state or operator state handle, then the handle; or null."""
    code: int = h.NULL if handle is None else getattr(handle, "code", None) or _CODES[type(handle)]
    out.write_byte(code)
    if handle is not None:
        LAYOUTS[code].write(out, handle)


def write_channel(out: DataOutput, handle: h.InputStateHandle | h.OutputStateHandle, typed: bool) -> None:
    """Write a channel state handle, with its type byte from metadata version 6 on (``typed``)."""
    code = next(code for code, layout in _CHANNELS.items() if layout.handle is type(handle))
    if typed:
        out.write_byte(code)
    _CHANNELS[code].write(out, handle)


def _read_null(_: HandleInput) -> None:
    return None


def _write_null(_: DataOutput, __: None) -> None:
    pass


def _utf(name: str) -> Part:
    return Part(name, HandleInput.read_utf, DataOutput.write_utf)


def _long(name: str) -> Part:
    return Part(name, lambda inp: inp.unpack(LONG)[0], DataOutput.write_long)


def _numbers(layout: struct.Struct, *names: str) -> Part:
    return Part(names, lambda inp: inp.unpack(layout), lambda out, *numbers: out.write_bytes(layout.pack(*numbers)))


def _range_and(layout: struct.Struct, *names: str) -> Part:
    """Return the part of a range of key groups with numbers after it."""

    def read(inp: HandleInput) -> tuple[Any, ...]:
        start, count, *numbers = inp.unpack(layout)
        return inp.key_group_range(start, count), *numbers

    def write(out: DataOutput, key_groups: h.KeyGroupRange, *numbers: int) -> None:
        out.write_bytes(layout.pack(key_groups.start, len(key_groups), *numbers))

    return Part(("key_groups", *names), read, write)


def _several(
    name: str, title: str, min_size: int, read: Callable[[HandleInput], Any], write: Callable[[DataOutput, Any], None]
) -> Part:
    """Return the part of a list.

    ``title``: the elements, in errors. ``min_size``: bytes of the smallest element: the announced number of elements is checked
    against the bytes that remain.
    """

    def read_all(inp: HandleInput) -> tuple[Any, ...]:
        count = inp.read_count(title, min_size)
        if not count:
            return ()
        elements = map(read, repeat(inp, count))
        return tuple(without_none(elements))  # Flink drops null handles of changelogs, too

    def write_all(out: DataOutput, elements: tuple[Any, ...]) -> None:
        out.write_int(len(elements))
        for element in elements:
            write(out, element)

    return Part(name, read_all, write_all)


def _read_stream(inp: HandleInput) -> h.StreamStateHandle:
    handle: h.StreamStateHandle | None = STREAM.read(inp)
    if handle is None:
        raise inp.corrupt("expected a stream handle, found null", inp.position - 1)
    return handle


def _read_size(inp: HandleInput) -> int:
    (size,) = inp.unpack(LONG)
    return _checked_size(inp, size) if size < 0 else int(size)


def _checked_size(inp: HandleInput, size: int) -> int:
    if size < 0:
        raise inp.corrupt(f"negative length {size}")
    return size


def _read_segment(inp: HandleInput) -> tuple[int, int, int]:
    start, size, scope = inp.unpack(_SEGMENT)
    if scope not in (0, 1):
        raise inp.corrupt(f"{scope} is not a scope of a segment (0 exclusive, 1 shared)")
    return _checked_size(inp, start), _checked_size(inp, size), scope


def _read_offsets_of_groups(inp: HandleInput) -> tuple[h.KeyGroupRange, h.Offsets]:
    start, count = inp.unpack(_TWO_INTS)
    return inp.key_group_range(start, count), h.Offsets(inp.content(8 * count, "offsets"))


def _write_offsets_of_groups(out: DataOutput, key_groups: h.KeyGroupRange, offsets: h.Offsets) -> None:
    out.write_bytes(_TWO_INTS.pack(key_groups.start, len(key_groups)) + offsets.raw)


def _read_offsets(inp: HandleInput) -> h.Offsets:
    return h.Offsets(inp.content(8 * inp.read_count("offsets", 8), "offsets"))


def _write_offsets(out: DataOutput, offsets: h.Offsets) -> None:
    out.write_int(len(offsets))
    out.write_bytes(offsets.raw)


def _write_data(out: DataOutput, data: bytes | memoryview | StoredPart) -> None:
    out.write_int(len(data))
    out.write_bytes(data[:])


def _write_changed_stream(out: DataOutput, stream: tuple[int, h.StreamStateHandle]) -> None:
    out.write_long(stream[0])
    write_handle(out, stream[1])


def _read_mode(inp: HandleInput) -> int:
    mode = inp.read_code()
    if mode >= len(h.MODE_NAMES):
        raise inp.corrupt(f"{mode} is not a mode of an operator state (0 split, 1 union, 2 broadcast)", inp.position - 1)
    return mode


def _read_sized_store(inp: HandleInput) -> tuple[Any, ...]:
    (size,) = inp.unpack(LONG)
    return *(part.read(inp) for part in _STORE_FILES), size


def _write_sized_store(out: DataOutput, *values: Any) -> None:
    *files, size = values
    out.write_long(size)
    for part, value in zip(_STORE_FILES, files, strict=True):
        part.write(out, value)


_SIZE: Final = Part("size", _read_size, DataOutput.write_long)
_STREAM: Final = Part("stream", _read_stream, write_handle)
_RANGE: Final = _range_and(_TWO_INTS)
_OFFSETS: Final = Part("offsets", _read_offsets, _write_offsets)
_FILE: Final = Layout(h.LocalFile, _utf("local_name"), _STREAM)
_STORE_FILES: Final = (
    Part("meta", _read_stream, write_handle),
    _several("shared", "files", 3, _FILE.read, _FILE.write),
    _several("private", "files", 3, _FILE.read, _FILE.write),
)
_STATE: Final = Layout(h.OperatorStateMeta, _utf("name"), Part("mode", _read_mode, DataOutput.write_byte), _OFFSETS)
_STATES: Final = _several("states", "operator states", 7, _STATE.read, _STATE.write)
_CHANGE: Final = Layout(
    h.StateChange,
    Part("key_group", lambda inp: inp.unpack(INT)[0], DataOutput.write_int),
    Part("data", lambda inp: inp.read_data("state change"), _write_data),
)
_KEY_GROUPS: Final = (Part(("key_groups", "offsets"), _read_offsets_of_groups, _write_offsets_of_groups), _STREAM)
_STORE: Final = (_long("checkpoint_id"), _utf("backend_id"), _RANGE)
_CHANGELOG: Final = (
    _range_and(_RANGE_AND_SIZE, "checkpointed_size"),
    _several("materialized", "materialized handles", 1, lambda inp: KEYED.read(inp), write_handle),
    _several("changes", "changelog handles", 1, lambda inp: CHANGE.read(inp), write_handle),
    _long("materialization_id"),
)
_CHANGE_FILES: Final = (
    _RANGE,
    _several("streams", "changelog files", 9, lambda inp: (inp.unpack(LONG)[0], _read_stream(inp)), _write_changed_stream),
    _numbers(_TWO_LONGS, "size", "checkpointed_size"),
    _utf("handle_id"),
)

LAYOUTS: Final = {
    h.BYTE_STREAM: Layout(
        h.ByteStreamStateHandle, _utf("name"), Part("data", lambda inp: inp.read_inline("inline state"), _write_data)
    ),
    h.FILE: Layout(h.FileStateHandle, _SIZE, _utf("path")),
    h.KEY_GROUPS: Layout(h.KeyGroupsStateHandle, *_KEY_GROUPS),
    h.OPERATOR: Layout(h.OperatorStreamStateHandle, _STATES, _STREAM),
    h.INCREMENTAL: Layout(h.IncrementalRemoteKeyedStateHandle, *_STORE, *_STORE_FILES),
    h.RELATIVE_FILE: Layout(h.RelativeFileStateHandle, _utf("path"), _SIZE),
    h.SAVEPOINT_KEY_GROUPS: Layout(h.KeyGroupsStateHandle, *_KEY_GROUPS),
    h.CHANGELOG: Layout(
        h.ChangelogStateBackendHandle, *_CHANGELOG, Part("checkpoint_id", _read_null, _write_null), _utf("handle_id")
    ),
    h.CHANGELOG_BYTES: Layout(
        h.InMemoryChangelogStateHandle,
        _range_and(_RANGE_AND_SEQUENCES, "from_sequence", "to_sequence"),
        _several("changes", "state changes", 8, _CHANGE.read, _CHANGE.write),
        _utf("handle_id"),
    ),
    h.CHANGELOG_FILE: Layout(h.ChangelogFileStateHandle, *_CHANGE_FILES),
    h.INCREMENTAL_V2: Layout(
        h.IncrementalRemoteKeyedStateHandle,
        *_STORE,
        Part(("meta", "shared", "private", "checkpointed_size"), _read_sized_store, _write_sized_store),
        _utf("handle_id"),
    ),
    h.KEY_GROUPS_V2: Layout(h.KeyGroupsStateHandle, *_KEY_GROUPS, _utf("handle_id")),
    h.CHANGELOG_FILE_V2: Layout(h.ChangelogFileStateHandle, *_CHANGE_FILES, _utf("storage_identifier")),
    h.CHANGELOG_V2: Layout(h.ChangelogStateBackendHandle, *_CHANGELOG, _long("checkpoint_id"), _utf("handle_id")),
    h.SEGMENT: Layout(
        h.SegmentFileStateHandle,
        Part(("start", "size", "scope"), _read_segment, lambda out, *numbers: out.write_bytes(_SEGMENT.pack(*numbers))),
        _utf("path"),
        _utf("logical_file_id"),
    ),
    h.EMPTY_SEGMENT: Layout(h.EmptySegmentFileStateHandle),
    h.FILE_MERGING_OPERATOR: Layout(
        h.FileMergingOperatorStreamStateHandle,
        _STATES,
        _utf("task_owned_dir"),
        _utf("shared_dir"),
        Part("is_empty", HandleInput.read_boolean, DataOutput.write_boolean),
        _STREAM,
    ),
}
"""The layouts by code."""
_CODES: Final = {layout.handle: code for code, layout in LAYOUTS.items()}
"""The codes of classes with one code."""

_CHANNEL_PARTS: Final = (_numbers(_CHANNEL, "subtask_index", "group", "channel"), _OFFSETS, _long("size"), _STREAM)
_MERGED_PARTS: Final = (
    _numbers(_INT_LONG, "subtask_index", "size"),
    _STREAM,
    Part("serialized_offsets", lambda inp: inp.read_data("channel offsets"), _write_data),
)
_CHANNELS: Final = {
    1: Layout(h.InputChannelStateHandle, *_CHANNEL_PARTS),
    2: Layout(h.ResultSubpartitionStateHandle, *_CHANNEL_PARTS),
    3: Layout(h.MergedInputChannelStateHandle, *_MERGED_PARTS),
    4: Layout(h.MergedResultSubpartitionStateHandle, *_MERGED_PARTS),
}
"""The layouts of in-flight data by type byte."""


def _kind(name: str, *codes: int) -> HandleKind:
    return HandleKind(name, {code: LAYOUTS[code] for code in codes})


_CHANGE_CODES: Final = (h.CHANGELOG_BYTES, h.CHANGELOG_FILE, h.CHANGELOG_FILE_V2)
STREAM: Final[HandleKind] = _kind(
    "stream handle", h.BYTE_STREAM, h.FILE, h.KEY_GROUPS, h.RELATIVE_FILE, h.SEGMENT, h.EMPTY_SEGMENT
)
CHANGE: Final[HandleKind] = HandleKind("changelog handle", {code: LAYOUTS[code] for code in _CHANGE_CODES}, null=None)
KEYED: Final[HandleKind] = _kind(
    "keyed state handle",
    *(h.KEY_GROUPS, h.SAVEPOINT_KEY_GROUPS, h.KEY_GROUPS_V2, h.INCREMENTAL, h.INCREMENTAL_V2, h.CHANGELOG, h.CHANGELOG_V2),
    *_CHANGE_CODES,
)
OPERATOR: Final[HandleKind] = _kind("operator state handle", h.OPERATOR, h.FILE_MERGING_OPERATOR)
INPUT: Final[HandleKind] = HandleKind("input channel handle", {code: _CHANNELS[code] for code in (1, 3)}, null=None)
OUTPUT: Final[HandleKind] = HandleKind("result subpartition handle", {code: _CHANNELS[code] for code in (2, 4)}, null=None)
