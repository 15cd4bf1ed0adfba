"""Framed entries in the order of their keys, as an embedded store keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats.entry_framing import entry_spans
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64, load_i64
from state_processor.serializers.kernel.signatures import int64, read, uint8, uint32, uint64, written

_CHUNK: Final = 1 << 14
_DIGIT_BITS: Final = 8
_DIGITS: Final = 64 // _DIGIT_BITS
_RADIX: Final = 1 << _DIGIT_BITS
_LENGTH: Final = 4
"""Bytes of the length in front of a key."""
_INSERTED: Final = 40
"""Up to so many words are sorted by insertion."""
_MORE: Final = 9
"""The rest of a key that continues behind a word of eight bytes."""
_FIRST_PARTS: Final = 16
_FEW: Final = 256
"""Entries that are objects of Python at a time."""


Pairs = tuple[list[bytes], list[bytes]]
"""Keys, and their values."""


def order_of_keys(data: npt.NDArray[np.uint8], prefix: int) -> npt.NDArray[np.uint32]:
    """Return the starts of framed entries in the order of their keys, without a prefix; equal keys keep their order."""
    starts = (entry_spans(data)[:, 0] - _LENGTH).astype(np.uint32)
    _sort(data, starts, prefix)
    return starts


def _sort(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.uint32], prefix: int) -> int:
    """Sort the starts of entries by their keys; return the start of an entry whose key occurs twice, or -1."""
    words, counts = np.empty(len(starts), dtype=np.uint64), np.zeros((_DIGITS, _RADIX), dtype=np.int64)
    return int(_sort_keys(data, starts, prefix, words, counts))


class EntryRun:
    """Framed entries of one state and key group that are sorted together. The arrays are used again for the next entries.

    In addition to its bytes, an entry takes 4 bytes for its start, and 20 while the entries are sorted.
    """

    def __init__(self, prefix: int) -> None:
        self._prefix = prefix
        self._data = np.empty(0, dtype=np.uint8)
        self._starts = np.empty(0, dtype=np.uint32)
        self._count = 0
        self.size = 0

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes of all entries."""
        return self._data[: self.size]

    def clear(self) -> None:
        """Forget the entries."""
        self._count = self.size = 0

    def reserve(self, entries: int, size: int) -> None:
        """Make room for a number of entries with some bytes."""
        if not self.size:
            self._data = self._data if len(self._data) >= size else np.empty(size, dtype=np.uint8)
            self._starts = self._starts if len(self._starts) >= entries else np.empty(entries, dtype=np.uint32)

    def add(self, entries: npt.NDArray[np.uint8], key_group: int) -> npt.NDArray[np.int64]:
        """Check entries and add them; return the result of :class:`~state_processor.backends.formats.entry_framing.KeyFilter`.

        Keys that occur twice are found when the run is sorted.
        """
        begin, end = self.size, self.size + len(entries)
        self._data = _with_room(self._data, end)
        self._data[begin:end] = entries
        result = np.zeros(framing.CHECK_FIELDS, dtype=np.int64)
        result[[framing.POSITION, framing.COUNT]] = begin, self._count
        estimate = framing.estimated_entries(entries)
        result[framing.STATUS] = framing.CROWDED
        while result[framing.STATUS] == framing.CROWDED:
            self._starts = _with_room(self._starts, int(result[framing.COUNT]) + estimate)
            framing.check_starts(self._data, end, key_group, self._prefix, self._starts, result)
        added, self._count, self.size = int(result[framing.COUNT]) - self._count, int(result[framing.COUNT]), end
        result[[framing.POSITION, framing.COUNT]] = result[framing.POSITION] - begin, added
        return result

    def sorted(self) -> tuple[npt.NDArray[np.uint32], int]:
        """Sort the entries; return their starts in the order of their keys, and the start of a key that occurs twice, or -1."""
        starts = self._starts[: self._count]
        return starts, _sort(self._data, starts, self._prefix)


