"""A writer of Java's ``DataOutput``, so that tests make bytes without the project's own writers."""

from __future__ import annotations

import builtins
import struct


class Data:
    """Bytes that grow; each method returns the object itself."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def _pack(self, form: str, *values: builtins.int) -> Data:
        self.data += struct.pack(f">{form}", *values)
        return self

    def bool(self, value: builtins.bool) -> Data:
        return self._pack("b", value)

    def byte(self, value: builtins.int) -> Data:
        return self._pack("b", value)

    def int(self, value: builtins.int) -> Data:
        return self._pack("i", value)

    def long(self, value: builtins.int) -> Data:
        return self._pack("q", value)

    def raw(self, data: str | bytes) -> Data:
        """Append bytes, or hexadecimal text."""
        self.data += bytes.fromhex(data) if isinstance(data, str) else data
        return self

    def sized(self, data: bytes) -> Data:
        """Append bytes after their number."""
        return self.int(len(data)).raw(data)

    def utf(self, text: str) -> Data:
        """Append text as ``writeUTF`` does."""
        units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
        data = b"".join(_unit(unit) for unit in units)
        return self._pack("H", len(data)).raw(data)


def _unit(unit: int) -> bytes:
    if 0 < unit < 0x80:
        return bytes([unit])
    if unit < 0x800:
        return bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F])
    return bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F])
