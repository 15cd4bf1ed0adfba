"""Kernels over framed entries of canonical files: check entries, find the last entry, detect duplicates, frame raw entries."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.framing import ENTRY_FIELDS, KEY_GROUP
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.encode.loop import BEGIN, END, ROW
from state_processor.serializers.kernel.memory import (
    load_be_i32,
    load_be_u16,
    load_i64,
    prefetch,
    store_be_i16,
    store_be_i32,
    store_i64,
)
from state_processor.serializers.kernel.signatures import int32, int64, partly_read, read, uint8, uint32, uint64, written

# Fields of the result of a check
STATUS: Final = 0
POSITION: Final = 1
COUNT: Final = 2
LAST: Final = 3
SEEN: Final = 4
CHECK_FIELDS: Final = 5

# Values of STATUS
OK: Final = 0
BAD_FRAME: Final = 1
FOREIGN: Final = 2
DUPLICATE: Final = 3
CROWDED: Final = 4

_FIRST_SLOTS: Final = 1 << 10
_MANY_SLOTS: Final = 1 << 18
"""Larger tables (4 MB) grow more slowly, and are filled more."""
_SPARSE: Final = 16
"""A table with more slots per key is replaced for the next keys."""
_SPANS_AHEAD: Final = 8
"""So many entries ahead, the bytes of an entry are fetched: sorted entries are anywhere in memory."""
_AHEAD: Final = 32
"""Number of entries whose slots are prefetched: large tables do not fit into a core's cache."""


@kernel
def _mixed(x):  # type: ignore[no-untyped-def]
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(32))


@kernel
def fingerprint(data, begin, end):  # type: ignore[no-untyped-def]
    """Return a 128-bit hash of a key. Keys of one state with the same hash are regarded as equal."""
    first = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(end - begin)
    second = np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(end - begin)
    i = begin
    while i < end:
        word = np.uint64(0)
        if i + 8 <= end:
            word = np.uint64(load_i64(data, i))
        else:
            for j in range(i, end):
                word = (word << np.uint64(8)) | np.uint64(data[j])
        first = _mixed(first ^ word) + np.uint64(0x165667B19E3779F9)
        second = _mixed(second + word * np.uint64(0x27D4EB2F165667C5)) ^ first
        i += 8
    return first | np.uint64(1), second


@kernel
def insert(seen, first, second):  # type: ignore[no-untyped-def]
    """Add a fingerprint and return whether it is new. An empty slot has two zeros; fingerprints never do."""
    mask = len(seen) - 1
    slot = np.int64(second & np.uint64(mask))
    while seen[slot, 0] != 0:
        if seen[slot, 0] == first and seen[slot, 1] == second:
            return False
        slot = (slot + 1) & mask
    seen[slot, 0] = first
    seen[slot, 1] = second
    return True


@entry_point(read(uint64, 2), written(uint64, 2))
def rehash(old, new):  # type: ignore[no-untyped-def]
    """Move all fingerprints into a larger table."""
    for i in range(len(old)):
        if old[i, 0] != 0:
            insert(new, old[i, 0], old[i, 1])


@entry_point(read(uint8), int64, int64, written(uint64, 2), written(int64), allocates=True)
def check_entries(data, key_group, prefix, seen, result):  # type: ignore[no-untyped-def]
    """Check framed entries from ``result[POSITION]`` to the end or to the first wrong entry.

    Each key has to begin with ``key_group`` in ``prefix`` bytes. It must not be in ``seen``; it is added.
    """
    pos = result[POSITION]
    count = result[COUNT]
    last = result[LAST]
    used = result[SEEN]
    status = OK
    end = len(data)
    mask = np.uint64(len(seen) - 1)
    prints = np.empty((_AHEAD, 2), np.uint64)
    starts = np.empty(_AHEAD, np.int64)
    while pos < end and status == OK:
        ahead = 0
        while pos < end and ahead < _AHEAD:
            if pos + 4 > end:
                status = BAD_FRAME
                break
            size = load_be_i32(data, pos)
            key = pos + 4
            if size < prefix or size > end - key - 4:
                status = BAD_FRAME
                break
            value_size = load_be_i32(data, key + size)
            after = key + size + 4 + value_size
            if value_size < 0 or after > end:
                status = BAD_FRAME
                break
            group = load_be_u16(data, key) if prefix == 2 else np.int64(data[key])
            if group != key_group:
                status = FOREIGN
                break
            if 4 * (used + ahead + 1) > 3 * len(seen):
                status = CROWDED
                break
            first, second = fingerprint(data, key, key + size)
            prefetch(seen, 2 * np.int64(second & mask))
            prints[ahead, 0] = first
            prints[ahead, 1] = second
            starts[ahead] = pos
            ahead += 1
            pos = after
        for i in range(ahead):
            if not insert(seen, prints[i, 0], prints[i, 1]):
                status = DUPLICATE
                pos = starts[i]
                break
            last = starts[i]
            used += 1
            count += 1
    result[STATUS] = status
    result[POSITION] = pos
    result[COUNT] = count
    result[LAST] = last
    result[SEEN] = used


