"""Java's ``hashCode`` of the types of keys: signed 32 bits, as the key group rule expects it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable


def wrap(value: int) -> int:
    """Return a number truncated to Java's ``int``."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def of_boolean(value: bool) -> int:
    """Return ``Boolean.hashCode``."""
    return 1231 if value else 1237


def of_long(value: int) -> int:
    """Return ``Long.hashCode``: both halves, exclusive or."""
    unsigned = value & 0xFFFFFFFFFFFFFFFF
    return wrap(unsigned ^ (unsigned >> 32))


def of_float(value: float) -> int:
    """Return ``Float.hashCode``: the bits, with one NaN."""
    bits: int = 0x7FC00000 if math.isnan(value) else struct.unpack(">i", struct.pack(">f", value))[0]
    return bits


def of_double(value: float) -> int:
    """Return ``Double.hashCode``: the bits as a long, with one NaN."""
    bits: int = 0x7FF8000000000000 if math.isnan(value) else struct.unpack(">q", struct.pack(">d", value))[0]
    return of_long(bits)


def of_units(units: Iterable[int], start: int = 0) -> int:
    """Return the polynomial of base 31 that strings, lists and arrays share."""
    code = start
    for unit in units:
        code = (31 * code + unit) & 0xFFFFFFFF
    return wrap(code)


def of_string(value: str) -> int:
    """Return ``String.hashCode``: over UTF-16 units."""
    return of_units(u for (u,) in struct.iter_unpack("<H", value.encode("utf-16-le", "surrogatepass")))


def of_big_integer(value: int) -> int:
    """Return ``BigInteger.hashCode``: over 32-bit words of the magnitude, most significant first."""
    magnitude = abs(value)
    words = magnitude.to_bytes((magnitude.bit_length() + 31) // 32 * 4, "big")
    return wrap((-1 if value < 0 else 1) * of_units(w for (w,) in struct.iter_unpack(">I", words)))


def of_big_decimal(unscaled: int, scale: int) -> int:
    """Return ``BigDecimal.hashCode``: equal numbers of different scale differ."""
    if abs(unscaled) < 1 << 63:
        magnitude = abs(unscaled)
        folded = (magnitude >> 32) * 31 + (magnitude & 0xFFFFFFFF)
        return wrap(31 * wrap(-folded if unscaled < 0 else folded) + scale)
    return wrap(31 * of_big_integer(unscaled) + scale)
