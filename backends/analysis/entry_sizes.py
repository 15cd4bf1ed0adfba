"""Sizes of keyed state: entries are counted and measured, values are not decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.analysis.entry_bytes import FramedEntries
from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.keyed_handles import keyed_handles
from state_processor.backends.read.keyed_splits import SPLIT_BYTES, KeyedSplit, key_group_chunks, plan_splits
from state_processor.backends.read.state_listing import naming_state
from state_processor.backends.read.task_snapshot import operator_for_tasks, snapshot_for_tasks
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.decode_options import DecodeOptions

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
_OPTIONS: Final = DecodeOptions(nanos="string", row_kind=True)


@dataclass(frozen=True)
class KeyedSizes:
    """Measures the keyed state of one operator, split by split.

    The size of an entry is that of its key, namespace and value as a canonical savepoint has them, without lengths.
    """

    snapshot: Snapshot
    operator: OperatorState

    def __getstate__(self) -> dict[str, object]:
        return {"snapshot": snapshot_for_tasks(self.snapshot), "operator": operator_for_tasks(self.operator)}

    def splits(self, split_bytes: int = SPLIT_BYTES) -> list[KeyedSplit]:
        """Plan splits, each of which a task can measure."""
        return plan_splits(list(keyed_handles(self.operator, self.snapshot)), None, split_bytes)

    def by_place(self, split: KeyedSplit) -> pa.RecordBatch:
        """Return the sizes in a split by state and key group: a batch of :data:`PLACES`."""
        rows = []
        source = split.handle.open(self.snapshot)
        for key_groups in key_group_chunks(split.key_groups, split.size, _CHUNK_BYTES):
            for state, part in self._parts(source, split, key_groups):
                groups = part.entries[:, 4]
                counts = np.bincount(groups)
                sizes = np.bincount(groups, weights=_sizes(part))
                for group in np.flatnonzero(counts).tolist():
                    numbers = {ENTRIES: int(counts[group]), SIZE: int(sizes[group])}
                    place = {"state_name": state.name, "state_kind": state.kind, "subtask": split.handle.subtask}
                    rows.append({**place, "key_group": group, **numbers})
        return pa.RecordBatch.from_pylist(rows, PLACES)

    def largest_keys(self, split: KeyedSplit, top: int) -> pa.Table | None:
        """Return the largest keys in a split, with all their entries: ``key``, ``entries``, ``size_in_bytes``.

        A key lies in one key group, so that no other split has entries of it.
        """
        source = split.handle.open(self.snapshot)
        found = []
        for key_groups in key_group_chunks(split.key_groups, split.size, _CHUNK_BYTES):
            tables = [_keys_and_sizes(state, part) for state, part in self._parts(source, split, key_groups)]
            if tables:
                found.append(largest(_by_key(pa.concat_tables(tables)), top))
        return largest(pa.concat_tables(found), top) if found else None

    def _parts(
        self, source: KeyedStateSource, split: KeyedSplit, key_groups: h.KeyGroupRange
    ) -> Iterator[tuple[KeyedDescription, FramedEntries]]:
        for meta in source.header.states:
            with naming_state(meta.name, self.operator):
                parts = FramedEntries.read(
                    source, meta.name, split.handle.subtask, key_groups, self.operator.max_parallelism
                )
                for part in parts:
                    yield part.state, part


def largest(table: pa.Table, top: int | None) -> pa.Table:
    """Return the largest rows, largest first."""
    order = pc.sort_indices(table, sort_keys=[(SIZE, "descending"), (ENTRIES, "descending")])
    return table.take(order if top is None else order[:top])


def _sizes(part: FramedEntries) -> npt.NDArray[np.int64]:
    e = part.entries
    return e[:, 1] - e[:, 0] + e[:, 3] - e[:, 2]


def _keys_and_sizes(state: KeyedDescription, part: FramedEntries) -> pa.Table:
    run = part.run()
    batches = [b.select([layouts.KEY]) for b in run.decode(state, frozenset({layouts.KEY}), _OPTIONS)]
    keys = pa.Table.from_batches(batches, pa.schema([pa.field(layouts.KEY, state.key.arrow_type(_OPTIONS))]))
    return keys.append_column(SIZE, pa.array(_sizes(part)))


def _by_key(table: pa.Table) -> pa.Table:
    """Return number and bytes of the entries of each key; keys of nested types are compared as text."""
    keys = table.column(layouts.KEY)
    if pa.types.is_nested(keys.type):
        texts = pa.array([repr(key) for key in keys.to_pylist()])
        numbered = pa.table({"text": texts, "row": np.arange(len(texts)), SIZE: table.column(SIZE)})
        grouped = numbered.group_by("text").aggregate([("row", "min"), (SIZE, "count"), (SIZE, "sum")])
        columns = [keys.take(grouped.column("row_min")), grouped.column(f"{SIZE}_count"), grouped.column(f"{SIZE}_sum")]
    else:
        grouped = table.group_by(layouts.KEY).aggregate([(SIZE, "count"), (SIZE, "sum")])
        columns = [grouped.column(n) for n in (layouts.KEY, f"{SIZE}_count", f"{SIZE}_sum")]
    return pa.table(columns, names=[layouts.KEY, ENTRIES, SIZE])
