"""Java's ``DataInput`` and ``DataOutput`` over bytes in memory.

Every read is checked against the end of the data. A wrong length in a damaged file therefore raises a
:class:`~state_processor.support.errors.CorruptSnapshotError` with source and offset. It never causes a large allocation or a
wrong slice.
"""

from __future__ import annotations

import copyreg
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from state_processor.support.errors import CorruptSnapshotError, OptionError, UnsupportedFormatError

T = TypeVar("T")

MOST_EMPTY: Final = 1 << 24
"""Limit of elements without bytes (``NullValue``) in a collection."""

MOST_OF_NAME: Final = 0xFFFF
"""Limit of a name in bytes of modified UTF-8, which ``DataOutput.writeUTF`` has."""

MAX_NESTING: Final = 100
"""Limit of nested types in reads and builds, from collections in collections to schemas of records."""

_BOOLS: Final = {0: False, 1: True}


class DataInput:
    """Sequential big-endian reader, the counterpart of Flink's ``DataInputView``.

    Parameters
    ----------
    data
        The bytes to read. They are not copied.
    source
        Name of the bytes, for error messages (usually a path).
    position, end
        The slice of ``data`` to read; offsets in errors stay relative to ``data``.
    flink_major
        The major version of the Flink that wrote the bytes, if known. The version of Kryo depends on it, and serializer snapshots
        do not store it.
    """

    __slots__ = ("data", "depth", "end", "flink_major", "position", "source")

    def __init__(
        self,
        data: bytes | memoryview,
        source: str = "bytes",
        position: int = 0,
        end: int | None = None,
        *,
        flink_major: int | None = None,
    ) -> None:
        self.data = memoryview(data)
        self.source = source
        self.position = position
        self.end = len(self.data) if end is None else end
        self.flink_major = flink_major
        self.depth = 0

    def slice(self, start: int, end: int) -> DataInput:
        """Return an input of a part of the same data."""
        part = DataInput(self.data, self.source, start, end, flink_major=self.flink_major)
        part.depth = self.depth
        return part

    @contextmanager
    def nested(self, what: str) -> Iterator[None]:
        """Enter a structure that may contain itself.

        Raises
        ------
        UnsupportedFormatError
            If more than :data:`MAX_NESTING` of them are nested.
        """
        if self.depth >= MAX_NESTING:
            raise UnsupportedFormatError(
                f"{self.source}, offset {self.position}: {what} are nested more than {MAX_NESTING} levels deep"
            )
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def corrupt(self, problem: str, offset: int | None = None) -> CorruptSnapshotError:
        """Return the error to raise for ``problem`` at ``offset`` (default: here)."""
        return CorruptSnapshotError(f"{self.source}, offset {self.position if offset is None else offset}: {problem}")

    @property
    def remaining(self) -> int:
        """Bytes left before the end."""
        return self.end - self.position

    def at_end(self) -> bool:
        """Check if all bytes have been read."""
        return self.position >= self.end

    def _take(self, size: int, what: str) -> int:
        start = self.position
        if size < 0 or start + size > self.end:
            raise self.corrupt(f"{what} of {size} bytes announced, {self.remaining} left")
        self.position = start + size
        return start

    def _fixed(self, layout: struct.Struct, what: str) -> int:
        start = self._take(layout.size, what)
        return layout.unpack_from(self.data, start)[0]  # type: ignore[no-any-return]

    def read_byte(self) -> int:
        """Read a signed 8-bit integer."""
        return self._fixed(_BYTE, "byte")

    def read_unsigned_byte(self) -> int:
        """Read an unsigned 8-bit integer."""
        at = self._take(1, "byte")
        return self.data[at]

    def read_boolean(self) -> bool:
        """Read a byte that must be 0 or 1, as Java writes booleans."""
        value = self.read_unsigned_byte()
        if value not in _BOOLS:
            raise self.corrupt(f"boolean expected, found byte {value}", self.position - 1)
        return _BOOLS[value]

    def read_short(self) -> int:
        """Read a signed 16-bit integer."""
        return self._fixed(_SHORT, "short")

    def read_unsigned_short(self) -> int:
        """Read an unsigned 16-bit integer (also Java's ``char``)."""
        return self._fixed(USHORT, "short")

    def read_int(self) -> int:
        """Read a signed 32-bit integer."""
        start = self._take(4, "int")
        return INT.unpack_from(self.data, start)[0]  # type: ignore[no-any-return]

    def read_long(self) -> int:
        """Read a signed 64-bit integer."""
        return self._fixed(LONG, "long")

    def read_float(self) -> float:
        """Read a number of IEEE 754 single precision."""
        return self._fixed(_FLOAT, "float")

    def read_double(self) -> float:
        """Read a number of IEEE 754 double precision."""
        return self._fixed(_DOUBLE, "double")

    def read_bytes(self, size: int, what: str = "byte array") -> bytes:
        """Read exactly ``size`` bytes."""
        start = self._take(size, what)
        return bytes(self.data[start : start + size])

    def skip(self, size: int, what: str = "field") -> None:
        """Skip ``size`` bytes."""
        self._take(size, what)

    def read_count(self, what: str, min_size: int = 1) -> int:
        """Read an ``int`` number of elements, each of at least ``min_size`` bytes, and check it against the remaining bytes.

        Elements that may be empty can't be checked against bytes; more than :data:`MOST_EMPTY` of them count as damage.
        """
        start = self.position
        count = self.read_int()
        if count < 0 or count * min_size > self.remaining or (min_size == 0 and count > MOST_EMPTY):
            raise self.corrupt(f"{count} {what} announced, {self.remaining} bytes left", start)
        return count

    def read_list(self, what: str, read: Callable[[DataInput], T], min_size: int = 1) -> list[T]:
        """Read a number of elements, as :meth:`read_count` does, and then the elements by a function."""
        return [read(self) for _ in range(self.read_count(what, min_size))]

    def read_utf(self) -> str:
        """Read Java's modified UTF-8 with a 16-bit length (``DataInput.readUTF``)."""
        start = self.position
        size = self.read_unsigned_short()
        raw = self.read_bytes(size, "UTF string")
        try:
            return decode_name(raw)
        except UnicodeError as e:
            raise self.corrupt(f"not modified UTF-8: {e.args[-1]}", start) from None

    def read_unsigned_varint(self) -> int:
        """Read LEB128, low seven bits first, at most five bytes (an ``int`` in Java)."""
        start, value, shift = self.position, 0, 0
        while True:
            byte = self.read_unsigned_byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise self.corrupt("variable-length integer of more than five bytes", start)


