"""Sizes of keyed state: numbers and bytes of entries, without decoding values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.backends.analysis.entry_bytes import StateEntries
from state_processor.backends.analysis.measured_entries import KeySizes, MeasuredEntries, has_one_entry_for_each_key, measured
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.serialized_entries import decode_bytes
from state_processor.backends.formats.source import KeyedStateSource
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
from state_processor.serializers.core.temporal import in_time_zone
from state_processor.serializers.core.time_values import java_zone
from state_processor.support.late import pc

ENTRIES: Final = "entries"
SIZE: Final = "size_in_bytes"

PLACES: Final = pa.schema(
    [
        ("state_name", pa.string()),
        ("state_kind", pa.string()),
        ("key_group", pa.int32()),
        ("subtask", pa.int32()),
        (ENTRIES, pa.int64()),
        (SIZE, pa.int64()),
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
        chunks = (
            key_group_chunks(part, size * len(part) // len(everything), split_bytes)
            for part in ([everything] if among is None else among)
        )
        splits = [KeysSplit(r, handles_with(handles, r)) for r in chain.from_iterable(chunks)]
        return [split for split in splits if split.handles]

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
                        numbers = {ENTRIES: int(counts[group]), SIZE: int(sizes[group])}
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
        parts = (part for state in states for part in self._measured(state))
        by_entry = len(states) == 1 and has_one_entry_for_each_key(first)
        sizes = KeySizes.of_each(parts, top) if by_entry else KeySizes.by_key(parts, top)
        key = in_time_zone(first.state.key, java_zone(self.stored.snapshot.time_zone))
        keys = decode_bytes(key, sizes.to_binary(), f"{first.source.context}, state {first.state.name!r}")
        return pa.table([keys, sizes.counts, sizes.sizes], names=[layouts.KEY, ENTRIES, SIZE])

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
    order = pc.sort_indices(table, sort_keys=[(SIZE, "descending"), (ENTRIES, "descending")])
    return table.take(order if top is None else order[:top])
