"""Search for the entries of a state with different bytes in two snapshots.

Most entries are equal in both snapshots, and in the same order. A walk along both snapshots compares them in place, and copies
the entries without an equal at the same position. A hash table then finds equal entries at other positions of the key group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.analysis.entry_bytes import (
    LEFT,
    NEW,
    OLD,
    EntryBytes,
    StateEntries,
    copied,
    look_up_equals,
    new_walk,
    walk_along,
)
from state_processor.backends.formats.framing import ENTRY_FIELDS, KEY_GROUP
from state_processor.backends.formats.row_layout import LayoutOf
from state_processor.backends.formats.source import BoundedRun, Buffer, Entries, EntryRun, FramedRun, Guide, UnframedRun
from state_processor.backends.state.descriptions import MAP

_Bytes = tuple[Buffer, Entries]
_NO_ENTRIES: Final = np.empty((0, ENTRY_FIELDS), dtype=np.int64)
_NO_BYTES: Final = np.zeros(1, dtype=np.uint8)


def unequal_entries(old: StateEntries, new: StateEntries) -> tuple[list[EntryBytes], list[EntryBytes]]:
    """Return the entries of each side that the other side does not have, compared by bytes.

    Both sides need the same max parallelism. Entries without lengths contain whole maps. They are compared in place if both sides
    have this layout, otherwise as framed entries.
    """
    runs = (old.runs(), new.runs())
    if all(isinstance(run, FramedRun) for run in chain.from_iterable(runs)):
        unequal = without_equals(*map(_framed_blocks, runs))
        return _parts(old, *unequal[OLD]), _parts(new, *unequal[NEW])
    if _lie_alike(*runs):
        guide = _Guide(_bounded_blocks(runs[OLD]))
        unequal = without_equals(guide, _bounded_blocks(runs[NEW], guide.of))
        return _bounded(old, runs[OLD], *unequal[OLD]), _bounded(new, runs[NEW], *unequal[NEW])
    unequal = without_equals(*map(_framed, (old, new), runs))
    return _parts(old, *unequal[OLD]), _parts(new, *unequal[NEW])


def _framed(side: StateEntries, runs: list[EntryRun]) -> list[_Bytes]:
    return [(part.buffer, part.entries) for part in side.framed(runs)]


def _lie_alike(old: list[EntryRun], new: list[EntryRun]) -> bool:
    """Return whether all entries are without lengths and have the same layout: heap files, or timers in raw state."""
    layouts = {run.layout if isinstance(run, UnframedRun) else None for run in (*old, *new)}
    return len(layouts) == 1 and len(old) <= 1 and len(new) <= 1


def _framed_blocks(runs: Iterable[EntryRun]) -> Iterator[_Bytes]:
    for run in runs:
        if isinstance(run, FramedRun):
            for buffer, _, entries in run.blocks:
                yield buffer, entries


def _bounded_blocks(runs: Iterable[EntryRun], guide: Guide | None = None) -> Iterator[_Bytes]:
    for run in runs:
        if isinstance(run, UnframedRun):
            for buffer, _, entries in run.bounded(guide):
                yield buffer, entries


class _Guide:
    """Blocks of one side. The entries of the other side are matched with the current block.

    While both sides have the same key groups, the current block has the key group of the other side: a walk continues on this
    side first.
    """

    def __init__(self, blocks: Iterator[_Bytes]) -> None:
        self._blocks = blocks
        self._current: _Bytes = _NO_BYTES, _NO_ENTRIES

    def __iter__(self) -> Iterator[_Bytes]:
        for block in self._blocks:
            self._current = block
            yield block
        self._current = _NO_BYTES, _NO_ENTRIES

    def of(self, key_group: int) -> _Bytes | None:
        """Return the current block if it belongs to a key group."""
        entries = self._current[1]
        return self._current if len(entries) and entries[0, KEY_GROUP] == key_group else None


def _parts(side: StateEntries, buffer: Buffer, entries: Entries, layout: LayoutOf | None = None) -> list[EntryBytes]:
    return [EntryBytes(side, buffer, entries, layout)] if len(entries) else []


def _bounded(side: StateEntries, runs: Iterable[EntryRun], buffer: Buffer, entries: Entries) -> list[EntryBytes]:
    """Return the bounds of entries without lengths; entries of maps as framed entries, because they are compared one by one."""
    for run in runs:
        if isinstance(run, UnframedRun) and len(entries):
            if side.state.kind == MAP:
                return list(side.framed([BoundedRun.of_parts(run.state, run.context, run.layout, buffer, entries)]))
            return _parts(side, buffer, entries, run.layout)
    return []


def without_equals(old: Iterable[_Bytes], new: Iterable[_Bytes]) -> tuple[_Bytes, _Bytes]:
    """Return the entries of each side without an equal on the other side, as one block per side, in the order of key groups."""
    walk = new_walk()
    old_side, new_side = _Walked(old, walk, OLD), _Walked(new, walk, NEW)
    while old_side.has_entries() and new_side.has_entries():
        walk_along(
            old_side.buffer, old_side.entries, new_side.buffer, new_side.entries, walk, old_side.unmatched, new_side.unmatched
        )
    (old_bytes, olds), (new_bytes, news) = old_side.remaining_entries(), new_side.remaining_entries()
    if not len(olds) or not len(news):
        return (old_bytes, olds), (new_bytes, news)
    most = int(np.unique(olds[:, KEY_GROUP], return_counts=True)[1].max())
    slots = np.empty(2 << int(most - 1).bit_length(), dtype=np.int32)
    old_left, new_left = np.ones(len(olds), dtype=np.uint8), np.ones(len(news), dtype=np.uint8)
    look_up_equals(old_bytes, olds, new_bytes, news, slots, old_left, new_left)
    return (old_bytes, olds[old_left.view(bool)]), (new_bytes, news[new_left.view(bool)])


class _Walked:
    """One side of a walk: its blocks of entries. Unmatched entries of each block are copied."""

    def __init__(self, blocks: Iterable[_Bytes], walk: npt.NDArray[np.int64], side: int) -> None:
        self._blocks = iter(blocks)
        self._walk, self._side = walk, side
        self._kept_blocks: list[_Bytes] = []
        self.buffer, self.entries, self.unmatched = _NO_BYTES, _NO_ENTRIES, np.empty(0, dtype=np.int64)

    def has_entries(self) -> bool:
        """Return whether this side has more entries; continue with the next block if necessary."""
        while self._walk[self._side] >= len(self.entries):
            self._keep(self.entries[self.unmatched[: self._walk[LEFT + self._side]]])
            if not self._next():
                return False
        return True

    def remaining_entries(self) -> _Bytes:
        """Return the unmatched entries, the rest of the current block, and all further blocks."""
        rest = np.arange(self._walk[self._side], len(self.entries))
        self._keep(self.entries[np.append(self.unmatched[: self._walk[LEFT + self._side]], rest)])
        while self._next():
            self._keep(self.entries)
        starts = np.cumsum([0, *(len(buffer) for buffer, _ in self._kept_blocks)])
        for (_, entries), start in zip(self._kept_blocks, starts[:-1], strict=True):
            entries[:, :KEY_GROUP] += start
        buffer = np.concatenate([_NO_BYTES[:0], *(buffer for buffer, _ in self._kept_blocks)])
        entries = np.concatenate([_NO_ENTRIES, *(entries for _, entries in self._kept_blocks)])
        if (np.diff(entries[:, KEY_GROUP]) < 0).any():
            entries = entries[np.argsort(entries[:, KEY_GROUP], kind="stable")]
        return buffer, entries

    def _next(self) -> bool:
        """Continue with the next block, without unmatched entries; set it to ``None`` after the last block."""
        self.buffer, self.entries = next(self._blocks, (_NO_BYTES, _NO_ENTRIES))
        if len(self.entries) > len(self.unmatched):
            self.unmatched = np.empty(len(self.entries), dtype=np.int64)
        self._walk[self._side] = self._walk[LEFT + self._side] = 0
        return self.entries is not _NO_ENTRIES

    def _keep(self, entries: Entries) -> None:
        if len(entries):
            self._kept_blocks.append(copied(self.buffer, entries))
