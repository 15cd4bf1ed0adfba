"""Java's ``hashCode`` of keys, of binary data and of whole columns: signed 32 bits, as the key group rule expects it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int32]
EncodedValues = npt.NDArray[np.uint8]
"""The bytes of values of one length, a row for each value."""


def fold_long(bits: npt.NDArray[np.int64]) -> Hashes:
    """Return ``Long.hashCode``: both halves, exclusive or."""
    folded: Hashes = (bits ^ (bits >> 32)).astype(np.int32)
    return folded


def signed(values: EncodedValues, begin: int, end: int) -> npt.NDArray[np.int64]:
    """Return the signed big-endian number in a range of bytes of each value."""
    columns = np.ascontiguousarray(values[:, begin:end])
    return columns.view(f">i{end - begin}").ravel().astype(np.int64)


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


_UINT: Final = struct.Struct("<I")
_SEED: Final = 42


def _mix(hash_: int, word: int) -> int:
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    word = (word << 15 | word >> 17) & 0xFFFFFFFF
    hash_ ^= word * 0x1B873593 & 0xFFFFFFFF
    hash_ = (hash_ << 13 | hash_ >> 19) & 0xFFFFFFFF
    return hash_ * 5 + 0xE6546B64 & 0xFFFFFFFF


def _finish(hash_: int, size: int) -> int:
    hash_ ^= size
    hash_ ^= hash_ >> 16
    hash_ = hash_ * 0x85EBCA6B & 0xFFFFFFFF
    hash_ ^= hash_ >> 13
    hash_ = hash_ * 0xC2B2AE35 & 0xFFFFFFFF
    return wrap(hash_ ^ hash_ >> 16)


def hash_words(data: bytes) -> int:
    """Return ``hashCode`` of a binary row, array or map: over its words of four bytes."""
    hash_ = _SEED
    for (word,) in _UINT.iter_unpack(data):
        hash_ = _mix(hash_, word)
    return _finish(hash_, len(data))


def hash_bytes(data: bytes) -> int:
    """Return ``hashCode`` of ``StringData``: over words, then over each byte left, as a signed number."""
    whole = len(data) // 4 * 4
    hash_ = _SEED
    for (word,) in _UINT.iter_unpack(data[:whole]):
        hash_ = _mix(hash_, word)
    for byte in data[whole:]:
        hash_ = _mix(hash_, byte if byte < 0x80 else byte | 0xFFFFFF00)
    return _finish(hash_, len(data))
