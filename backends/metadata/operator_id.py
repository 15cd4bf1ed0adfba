"""Operator ids: Flink derives them from the uid of the operator, or from the graph of the job.

Flink's ``StreamGraphHasherV2`` hashes the UTF-8 bytes of the uid with Guava's ``murmur3_128(0)``. The id is these sixteen bytes;
in logs and here it is written as 32 hexadecimal digits.

Without a uid: the id of a node is a hash of the number of nodes before it, once for itself and once for each output that is
chained to it, mixed with the ids of its inputs. Names, types and code of operators do not count.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


_FACTOR = 37


@dataclass(frozen=True, slots=True)
class HashedNode:
    """A node of the graph of a job."""

    inputs: tuple[int, ...]  # the positions of the inputs, in their order; all are smaller than the position of the node
    chained: tuple[bool, ...]  # for each input, whether both operators are in one task


def graph_hashes(
    nodes: Sequence[HashedNode], recorded: Mapping[int, str], sources: Sequence[int] | None = None
) -> dict[int, str]:
    """Return the ids of the nodes of a graph.

    ``nodes``: the nodes in the order of their numbers in Flink. ``recorded``: ids by position of nodes with a uid. ``sources``:
    the nodes without inputs in the order of their numbers; by default the order of the nodes.
    """
    outputs: list[list[tuple[int, bool]]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for source, chained in zip(node.inputs, node.chained, strict=True):
            outputs[source].append((place, chained))
    first = [place for place, node in enumerate(nodes) if not node.inputs] if sources is None else list(sources)
    remaining, visited = deque(first), set(first)
    hashes: dict[int, bytes] = {}
    while remaining:
        place = remaining.popleft()
        if place in recorded:
            hashes[place] = bytes.fromhex(recorded[place])
        elif all(source in hashes for source in nodes[place].inputs):
            hashes[place] = _hash(nodes[place], len(hashes), sum(chained for _, chained in outputs[place]), hashes)
        else:  # another path leads to the node later
            visited.discard(place)
            continue
        for child, _ in outputs[place]:
            if child not in visited:
                remaining.append(child)
                visited.add(child)
    return {place: id_bytes.hex() for place, id_bytes in hashes.items()}


def _hash(node: HashedNode, before: int, chained: int, hashes: Mapping[int, bytes]) -> bytes:
    hash_bytes = murmur3_128(before.to_bytes(4, "little") * (1 + chained))
    for source in node.inputs:
        pairs = zip(hash_bytes, hashes[source], strict=True)
        hash_bytes = bytes((byte * _FACTOR ^ source_byte) & 0xFF for byte, source_byte in pairs)
    return hash_bytes
