"""Framed entries in the order of their keys, as an embedded store keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.entry_framing import entry_spans
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.signatures import int64, read, uint8, uint64, written

_CHUNK: Final = 1 << 14
_DIGIT_BITS: Final = 8
_DIGITS: Final = 64 // _DIGIT_BITS
_RADIX: Final = 1 << _DIGIT_BITS
_FEW: Final = 256
"""Entries that are objects of Python at a time."""


Pairs = tuple[list[bytes], list[bytes]]
"""Keys, and their values."""


def order_in_groups(data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], prefix: int) -> npt.NDArray[np.int64]:
    """Return the order of keys of several key groups; see :func:`order_of_keys`."""
    groups = np.zeros(len(spans), dtype=np.int64)
    for i in range(prefix):
        groups = groups << 8 | data[spans[:, 0] + i]
    of_groups = np.argsort(groups, kind="stable")
    bounds = np.flatnonzero(np.diff(groups[of_groups])) + 1
    parts = np.split(of_groups, bounds)
    return np.concatenate([part[order_of_keys(data, np.ascontiguousarray(spans[part]), prefix)] for part in parts])


def repeated_keys(
    data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which of some entries, in the order of their keys, have the key of the entry before or behind."""
    repeated = np.zeros(len(order), dtype=np.uint8)
    _mark_repeated(data, np.ascontiguousarray(spans[order]), repeated)
    return repeated.astype(bool)


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


def order_of_keys(data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], prefix: int) -> npt.NDArray[np.int64]:
    """Return the order of keys. The first eight bytes behind the key group are compared first, then the whole key."""
    ordered = _first_words(data, spans, prefix)
    order = np.arange(len(spans), dtype=np.int64)
    _sort_words(ordered, order, np.empty_like(ordered), np.empty_like(order), np.zeros((_DIGITS, _RADIX), dtype=np.int64))
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    candidates = order[tied]
    raw = data.tobytes()
    keys = [raw[a:b] for a, b in spans[candidates, :2].tolist()]
    order[tied] = candidates[sorted(range(len(keys)), key=keys.__getitem__)]
    return order


@kernel
def _move(words, order, other_words, other_order, counts, digit, shift):  # type: ignore[no-untyped-def]
    """Move words to the places that ``counts`` has for their digits."""
    for i in range(len(words)):
        value = (words[i] >> shift) & np.uint64(_RADIX - 1)
        at = counts[digit, value]
        counts[digit, value] = at + 1
        other_words[at] = words[i]
        other_order[at] = order[i]


@entry_point(read(uint8), read(int64, 2), int64, written(uint8))
def _gather(data, spans, column, out):  # type: ignore[no-untyped-def]
    """Copy the bytes between two columns of spans, one after the other."""
    pos = 0
    for i in range(len(spans)):
        for j in range(spans[i, column], spans[i, column + 1]):
            out[pos] = data[j]
            pos += 1


@entry_point(read(uint8), read(int64, 2), written(uint8))
def _mark_repeated(data, spans, out):  # type: ignore[no-untyped-def]
    for i in range(1, len(spans)):
        size = spans[i, 1] - spans[i, 0]
        same = size == spans[i - 1, 1] - spans[i - 1, 0]
        j = 0
        while same and j < size:
            same = data[spans[i, 0] + j] == data[spans[i - 1, 0] + j]
            j += 1
        if same:
            out[i] = 1
            out[i - 1] = 1


@entry_point(written(uint64), written(int64), written(uint64), written(int64), written(int64, 2))
def _sort_words(words, order, other_words, other_order, counts):  # type: ignore[no-untyped-def]
    """Sort words, and numbers with them, by one digit after another; equal words keep their order.

    ``counts`` has a line of zeros for each digit. Digits that all words share are skipped.
    """
    for i in range(len(words)):
        word = words[i]
        for digit in range(_DIGITS):
            counts[digit, word & np.uint64(_RADIX - 1)] += 1
            word >>= np.uint64(_DIGIT_BITS)
    is_swapped = False
    for digit in range(_DIGITS):
        shift = np.uint64(digit * _DIGIT_BITS)
        if len(words) == 0 or counts[digit, (words[0] >> shift) & np.uint64(_RADIX - 1)] == len(words):
            continue
        begin = np.int64(0)
        for value in range(_RADIX):
            size = counts[digit, value]
            counts[digit, value] = begin
            begin += size
        if is_swapped:
            _move(other_words, other_order, words, order, counts, digit, shift)
        else:
            _move(words, order, other_words, other_order, counts, digit, shift)
        is_swapped = not is_swapped
    if is_swapped:
        for i in range(len(words)):
            words[i] = other_words[i]
            order[i] = other_order[i]


@entry_point(read(uint8), read(int64, 2), int64, allocates=True)
def _first_words(data, spans, prefix):  # type: ignore[no-untyped-def]
    words = np.empty(len(spans), np.uint64)
    for i in range(len(spans)):
        word = np.uint64(0)
        for j in range(spans[i, 0] + prefix, spans[i, 0] + prefix + 8):
            word <<= np.uint64(8)
            if j < spans[i, 1]:
                word |= np.uint64(data[j])
        words[i] = word
    return words
