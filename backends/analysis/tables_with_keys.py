"""Tables of RocksDB and ForSt that a new savepoint has from its source, and the search for keys in tables.

A search for a key reads the blocks of a table that may have it, and finds replaced and deleted entries, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.sst.block_kernels import OFFSET, SIZE
from state_processor.backends.formats.sst.erased_table import ErasedKeys
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.plain_blocks import block_entries
from state_processor.backends.formats.sst.runs import first_key, last_key
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.key_lookup import WantedKeys, keys_of
from state_processor.backends.read.stored_operator import leaf_keyed_handles, subtask_label
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.support.errors import OptionError


@dataclass(frozen=True)
class StoredTable:
    """A table of an operator."""

    store: Store
    family: str  # the column family: the name of the state
    file: TableFile  # the record of the table in the manifest
    stream: h.StreamStateHandle  # the handle of the file

    @property
    def record(self) -> tuple[str, TableFile]:
        """What the same table has in another savepoint as well."""
        return self.family, self.file

    def may_be_from(self, origin: StoredTable) -> bool:
        """Return whether this may be another table without some entries."""
        new, old = self.file, origin.file
        is_within = first_key(old) <= first_key(new) and last_key(new) <= last_key(old)
        return is_within and (self.family, new.level, new.sequences) == (origin.family, old.level, old.sequences)

    def has(self, keys: ErasedKeys) -> bool:
        """Return whether an entry, a range deletion or the index has one of the keys."""
        return keys.without(self.store.table(self.file)) is not None


def stored_tables(snapshot: Snapshot, operator: OperatorState) -> Iterator[StoredTable]:
    """Yield the tables of an operator."""
    seen = set()
    for subtask in operator.subtasks:
        for handle in leaf_keyed_handles(subtask.managed_keyed):
            if isinstance(handle, h.IncrementalRemoteKeyedStateHandle) and handle not in seen:
                seen.add(handle)
                store = open_store(snapshot, handle, subtask_label(operator, subtask))
                streams = {file.local_name: file.stream for file in handle.files}
                for family in store.manifest.families.values():
                    for file in family.files:
                        yield StoredTable(store, family.name, file, streams[file.name])


@dataclass(frozen=True)
class TableOrigin:
    """A table of a new savepoint that was made from a table of the source.

    ``table`` and ``old``: the table, and the table of the source. Both are equal if the bytes of the file are the same.
    """

    operator: OperatorState
    table: StoredTable
    old: StoredTable

    @property
    def is_kept(self) -> bool:
        """Whether the bytes are the same."""
        return self.table.record == self.old.record

    def new_parts(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the decompressed blocks that are not at the same place from the beginning or the end, the index and metadata.

        The keys of these blocks are yielded as a whole as well.
        """
        table, old = (table.store.table(table.file) for table in (self.table, self.old))
        blocks, before = table.blocks(), old.blocks()
        first = _equal(blocks.rows[:, [OFFSET, SIZE]], before.rows[:, [OFFSET, SIZE]])
        last = min(_equal(blocks.rows[::-1, [SIZE]], before.rows[::-1, [SIZE]]), len(blocks) - first)
        for offset, size in blocks.rows[first : len(blocks) - last, [OFFSET, SIZE]].tolist():
            content = table.plain_block((offset, size))
            keys = b"\0".join(key for key, _ in block_entries(content, table.where))
            yield from (np.frombuffer(part, dtype=np.uint8) for part in (content, keys))
        yield blocks.keys
        yield from table.plain_metadata()


def _equal(old_rows: npt.NDArray[np.int64], new_rows: npt.NDArray[np.int64]) -> int:
    """Return how many rows two tables begin with that are equal."""
    common = min(len(old_rows), len(new_rows))
    unequal = np.flatnonzero((old_rows[:common] != new_rows[:common]).any(axis=1))
    return int(unequal[0]) if len(unequal) else common


def table_origins(before: Snapshot, after: Snapshot) -> Iterator[TableOrigin]:
    """Yield the tables of a new savepoint that were made from tables of its source: copied, or without some entries.

    ``before`` and ``after``: the source, and the new savepoint that was written from it.
    """
    sources = {operator.operator_id: operator for operator in before.metadata.operators}
    for operator in after.metadata.operators:
        source = sources.get(operator.operator_id)
        olds = [] if source is None else list(stored_tables(before, source))
        by_record = {table.record: table for table in olds}
        for table in stored_tables(after, operator):
            old = by_record.get(table.record) or next((old for old in olds if table.may_be_from(old)), None)
            if old is not None:
                yield TableOrigin(operator, table, old)


def erased_keys(
    states: Mapping[str, Sequence[StateDescription]], operator: OperatorState, spellings: Sequence[Sequence[Any]]
) -> dict[str, ErasedKeys]:
    """Return the keys to look up in tables, by the state of the table. The result is empty if no key has the type of the keys.

    ``states``: the states of the operator by name. ``spellings``: the possible values of each key. They are tried in this order.
    """
    keyed = [variants[0] for variants in states.values() if isinstance(variants[0], KeyedDescription)]
    if not keyed:
        return {}
    keys = [key for values in spellings for key in _of_key(keyed[0], operator.max_parallelism, values)]
    prefix = prefix_size(operator.max_parallelism)
    return {state.name: ErasedKeys(keys, prefix, are_timers=state.is_timer) for state in keyed} if keys else {}


def _of_key(state: KeyedDescription, max_parallelism: int, values: Sequence[Any]) -> list[bytes]:
    for value in values:
        try:
            keys = keys_of(state, (value,))
            groups = WantedKeys(state, keys, max_parallelism).key_groups
        except OptionError:  # the operator's keys have another type
            continue
        prefix = prefix_size(max_parallelism)
        (key,) = keys.serialized(state)
        return [group.to_bytes(prefix, "big") + key for group in (range(max_parallelism) if groups is None else groups)]
    return []