@entry_point(read(uint8), int64, int64, int64, written(uint32), written(int64))
def check_starts(data, end, key_group, prefix, starts, result):  # type: ignore[no-untyped-def]
    """Check framed entries from ``result[POSITION]`` to ``end`` as :func:`check_entries`, and add their starts.

    ``result[COUNT]`` starts are there already. Keys that occur twice are not found here.
    """
    pos = result[POSITION]
    count = result[COUNT]
    status = OK
    while pos < end and status == OK:
        key = pos + 4
        size = load_be_i32(data, pos) if key <= end else np.int64(-1)
        if size < prefix or size > end - key - 4:
            status = BAD_FRAME
            break
        value = key + size + 4
        value_size = load_be_i32(data, key + size)
        group = load_be_u16(data, key) if prefix == 2 else np.int64(data[key])
        if value_size < 0 or value + value_size > end:
            status = BAD_FRAME
        elif group != key_group:
            status = FOREIGN
        elif count == len(starts):
            status = CROWDED
        else:
            starts[count] = pos
            count += 1
            pos = value + value_size
    result[STATUS] = status
    result[POSITION] = pos
    result[COUNT] = count


@entry_point(read(uint8))
def count_entries(data):  # type: ignore[no-untyped-def]
    """Return the number of framed entries."""
    count = 0
    pos = 0
    while pos < len(data):
        pos += 4 + load_be_i32(data, pos)
        pos += 4 + load_be_i32(data, pos)
        count += 1
    return count


@entry_point(read(uint8), written(int64, 2))
def _find_entries(data, spans):  # type: ignore[no-untyped-def]
    pos = 0
    for i in range(len(spans)):
        begin = pos + 4
        end = begin + load_be_i32(data, pos)
        pos = end + 4 + load_be_i32(data, end)
        spans[i, 0] = begin
        spans[i, 1] = end
        spans[i, 2] = end + 4
        spans[i, 3] = pos


def entry_spans(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return a row for each framed entry: start and end of its key including the key group, start and end of its value."""
    spans = np.empty((count_entries(data), 4), dtype=np.int64)
    _find_entries(data, spans)
    return spans


@entry_point(read(uint8), read(uint32), written(int64, 2))
def _find_spans(data, starts, spans):  # type: ignore[no-untyped-def]
    last = len(starts) - 1
    for i in range(len(starts)):
        prefetch(data, np.int64(starts[min(i + _SPANS_AHEAD, last)]))
        begin = np.int64(starts[i]) + 4
        end = begin + load_be_i32(data, begin - 4)
        spans[i, 0] = begin
        spans[i, 1] = end
        spans[i, 2] = end + 4
        spans[i, 3] = end + 4 + load_be_i32(data, end)


def spans_at(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return rows of :func:`entry_spans` for the framed entries at some starts."""
    spans = np.empty((len(starts), 4), dtype=np.int64)
    _find_spans(data, starts, spans)
    return spans


def entry_table(
    data: npt.NDArray[np.uint8],
    prefix: int,
    key_groups: int | npt.NDArray[np.int32],
    starts: npt.NDArray[np.uint32] | None = None,
) -> npt.NDArray[np.int64]:
    """Return framed entries in the form of readers: keys without the key group, and the key group in the last column.

    ``starts``: the starts of the entries, in the order of the result; by default they are as they come.
    """
    spans = entry_spans(data) if starts is None else spans_at(data, starts)
    table = np.empty((len(spans), ENTRY_FIELDS), dtype=np.int64)
    table[:, :KEY_GROUP] = spans
    table[:, 0] += prefix
    table[:, KEY_GROUP] = key_groups
    return table


@entry_point(read(uint8), read(int64, 2), read(int32), written(int64, 2), written(uint8))
def group_entries(data, entries, groups, spans, out):  # type: ignore[no-untyped-def]
    """Copy framed entries into ``out``, grouped by key group, in their order within a key group.

    ``entries`` has rows from the encode kernel, ``groups`` the key group of each row. ``spans`` has a row of zeros for each key
    group; it receives start and end in ``out`` and the number of entries.
    """
    for e in range(len(entries)):
        group = groups[entries[e, ROW]]
        spans[group, 1] += entries[e, END] - entries[e, BEGIN]
        spans[group, 2] += 1
    pos = 0
    for group in range(len(spans)):
        size = spans[group, 1]
        spans[group, 0] = pos
        spans[group, 1] = pos
        pos += size
    for e in range(len(entries)):
        group = groups[entries[e, ROW]]
        source = entries[e, BEGIN]
        size = entries[e, END] - source
        target = spans[group, 1]
        spans[group, 1] = target + size
        for i in range(0, size - 7, 8):
            store_i64(out, target + i, load_i64(data, source + i))
        # An entry has two lengths of four bytes; the last eight bytes may overlap the previous ones.
        store_i64(out, target + size - 8, load_i64(data, source + size - 8))


@entry_point(partly_read(uint8), read(int64, 2), read(int64), read(int32), int64, written(uint8), written(int64))
def _frame_entries(data, entries, order, groups, prefix, out, starts):  # type: ignore[no-untyped-def]
    pos = 0
    for i in range(len(order)):
        e = order[i]
        starts[i] = pos
        key = entries[e, 0]
        size = entries[e, 1] - key
        store_be_i32(out, pos, size + prefix)
        pos += 4
        if prefix == 2:
            store_be_i16(out, pos, groups[i])
        else:
            out[pos] = groups[i]
        pos += prefix
        for j in range(size):
            out[pos + j] = data[key + j]
        pos += size
        value = entries[e, 2]
        size = entries[e, 3] - value
        store_be_i32(out, pos, size)
        pos += 4
        for j in range(size):
            out[pos + j] = data[value + j]
        pos += size
    starts[len(order)] = pos


def frame_entries(
    data: npt.NDArray[np.uint8],
    entries: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int32],
    prefix: int,
    out: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int64]:
    """Frame raw entries (rows of key start, key end, value start, value end) into ``out``.

    Returns the start of each entry in ``out``, and the end of the last entry.
    """
    starts = np.empty(len(order) + 1, dtype=np.int64)
    _frame_entries(data, entries, order, groups, prefix, out, starts)
    return starts


