"""Operator ids: Flink derives them from the uid of the operator.

Flink's ``StreamGraphHasherV2`` hashes the UTF-8 bytes of the uid with Guava's ``murmur3_128(0)``. The id is these sixteen bytes;
in logs and here it is written as 32 hexadecimal digits.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_COMMITTERS: Final = ("Sink Committer: {}", "Sink {} Global Committer")
"""Uids of committers, derived from the uid of a sink (``SinkTransformationTranslator``). The writer operator has the uid of the
sink."""


def operator_id(uid: str) -> str:
    """Return the operator id, 32 hexadecimal digits, of a uid from ``uid("…")``."""
    return murmur3_128(uid.encode("utf-8", "surrogatepass")).hex()


def uids_of_sink(uid: str) -> list[str]:
    """Return the uids of the committer and the global committer of a sink with a uid."""
    return [pattern.format(uid) for pattern in _COMMITTERS]


def murmur3_128(data: bytes) -> bytes:
    """Return MurmurHash3 x64 128 with seed 0: two little-endian halves, like Guava's ``HashCode.asBytes``."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 ^= _mix(k1, _C1, 31, _C2)
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix(k2, _C2, 33, _C1)
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    h1 ^= _mix(k1, _C1, 31, _C2) ^ len(data)
    h2 ^= _mix(k2, _C2, 33, _C1) ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = (h1 + h2) & _MASK
    return struct.pack("<QQ", h1, (h2 + h1) & _MASK)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix(k: int, before: int, bits: int, after: int) -> int:
    return _rotate(k * before & _MASK, bits) * after & _MASK


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
