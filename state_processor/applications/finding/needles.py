"""Texts and numbers to search for: in columns of Arrow, and in bytes that are not decoded.

The search for bytes: a kernel compares few bytes of the pattern at all positions of a piece at once, and the whole pattern only
in pieces where these bytes occur. It compares the bytes of the pattern that occur together least often in a sample of the
buffer: single bytes of an address are frequent among addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, written
from state_processor.support.errors import OptionError
from state_processor.support.late import pc
from state_processor.support.locks import cached_property

_PIECE: Final = 2048
_SAMPLE: Final = 4 << 10
_LONGEST: Final = 64
"""The length of the beginning of a pattern that the compared bytes are taken from."""
_PROBES: Final = 3
_ROOM: Final = 1024
_COUNT, _NEXT = 0, 1
_NUMBERS = npt.NDArray[np.int64]


@entry_point(read(uint8), read(uint8), read(int64), int64, written(int64), written(int64))
def _search(data, pattern, probes, begin, matches, result):  # type: ignore[no-untyped-def]
    """Find the positions of a pattern from ``begin`` on, until ``matches`` is full.

    Parameters
    ----------
    data, pattern
        The bytes.
    probes
        Three positions in the pattern, whose bytes are compared first.
    begin
        The first position of the search.
    matches
        Receives the positions.
    result
        The number of positions, and the position to continue from; -1 at the end.
    """
    size = len(pattern)
    last = len(data) - size
    first, second, third = probes[0], probes[1], probes[2]
    a, b, c = pattern[first], pattern[second], pattern[third]
    count = 0
    while begin <= last:
        end = min(begin + _PIECE, last + 1)
        x, y, z = data[begin + first : end + first], data[begin + second : end + second], data[begin + third : end + third]
        seen = np.uint8(0)
        for i in range(end - begin):  # with the CPU's vectors: of views, whose indexes are not negative
            seen |= np.uint8(x[i] == a) & np.uint8(y[i] == b) & np.uint8(z[i] == c)
        if seen:
            for at in range(begin, end):
                if data[at + first] == a and data[at + second] == b and data[at + third] == c:
                    same = True
                    for i in range(size):
                        if data[at + i] != pattern[i]:
                            same = False
                            break
                    if same:
                        if count == len(matches):
                            result[_COUNT], result[_NEXT] = count, at
                            return
                        matches[count] = at
                        count += 1
        begin = end
    result[_COUNT], result[_NEXT] = count, -1


def _probes(data: npt.NDArray[np.uint8], pattern: npt.NDArray[np.uint8]) -> _NUMBERS:
    """Return three positions in a pattern whose bytes occur together least often in the middle of a buffer."""
    head = pattern[:_LONGEST]
    size = min(len(data) - len(head) + 1, _SAMPLE)
    begin = (len(data) - len(head) + 1 - size) // 2
    same = np.stack([data[begin + i : begin + i + size] == byte for i, byte in enumerate(head)])
    candidates, chosen = np.ones(size, dtype=bool), []
    for _ in range(_PROBES):
        counts = np.count_nonzero(same & candidates, axis=1)
        chosen.append(int(counts.argmin()))
        candidates &= same[chosen[-1]]
    return np.array(chosen, dtype=np.int64)


def positions(data: npt.NDArray[np.uint8], pattern: bytes) -> _NUMBERS:
    """Return the ascending positions of a pattern of at least one byte in a buffer. Occurrences may overlap."""
    if len(data) < len(pattern):
        return np.empty(0, dtype=np.int64)
    sought = np.frombuffer(pattern, dtype=np.uint8)
    probes = _probes(data, sought)
    parts, begin = [], 0
    result, room = np.zeros(2, dtype=np.int64), _ROOM
    while begin >= 0:
        matches = np.empty(room, dtype=np.int64)
        _search(data, sought, probes, begin, matches, result)
        count, begin = result.tolist()
        parts.append(matches[:count])
        room *= 8
    return np.concatenate(parts)


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
