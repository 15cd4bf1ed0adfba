"""The kernel that merges runs of entries: the newest entry of each key counts, unless a range deletion is newer.

Merge operands are joined with commas, like in Flink's list states (RocksDB: ``StringAppendTESTOperator``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.sst.block_kernels import (
    DONE,
    KEY,
    KEY_END,
    MERGE,
    TAG,
    TAG_BYTES,
    VALUE,
    VALUE_END,
    VALUE_TYPE,
    compare,
)
from state_processor.serializers.kernel.compiler import entry_point, inlined_kernel
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

SHORT_KEY: Final = 11
_DELIMITER: Final = ord(",")


@inlined_kernel
def _is_before(data, table, runs, one, other):  # type: ignore[no-untyped-def]
    """Return whether the next entry of ``one`` precedes the next entry of ``other``: by key, then the newest first."""
    left = runs[one, 0]
    right = runs[other, 0]
    order = compare(data, table[left, KEY], table[left, KEY_END], data, table[right, KEY], table[right, KEY_END])
    if order != 0:
        return order < 0
    if table[left, TAG] != table[right, TAG]:
        return table[left, TAG] > table[right, TAG]
    return one < other


@inlined_kernel
def _sift(data, table, runs, heap, size, place):  # type: ignore[no-untyped-def]
    """Move a run down the heap to its position."""
    run = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(data, table, runs, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(data, table, runs, heap[child], run):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = run


@inlined_kernel
def _joined(data, table, stack, operands, base, at):  # type: ignore[no-untyped-def]
    """Write a value of a list: the existing value, then the merge operands, oldest first. Return the end.

    ``base`` is the entry of the existing value, or -1. ``stack`` has the entries of the operands, newest first.
    """
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
    return at


@inlined_kernel
def _put(data, out, rows, key, key_end, value, value_end, prefix):  # type: ignore[no-untyped-def]
    """Add an entry with its key group to the output; return False if its key is shorter than that."""
    if key_end - key < prefix:
        return False
    group = np.int64(0)
    for i in range(prefix):
        group = (group << 8) + data[key + i]
    out[rows, KEY] = key + prefix
    out[rows, KEY_END] = key_end
    out[rows, VALUE] = value
    out[rows, VALUE_END] = value_end
    out[rows, KEY_GROUP] = group
    return True


@entry_point(
    *(written(uint8), read(int64, 2), written(int64, 2), written(int64), read(uint8), read(int64, 2), int64),
    *(int64, written(int64), written(int64, 2), written(int64)),
)
def merge_runs(data, table, runs, heap, bounds, deletions, prefix, joined, stack, out, result):  # type: ignore[no-untyped-def]
    """Merge sorted entries of several runs.

    Parameters
    ----------
    data, table
        The entries of all runs. Behind ``joined``, ``data`` has room for all values that are merged.
    runs
        Start and end of the entries of each run in ``table``, newest run first. The starts are updated.
    heap
        Room for a number per run.
    bounds, deletions
        The range deletions. Each line has the begin and the end of a key in ``bounds``, and the sequence number of the newest
        deletion from this key on. The number 0 deletes nothing.
    prefix
        Bytes of the key group in front of each key.
    joined
        Start of merged values in ``data``.
    stack
        Room for a number per entry.
    out
        Receives the entries as :mod:`~state_processor.backends.formats.framing` has them.
    result
        The status, and the number of entries.
    """
    size = 0
    for run in range(len(runs)):
        if runs[run, 0] < runs[run, 1]:
            heap[size] = run
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sift(data, table, runs, heap, size, place)
    status = DONE
    rows = 0
    at = joined
    last = np.int64(-1)
    settled = True
    operands = 0
    deletion = -1
    deleted = np.int64(0)
    while True:
        entry = np.int64(-1)
        order = np.int64(-1)
        if size > 0:
            run = heap[0]
            entry = runs[run, 0]
            if last >= 0:
                size_of_key = table[entry, KEY_END] - table[entry, KEY]
                if table[last, KEY_END] - table[last, KEY] == size_of_key:
                    order = compare(data, table[last, KEY], table[last, KEY_END], data, table[entry, KEY], table[entry, KEY_END])
        base = np.int64(-1)
        finished = False
        if order != 0 or entry < 0:
            finished = not settled and operands > 0
        elif not settled:
            kind = table[entry, TAG] & 0xFF
            if (table[entry, TAG] >> 8) < deleted or (kind != VALUE_TYPE and kind != MERGE):
                finished = True
            elif kind == VALUE_TYPE:
                base = entry
                finished = True
            else:
                stack[operands] = entry
                operands += 1
            settled = finished
        if finished:
            if operands == 0:
                put = base
            elif operands == 1 and base < 0:
                put = stack[0]
            else:
                put = np.int64(-1)
            if put >= 0:
                value = table[put, VALUE]
                value_end = table[put, VALUE_END]
            elif operands > 0:
                value = at
                value_end = _joined(data, table, stack, operands, base, at)
                at = value_end
            if put >= 0 or operands > 0:
                if not _put(data, out, rows, table[last, KEY], table[last, KEY_END], value, value_end, prefix):
                    status = SHORT_KEY
                    break
                rows += 1
            operands = 0
        if entry < 0:
            break
        if order != 0:
            while deletion + 1 < len(deletions):
                begin = deletions[deletion + 1, 0]
                end = deletions[deletion + 1, 1]
                if compare(bounds, begin, end, data, table[entry, KEY], table[entry, KEY_END]) > 0:
                    break
                deletion += 1
                deleted = deletions[deletion, 2]
            operands = 0
            kind = table[entry, TAG] & 0xFF
            settled = True
            if (table[entry, TAG] >> 8) >= deleted:
                if kind == VALUE_TYPE:
                    value = table[entry, VALUE]
                    value_end = table[entry, VALUE_END]
                    if not _put(data, out, rows, table[entry, KEY], table[entry, KEY_END], value, value_end, prefix):
                        status = SHORT_KEY
                        break
                    rows += 1
                elif kind == MERGE:
                    stack[0] = entry
                    operands = 1
                    settled = False
        last = entry
        runs[run, 0] += 1
        if runs[run, 0] == runs[run, 1]:
            size -= 1
            heap[0] = heap[size]
        if size > 1:
            _sift(data, table, runs, heap, size, 0)
    result[0] = status
    result[1] = rows


@entry_point(
    *(read(uint8), read(int64, 2), written(int64, 2), written(int64), int64, written(int64, 2), written(int64)),
)
def newest_of_runs(data, table, runs, heap, prefix, out, result):  # type: ignore[no-untyped-def]
    """Find the newest entry of each key in sorted entries of several runs, deletions and merge operands included.

    Parameters
    ----------
    data, table, runs, heap, prefix
        As for :func:`merge_runs`.
    out
        Receives the entries as :mod:`~state_processor.backends.formats.framing` has them. The key ends with the tag of the entry.
    result
        The status, and the number of entries.
    """
    size = 0
    for run in range(len(runs)):
        if runs[run, 0] < runs[run, 1]:
            heap[size] = run
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sift(data, table, runs, heap, size, place)
    status = DONE
    rows = 0
    last = np.int64(-1)
    while size > 0:
        run = heap[0]
        entry = runs[run, 0]
        key = table[entry, KEY]
        key_end = table[entry, KEY_END]
        if last < 0 or compare(data, table[last, KEY], table[last, KEY_END], data, key, key_end) != 0:
            if key_end - key < prefix:
                status = SHORT_KEY
                break
            _put(data, out, rows, key, key_end + TAG_BYTES, table[entry, VALUE], table[entry, VALUE_END], prefix)
            rows += 1
        last = entry
        runs[run, 0] += 1
        if runs[run, 0] == runs[run, 1]:
            size -= 1
            heap[0] = heap[size]
        if size > 1:
            _sift(data, table, runs, heap, size, 0)
    result[0] = status
    result[1] = rows
