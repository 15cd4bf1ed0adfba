"""Stored bytes of keyed state, by state and by key group, from metadata, manifests and indexes of tables. No entry is decoded."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.sst.block_kernels import TAG_BYTES
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.table import Table
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import subtask_label
from state_processor.backends.state.key_groups import prefix_size
from state_processor.support.errors import CorruptSnapshotError

Sizes = npt.NDArray[np.float64]

TABLES: Final = "tables"
KEY_GROUPS: Final = "key groups"
CANONICAL: Final = "canonical"
CHANGELOG: Final = "changelog"
OPERATOR: Final = "operator state"

_BEHIND_ALL: Final = b"\xff"
"""A key behind all others: they begin with a key group of at most 32,767."""


@dataclass(frozen=True, slots=True)
class _Profile:
    """Bytes of a table from its first key group on, and RocksDB's estimate of its entries."""

    first: int
    sizes: Sizes
    entries: int


@dataclass(slots=True)
class TableSizes:
    """Sizes of the tables of one state."""

    size: int = 0  # bytes of the tables
    entries: int = 0  # RocksDB's estimate of their entries: a key counts once for each table that contains it
    live_size: int = 0  # RocksDB's estimate of the bytes that a compaction leaves (``rocksdb.estimate-live-data-size``)


class StoredSizes:
    """Measures the stored keyed state of operators of several snapshots. Tables that snapshots share are opened once."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, int] = {}
        self._profiles: dict[Hashable, _Profile] = {}

    def of_states(self, snapshot: Snapshot, operator: OperatorState) -> dict[str, TableSizes]:
        """Return the sizes of the states in RocksDB and ForSt, whose tables are known."""
        by_state: dict[str, TableSizes] = {}
        for store, _ in _stores(snapshot, operator):
            for family in store.manifest.families.values():
                if not family.files:
                    continue
                sizes = by_state.setdefault(family.name, TableSizes())
                sizes.size += sum(file.size for file in family.files)
                sizes.entries += sum(self._entries_of(store, file) for file in family.files)
                sizes.live_size += live_size(family.files)
        return by_state

    def by_key_group(self, snapshot: Snapshot, operator: OperatorState) -> dict[str | None, tuple[Sizes, Sizes | None]]:
        """Return bytes and estimated entries of each key group.

        Returns: by state; ``None`` is all keyed state. In files of the heap and in canonical files, the bytes are exact, and the
        states and their entries are unknown. The bytes of tables are estimates: a block with several key groups counts for them
        in equal parts. Changes in changelogs are left out.
        """
        number = operator.max_parallelism
        total = np.zeros(number)
        by_state: dict[str | None, tuple[Sizes, Sizes | None]] = {}
        for subtask_text, key_groups, handle in keyed_parts(operator):
            if isinstance(handle, h.KeyGroupsStateHandle):
                _add(total, handle.key_groups.start, _sizes_of_key_groups(handle, subtask_text), key_groups)
        for store, key_groups in _stores(snapshot, operator):
            for family in store.manifest.families.values():
                for file in family.files:
                    profile = self._profile_of(store, file, prefix_size(number))
                    sizes, entries = by_state.setdefault(family.name, (np.zeros(number), np.zeros(number)))
                    assert entries is not None
                    _add(sizes, profile.first, profile.sizes, key_groups)
                    _add(entries, profile.first, profile.sizes * (profile.entries / file.size), key_groups)
        total += sum((sizes for sizes, _ in by_state.values()), np.zeros(number))
        return {None: (total, None), **by_state}

    def _entries_of(self, store: Store, file: TableFile) -> int:
        identity = store.identity(file)
        if identity not in self._entries:
            self._entries[identity] = store.open_table(file).entries_estimate
        return self._entries[identity]

    def _profile_of(self, store: Store, file: TableFile, prefix: int) -> _Profile:
        identity = store.identity(file)
        if identity not in self._profiles:
            self._profiles[identity] = _profile(store.open_table(file), prefix)
        return self._profiles[identity]


def stored_as(operator: OperatorState) -> str:
    """Return how the keyed state of an operator is stored; sizes are comparable if this is equal."""
    kinds = set()
    for _, _, handle in keyed_parts(operator):
        if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            kinds.add(TABLES)
        elif isinstance(handle, h.KeyGroupsStateHandle):
            kinds.add(CANONICAL if handle.is_savepoint else KEY_GROUPS)
        else:
            kinds.add(CHANGELOG)
    return ", ".join(sorted(kinds)) or OPERATOR


def keyed_parts(operator: OperatorState) -> Iterator[tuple[str, h.KeyGroupRange, h.KeyedStateHandle]]:
    """Yield the parts of an operator's managed and raw keyed state: subtask, used key groups, handle.

    A handle of a changelog is yielded as its materialized state and its changes.
    """
    for subtask in operator.subtasks:
        subtask_text = subtask_label(operator, subtask)
        for handle in (subtask.managed_keyed, subtask.raw_keyed):
            if isinstance(handle, h.ChangelogStateBackendHandle):
                yield from ((subtask_text, handle.key_groups, part) for part in (*handle.materialized, *handle.changes))
            elif handle is not None:
                yield subtask_text, handle.key_groups, handle


def live_size(files: Iterable[TableFile]) -> int:
    """Estimate the bytes that a compaction leaves, as RocksDB does (``VersionStorageInfo::EstimateLiveDataSize``).

    From the deepest level on, tables count whose keys are not between the keys of a table that counts already. Tables above them
    contain newer values of the same keys, most likely.
    """
    starts: list[bytes] = []
    ends: list[bytes] = []
    live_bytes = 0
    for file in sorted(files, key=lambda f: (-f.level, -f.sequences[1])):
        smallest, largest = file.smallest[:-TAG_BYTES], file.largest[:-TAG_BYTES]
        place = bisect(starts, largest)
        if not place or ends[place - 1] < smallest:
            starts.insert(place, smallest)
            ends.insert(place, largest)
            live_bytes += file.size
    return live_bytes


def _stores(snapshot: Snapshot, operator: OperatorState) -> Iterator[tuple[Store, h.KeyGroupRange]]:
    for subtask_text, key_groups, handle in keyed_parts(operator):
        if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            yield open_store(snapshot, handle, subtask_text), key_groups


def _add(sums: Sizes, first: int, sizes: Sizes, key_groups: h.KeyGroupRange) -> None:
    """Add sizes of key groups, beginning with ``first``. Only the used key groups count."""
    begin = max(first, key_groups.start)
    end = min(first + len(sizes), key_groups.end_inclusive + 1, len(sums))
    if begin < end:
        sums[begin:end] += sizes[begin - first : end - first]


def _sizes_of_key_groups(handle: h.KeyGroupsStateHandle, context: str) -> Sizes:
    """Return the bytes between the offsets of key groups. A canonical file records 0 for a key group without entries."""
    offsets = handle.offsets.to_numpy()
    filled = np.flatnonzero(offsets)
    sizes = np.zeros(len(offsets))
    sizes[filled] = np.diff(offsets[filled], append=handle.stream.state_size)
    if (sizes < 0).any():
        key_group = handle.key_groups.start + int(np.flatnonzero(sizes < 0)[0])
        raise CorruptSnapshotError(
            f"{context}: expected ascending offsets of key groups up to the size of the file, {handle.stream.state_size}; "
            f"key group {key_group} begins at {offsets[key_group - handle.key_groups.start]}; copy the snapshot again"
        )
    return sizes


def _profile(table: Table, prefix: int) -> _Profile:
    """Distribute the bytes of a table over its key groups: by blocks, and the rest of the file in proportion."""
    first, last = (_key_group(key, prefix) for key in (table.smallest, table.largest))
    blocks = table.blocks(b"", _BEHIND_ALL)
    count = last - first + 1
    changes = np.zeros(count + 1)
    if len(blocks):
        bounds = np.zeros(len(blocks), dtype=np.int64)
        lengths = blocks.rows[:, 1] - blocks.rows[:, 0]
        for i in range(prefix):
            digits = np.zeros(len(blocks), dtype=np.int64)
            digits[lengths > i] = blocks.keys[blocks.rows[lengths > i, 0] + i]
            bounds = bounds << 8 | digits
        # A separator of the key group alone is before all keys of the key group
        ends = np.clip(bounds - (lengths <= prefix), first, last) - first
        ends[-1] = last - first
        starts = np.minimum(np.append(0, np.clip(bounds[:-1], first, last) - first), ends)
        shares = blocks.rows[:, 3] / (ends - starts + 1)
        np.add.at(changes, starts, shares)
        np.subtract.at(changes, ends + 1, shares)
    else:  # it has only deletions of ranges
        changes[0], changes[-1] = 1 / count, -1 / count
    sizes = np.maximum(np.cumsum(changes[:-1]), 0)
    return _Profile(first, sizes * (table.file.size / sizes.sum()), table.entries_estimate)


def _key_group(key: bytes, prefix: int) -> int:
    return int.from_bytes(key[:prefix], "big")
