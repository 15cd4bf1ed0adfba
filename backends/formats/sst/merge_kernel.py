"""The kernel that merges runs of entries: the newest entry of each key counts, unless a range deletion is newer.

Merge operands are joined with commas, like in Flink's list states (RocksDB: ``StringAppendTESTOperator``).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.sst.block_kernels import (
    KEY,
    KEY_END,
    MERGE,
    SLACK,
    TAG_BYTES,
    VALUE,
    VALUE_END,
    VALUE_TYPE,
    compare,
)
from state_processor.serializers.kernel.compiler import entry_point, inlined_kernel, kernel
from state_processor.serializers.kernel.signatures import int64, read, uint8, written


class RangeDeletion(NamedTuple):
    """The deletion of all older entries from the key ``begin`` to before ``end``."""

    begin: bytes
    end: bytes
    sequence: int


def fragments(deletions: Iterable[RangeDeletion]) -> list[RangeDeletion]:
    """Return the newest deletion of each key: deletions that do not overlap, in the order of their keys."""
    waiting = sorted(deletions, reverse=True)
    deletions_in_order: list[RangeDeletion] = []
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
            deletions_in_order.append(RangeDeletion(at, end, sequence))
        at = end
    return deletions_in_order


def within(parts: Sequence[RangeDeletion], lower: bytes, upper: bytes) -> Sequence[RangeDeletion]:
    """Return the fragments that delete keys from ``lower`` to before ``upper``."""
    return parts[bisect_right(parts, lower, key=itemgetter(1)) : bisect_left(parts, upper, key=itemgetter(0))]


def bounds(parts: Sequence[RangeDeletion]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return fragments in the form of the kernel; see :func:`~state_processor.backends.formats.sst.merge_kernel.merge_runs`."""
    data, rows = bytearray(), []
    for i, part in enumerate(parts):
        follows = i + 1 < len(parts) and parts[i + 1].begin == part.end
        for key, sequence in ((part.begin, part.sequence),) if follows else ((part.begin, part.sequence), (part.end, 0)):
            rows.append((len(data), len(data) + len(key), sequence))
            data += key
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return np.frombuffer(bytes(data) + bytes(SLACK), dtype=np.uint8), table


# Columns of the runs: the next entry, the one behind the last, and 1 if all entries are values of different keys
NEXT, BEHIND, IS_DISTINCT = 0, 1, 2
RUN_FIELDS: Final = 3
_DELIMITER: Final = ord(",")


@inlined_kernel
def _order(data, table, prefix, first, second):  # type: ignore[no-untyped-def]
    """Compare the keys of two entries."""
    return compare(
        data, table[first, KEY] - prefix, table[first, KEY_END], data, table[second, KEY] - prefix, table[second, KEY_END]
    )


@inlined_kernel
def _is_before(data, table, tags, prefix, runs, first, second):  # type: ignore[no-untyped-def]
    """Return whether the next entry of ``first`` precedes the next entry of ``second``: by key, then the newest first."""
    entry = runs[first, NEXT]
    entry_of_second = runs[second, NEXT]
    order = _order(data, table, prefix, entry, entry_of_second)
    if order != 0:
        return order < 0
    if tags[entry] != tags[entry_of_second]:
        return tags[entry] > tags[entry_of_second]
    return first < second


