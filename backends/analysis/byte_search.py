"""The search for a pattern in bytes that are not decoded.

A kernel compares few bytes of the pattern at all positions of a piece at once, and the whole pattern only in pieces where these
bytes occur. It compares the bytes of the pattern that occur together least often in a sample of the buffer: single bytes of an
address are frequent among addresses.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

_PIECE: Final = 2048
_SAMPLE: Final = 4 << 10
_LONGEST: Final = 64
"""The length of the beginning of a pattern that the compared bytes are taken from."""
_PROBES: Final = 3
_ROOM: Final = 1024
_COUNT, _NEXT = 0, 1
Positions = npt.NDArray[np.int64]


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


def _probes(data: npt.NDArray[np.uint8], pattern: npt.NDArray[np.uint8]) -> Positions:
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


def positions(data: npt.NDArray[np.uint8], pattern: bytes) -> Positions:
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
