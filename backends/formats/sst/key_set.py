"""Sets of keys that a scan is limited to: it reads only the tables, blocks and entries that may have one of the keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from state_processor.backends.formats.framing import ENTRY_FIELDS, KEY_GROUP
from state_processor.backends.formats.sst.block_format import Bytes, Numbers
from state_processor.backends.formats.sst.block_kernels import INDEX_FIELDS, KEY, KEY_END, SLACK, compare, first_from
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.runs import first_key, last_key
from state_processor.backends.formats.sst.table import BlockList, padded
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, written


def behind(beginning: bytes) -> bytes:
    """Return the least key behind all that begin with these bytes; they begin with a key group, never 0xFF."""
    stem = beginning.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])


class Beginnings:
    """Beginnings of keys in order. None of them begins with another one.

    ``beginnings``: the beginnings, in any order. Those that begin with another one are left out.
    """

    def __init__(self, beginnings: Iterable[bytes]) -> None:
        self._beginnings: list[bytes] = []
        for beginning in sorted(beginnings):
            if not self._beginnings or not beginning.startswith(self._beginnings[-1]):
                self._beginnings.append(beginning)

    def __len__(self) -> int:
        return len(self._beginnings)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._beginnings)

    def covering(self, key: bytes) -> bytes | None:
        """Return the beginning that a key begins with; ``None`` without such a beginning."""
        # The beginnings of a key and the key enclose only keys with the same beginning
        place = bisect_right(self._beginnings, key) - 1
        return self._beginnings[place] if place >= 0 and key.startswith(self._beginnings[place]) else None

    def cover_some(self, keys: Iterable[bytes]) -> bool:
        """Return whether one of the keys begins with one of the beginnings."""
        return any(self.covering(key) is not None for key in keys)

    def behind(self, key: bytes) -> bytes:
        """Return a key, or the least key behind it that does not begin with any of the beginnings."""
        while (beginning := self.covering(key)) is not None:
            key = behind(beginning)
        return key

    def between(self, first: bytes, last: bytes) -> list[bytes]:
        """Return the beginnings of keys that can be from ``first`` to ``last``, both included."""
        place = bisect_left(self._beginnings, first)
        if place and first.startswith(self._beginnings[place - 1]):
            place -= 1
        return self._beginnings[place : bisect_right(self._beginnings, last)]


BEGIN, END = 0, 1
_NO_ENTRIES: Final = np.empty((0, ENTRY_FIELDS), dtype=np.int64)


@entry_point(read(uint8), read(int64, 2), int64, int64, written(uint8), written(int64, 2))
def _take_keys(data, entries, prefix, tail, keys, bounds):  # type: ignore[no-untyped-def]
    """Write the keys of entries, each behind its key group and without the last ``tail`` bytes."""
    at = 0
    for entry in range(len(entries)):
        bounds[entry, BEGIN] = at
        for i in range(prefix):
            keys[at] = (entries[entry, KEY_GROUP] >> (8 * (prefix - 1 - i))) & 0xFF
            at += 1
        for i in range(entries[entry, KEY], entries[entry, KEY_END] - tail):
            keys[at] = data[i]
            at += 1
        bounds[entry, END] = at


@entry_point(
    *(read(uint8), read(int64, 2), read(uint8), read(int64, 2)),
    *(written(int64), written(int64)),
)
def _unite(keys, bounds, second_keys, second_bounds, sides, rows):  # type: ignore[no-untyped-def]
    """Merge two ascending lists of keys: the list and the row of each distinct key. Unused rows stay -1."""
    i = 0
    j = 0
    at = 0
    while i < len(bounds) or j < len(second_bounds):
        if i == len(bounds):
            order = np.int64(1)
        elif j == len(second_bounds):
            order = np.int64(-1)
        else:
            order = np.int64(
                compare(keys, bounds[i, BEGIN], bounds[i, END], second_keys, second_bounds[j, BEGIN], second_bounds[j, END])
            )
        sides[at] = 1 if order > 0 else 0
        rows[at] = j if order > 0 else i
        at += 1
        if order <= 0:
            i += 1
        if order >= 0:
            j += 1


@entry_point(read(uint8), read(int64, 2), read(uint8), read(int64, 2), written(uint8))
def _mark_blocks(keys, bounds, separators, blocks, marks):  # type: ignore[no-untyped-def]
    """Mark the blocks that may have a key: from the separator of the block before to the own separator."""
    key = 0
    for block in range(len(blocks)):
        if block > 0:
            begin = blocks[block - 1, 0]
            end = blocks[block - 1, 1]
            while key < len(bounds) and compare(keys, bounds[key, BEGIN], bounds[key, END], separators, begin, end) < 0:
                key += 1
        if key == len(bounds):
            break
        if compare(keys, bounds[key, BEGIN], bounds[key, END], separators, blocks[block, 0], blocks[block, 1]) <= 0:
            marks[block] = 1


@entry_point(read(uint8), read(int64, 2), read(uint8), read(int64, 2), int64, written(uint8))
def _mark_entries(keys, bounds, data, entries, prefix, marks):  # type: ignore[no-untyped-def]
    """Mark the entries that have a key of the set. Both are in the order of their keys."""
    key = 0
    for entry in range(len(entries)):
        begin = entries[entry, KEY] - prefix
        end = entries[entry, KEY_END]
        while key < len(bounds):
            order = compare(keys, bounds[key, BEGIN], bounds[key, END], data, begin, end)
            if order >= 0:
                marks[entry] = order == 0
                break
            key += 1


@dataclass(frozen=True, slots=True)
class KeySet:
    """Distinct keys of a column family, with their key groups, in ascending order."""

    data: Bytes
    bounds: Numbers  # start and end of each key in ``data``

    @classmethod
    def of(cls, data: Bytes, entries: Numbers, prefix: int, tail: int) -> Self:
        """Return the keys of entries in the form of :mod:`framing`, in the order of their keys.

        ``prefix``: bytes of the key group in front of each key. ``tail``: bytes behind each key that do not belong to it.
        """
        size = int((entries[:, KEY_END] - entries[:, KEY]).sum()) + len(entries) * (prefix - tail)
        keys, bounds = np.empty(size + SLACK, dtype=np.uint8), np.empty((len(entries), 2), dtype=np.int64)
        _take_keys(data, entries, prefix, tail, keys, bounds)
        return cls(keys, bounds)

    @classmethod
    def none(cls) -> Self:
        """Return the empty set."""
        return cls.of(np.zeros(SLACK, dtype=np.uint8), _NO_ENTRIES, 0, 0)

    @classmethod
    def joined(cls, sets: Sequence[KeySet]) -> KeySet:
        """Return the keys of sets that follow each other: all keys of a set are after the keys of the sets before."""
        if not sets:
            return cls.none()
        starts = np.cumsum([0, *(len(keys.data) for keys in sets[:-1])]).tolist()
        bounds = [keys.bounds + start for keys, start in zip(sets, starts, strict=True)]
        return cls(np.concatenate([keys.data for keys in sets]), np.concatenate(bounds))

    def __len__(self) -> int:
        return len(self.bounds)

    def union(self, keys: KeySet) -> KeySet:
        """Return the keys of both sets."""
        if not len(self) or not len(keys):
            return self if len(self) else keys
        sides, rows = (np.full(len(self) + len(keys), -1, dtype=np.int64) for _ in range(2))
        _unite(self.data, self.bounds, keys.data, keys.bounds, sides, rows)
        sides, rows = sides[rows >= 0], rows[rows >= 0]
        start = len(self.data)
        bounds = np.concatenate((self.bounds, keys.bounds + start))
        return KeySet(np.concatenate((self.data, keys.data)), np.ascontiguousarray(bounds[rows + sides * len(self)]))

    def files(self, files: Iterable[TableFile]) -> list[TableFile]:
        """Return the tables that may have one of the keys."""
        return [file for file in files if self._has_between(first_key(file), last_key(file))]

    def blocks(self, blocks: BlockList) -> BlockList:
        """Return the blocks that may have one of the keys."""
        marks = np.zeros(len(blocks), dtype=np.uint8)
        _mark_blocks(self.data, self.bounds, blocks.keys, blocks.rows, marks)
        return BlockList(blocks.keys, np.ascontiguousarray(blocks.rows[marks.view(bool)]).reshape(-1, INDEX_FIELDS))

    def entries(self, data: Bytes, entries: Numbers, prefix: int) -> Numbers:
        """Return the entries that have one of the keys; each has its key group in front of its key."""
        marks = np.zeros(len(entries), dtype=np.uint8)
        _mark_entries(self.data, self.bounds, data, entries, prefix, marks)
        return np.ascontiguousarray(entries[marks.view(bool)])

    def _has_between(self, first: bytes, last: bytes) -> bool:
        place = int(first_from(self.data, self.bounds, padded(first), len(first)))
        if place == len(self.bounds):
            return False
        begin, end = self.bounds[place].tolist()
        return self.data[begin:end].tobytes() <= last