@kernel
def _sift(data, table, tags, prefix, runs, heap, size, place):  # type: ignore[no-untyped-def]
    """Move a run down the heap to its position."""
    run = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(data, table, tags, prefix, runs, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(data, table, tags, prefix, runs, heap[child], run):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = run


@kernel
def _heap_of(data, table, tags, prefix, runs, heap):  # type: ignore[no-untyped-def]
    """Make a heap of the runs with entries; return their number."""
    size = 0
    for run in range(len(runs)):
        if runs[run, NEXT] < runs[run, BEHIND]:
            heap[size] = run
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sift(data, table, tags, prefix, runs, heap, size, place)
    return size


@kernel
def _stretch_end(data, table, tags, prefix, runs, heap, size):  # type: ignore[no-untyped-def]
    """Return the end of the entries of the first run whose keys precede the keys of all other runs; at least its next entry."""
    at = runs[heap[0], NEXT] + 1
    end = runs[heap[0], BEHIND]
    if size == 1 or at >= end:
        return end
    second = heap[1]
    if size > 2 and _is_before(data, table, tags, prefix, runs, heap[2], second):
        second = heap[2]
    head = runs[second, NEXT]
    step = np.int64(1)
    while at < end and _order(data, table, prefix, at, head) < 0:
        at += step
        step *= 2
    # The entry in front of the last step precedes, the one that it reached does not
    low = at - step // 2 + 1 if step > 1 else at
    high = min(at, end)
    while low < high:
        middle = (low + high) >> 1
        if _order(data, table, prefix, middle, head) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@inlined_kernel
def _put(table, out, row, entry):  # type: ignore[no-untyped-def]
    for i in range(ENTRY_FIELDS):
        out[row, i] = table[entry, i]


@kernel
def _put_joined(data, table, stack, operands, base, at, out, row):  # type: ignore[no-untyped-def]
    """Put an entry of a list: the existing value, then the merge operands, oldest first. Return where values go on.

    ``base`` is the entry of the existing value, or -1. ``stack`` has the entries of the operands, newest first.
    """
    _put(table, out, row, stack[0])
    if operands == 1 and base < 0:
        return at
    out[row, VALUE] = at
    first = True
    if base >= 0:
        for i in range(table[base, VALUE], table[base, VALUE_END]):
            data[at] = data[i]
            at += 1
        first = False
    for n in range(operands - 1, -1, -1):
        if not first:
            data[at] = _DELIMITER
            at += 1
        first = False
        for i in range(table[stack[n], VALUE], table[stack[n], VALUE_END]):
            data[at] = data[i]
            at += 1
    out[row, VALUE_END] = at
    return at


@kernel
def _advanced(data, table, tags, prefix, runs, heap, size, behind):  # type: ignore[no-untyped-def]
    """Let the first run continue at an entry. Return the number of runs with entries, whose order in the heap is restored."""
    run = heap[0]
    runs[run, NEXT] = behind
    if behind == runs[run, BEHIND]:
        size -= 1
        heap[0] = heap[size]
    if size > 1:
        _sift(data, table, tags, prefix, runs, heap, size, 0)
    return size


@inlined_kernel
def _deletion_at(data, table, prefix, bounds, deletions, deletion, entry):  # type: ignore[no-untyped-def]
    """Return the last range deletion, from ``deletion`` on, that begins at the key of an entry or before it."""
    while deletion + 1 < len(deletions):
        begin, end = deletions[deletion + 1, 0], deletions[deletion + 1, 1]
        if compare(bounds, begin, end, data, table[entry, KEY] - prefix, table[entry, KEY_END]) > 0:
            break
        deletion += 1
    return deletion


@inlined_kernel
def _live_kind(tags, entry, deleted):  # type: ignore[no-untyped-def]
    """Return the kind of an entry; -1 if a range deletion with the sequence number ``deleted`` is newer."""
    return tags[entry] & 0xFF if (tags[entry] >> 8) >= deleted else np.int64(-1)


@entry_point(
    *(written(uint8), read(int64, 2), read(int64), int64, written(int64, 2), written(int64), read(uint8), read(int64, 2)),
    *(int64, written(int64), written(int64, 2)),
)
def merge_runs(data, table, tags, prefix, runs, heap, bounds, deletions, joined, stack, out):  # type: ignore[no-untyped-def]
    """Merge sorted entries of several runs; return the number of resulting entries.

    Parameters
    ----------
    data, table, tags
        The entries of all runs. Behind ``joined``, ``data`` has room for all values that are merged.
    prefix
        Bytes of the key group in front of each key.
    runs
        The runs: the entries of each in ``table``. The starts are updated.
    heap
        Room for a number per run.
    bounds, deletions
        The range deletions. Each line has the begin and the end of a key in ``bounds``, and the sequence number of the newest
        deletion from this key on. The number 0 deletes nothing.
    joined
        Start of merged values in ``data``.
    stack
        Room for a number per entry.
    out
        Receives the entries.
    """
    size = _heap_of(data, table, tags, prefix, runs, heap)
    rows = 0
    at = joined
    last = np.int64(-1)
    waiting = False  # for older entries of the last key: its operands are in the stack
    operands = 0
    deletion = -1
    deleted = np.int64(0)
    while size > 0:
        run = heap[0]
        entry = runs[run, NEXT]
        behind = _stretch_end(data, table, tags, prefix, runs, heap, size)
        may_repeat = True  # the key of the entry before
        while entry < behind:
            if may_repeat and last >= 0 and _order(data, table, prefix, last, entry) == 0:
                if waiting:
                    kind = _live_kind(tags, entry, deleted)
                    if kind == MERGE:
                        stack[operands] = entry
                        operands += 1
                    else:
                        base = entry if kind == VALUE_TYPE else np.int64(-1)
                        at = _put_joined(data, table, stack, operands, base, at, out, rows)
                        rows += 1
                        waiting = False
                last = entry
                entry += 1
                continue
            if waiting:
                at = _put_joined(data, table, stack, operands, np.int64(-1), at, out, rows)
                rows += 1
                waiting = False
            may_repeat = runs[run, IS_DISTINCT] == 0
            if len(deletions) == 0 and not may_repeat:
                for copied in range(entry, behind):
                    _put(table, out, rows, copied)
                    rows += 1
                last = behind - 1
                break
            deletion = _deletion_at(data, table, prefix, bounds, deletions, deletion, entry)
            deleted = deletions[deletion, 2] if deletion >= 0 else np.int64(0)
            kind = _live_kind(tags, entry, deleted)
            if kind == VALUE_TYPE:
                _put(table, out, rows, entry)
                rows += 1
            elif kind == MERGE:
                stack[0] = entry
                operands = 1
                waiting = True
            last = entry
            entry += 1
        size = _advanced(data, table, tags, prefix, runs, heap, size, behind)
    if waiting:
        _put_joined(data, table, stack, operands, np.int64(-1), at, out, rows)
        rows += 1
    return rows


@entry_point(
    *(read(uint8), read(int64, 2), read(int64), int64, written(int64, 2), written(int64), written(int64, 2)),
)
def newest_of_runs(data, table, tags, prefix, runs, heap, out):  # type: ignore[no-untyped-def]
    """Find the newest entry of each key in sorted entries of several runs, deletions and merge operands included.

    Return the number of these entries.

    Parameters
    ----------
    data, table, tags, prefix, runs, heap
        As for :func:`merge_runs`.
    out
        Receives the entries. The key of each ends with its tag.
    """
    size = _heap_of(data, table, tags, prefix, runs, heap)
    rows = 0
    last = np.int64(-1)
    while size > 0:
        run = heap[0]
        entry = runs[run, NEXT]
        if last < 0 or _order(data, table, prefix, last, entry) != 0:
            _put(table, out, rows, entry)
            out[rows, KEY_END] += TAG_BYTES
            rows += 1
        last = entry
        size = _advanced(data, table, tags, prefix, runs, heap, size, entry + 1)
    return rows
