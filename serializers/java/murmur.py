"""Hash codes of binary data (Flink: ``MurmurHashUtils``)."""

from __future__ import annotations

import struct
from typing import Final

from state_processor.serializers.java import hashing

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
    return hashing.wrap(hash_ ^ hash_ >> 16)


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
