"""Texts and numbers to search for: in columns of Arrow, and in bytes that are not decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.errors import OptionError
from state_processor.states import positions
from state_processor.support import cached_property, pc

TEXT: Final = "text"
NUMBER: Final = "number"
UTF_8: Final = "UTF-8"
_LEAST_LONG: Final = 1 << 24
"""Smaller numbers have so many zeros among their eight bytes that other values contain these bytes, too."""
_IN_ONE_BYTE: Final = 0x80


@dataclass(frozen=True)
class Needle:
    """A text or a number to search for."""

    kind: str  # :data:`TEXT` or :data:`NUMBER`
    value: str | int | float

    @classmethod
    def text(cls, value: str) -> Needle:
        """Return a needle that is found in any part of a value."""
        if not isinstance(value, str) or not value:
            raise OptionError(f"text: expected a text of at least one character, found {value!r}")
        return cls(TEXT, value)

    @classmethod
    def number(cls, value: float) -> Needle:
        """Return a needle that is found if it equals a whole value."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OptionError(f"number: expected a number, found {value!r}")
        return cls(NUMBER, value)

    def __str__(self) -> str:
        return str(self.value)

    @cached_property
    def patterns(self) -> dict[bytes, str]:
        """The bytes to search for in undecoded values, with the names of the encodings."""
        text = str(self.value)
        encodings: dict[bytes, str] = {}
        for data, name in _encodings(text) if self.kind == TEXT else _number_encodings(self.value):
            encodings.setdefault(data, name)
        return encodings

    def rows(self, leaf: pa.Array) -> npt.NDArray[np.int64] | None:
        """Return the positions of the values that contain this needle, ``None`` without such values. The array is not nested."""
        type_ = leaf.type
        if self.kind == TEXT:
            if pa.types.is_string(type_):
                return _containing(leaf, self.utf_8)
            return self._in_bytes(leaf) if pa.types.is_binary(type_) else None
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            return self._equal(leaf)
        if pa.types.is_string(type_):
            return _same_text(leaf, self.utf_8)
        return self._in_bytes(leaf) if pa.types.is_binary(type_) else None

    @cached_property
    def utf_8(self) -> bytes:
        """The needle as UTF-8."""
        return str(self.value).encode("utf-8", "surrogatepass")

    def count_in(self, data: npt.NDArray[np.uint8]) -> dict[str, int]:
        """Return how often bytes contain the needle, by the name of the encoding."""
        return {name: count for pattern, name in self.patterns.items() if (count := len(positions(data, pattern)))}

    def _in_bytes(self, leaf: pa.Array) -> npt.NDArray[np.int64] | None:
        row_sets = [rows for pattern in self.patterns if (rows := _containing(leaf, pattern)) is not None]
        return np.unique(np.concatenate(row_sets)) if row_sets else None

    def _equal(self, leaf: pa.Array) -> npt.NDArray[np.int64] | None:
        try:
            number = pa.scalar(self.value, leaf.type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return None
        return _where(pc.equal(leaf, number)) if number.as_py() == self.value else None


def _encodings(text: str) -> Iterator[tuple[bytes, str]]:
    """Yield a text as bytes in each text encoding of Flink, Java, Kryo and Python."""
    yield text.encode("utf-8", "surrogatepass"), UTF_8
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    yield b"".join(map(_modified, units.tolist())), "modified UTF-8"
    yield b"".join(map(_string_value, units.tolist())), "StringValue"
    yield units.tobytes(), "UTF-16LE"
    yield units.astype(">u2").tobytes(), "UTF-16BE"
    if text.isascii():
        data = text.encode("ascii")
        yield data[:-1] + bytes([data[-1] | _IN_ONE_BYTE]), "Kryo"
    elif all(unit < 0x100 for unit in units.tolist()):
        yield text.encode("latin-1"), "Latin-1"


def _modified(unit: int) -> bytes:
    """Return a UTF-16 code unit as ``DataOutput.writeUTF`` and Kryo write it."""
    if 0 < unit < _IN_ONE_BYTE:
        return bytes([unit])
    if unit < 0x800:
        return bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F])
    return bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F])


def _string_value(unit: int) -> bytes:
    """Return a UTF-16 code unit as ``StringValue.writeString`` writes it: seven bits a byte, the lowest first."""
    data = bytearray()
    while unit >= _IN_ONE_BYTE:
        data.append(unit & 0x7F | _IN_ONE_BYTE)
        unit >>= 7
    return bytes([*data, unit])


def _number_encodings(number: str | float) -> Iterator[tuple[bytes, str]]:
    if len(str(number)) >= 4:
        yield str(number).encode(), UTF_8
    if isinstance(number, int) and _LEAST_LONG <= abs(number) < 1 << 63:
        yield number.to_bytes(8, "big", signed=True), "long"
        yield number.to_bytes(8, "little", signed=True), "long, little endian"


def _containing(leaf: pa.Array, pattern: bytes) -> npt.NDArray[np.int64] | None:
    """Return the positions of the values that contain a pattern; ``None`` without such values."""
    _, offset_buffer, data = leaf.buffers()
    if data is None or not len(leaf):
        return None
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[leaf.offset : leaf.offset + len(leaf) + 1]
    begin = int(offsets[0])
    matches = positions(np.frombuffer(data, dtype=np.uint8)[begin : offsets[-1]], pattern) + begin
    if not len(matches):
        return None
    rows = np.searchsorted(offsets, matches, side="right") - 1
    rows = np.unique(rows[matches + len(pattern) <= offsets[rows + 1]])
    if leaf.null_count and len(rows):
        rows = rows[leaf.take(pa.array(rows)).is_valid().to_numpy(zero_copy_only=False)]
    return rows if len(rows) else None


def _same_text(leaf: pa.Array, text: bytes) -> npt.NDArray[np.int64] | None:
    """Return the positions of the values that equal a text; ``None`` without such values. Few values have its length."""
    _, offset_buffer, _ = leaf.buffers()
    if offset_buffer is None or not len(leaf):
        return None
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[leaf.offset : leaf.offset + len(leaf) + 1]
    rows = np.flatnonzero(offsets[1:] - offsets[:-1] == len(text))
    if not len(rows):
        return None
    same = _where(pc.equal(leaf.take(pa.array(rows)), text.decode()))
    return None if same is None else rows[same]


def _where(mask: Any) -> npt.NDArray[np.int64] | None:
    return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)) if mask.true_count else None
