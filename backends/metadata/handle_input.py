"""Input of state handles: several numbers in one read."""

from __future__ import annotations

import struct
from typing import Any, Final

from state_processor.backends.metadata import handles as h
from state_processor.serializers.io import DataInput, decode_name

_USHORT: Final = struct.Struct(">H")
_INT: Final = struct.Struct(">i")
_LARGE: Final = 512
"""From so many bytes on, content of `_metadata` is a view of the file: a copy of all of it would double the memory."""


class HandleInput(DataInput):
    """A :class:`DataInput` with fused reads: a ``_metadata`` may hold hundreds of thousands of handles, and gigabytes."""

    __slots__ = ("raw",)

    def __init__(self, data: bytes | bytearray | memoryview, source: str) -> None:
        super().__init__(memoryview(data).toreadonly(), source)
        self.raw = self.data

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read several numbers at once."""
        start = self.position
        if start + layout.size > self.end:
            raise self.corrupt(f"{layout.size} bytes expected, {self.remaining} left")
        self.position = start + layout.size
        return layout.unpack_from(self.raw, start)

    def skip_if(self, expected: bytes) -> bool:
        """Step over ``expected`` if it comes next."""
        if self.raw[self.position : self.position + len(expected)] != expected:
            return False
        self.position += len(expected)
        return True

    def read_code(self) -> int:
        """Read the code that starts a handle."""
        start = self.position
        if start >= self.end:
            raise self.corrupt("state handle expected, nothing left")
        self.position = start + 1
        return self.raw[start]

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

    def take(self, size: int, what: str) -> bytes:
        """Return exactly ``size`` bytes."""
        start = self.position
        if size < 0 or start + size > self.end:
            raise self.corrupt(f"{what} of {size} bytes announced, {self.remaining} left")
        self.position = start + size
        return bytes(self.raw[start : start + size])

    def content(self, size: int, what: str) -> bytes | memoryview:
        """Return exactly ``size`` bytes, a view of the file from 512 bytes on."""
        start = self.position
        if size < _LARGE or start + size > self.end:
            return self.take(size, what)
        self.position = start + size
        return self.raw[start : start + size]

    def read_data(self, what: str) -> bytes:
        """Read bytes preceded by their length."""
        return self.take(self.unpack(_INT)[0], what)

    def read_content(self, what: str) -> bytes | memoryview:
        """Read bytes preceded by their length, a view of the file from 512 bytes on."""
        return self.content(self.unpack(_INT)[0], what)

    def read_offsets(self, count: int) -> h.Offsets:
        """Read ``count`` longs."""
        return h.Offsets(self.content(8 * count, "offsets"))

    def key_group_range(self, start: int, count: int) -> h.KeyGroupRange:
        """Return the range of ``count`` key groups from ``start``, which must be one that Flink can have."""
        if start < 0 or count < 0 or start + count > h.MAX_KEY_GROUPS:
            raise self.corrupt(f"{count} key groups from {start} announced, there are at most {h.MAX_KEY_GROUPS}")
        return h.KeyGroupRange(start, start + count - 1)
