"""Input of state handles: fused reads of several numbers, from bytes or from a file that is partly in memory."""

from __future__ import annotations

import struct
from typing import Any, Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.stored_part import MetadataFile, StoredPart
from state_processor.serializers.io import DataInput, decode_name

_USHORT: Final = struct.Struct(">H")
_INT: Final = struct.Struct(">i")
_LARGE: Final = 512
"""Minimum size of inline state that is viewed rather than copied: a copy would double the memory."""
_WINDOW: Final = 1 << 20
"""Number of bytes of a file in memory."""


class HandleInput(DataInput):
    """A :class:`DataInput` with fused reads, for ``_metadata`` files of hundreds of thousands of handles and gigabytes.

    Positions count from the start of the file; ``data`` covers the range from ``base`` to ``loaded``.

    Parameters
    ----------
    data
        The bytes, or a file. One window of a file is in memory at a time; large inline state becomes a :class:`StoredPart`.
    source
        Name of the data in errors.
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
