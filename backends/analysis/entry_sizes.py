"""Sizes of keyed state in any format: numbers and bytes of entries, and of all entries of a key, without decoding values.

The size of an entry is the size of its key, namespace and value in a canonical savepoint, without lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.analysis.entry_bytes import StateEntries
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.key_index import hash_code
from state_processor.backends.formats.row_layout import size_of
from state_processor.backends.formats.serialized_entries import LOSSLESS, PassThroughCodec, decode_bytes
from state_processor.backends.formats.source import BoundedRun, Buffer, Entries, FramedRun, KeyedStateSource, UnframedRun
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_splits import (
    SPLIT_BYTES,
    KeyedHandle,
    KeyedSplit,
    cut_at_bounds,
    handles_with,
    key_group_chunks,
    keyed_handles,
    plan_splits,
)
from state_processor.backends.read.stored_operator import StoredOperator, naming_state
from state_processor.backends.state.descriptions import LIST, MAP
from state_processor.serializers.codec import VARIABLE
from state_processor.serializers.core.temporal import in_time_zone
from state_processor.serializers.core.time_values import java_zone
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.signatures import int32, int64, read, uint8, written
from state_processor.support.late import pc

_PLAIN: Final = 0
_WHOLE_LIST: Final = 1
_WHOLE_MAP: Final = 2
_FORMS: Final = {LIST: _WHOLE_LIST, MAP: _WHOLE_MAP}

_Numbers = npt.NDArray[np.int64]
_Spans = npt.NDArray[np.int64]
"""A row for each entry: start and end."""


@entry_point(read(uint8), read(int64, 2), int64, written(int64), written(int64))
def _measure(data, entries, form, sizes, counts):  # type: ignore[no-untyped-def]
    """Compute the canonical sizes of entries.

    A list in the heap's format starts with its length; a canonical list has a byte between elements. A map in the heap's format
    starts with its length; a canonical file has an entry for each entry of the map.
    """
    for i in range(len(entries)):
        identity = entries[i, 1] - entries[i, 0]
        value = entries[i, 3] - entries[i, 2]
        count = 1
        if form != _PLAIN:
            length = load_be_i32(data, entries[i, 2])
            value -= 4
            if form == _WHOLE_MAP:
                count = length
            elif length > 0:
                value += length - 1
            else:
                count = 0
        sizes[i] = count * identity + value
        counts[i] = count


@dataclass(frozen=True, slots=True)
class MeasuredEntries:
    """Entries of a state, with their sizes in a canonical savepoint.

    ``origin`` and ``run``: source of the entries. ``buffer`` and ``entries``: the bounds of the identity of each entry, and of
    its value. ``sizes`` and ``counts``: bytes and number of the canonical entries.
    """

    origin: StateEntries
    run: FramedRun | UnframedRun
    buffer: Buffer
    entries: Entries
    sizes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def selected(self, rows: npt.NDArray[np.int64]) -> MeasuredEntries:
        """Return some entries."""
        entries = np.ascontiguousarray(self.entries[rows])
        return replace(self, entries=entries, sizes=self.sizes[rows], counts=self.counts[rows])

    def keys(self) -> tuple[Buffer, _Spans]:
        """Return the serialized keys of the entries."""
        layout = self.run.layout(self.origin.state, frozenset())
        fields, at = layout.parts[0].fields, layout.parts[0].key_place
        lead, size = size_of(fields[:at]), size_of(fields[at : at + 1])
        tail = size_of(fields[at + 1 :]) if isinstance(self.run, FramedRun) or self.origin.state.is_timer else 0
        if lead == VARIABLE or VARIABLE == size == tail:
            return self._extracted_keys()
        begins = self.entries[:, 0] + lead
        ends = self.entries[:, 1] - tail if size == VARIABLE else begins + size
        return self.buffer, np.stack([begins, ends], axis=1)

    def _extracted_keys(self) -> tuple[Buffer, _Spans]:
        """Return keys whose ends are found by skipping the keys."""
        state = self.origin.state
        bare = state.with_serializers(key=PassThroughCodec(state.key))
        if isinstance(self.run, FramedRun):
            run: FramedRun | BoundedRun = FramedRun(bare, self.run.context, iter([(self.buffer, None, self.entries)]))
        else:
            run = BoundedRun.of_parts(bare, self.run.context, self.run.layout, self.buffer, self.entries)
        columns = [batch.column(layouts.KEY) for batch in run.decode(bare, frozenset({layouts.KEY}), LOSSLESS)]
        keys = pa.chunked_array(columns, pa.binary()).combine_chunks()
        ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
        return np.frombuffer(keys.buffers()[2] or b"\0", dtype=np.uint8), np.stack([ends[:-1], ends[1:]], axis=1)

    @property
    def key_groups(self) -> npt.NDArray[np.int64]:
        """The key group of each entry."""
        return self.entries[:, KEY_GROUP]


def measured(state_entries: StateEntries) -> Iterator[MeasuredEntries]:
    """Yield the entries of a state with their sizes, in parts. Each part is valid until the next part."""
    state = state_entries.state
    suffixed = state.key.length < 0 and state.namespace.length < 0 and not state.is_timer
    for run in state_entries.runs():
        if isinstance(run, FramedRun):
            for buffer, _, entries in run.blocks:
                yield _measured(state_entries, run, buffer, entries, _PLAIN)
        elif isinstance(run, UnframedRun) and not suffixed:
            for buffer, _, entries in run.bounded():
                yield _measured(state_entries, run, buffer, entries, _FORMS.get(state.kind, _PLAIN))
        else:  # canonical files also have the lengths of key and namespace
            for part in state_entries.framed([run]):
                framed = FramedRun(state, f"{state_entries.source.context}, state {state.name!r}", iter(()))
                yield _measured(state_entries, framed, part.buffer, part.entries, _PLAIN)


def _measured(
    state_entries: StateEntries, run: FramedRun | UnframedRun, buffer: Buffer, entries: Entries, form: int
) -> MeasuredEntries:
    sizes, counts = np.empty(len(entries), dtype=np.int64), np.empty(len(entries), dtype=np.int64)
    _measure(buffer, entries, form, sizes, counts)
    return MeasuredEntries(state_entries, run, buffer, entries, sizes, counts)


def has_one_entry_for_each_key(entries: StateEntries) -> bool:
    """Return whether all entries of a state have different keys."""
    state = entries.state
    return state.in_void_namespace and not state.is_timer and state.kind != MAP


@entry_point(*(read(uint8), read(int64, 2), read(int64), written(int32)), *(written(int64), written(int64), written(uint8)))
def _sum_by_key(data, keys, groups, slots, sizes, counts, first):  # type: ignore[no-untyped-def]
    """Add sizes and counts of all entries of a key to its first entry, and mark the first entry.

    Parameters
    ----------
    data, keys
        The keys, sorted by key group, and the key group of each.
    slots
        Room for twice the entries of the largest key group: a power of two.
    sizes, counts
        The sizes and counts to add.
    first
        Zeros; set to one for the first entry of each key.
    """
    begin = 0
    while begin < len(keys):
        end = begin
        while end < len(keys) and groups[end] == groups[begin]:
            end += 1
        mask = 1
        while mask < 2 * (end - begin):
            mask *= 2
        slots[:mask] = 0
        mask -= 1
        for i in range(begin, end):
            at = keys[i, 0]
            size = keys[i, 1] - at
            slot = hash_code(data, at, size) & mask
            first_entry = -1
            while slots[slot] != 0:
                k = begin + slots[slot] - 1
                if keys[k, 1] - keys[k, 0] == size:
                    same = True
                    for j in range(size):
                        if data[at + j] != data[keys[k, 0] + j]:
                            same = False
                            break
                    if same:
                        first_entry = k
                        break
                slot = (slot + 1) & mask
            if first_entry < 0:
                slots[slot] = i - begin + 1
                first[i] = 1
            else:
                sizes[first_entry] += sizes[i]
                counts[first_entry] += counts[i]
        begin = end


@entry_point(read(uint8), read(int64, 2), written(uint8))
def _copy_keys(data, keys, out):  # type: ignore[no-untyped-def]
    """Copy keys into ``out`` without gaps."""
    at = 0
    for i in range(len(keys)):
        for j in range(keys[i, 0], keys[i, 1]):
            out[at] = data[j]
            at += 1


@dataclass(frozen=True, slots=True)
class KeySizes:
    """Serialized keys, and the sizes and numbers of their entries."""

    buffer: Buffer
    keys: _Spans
    sizes: _Numbers
    counts: _Numbers

    @classmethod
    def of_each(cls, parts: Iterable[MeasuredEntries], top: int) -> Self:
        """Return the largest entries of a state with one entry per key."""
        kept_parts: list[Self] = []
        least, largest = 0, np.empty(0, dtype=np.int64)
        for entries in parts:
            rows = np.flatnonzero(entries.sizes > least)
            if len(rows) > top:
                rows = rows[np.argpartition(entries.sizes[rows], len(rows) - top)[-top:]]
            if len(rows):
                largest_entries = entries.selected(rows)
                kept_parts.append(cls._copied(*largest_entries.keys(), largest_entries.sizes, largest_entries.counts))
                largest = np.sort(np.append(largest, largest_entries.sizes))[-top:]
                least = int(largest[0]) if len(largest) == top else 0
        return cls._joined(kept_parts).largest(top)

    @classmethod
    def by_key(cls, parts: Iterable[MeasuredEntries], top: int) -> Self:
        """Return the largest keys by all their entries in several states."""
        entry_parts, groups = [], [np.empty(0, dtype=np.uint16)]
        for entries in parts:
            groups.append(entries.key_groups.astype(np.uint16))
            entry_parts.append(cls._copied(*entries.keys(), entries.sizes, entries.counts))
        joined, of_group = cls._joined(entry_parts), np.concatenate(groups)
        order = np.argsort(of_group, kind="stable")  # two bytes: a radix sort
        joined, of_group = joined._selected(order), of_group[order].astype(np.int64)
        first = np.zeros(len(order), dtype=np.uint8)
        most = int(np.bincount(of_group).max()) if len(order) else 0
        slots = np.empty(2 << max(0, most - 1).bit_length(), dtype=np.int32)
        _sum_by_key(joined.buffer, joined.keys, of_group, slots, joined.sizes, joined.counts, first)
        return joined._selected(np.flatnonzero(first)).largest(top)

    def largest(self, top: int) -> Self:
        """Return the largest keys; keys without bytes are omitted."""
        order = np.lexsort((-self.counts, -self.sizes))[:top]
        return self._selected(order[self.counts[order] > 0])

    def to_binary(self) -> pa.Array:
        """Return the keys as a column."""
        copied = self._copied(self.buffer, self.keys, self.sizes, self.counts)
        offsets = np.append(copied.keys[:, 0], copied.keys[-1:, 1]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(copied.buffer)]
        return pa.Array.from_buffers(pa.binary(), len(copied.keys), buffers)

    @classmethod
    def _copied(cls, buffer: Buffer, keys: _Spans, sizes: _Numbers, counts: _Numbers) -> Self:
        ends = np.cumsum(keys[:, 1] - keys[:, 0])
        out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
        _copy_keys(buffer, keys, out)
        return cls(out, np.stack([ends - (keys[:, 1] - keys[:, 0]), ends], axis=1), sizes, counts)

    @classmethod
    def _joined(cls, parts: list[Self]) -> Self:
        starts = np.cumsum([0, *(len(part.buffer) for part in parts)])
        keys = [part.keys + start for part, start in zip(parts, starts[:-1], strict=True)]
        nothing = np.empty(0, dtype=np.int64)
        return cls(
            np.concatenate([np.empty(0, dtype=np.uint8), *(part.buffer for part in parts)]),
            np.concatenate([np.empty((0, 2), dtype=np.int64), *keys]),
            np.concatenate([nothing, *(part.sizes for part in parts)]),
            np.concatenate([nothing, *(part.counts for part in parts)]),
        )

    def _selected(self, rows: _Numbers) -> Self:
        return type(self)(self.buffer, np.ascontiguousarray(self.keys[rows]), self.sizes[rows], self.counts[rows])


ENTRIES: Final = "entries"
SIZE_IN_BYTES: Final = "size_in_bytes"

PLACES: Final = pa.schema(
    [
        ("state_name", pa.string()),
        ("state_kind", pa.string()),
        ("key_group", pa.int32()),
        ("subtask", pa.int32()),
        (ENTRIES, pa.int64()),
        (SIZE_IN_BYTES, pa.int64()),
    ]
)
"""Sizes by state and key group."""

_CHUNK_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class KeysSplit:
    """A range of key groups, and all handles with these key groups: state and timers of a key may be in different handles."""

    key_groups: h.KeyGroupRange
    handles: tuple[KeyedHandle, ...]

    @property
    def size(self) -> int:
        """Estimated bytes of the snapshot to read."""
        return sum(x.handle.state_size * len(self.key_groups) // max(1, len(x.key_groups)) for x in self.handles)


@dataclass(frozen=True)
class KeyedSizes:
    """Measures the keyed state of one operator, split by split, without decoding values."""

    stored: StoredOperator

    def splits(self, split_bytes: int = SPLIT_BYTES) -> list[KeyedSplit]:
        """Plan splits for tasks."""
        return plan_splits(list(keyed_handles(self.stored.operator, self.stored.snapshot)), None, split_bytes)

    def splits_of_keys(self, split_bytes: int = SPLIT_BYTES, among: Sequence[h.KeyGroupRange] | None = None) -> list[KeysSplit]:
        """Plan splits that contain all entries of their keys; ``among`` limits them to some key groups."""
        handles = tuple(keyed_handles(self.stored.operator, self.stored.snapshot))
        everything = h.KeyGroupRange(0, self.stored.operator.max_parallelism - 1)
        size = sum(x.handle.state_size for x in handles)
        splits = []
        for part in [everything] if among is None else among:
            for chunk in key_group_chunks(part, size * len(part) // len(everything), split_bytes):
                split = KeysSplit(chunk, handles_with(handles, chunk))
                if split.handles:
                    splits.append(split)
        return splits

    def by_place(self, split: KeyedSplit) -> pa.RecordBatch:
        """Return the sizes in a split by state and key group: a batch of :data:`PLACES`."""
        rows = []
        source = split.handle.open(self.stored.snapshot)
        for key_groups in key_group_chunks(split.key_groups, split.size, _CHUNK_BYTES):
            for entries in self._states([(split.handle, source)], key_groups):
                for part in self._measured(entries):
                    counts = np.bincount(part.key_groups, weights=part.counts)
                    sizes = np.bincount(part.key_groups, weights=part.sizes)
                    for group in np.flatnonzero(counts).tolist():
                        numbers = {ENTRIES: int(counts[group]), SIZE_IN_BYTES: int(sizes[group])}
                        place = {"state_name": entries.state.name, "state_kind": entries.state.kind, "subtask": entries.subtask}
                        rows.append({**place, "key_group": group, **numbers})
        return pa.RecordBatch.from_pylist(rows, PLACES)

    def largest_keys(self, split: KeysSplit, top: int) -> pa.Table | None:
        """Return the largest keys in a split, with all their entries: ``key``, ``entries``, ``size_in_bytes``."""
        largest_parts = []
        for key_groups in key_group_chunks(split.key_groups, split.size, _CHUNK_BYTES):
            sources = [(x, x.open(self.stored.snapshot)) for x in handles_with(split.handles, key_groups)]
            for part in cut_at_bounds(key_groups, [x.key_groups for x, _ in sources]):
                states = list(self._states(sources, part))
                if states:
                    largest_parts.append(self._largest_keys(states, top))
        return largest(pa.concat_tables(largest_parts, promote_options="permissive"), top) if largest_parts else None

    def _largest_keys(self, states: Sequence[StateEntries], top: int) -> pa.Table:
        first = states[0]
        parts = chain.from_iterable(map(self._measured, states))
        by_entry = len(states) == 1 and has_one_entry_for_each_key(first)
        sizes = KeySizes.of_each(parts, top) if by_entry else KeySizes.by_key(parts, top)
        key = in_time_zone(first.state.key, java_zone(self.stored.snapshot.time_zone))
        keys = decode_bytes(key, sizes.to_binary(), f"{first.source.context}, state {first.state.name!r}")
        return pa.table([keys, sizes.counts, sizes.sizes], names=[layouts.KEY, ENTRIES, SIZE_IN_BYTES])

    def _states(
        self, sources: Iterable[tuple[KeyedHandle, KeyedStateSource]], key_groups: h.KeyGroupRange
    ) -> Iterator[StateEntries]:
        for handle, source in sources:
            groups = handle.key_groups.intersect(key_groups)
            for meta in source.header.states if len(groups) else ():
                with naming_state(meta.name, self.stored.operator):
                    state = source.describe(meta.name)
                    assert state is not None
                    yield StateEntries(source, state, handle.subtask, groups, self.stored.operator.max_parallelism)

    def _measured(self, entries: StateEntries) -> Iterator[MeasuredEntries]:
        with naming_state(entries.state.name, self.stored.operator):
            yield from measured(entries)


def largest(table: pa.Table, top: int | None) -> pa.Table:
    """Return the largest rows, largest first."""
    order = pc.sort_indices(table, sort_keys=[(SIZE_IN_BYTES, "descending"), (ENTRIES, "descending")])
    return table.take(order if top is None else order[:top])
