"""Sorted runs of framed entries in a file, and their merge: a key group may have more entries than memory holds.

A run is written in chunks of whole entries. The merge works in rounds, with one chunk of each run in memory. A round ends at the
smallest of the last keys of these chunks: no later chunk has entries before this key. The entries of a round are sorted together,
so that entries with equal keys, which come from different runs, are next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.entry_framing import entry_spans
from state_processor.backends.write.sorted_entries import SortedEntries, sort_entries

_CHUNK_BYTES: Final = 256 << 10
"""About the maximum size of a chunk; a larger entry is a chunk of its own."""
_CHUNK_ENTRIES: Final = 1 << 13
"""Maximum number of entries of a chunk."""

_Bytes = npt.NDArray[np.uint8]


class _Chunk(NamedTuple):
    """The place of a chunk in the file, and its last key."""

    begin: int
    end: int
    last_key: bytes


class SpilledRuns:
    """Sorted runs of the entries of one state and key group.

    ``path``: a new file for the runs; it is removed after the merge. ``prefix``: bytes of the key group in front of each key.
    """

    def __init__(self, path: Path, prefix: int) -> None:
        self._path = path
        self._prefix = prefix
        self._runs: list[list[_Chunk]] = []
        self._size = 0

    def add(self, entries: SortedEntries) -> None:
        """Write a run."""
        chunks = []
        with self._path.open("ab") as file:
            for first, stop in _bounds(entries):
                chunk = entries.framed(first, stop)
                file.write(chunk.data)
                begin, end = entries.spans[entries.order[stop - 1], :2].tolist()
                chunks.append(_Chunk(self._size, self._size + len(chunk), entries.data[begin:end].tobytes()))
                self._size += len(chunk)
        self._runs.append(chunks)

    def merged(self) -> Iterator[SortedEntries]:
        """Yield all entries in the order of their keys, some at a time. Entries with equal keys are together."""
        with self._path.open("rb") as file:
            runs = [_RunPosition(file, chunks) for chunks in self._runs]
            while runs := [run for run in runs if run.load()]:
                last_key = min(run.last_key for run in runs)
                data = np.concatenate([run.take(last_key) for run in runs])
                yield sort_entries(data, entry_spans(data), self._prefix)
        self._path.unlink()


def _bounds(entries: SortedEntries) -> Iterator[tuple[int, int]]:
    """Yield the first entry of each chunk, and the one behind its last."""
    first, count = 0, len(entries.order)
    while first < count:
        rows = entries.spans[entries.order[first : first + _CHUNK_ENTRIES]]
        sizes = np.cumsum(rows[:, 3] - rows[:, 0])
        stop = first + max(1, int(np.searchsorted(sizes, _CHUNK_BYTES, side="right")))
        yield first, stop
        first = stop


class _RunPosition:
    """The entries of a run that the merge has not reached: the rest of one chunk, and the chunks behind it."""

    def __init__(self, file: BinaryIO, chunks: list[_Chunk]) -> None:
        self._file = file
        self._chunks = iter(chunks)
        self._data = np.empty(0, dtype=np.uint8)
        self._spans = np.empty((0, 4), dtype=np.int64)
        self._taken = 0
        self.last_key = b""

    def load(self) -> bool:
        """Read the next chunk if all entries of this one are taken. Return False at the end of the run."""
        if self._taken < len(self._spans):
            return True
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._data = _read(self._file, chunk)
        self._spans, self._taken, self.last_key = entry_spans(self._data), 0, chunk.last_key
        return True

    def take(self, last_key: bytes) -> _Bytes:
        """Take the framed entries up to a key."""
        first, self._taken = self._taken, self._behind(last_key)
        begin, end = (int(self._spans[row - 1, 3]) if row else 0 for row in (first, self._taken))
        return self._data[begin:end]

    def _behind(self, key: bytes) -> int:
        """Return the first entry behind a key."""
        low, high = self._taken, len(self._spans)
        while low < high:
            middle = (low + high) // 2
            begin, end = self._spans[middle, :2].tolist()
            if self._data[begin:end].tobytes() <= key:
                low = middle + 1
            else:
                high = middle
        return low


def _read(file: BinaryIO, chunk: _Chunk) -> _Bytes:
    data = np.empty(chunk.end - chunk.begin, dtype=np.uint8)
    file.seek(chunk.begin)
    if file.readinto(data.data) != len(data):
        raise OSError(f"{file.name}: expected {len(data)} bytes at offset {chunk.begin}; the file ends before")
    return data
