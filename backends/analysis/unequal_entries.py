"""The entries of a state that differ between two snapshots, found by their bytes.

Most entries are the same in both snapshots, and in the same order. They are walked along together where they lie, and only what
has no equal beside it is copied. What has one elsewhere in its key group is then found by its hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.analysis.entry_bytes import EntryBytes, StateEntries
from state_processor.backends.analysis.matching import NEW, OLD, copy_entries, look_up_equals, new_walk, walk_along
from state_processor.backends.formats.entry_layouts import LayoutOf
from state_processor.backends.formats.entry_runs import BoundedRun, Buffer, Entries, EntryRun, FramedRun, UnframedRun
from state_processor.backends.formats.framing import ENTRY_FIELDS, KEY_GROUP
from state_processor.backends.state.descriptions import MAP

_Bytes = tuple[Buffer, Entries]
_NO_ENTRIES: Final = np.empty((0, ENTRY_FIELDS), dtype=np.int64)
_NO_BYTES: Final = np.zeros(1, dtype=np.uint8)


def unequal_entries(old: StateEntries, new: StateEntries) -> tuple[list[EntryBytes], list[EntryBytes]]:
    """Return the entries of both sides that the other does not have, byte by byte.

    Key groups have to be those of the same max parallelism. Entries without lengths, which have whole maps, are compared as they
    lie if both sides have them, else as framed ones.
    """
    runs = (old.runs(), new.runs())
    if all(isinstance(run, FramedRun) for found in runs for run in found):
        left = _without_equals(*(_framed_blocks(found) for found in runs))
        return _parts(old, *left[OLD]), _parts(new, *left[NEW])
    if _lie_alike(*runs):
        left = _without_equals(*(_bounded_blocks(found) for found in runs))
        return _bounded(old, runs[OLD], *left[OLD]), _bounded(new, runs[NEW], *left[NEW])
    framed = (side.framed(found) for side, found in zip((old, new), runs, strict=True))
    left = _without_equals(*([(part.buffer, part.entries) for part in parts] for parts in framed))
    return _parts(old, *left[OLD]), _parts(new, *left[NEW])


def _lie_alike(old: list[EntryRun], new: list[EntryRun]) -> bool:
    """Return whether all entries have no lengths and lie in one way: heap files, or timers in raw state."""
    layouts = {run.layout if isinstance(run, UnframedRun) else None for run in (*old, *new)}
    return len(layouts) == 1 and len(old) <= 1 and len(new) <= 1


def _framed_blocks(runs: Iterable[EntryRun]) -> Iterator[_Bytes]:
    return ((buffer, entries) for run in runs if isinstance(run, FramedRun) for buffer, _, entries in run.blocks)


def _bounded_blocks(runs: Iterable[EntryRun]) -> Iterator[_Bytes]:
    return ((buffer, entries) for run in runs if isinstance(run, UnframedRun) for buffer, _, entries in run.bounded())


def _parts(side: StateEntries, buffer: Buffer, entries: Entries, layout: LayoutOf | None = None) -> list[EntryBytes]:
    return [EntryBytes(side, buffer, entries, layout)] if len(entries) else []


def _bounded(side: StateEntries, runs: Iterable[EntryRun], buffer: Buffer, entries: Entries) -> list[EntryBytes]:
    """Return entries without lengths; of maps, whose entries are compared one by one, as framed ones."""
    for run in runs:
        if isinstance(run, UnframedRun) and len(entries):
            if side.state.kind == MAP:
                return list(side.framed([BoundedRun.of_parts(run.state, run.where, run.layout, buffer, entries)]))
            return _parts(side, buffer, entries, run.layout)
    return []


def _without_equals(old: Iterable[_Bytes], new: Iterable[_Bytes]) -> tuple[_Bytes, _Bytes]:
    """Return the entries of both sides that have no equal on the other, each as one block."""
    sides = _Walked(old), _Walked(new)
    walk = new_walk()
    while sides[OLD].has_entries(walk, OLD) and sides[NEW].has_entries(walk, NEW):
        one, other = sides
        walk_along(one.buffer, one.entries, other.buffer, other.entries, walk, one.left, other.left)
    (old_bytes, olds), (new_bytes, news) = (side.kept(int(walk[i])) for i, side in enumerate(sides))
    if not len(olds) or not len(news):
        return (old_bytes, olds), (new_bytes, news)
    most = int(np.unique(olds[:, KEY_GROUP], return_counts=True)[1].max())
    slots = np.empty(2 << int(most - 1).bit_length(), dtype=np.int32)
    old_left, new_left = np.ones(len(olds), dtype=np.uint8), np.ones(len(news), dtype=np.uint8)
    look_up_equals(old_bytes, olds, new_bytes, news, slots, old_left, new_left)
    return (old_bytes, _selected(olds, old_left)), (new_bytes, _selected(news, new_left))


class _Walked:
    """One side of a walk: its entries block by block, of which what is left of each is copied."""

    def __init__(self, blocks: Iterable[_Bytes]) -> None:
        self._blocks = iter(blocks)
        self._kept: list[_Bytes] = []
        self.buffer, self.entries, self.left = _NO_BYTES, _NO_ENTRIES, np.zeros(0, dtype=np.uint8)

    def has_entries(self, walk: npt.NDArray[np.int64], side: int) -> bool:
        """Return whether there are entries where the walk stands on this side; it goes on to the next block if need be."""
        while walk[side] >= len(self.entries):
            self._keep()
            walk[side] = 0
            block = next(self._blocks, None)
            if block is None:
                self.entries = _NO_ENTRIES
                return False
            self.buffer, self.entries = block
            self.left = np.zeros(len(self.entries), dtype=np.uint8)
        return True

    def kept(self, position: int) -> _Bytes:
        """Return what is left: of the current block also all from ``position`` on, and all other blocks."""
        self.left[position:] = 1
        self._keep()
        for block in self._blocks:
            self.buffer, self.entries = block
            self.left = np.ones(len(self.entries), dtype=np.uint8)
            self._keep()
        starts = np.cumsum([0, *(len(buffer) for buffer, _ in self._kept)])
        for (_, entries), start in zip(self._kept, starts[:-1], strict=True):
            entries[:, :KEY_GROUP] += start
        buffer = np.concatenate([_NO_BYTES[:0], *(buffer for buffer, _ in self._kept)])
        entries = np.concatenate([_NO_ENTRIES, *(entries for _, entries in self._kept)])
        if (np.diff(entries[:, KEY_GROUP]) < 0).any():
            entries = entries[np.argsort(entries[:, KEY_GROUP], kind="stable")]
        return buffer, entries

    def _keep(self) -> None:
        left = _selected(self.entries, self.left)
        if len(left):
            out = np.empty(int((left[:, 1] - left[:, 0] + left[:, 3] - left[:, 2]).sum()), dtype=np.uint8)
            copies = np.empty_like(left)
            copy_entries(self.buffer, left, copies, out)
            self._kept.append((out, copies))
        self.left = self.left[:0]
        self.entries = _NO_ENTRIES


def _selected(entries: Entries, left: npt.NDArray[np.uint8]) -> Entries:
    return np.ascontiguousarray(entries[left.view(bool)])
