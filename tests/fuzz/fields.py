"""The fields of well-formed input, found by watching the readers take it apart."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import numpy as np

from state_processor.backends.metadata.handle_layouts import HandleInput
from state_processor.serializers.io import DataInput
from state_processor.support.errors import StateProcessorError
from tests.fuzz.edits import Field

_TEXTS = frozenset({"UTF string", "string"})


class Recording:
    """The fields that were read of one buffer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._begin = _address(data)
        self._found: dict[tuple[int, int], Field] = {}

    def note(self, view: Any, start: int, size: int, kind: str) -> None:
        """Keep a field if its bytes are of the buffer."""
        if len(view) and size >= 0:
            offset = _address(view) + start - self._begin
            if offset >= 0 and offset + size <= len(self._data):
                self._found[offset, size] = Field(offset, size, kind)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields, in the order of their bytes."""
        return tuple(self._found[place] for place in sorted(self._found))


def _address(data: Any) -> int:
    return int(np.frombuffer(data, dtype=np.uint8).ctypes.data) if len(data) else 0


@contextmanager
def recording(data: bytes) -> Iterator[Recording]:
    """Record what any reader takes of ``data`` or of views of it."""
    found = Recording(data)
    take, varint = DataInput._take, DataInput.read_unsigned_varint
    fused, unpack, code = HandleInput.take, HandleInput.unpack, HandleInput.read_code

    def _take(self: DataInput, size: int, what: str) -> int:
        start = take(self, size, what)
        found.note(self.data, start, size, "text" if what in _TEXTS else "number")
        return start

    def read_unsigned_varint(self: DataInput) -> int:
        start = self.position
        value = varint(self)
        found.note(self.data, start, self.position - start, "number")
        return value

    def handle_take(self: HandleInput, size: int, what: str) -> bytes:
        start = self.position
        taken = fused(self, size, what)
        found.note(self.data, start, size, "text" if what in _TEXTS else "number")
        return taken

    def handle_unpack(self: HandleInput, layout: struct.Struct, title: str = "numbers") -> tuple[Any, ...]:
        start = self.position
        values = unpack(self, layout, title)
        for letter in layout.format[1:]:
            size = struct.calcsize(f">{letter}")
            found.note(self.data, start, size, "number")
            start += size
        return values

    def read_code(self: HandleInput) -> int:
        found.note(self.data, self.position, 1, "number")
        return code(self)

    with (
        patch.object(DataInput, "_take", _take),
        patch.object(DataInput, "read_unsigned_varint", read_unsigned_varint),
        patch.object(HandleInput, "take", handle_take),
        patch.object(HandleInput, "unpack", handle_unpack),
        patch.object(HandleInput, "read_code", read_code),
    ):
        yield found


def recorded(data: bytes, read: Callable[[], Any]) -> tuple[Field, ...]:
    """Return the fields that ``read`` takes of ``data``, as far as it comes."""
    with recording(data) as found, suppress(StateProcessorError):
        read()
    return found.fields


def words_of(data: bytes, begin: int = 0, width: int = 4) -> tuple[Field, ...]:
    """Return every little-endian word of data whose structure no reader shows, as Flink's binary rows."""
    return tuple(Field(offset, width, "little") for offset in range(begin, len(data) - width + 1, width))
