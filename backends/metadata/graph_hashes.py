"""Ids of operators without a uid: Flink computes them from the shape of the graph of the job (``StreamGraphHasherV2``).

The id of a node is a hash of the number of nodes before it, once for itself and once for each output that is chained to it, mixed
with the ids of its inputs. Names, types and code of operators do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state_processor.backends.metadata.operator_id import murmur3_128

_FACTOR = 37


@dataclass(frozen=True, slots=True)
class HashedNode:
    """A node of the graph of a job.

    Attributes
    ----------
    inputs
        The positions of the inputs, in their order; all are smaller than the position of the node.
    chained
        For each input, whether both operators are in one task.
    """

    inputs: tuple[int, ...]
    chained: tuple[bool, ...]


def graph_hashes(
    nodes: Sequence[HashedNode], recorded: Mapping[int, str], sources: Sequence[int] | None = None
) -> dict[int, str]:
    """Return the ids of the nodes of a graph.

    Parameters
    ----------
    nodes
        The nodes in the order of their numbers in Flink.
    recorded
        Ids by position of nodes with a uid.
    sources
        The nodes without inputs in the order of their numbers; by default the order of the nodes.
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
        hash_bytes = bytes(
            (byte * _FACTOR ^ source_byte) & 0xFF for byte, source_byte in zip(hash_bytes, hashes[source], strict=True)
        )
    return hash_bytes