class DataOutput:
    """Sequential big-endian writer, the counterpart of Flink's ``DataOutputView``."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def to_bytes(self) -> bytes:
        """Return all written bytes."""
        return bytes(self.buffer)

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        return len(self.buffer)

    def write_byte(self, value: int) -> None:
        """Write an 8-bit integer, signed or unsigned."""
        self.buffer.append(value & 0xFF)

    def write_boolean(self, value: bool) -> None:
        """Write a byte 0 or 1."""
        self.buffer.append(1 if value else 0)

    def write_short(self, value: int) -> None:
        """Write a 16-bit integer, signed or unsigned."""
        self.buffer += USHORT.pack(value & 0xFFFF)

    def write_int(self, value: int) -> None:
        """Write a signed 32-bit integer."""
        self.buffer += INT.pack(value)

    def write_long(self, value: int) -> None:
        """Write a signed 64-bit integer."""
        self.buffer += LONG.pack(value)

    def write_float(self, value: float) -> None:
        """Write a number of IEEE 754 single precision."""
        self.buffer += _FLOAT.pack(value)

    def write_double(self, value: float) -> None:
        """Write a number of IEEE 754 double precision."""
        self.buffer += _DOUBLE.pack(value)

    def write_bytes(self, value: bytes | bytearray | memoryview) -> None:
        """Write bytes without a length."""
        self.buffer += value

    def write_utf(self, value: str) -> None:
        """Write Java's modified UTF-8 with a 16-bit length (``DataOutput.writeUTF``): the form of all names."""
        raw = encode_modified_utf8(value)
        if len(raw) > MOST_OF_NAME:
            raise OptionError(
                f"the name {value[:40]!r}… has {len(raw):,} bytes; Java writes names of at most {MOST_OF_NAME:,} bytes. Choose a "
                "shorter name"
            )
        self.write_short(len(raw))
        self.buffer += raw

    def write_unsigned_varint(self, value: int) -> None:
        """Write LEB128, low seven bits first."""
        while value >= 0x80:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)


def decode_modified_utf8(raw: bytes) -> str:
    """Decode Java's modified UTF-8: U+0000 as ``C0 80``, characters beyond the BMP as two surrogates of three bytes."""
    if raw.isascii():
        return raw.decode("ascii")
    units = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def decode_name(raw: bytes) -> str:
    """Decode modified UTF-8 for a column, a path or a message, none of which can hold an unpaired surrogate."""
    text = decode_modified_utf8(raw)
    text.encode()
    return text


def encode_modified_utf8(text: str) -> bytes:
    """Encode text as Java's modified UTF-8, the inverse of :func:`decode_modified_utf8`."""
    if text.isascii() and "\x00" not in text:
        return text.encode("ascii")
    raw = text.encode("utf-16-le", "surrogatepass")
    units = "".join(map(chr, struct.unpack(f"<{len(raw) // 2}H", raw)))
    return units.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")


# Serializers contain these, and are pickled for tasks.
copyreg.pickle(struct.Struct, lambda layout: (struct.Struct, (layout.format,)))

_BYTE: Final = struct.Struct(">b")
_SHORT: Final = struct.Struct(">h")
USHORT: Final = struct.Struct(">H")
INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_FLOAT: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")
