"""Range deletions: the newest deletion of each key (RocksDB: ``db/range_tombstone_fragmenter.h``)."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.sst.block_kernels import SLACK


class Deletion(NamedTuple):
    """The deletion of all older entries from the key ``begin`` to before ``end``."""

    begin: bytes
    end: bytes
    sequence: int


def fragments(deletions: Iterable[Deletion]) -> list[Deletion]:
    """Return the newest deletion of each key: deletions that do not overlap, in the order of their keys."""
    waiting = sorted(deletions, reverse=True)
    deletions_in_order: list[Deletion] = []
    active: list[tuple[int, bytes]] = []  # the negated sequence number, and the end
    at = b""
    while waiting or active:
        if not active:
            at = waiting[-1].begin
        while waiting and waiting[-1].begin <= at:
            deletion = waiting.pop()
            heapq.heappush(active, (-deletion.sequence, deletion.end))
        while active and active[0][1] <= at:
            heapq.heappop(active)
        if not active:
            continue
        sequence, end = -active[0][0], active[0][1]
        if waiting:
            end = min(end, waiting[-1].begin)
        if deletions_in_order and deletions_in_order[-1].end == at and deletions_in_order[-1].sequence == sequence:
            deletions_in_order[-1] = deletions_in_order[-1]._replace(end=end)
        else:
            deletions_in_order.append(Deletion(at, end, sequence))
        at = end
    return deletions_in_order


def within(parts: Sequence[Deletion], lower: bytes, upper: bytes) -> Sequence[Deletion]:
    """Return the fragments that delete keys from ``lower`` to before ``upper``."""
    return parts[bisect_right(parts, lower, key=itemgetter(1)) : bisect_left(parts, upper, key=itemgetter(0))]


def bounds(parts: Sequence[Deletion]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return fragments in the form of the kernel; see :func:`~state_processor.backends.formats.sst.merge_kernel.merge_runs`."""
    data, rows = bytearray(), []
    for i, part in enumerate(parts):
        follows = i + 1 < len(parts) and parts[i + 1].begin == part.end
        for key, sequence in ((part.begin, part.sequence),) if follows else ((part.begin, part.sequence), (part.end, 0)):
            rows.append((len(data), len(data) + len(key), sequence))
            data += key
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return np.frombuffer(bytes(data) + bytes(SLACK), dtype=np.uint8), table