@entry_point(partly_read(uint8), read(int64, 2), written(uint8))
def frame_keys(data, keys, out):  # type: ignore[no-untyped-def]
    """Frame keys (rows of start and end) into ``out``, without values."""
    pos = 0
    for i in range(len(keys)):
        size = keys[i, 1] - keys[i, 0]
        store_be_i32(out, pos, size)
        pos += 4
        for j in range(size):
            out[pos + j] = data[keys[i, 0] + j]
        pos += size
        store_be_i32(out, pos, 0)
        pos += 4


def with_room(seen: npt.NDArray[np.uint64], entries: int) -> npt.NDArray[np.uint64]:
    """Return a table for a number of keys: half full, or three quarters full if it is large, to save memory."""
    slots = len(seen)
    while slots < _MANY_SLOTS and slots < 2 * entries:
        slots *= 4
    while 3 * slots < 4 * entries:
        slots *= 2
    if slots == len(seen):
        return seen
    larger = np.zeros((slots, 2), dtype=np.uint64)
    rehash(seen, larger)
    return larger


class KeyFilter:
    """The known keys of one state in one key group."""

    def __init__(self) -> None:
        self._seen = np.zeros((_FIRST_SLOTS, 2), dtype=np.uint64)
        self._used = 0

    def clear(self) -> None:
        """Forget all keys."""
        if _SPARSE * self._used < len(self._seen):
            self._seen = np.zeros((_FIRST_SLOTS, 2), dtype=np.uint64)
        else:  # most key groups of a state have similar numbers of keys
            self._seen.fill(0)
        self._used = 0

    def reserve(self, keys: int) -> None:
        """Make room for more keys: a table that grows takes the memory of two."""
        self._seen = with_room(self._seen, self._used + keys)

    def check(self, data: npt.NDArray[np.uint8], key_group: int, prefix: int) -> npt.NDArray[np.int64]:
        """See :func:`check_entries`; the result is never ``CROWDED``."""
        result = np.zeros(CHECK_FIELDS, dtype=np.int64)
        result[SEEN] = self._used
        self._seen = with_room(self._seen, self._used + estimated_entries(data))
        while True:
            check_entries(data, key_group, prefix, self._seen, result)
            if result[STATUS] != CROWDED:
                self._used = int(result[SEEN])
                return result
            self._seen = with_room(self._seen, len(self._seen))


def estimated_entries(data: npt.NDArray[np.uint8]) -> int:
    """Estimate the number of entries from the size of the first."""
    if len(data) < 8:
        return 0
    key = int.from_bytes(data[:4].tobytes(), "big")
    value = int.from_bytes(data[4 + key : 8 + key].tobytes(), "big")
    return len(data) // (8 + key + value)