def _with_room(array: Any, count: int) -> Any:
    """Return an array of at least some lines with the same content."""
    if len(array) >= count:
        return array
    larger = np.empty((max(count, len(array) * 3 // 2), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def first_of_keys(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return which of some entries, in the order of their keys, have another key than the entry before."""
    is_first = np.ones(len(starts), dtype=np.uint8)
    _unmark_repeated(data, starts, is_first)
    return is_first.astype(bool)


def entries_as_they_come(data: npt.NDArray[np.uint8]) -> Iterator[Pairs]:
    """Yield keys and values of framed entries, some thousands at a time."""
    spans = entry_spans(data)
    for begin in range(0, len(spans), _CHUNK):
        spans_of_chunk = spans[begin : begin + _CHUNK]
        yield _objects(data, spans_of_chunk, 0), _objects(data, spans_of_chunk, 2)


def _objects(data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], column: int) -> list[bytes]:
    """Return the bytes between two columns of spans. Arrow makes many: slices of Python take five times as long."""
    if len(spans) <= _FEW:  # Arrow imports pandas
        memory = data.data
        return [bytes(memory[begin:end]) for begin, end in spans[:, column : column + 2].tolist()]
    offsets = np.zeros(len(spans) + 1, dtype=np.int32)
    np.cumsum(spans[:, column + 1] - spans[:, column], out=offsets[1:])
    gathered = np.empty(int(offsets[-1]), dtype=np.uint8)
    _gather(data, spans, column, gathered)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(gathered)]
    objects: list[bytes] = pa.Array.from_buffers(pa.binary(), len(spans), buffers).to_numpy(zero_copy_only=False).tolist()
    return objects


@entry_point(read(uint8), read(int64, 2), int64, written(uint8))
def _gather(data, spans, column, out):  # type: ignore[no-untyped-def]
    """Copy the bytes between two columns of spans, one after the other."""
    pos = 0
    for i in range(len(spans)):
        for j in range(spans[i, column], spans[i, column + 1]):
            out[pos] = data[j]
            pos += 1


@entry_point(read(uint8), read(uint32), written(uint8))
def _unmark_repeated(data, starts, out):  # type: ignore[no-untyped-def]
    for i in range(1, len(starts)):
        if _compare(data, np.int64(starts[i - 1]), np.int64(starts[i]), np.int64(0)) == 0:
            out[i] = 0


# Sorting: the next eight bytes of all keys are compared as a number; keys that agree in them are sorted by the eight bytes behind


@kernel
def _compare(data, first, second, skipped):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1 as the key of one entry is before another, equal, or behind it; ``skipped`` bytes are equal."""
    i = first + _LENGTH + skipped
    j = second + _LENGTH + skipped
    end = first + _LENGTH + load_be_i32(data, first)
    stop = second + _LENGTH + load_be_i32(data, second)
    while i + 8 <= end and j + 8 <= stop and load_i64(data, i) == load_i64(data, j):
        i += 8
        j += 8
    while i < end and j < stop:
        if data[i] != data[j]:
            return -1 if data[i] < data[j] else 1
        i += 1
        j += 1
    size = (end - i) - (stop - j)
    return 0 if size == 0 else (-1 if size < 0 else 1)


@kernel
def _word(data, begin, end):  # type: ignore[no-untyped-def]
    """Return eight bytes of a key as a number, with zeros behind its end."""
    if begin + 8 <= end:
        return np.uint64(load_be_i64(data, begin))
    word = np.uint64(0)
    for i in range(begin, begin + 8):
        word <<= np.uint64(8)
        if i < end:
            word |= np.uint64(data[i])
    return word


@kernel
def _move(words, order, other_words, other_order, begin, end, counts, digit):  # type: ignore[no-untyped-def]
    """Move words to the places that ``counts`` has for their digits."""
    shift = np.uint64(digit * _DIGIT_BITS)
    for i in range(begin, end):
        value = (words[i] >> shift) & np.uint64(_RADIX - 1)
        at = counts[digit, value]
        counts[digit, value] = at + 1
        other_words[at] = words[i]
        other_order[at] = order[i]


@kernel
def _sort_few(words, order, begin, end):  # type: ignore[no-untyped-def]
    for i in range(begin + 1, end):
        word = words[i]
        line = order[i]
        at = i
        while at > begin and words[at - 1] > word:
            words[at] = words[at - 1]
            order[at] = order[at - 1]
            at -= 1
        words[at] = word
        order[at] = line


@kernel
def _sort_words(words, order, other_words, other_order, begin, end, counts):  # type: ignore[no-untyped-def]
    """Sort words, and numbers with them, by one digit after another; equal words keep their order.

    Digits that all words share are skipped.
    """
    if end - begin <= _INSERTED:
        _sort_few(words, order, begin, end)
        return
    for digit in range(_DIGITS):
        for value in range(_RADIX):
            counts[digit, value] = 0
    for i in range(begin, end):
        word = words[i]
        for digit in range(_DIGITS):
            counts[digit, word & np.uint64(_RADIX - 1)] += 1
            word >>= np.uint64(_DIGIT_BITS)
    is_swapped = False
    for digit in range(_DIGITS):
        shift = np.uint64(digit * _DIGIT_BITS)
        if counts[digit, (words[begin] >> shift) & np.uint64(_RADIX - 1)] == end - begin:
            continue
        at = np.int64(begin)
        for value in range(_RADIX):
            size = counts[digit, value]
            counts[digit, value] = at
            at += size
        if is_swapped:
            _move(other_words, other_order, words, order, begin, end, counts, digit)
        else:
            _move(words, order, other_words, other_order, begin, end, counts, digit)
        is_swapped = not is_swapped
    if is_swapped:
        for i in range(begin, end):
            words[i] = other_words[i]
            order[i] = other_order[i]


@kernel
def _sort_ends(data, starts, words, other_words, other_starts, begin, end, depth, counts):  # type: ignore[no-untyped-def]
    """Sort keys that agree in a word: keys that end in it come first, the shortest first.

    Returns where the others begin, and the start of an entry whose key occurs twice, or -1.
    """
    for i in range(begin, end):
        words[i] = np.uint64(min(load_be_i32(data, np.int64(starts[i])) - depth, _MORE))
    _sort_words(words, starts, other_words, other_starts, begin, end, counts)
    repeated = np.int64(-1)
    first = begin
    while first < end and words[first] < np.uint64(_MORE):
        if first > begin and words[first] == words[first - 1]:
            repeated = np.int64(starts[first])
        first += 1
    return first, repeated


@kernel
def _sorted_lines(data, starts, prefix):  # type: ignore[no-untyped-def]
    """Return the number of entries that are in the order of their keys, and the start of one whose key occurs twice, or -1."""
    line = np.int64(1)
    repeated = np.int64(-1)
    while line < len(starts):
        order = _compare(data, np.int64(starts[line - 1]), np.int64(starts[line]), prefix)
        if order > 0:
            break
        if order == 0:
            repeated = np.int64(starts[line])
        line += 1
    return line, repeated


@kernel
def _copy_parts(parts, larger):  # type: ignore[no-untyped-def]
    for i in range(len(parts)):
        larger[i, 0] = parts[i, 0]
        larger[i, 1] = parts[i, 1]


@entry_point(read(uint8), written(uint32), int64, written(uint64), written(int64, 2), allocates=True)
def _sort_keys(data, starts, prefix, words, counts):  # type: ignore[no-untyped-def]
    """Sort the starts of entries by their keys. ``words`` has room for as many numbers.

    Returns the start of an entry whose key occurs twice, or -1.
    """
    lines, repeated = _sorted_lines(data, starts, prefix)
    if lines >= len(starts):
        return repeated
    repeated = np.int64(-1)
    other_words = np.empty(len(starts), np.uint64)
    other_starts = np.empty(len(starts), np.uint32)
    parts = np.empty((_FIRST_PARTS, 2), np.uint32)  # keys that agree so far
    next_parts = np.empty((_FIRST_PARTS, 2), np.uint32)
    parts[0, 0] = 0
    parts[0, 1] = len(starts)
    count = 1
    depth = prefix
    while count > 0:
        next_count = 0
        for part in range(count):
            begin = np.int64(parts[part, 0])
            end = np.int64(parts[part, 1])
            for i in range(begin, end):
                start = np.int64(starts[i])
                key = start + _LENGTH
                words[i] = _word(data, key + depth, key + load_be_i32(data, start))
            _sort_words(words, starts, other_words, other_starts, begin, end, counts)
            while begin < end:
                stop = begin + 1
                while stop < end and words[stop] == words[begin]:
                    stop += 1
                if stop - begin > 1:
                    first, repeated_start = _sort_ends(data, starts, words, other_words, other_starts, begin, stop, depth, counts)
                    repeated = max(repeated, repeated_start)
                    if stop - first > 1:
                        if next_count == len(next_parts):
                            larger = np.empty((2 * len(next_parts), 2), np.uint32)
                            _copy_parts(next_parts, larger)
                            next_parts = larger
                        next_parts[next_count, 0] = first
                        next_parts[next_count, 1] = stop
                        next_count += 1
                begin = stop
        swapped = parts
        parts = next_parts
        next_parts = swapped
        count = next_count
        depth += 8
    return repeated
