"""Framed entries in the order of their keys, as an embedded store keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.entry_framing import entry_spans
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

_CHUNK: Final = 1 << 14
_FEW: Final = 256
"""Entries that are objects of Python at a time."""


Pairs = tuple[list[bytes], list[bytes]]
"""Keys, and their values."""


def sorted_entries(parts: Sequence[npt.NDArray[np.uint8]], prefix: int) -> Iterator[Pairs]:
    """Yield keys and values of framed entries of one key group, some thousands at a time, in ascending order of the keys' bytes.

    Parameters
    ----------
    parts
        The entries.
    prefix
        Bytes of the key group, which all keys begin with.
    """
    data = parts[0] if len(parts) == 1 else np.concatenate(parts)
    spans = entry_spans(data)
    order = order_of_keys(data, spans, prefix)
    for begin in range(0, len(order), _CHUNK):
        some = spans[order[begin : begin + _CHUNK]]
        yield _objects(data, some, 0), _objects(data, some, 2)


def entries_as_they_come(data: npt.NDArray[np.uint8]) -> Iterator[Pairs]:
    """Yield keys and values of framed entries, some thousands at a time."""
    spans = entry_spans(data)
    for begin in range(0, len(spans), _CHUNK):
        some = spans[begin : begin + _CHUNK]
        yield _objects(data, some, 0), _objects(data, some, 2)


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
    words = _first_words(data, spans, prefix)
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    candidates = order[tied]
    raw = data.tobytes()
    keys = [raw[a:b] for a, b in spans[candidates, :2].tolist()]
    order[tied] = candidates[sorted(range(len(keys)), key=keys.__getitem__)]
    return order


@entry_point(read(uint8), read(int64, 2), int64, written(uint8))
def _gather(data, spans, column, out):  # type: ignore[no-untyped-def]
    """Copy the bytes between two columns of spans, one after the other."""
    pos = 0
    for i in range(len(spans)):
        for j in range(spans[i, column], spans[i, column + 1]):
            out[pos] = data[j]
            pos += 1


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
