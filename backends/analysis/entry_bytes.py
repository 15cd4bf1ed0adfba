"""Entries of keyed state as bytes: they are compared by fingerprints, and matched between two snapshots.

Entries of any format become framed entries, with the fields of :mod:`~state_processor.backends.formats.framing`: the bounds of
the identity of an entry, and of its value. Two entries are equal if identity and value have equal bytes. An entry is changed if
only its value differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.entry_framing import entry_table, fingerprint
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.key_index import SerializedKeys, hash_code
from state_processor.backends.formats.row_layout import LayoutOf
from state_processor.backends.formats.row_spans import same_bytes
from state_processor.backends.formats.source import BoundedRun, Buffer, Entries, EntryRun, FramedRun, KeyedStateSource, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.memory import load_i64, store_i64
from state_processor.serializers.kernel.signatures import int32, int64, read, uint8, uint64, written

_FINGERPRINTS: Final = 4


@entry_point(read(uint8), read(int64, 2), written(uint64, 2))
def _print(data, table, prints):  # type: ignore[no-untyped-def]
    for entry in range(len(table)):
        prints[entry, 0], prints[entry, 1] = fingerprint(data, table[entry, 0], table[entry, 1])
        prints[entry, 2], prints[entry, 3] = fingerprint(data, table[entry, 2], table[entry, 3])


@dataclass(frozen=True, slots=True)
class StateEntries:
    """The entries of one state of one handle in some key groups.

    ``source`` and ``state``: the keyed state of the handle, and the state in its header. ``subtask``, ``key_groups`` and
    ``max_parallelism``: the subtask of the handle, the key groups, and the max parallelism of the operator.
    """

    source: KeyedStateSource
    state: KeyedDescription
    subtask: int
    key_groups: h.KeyGroupRange
    max_parallelism: int
    size: int = 0  # estimated bytes of the part of the handle with these key groups, other states included

    def runs(self) -> list[EntryRun]:
        """Return the entries as runs; all entries of a run have the same layout."""
        return list(self.source.runs(self.state.name, self.key_groups))

    def framed(self, runs: Iterable[EntryRun] | None = None) -> Iterator[EntryBytes]:
        """Yield the entries, or the entries of some runs, as framed bytes, in parts."""
        copying = KeyedPassThrough(1, self.max_parallelism, self.max_parallelism)
        for run in self.runs() if runs is None else runs:
            for batch in copying.blobs_of(run, 0, self.source.context):
                yield EntryBytes.of_blobs(self, batch)

    @property
    def types(self) -> tuple[bytes, ...]:
        """The serializer snapshots. Entries with equal bytes have equal values if their serializer snapshots are equal."""
        return tuple(serializer.snapshot().to_bytes() for serializer in self.state.serializers.values())


@dataclass(frozen=True, slots=True)
class EntryBytes:
    """Entries of one state of one handle as bytes in memory: the identity and the value of each."""

    origin: StateEntries  # source of the entries
    buffer: Buffer
    entries: Entries
    # the layout of entries without lengths, such as entries of heap files; ``None`` for framed entries
    layout: LayoutOf | None = None

    @classmethod
    def of_blobs(cls, origin: StateEntries, batch: pa.RecordBatch) -> EntryBytes:
        """Return the entries of blobs."""
        blobs = batch.column("blob")
        offsets = np.frombuffer(blobs.buffers()[1], dtype=np.int32)[blobs.offset : blobs.offset + len(blobs) + 1]
        buffer = view(blobs.buffers()[2] or b"")[offsets[0] : offsets[-1]]
        groups = np.repeat(batch.column("key_group").to_numpy(), batch.column("count").to_numpy())
        return cls(origin, buffer, entry_table(buffer, prefix_size(origin.max_parallelism), groups))

    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """Return a row per entry: 128 bits of the key (with namespace and map key), then 128 bits of the value."""
        prints = np.empty((len(self.entries), _FINGERPRINTS), dtype=np.uint64)
        _print(self.buffer, self.entries, prints)
        return prints

    def selected(self, rows: npt.NDArray[np.int64]) -> EntryBytes:
        """Return some entries."""
        return replace(self, entries=np.ascontiguousarray(self.entries[rows]))

    def joined_with(self, parts_of_same_layout: Sequence[EntryBytes]) -> EntryBytes:
        """Return the entries and other entries with the same types and layout."""
        parts = [copied(part.buffer, part.entries) for part in (self, *parts_of_same_layout)]
        starts = np.cumsum([0, *(len(buffer) for buffer, _ in parts)])
        for (_, entries), start in zip(parts, starts[:-1], strict=True):
            entries[:, :KEY_GROUP] += start
        buffers, tables = zip(*parts, strict=True)
        return replace(self, buffer=np.concatenate(buffers), entries=np.concatenate(tables))


class EntriesInMemory(KeyedStateSource):
    """Entries of one state as a source of keyed state."""

    def __init__(self, entries: EntryBytes) -> None:
        super().__init__(entries.origin.source.header, entries.origin.source.context)
        self._entries = entries

    @property
    def backend(self) -> str:
        """Name of the source backend of the entries."""
        return self._entries.origin.source.backend

    def _runs(
        self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None
    ) -> Iterator[FramedRun | BoundedRun]:
        context, entries = f"{self.context}, state {state.name!r}", self._entries
        if entries.layout is None:
            yield FramedRun(state, context, iter([(entries.buffer, None, entries.entries)])).of_keys(keys)
        else:
            yield BoundedRun.of_parts(state, context, entries.layout, entries.buffer, entries.entries)


# Matching. Fields of a walk:
OLD: Final = 0
NEW: Final = 1
LEFT: Final = 2
"""Field with the number of unmatched entries in the current block of the old side; the next field is for the new side."""
_CREDIT: Final = 4
_GROUP: Final = 5
_WALK_FIELDS: Final = 6

_AHEAD: Final = 24
"""Number of entries that a walk looks ahead for a common entry."""
_CREDIT_OF_GROUP: Final = 16 * _AHEAD
_MOST_CREDIT: Final = 1 << 16


@kernel
def _same_key(old, olds, i, new, news, j):  # type: ignore[no-untyped-def]
    """Return whether two entries have the same key, namespace and map key."""
    same_group = olds[i, KEY_GROUP] == news[j, KEY_GROUP]
    return same_group and same_bytes(old, olds[i, 0], olds[i, 1], new, news[j, 0], news[j, 1])


@entry_point(
    *(read(uint8), read(int64, 2), read(uint8), read(int64, 2)),
    *(written(int64), written(int64), written(int64)),
)
def walk_along(old, olds, new, news, walk, old_left, new_left):  # type: ignore[no-untyped-def]
    """Walk along the entries of both sides to the end of one side, and collect the entries without an equal at the same position.

    If the sides differ, the walk looks a few entries ahead for a common entry. The number of matches bounds the effort: if the
    order differs, all entries stay unmatched.

    Parameters
    ----------
    old, olds, new, news
        The entries.
    walk
        The position on both sides; updated.
    old_left, new_left
        Output: numbers of the unmatched entries.
    """
    i = walk[OLD]
    j = walk[NEW]
    credit = walk[_CREDIT]
    group = walk[_GROUP]
    olds_left = walk[LEFT]
    news_left = walk[LEFT + 1]
    while i < len(olds) and j < len(news):
        if _same_key(old, olds, i, new, news, j):
            if not same_bytes(old, olds[i, 2], olds[i, 3], new, news[j, 2], news[j, 3]):
                old_left[olds_left] = i
                new_left[news_left] = j
                olds_left += 1
                news_left += 1
            i += 1
            j += 1
            credit += 1
            continue
        if olds[i, KEY_GROUP] != news[j, KEY_GROUP]:
            if olds[i, KEY_GROUP] < news[j, KEY_GROUP]:
                old_left[olds_left] = i
                olds_left += 1
                i += 1
            else:
                new_left[news_left] = j
                news_left += 1
                j += 1
            continue
        if group != olds[i, KEY_GROUP]:
            group = olds[i, KEY_GROUP]
            credit = min(max(credit, _CREDIT_OF_GROUP), _MOST_CREDIT)
        olds_missing = 0
        news_missing = 0
        ahead = 1
        while ahead <= min(_AHEAD, credit):
            if i + ahead < len(olds) and _same_key(old, olds, i + ahead, new, news, j):
                olds_missing = ahead
                break
            if j + ahead < len(news) and _same_key(old, olds, i, new, news, j + ahead):
                news_missing = ahead
                break
            ahead += 1
        credit -= min(ahead, credit)
        if olds_missing == 0 and news_missing == 0:
            olds_missing = 1
            news_missing = 1
        for _ in range(olds_missing):
            old_left[olds_left] = i
            olds_left += 1
            i += 1
        for _ in range(news_missing):
            new_left[news_left] = j
            news_left += 1
            j += 1
    walk[OLD] = i
    walk[NEW] = j
    walk[LEFT] = olds_left
    walk[LEFT + 1] = news_left
    walk[_CREDIT] = credit
    walk[_GROUP] = group


@entry_point(
    *(read(uint8), read(int64, 2), read(uint8), read(int64, 2)),
    *(written(int32), written(uint8), written(uint8)),
)
def look_up_equals(old, olds, new, news, slots, old_left, new_left):  # type: ignore[no-untyped-def]
    """Mark the entries without an equal on the other side, at any position in the key group.

    Parameters
    ----------
    old, olds, new, news
        The entries, in the order of their key groups.
    slots
        Room for twice the entries of the largest key group of the old side: a power of two.
    old_left, new_left
        Ones; they become zeros for entries with an equal.
    """
    i = 0
    j = 0
    while i < len(olds) and j < len(news):
        group = olds[i, KEY_GROUP]
        if news[j, KEY_GROUP] < group:
            j += 1
            continue
        if news[j, KEY_GROUP] > group:
            i += 1
            continue
        end = i
        while end < len(olds) and olds[end, KEY_GROUP] == group:
            end += 1
        mask = 1
        while mask < 2 * (end - i):
            mask *= 2
        slots[:mask] = 0
        mask -= 1
        for k in range(i, end):
            slot = hash_code(old, olds[k, 0], olds[k, 1] - olds[k, 0]) & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = k - i + 1
        while j < len(news) and news[j, KEY_GROUP] == group:
            slot = hash_code(new, news[j, 0], news[j, 1] - news[j, 0]) & mask
            while slots[slot] != 0:
                k = i + slots[slot] - 1
                if same_bytes(old, olds[k, 0], olds[k, 1], new, news[j, 0], news[j, 1]):
                    if old_left[k] and same_bytes(old, olds[k, 2], olds[k, 3], new, news[j, 2], news[j, 3]):
                        old_left[k] = 0
                        new_left[j] = 0
                    break
                slot = (slot + 1) & mask
            j += 1
        i = end


@entry_point(read(uint8), read(int64, 2), written(int64, 2), written(uint8))
def _copy_entries(data, entries, copies, out):  # type: ignore[no-untyped-def]
    """Copy entries into ``out``: the key of each entry, then its value."""
    at = 0
    for entry in range(len(entries)):
        for part in (0, 2):
            begin = entries[entry, part]
            size = entries[entry, part + 1] - begin
            copies[entry, part] = at
            i = 0
            while i + 8 <= size:
                store_i64(out, at + i, load_i64(data, begin + i))
                i += 8
            while i < size:
                out[at + i] = data[begin + i]
                i += 1
            at += size
            copies[entry, part + 1] = at
        copies[entry, KEY_GROUP] = entries[entry, KEY_GROUP]


def copied(data: Buffer, entries: Entries) -> tuple[Buffer, Entries]:
    """Return a copy of entries: the key of each entry, then its value."""
    size = int(entries[:, 1].sum() - entries[:, 0].sum() + entries[:, 3].sum() - entries[:, 2].sum())
    out, copies = np.empty(size, dtype=np.uint8), np.empty_like(entries)
    _copy_entries(data, entries, copies, out)
    return out, copies


def new_walk() -> npt.NDArray[np.int64]:
    """Return a new walk."""
    walk = np.zeros(_WALK_FIELDS, dtype=np.int64)
    walk[_GROUP] = -1
    return walk
