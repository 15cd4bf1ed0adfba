"""Numbers and text in the format of Kryo's ``Input`` and ``Output``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from state_processor.serializers.io import DataInput, DataOutput

KRYO_2: Final = 2
"""Kryo 2.24, of Flink 1.x."""
KRYO_5: Final = 5
"""Kryo 5.6, of Flink 2.x."""

_LONGEST_ASCII: Final = {KRYO_2: 63, KRYO_5: 32}
"""Length limit of ASCII that is written without a count."""
_BYTE_ORDER: Final = {KRYO_2: ">", KRYO_5: "<"}


@dataclass(slots=True)
class KryoInput:
    """Input of numbers and text.

    Parameters
    ----------
    source
        The bytes.
    version
        :data:`KRYO_2` or :data:`KRYO_5`.
    """

    source: DataInput
    version: int

    def byte(self) -> int:
        """Read a signed byte."""
        return self.source.read_byte()

    def boolean(self) -> bool:
        """Read a byte 0 or 1."""
        return self.source.read_boolean()

    def varint(self) -> int:
        """Read a number from 0 to 2^32 - 1 in up to five bytes."""
        return self.source.read_unsigned_varint() & 0xFFFFFFFF

    def int_(self) -> int:
        """Read a signed int whose sign is its lowest bit."""
        raw = self.varint()
        return raw >> 1 ^ -(raw & 1)

    def positive_int(self) -> int:
        """Read a signed int that was written as an unsigned one."""
        return _signed(self.varint(), 32)

    def varlong(self) -> int:
        """Read a number from 0 to 2^64 - 1 in up to nine bytes, the ninth of eight bits."""
        value = 0
        for shift in range(0, 56, 7):
            byte = self.source.read_unsigned_byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        return value | self.source.read_unsigned_byte() << 56

    def long(self) -> int:
        """Read a signed long whose sign is its lowest bit."""
        raw = self.varlong()
        return raw >> 1 ^ -(raw & 1)

    def positive_long(self) -> int:
        """Read a signed long that was written as an unsigned one."""
        return _signed(self.varlong(), 64)

    def fixed(self, layout: str) -> Any:
        """Read a number of fixed width: big-endian in Kryo 2, little-endian in Kryo 5."""
        full = _BYTE_ORDER[self.version] + layout
        return struct.unpack(full, self.source.read_bytes(struct.calcsize(full), "number"))[0]

    def flagged_varint(self) -> tuple[bool, int]:
        """Read a varint whose first byte holds a flag in its highest bit."""
        first = self.source.read_unsigned_byte()
        value = first & 0x3F
        if first & 0x40:
            value |= self.varint() << 6
        return bool(first & 0x80), value & 0xFFFFFFFF

    def string(self) -> str | None:
        """Read ASCII whose last character has the highest bit set, or a flagged count + 1 and UTF-8 of each UTF-16 unit."""
        source, start = self.source, self.source.position
        if source.read_unsigned_byte() < 0x80:
            data, last, end = source.data, start + 1, source.end
            while last < end and data[last] < 0x80:
                last += 1
            source.skip(last - start, "text")
            raw = bytearray(data[start : last + 1])
            raw[-1] &= 0x7F
            return raw.decode("ascii")
        source.position = start
        _, count = self.flagged_varint()
        if count == 0:
            return None
        units = count - 1
        if units > source.remaining:
            raise source.corrupt(f"string of {units} characters announced, {source.remaining} bytes left", start)
        begin = source.position
        for _ in range(units):
            lead = source.read_unsigned_byte()
            if lead >= 0x80:
                source.skip(2 if lead >= 0xE0 else 1, "character")
        try:
            text = bytes(source.data[begin : source.position]).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as problem:
            raise source.corrupt(f"not UTF-8: {problem.reason}", begin) from None
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

    def text(self) -> str:
        """Read a string that is not null."""
        text = self.string()
        if text is None:
            raise self.source.corrupt("expected text, found null")
        return text

    def count(self, title: str, count: int, min_size: int = 1) -> int:
        """Check a number of elements against the number of remaining bytes."""
        if count < 0 or count * min_size > self.source.remaining:
            raise self.source.corrupt(f"{count} {title} announced, {self.source.remaining} bytes left")
        return count


@dataclass(slots=True)
class KryoOutput:
    """Output for :class:`KryoInput`; the methods have the same names."""

    target: DataOutput
    version: int

    def byte(self, value: int) -> None:
        """Write a signed byte."""
        self.target.write_byte(value)

    def boolean(self, value: bool) -> None:
        """Write a byte 0 or 1."""
        self.target.write_boolean(value)

    def varint(self, value: int) -> None:
        """Write a number from 0 to 2^32 - 1 in up to five bytes."""
        self.target.write_unsigned_varint(value)

    def int_(self, value: int) -> None:
        """Write a signed int whose sign becomes its lowest bit."""
        self.varint((value << 1 ^ value >> 31) & 0xFFFFFFFF)

    def positive_int(self, value: int) -> None:
        """Write a signed int as an unsigned one."""
        self.varint(value & 0xFFFFFFFF)

    def varlong(self, value: int) -> None:
        """Write a number from 0 to 2^64 - 1 in up to nine bytes, the ninth of eight bits."""
        for _ in range(8):
            if value < 0x80:
                self.target.write_byte(value)
                return
            self.target.write_byte(value & 0x7F | 0x80)
            value >>= 7
        self.target.write_byte(value)

    def long(self, value: int) -> None:
        """Write a signed long whose sign becomes its lowest bit."""
        self.varlong((value << 1 ^ value >> 63) & 0xFFFFFFFF_FFFFFFFF)

    def positive_long(self, value: int) -> None:
        """Write a signed long as an unsigned one."""
        self.varlong(value & 0xFFFFFFFF_FFFFFFFF)

    def fixed(self, layout: str, value: Any) -> None:
        """Write a number of fixed width: big-endian in Kryo 2, little-endian in Kryo 5."""
        self.target.write_bytes(struct.pack(_BYTE_ORDER[self.version] + layout, value))

    def flagged_varint(self, flag: bool, value: int) -> None:
        """Write a varint whose first byte holds a flag in its highest bit."""
        first = value & 0x3F | (0x80 if flag else 0)
        rest = value >> 6
        self.target.write_byte(first | (0x40 if rest else 0))
        if rest:
            self.varint(rest)

    def string(self, text: str | None) -> None:
        """Write ASCII of two or more characters directly, the last with the highest bit set; other text as :meth:`counted`."""
        if text is None:
            self.target.write_byte(0x80)
        elif 1 < len(text) <= _LONGEST_ASCII[self.version] and text.isascii():
            self._ascii(text)
        else:
            self.counted(text)

    def class_name(self, name: str) -> None:
        """Write text; Kryo 5 writes ASCII of any length without a count."""
        if self.version == KRYO_5 and len(name) > 1 and name.isascii():
            self._ascii(name)
        else:
            self.string(name)

    def _ascii(self, text: str) -> None:
        raw = bytearray(text.encode("ascii"))
        raw[-1] |= 0x80
        self.target.write_bytes(raw)

    def counted(self, text: str) -> None:
        """Write a flagged count + 1 and UTF-8 of each UTF-16 unit."""
        units = text.encode("utf-16-le", "surrogatepass")
        self.flagged_varint(True, len(units) // 2 + 1)
        each = "".join(map(chr, struct.unpack(f"<{len(units) // 2}H", units)))
        self.target.write_bytes(each.encode("utf-8", "surrogatepass"))


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value
