"""Merge of the entries of one subtask in pass 2: entries of the source savepoint, and entries from rows.

Blobs arrive sorted by key group, state and phase. For each key group and state the phases have this order:

1. **Tombstones** name the keys that rows replace or delete. They come first because the two other phases need them. They are kept
   as a set until the next key group or state. If the entries of the state stay in files of the source savepoint (a store of
   RocksDB), tombstones also become deletions in the new files.
2. **Passed-through entries** of the source savepoint are written, except entries of tombstones. The excepted entries count as
   deleted, until an entry from rows has the same key. If entries stay in files, this phase is empty: the entries
   of tombstones are looked up in the files, for the counts.
3. **New entries** from rows are written last. An entry whose key was excepted in phase 2 counts as updated, any other as
   inserted.

Parts of values that Kryo wrote need one thing more: phases 1 and 2 keep the replaced entries, and phase 3 takes the bytes of
unchanged parts from them; see :mod:`~state_processor.backends.write.pending_updates`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.write.blobs import NEW, PASSED_THROUGH, TOMBSTONES, Blob, GroupState
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.backends.write.keyed_writer import KeyedStateWriter
from state_processor.backends.write.pending_updates import PendingValueResolver, pairs
from state_processor.backends.write.tombstones import Tombstones


class EntryMerge:
    """Merge of the entries of one subtask into its files.

    Parameters
    ----------
    states
        The states by their ids.
    updated
        The names of the states of the source savepoint that rows change.
    max_parallelism
        Of the operator.
    writers
        The writer of each state's file, by id.
    context
        The operator, for messages.
    """

    def __init__(
        self,
        states: Sequence[KeyedDescription],
        updated: frozenset[str],
        max_parallelism: int,
        writers: Sequence[KeyedStateWriter],
        context: str,
    ) -> None:
        self._states = states
        self._writers = writers
        self._tombstones = Tombstones(states, max_parallelism)
        self._place: GroupState | None = None
        self._markers: list[npt.NDArray[np.uint8]] = []
        self._pending = PendingValueResolver(states, updated, self._describe, context)

    def add(self, blob: Blob) -> None:
        """Take the next blob, in the order of this module."""
        place, writer = blob.place, self._writers[blob.state]
        if place != self._place or blob.phase != TOMBSTONES:
            self.end_tombstones()
            self._place = place
        is_pending = self._pending.has(blob.state)
        if blob.phase == TOMBSTONES:
            if is_pending:
                self._pending.keep(place, writer.replaced(blob.state, blob.data))
            self._tombstones.add(place, blob.data)
            if writer.delete(*place, blob.data):
                self._markers.append(blob.data)
        elif blob.phase == PASSED_THROUGH:
            if is_pending:
                self._pending.keep(place, pairs(self._tombstones.only(place, blob.data)))
            writer.add(*place, self._tombstones.without(place, blob.data))
        else:
            assert blob.phase == NEW
            entries = self._pending.resolved(place, blob.data) if is_pending else blob.data
            writer.add(*place, entries)
            self._tombstones.count_new(place, entries, blob.entries)

    def end_tombstones(self) -> None:
        """Find the entries of tombstones in files of the source savepoint that stay. Call it after the last blob."""
        markers, self._markers = self._markers, []
        if self._place is None or not markers:
            return
        key_group, state_id = self._place
        writer = self._writers[state_id]
        for entries in writer.stored(key_group, state_id, markers):
            writer.delete_stored(state_id, self._tombstones.taken(self._place, entries))

    def _describe(self, entries: memoryview, position: int, state_id: int) -> str:
        return self._writers[state_id].describe(entries, position, state_id)

    def changes(self) -> dict[str, ChangeCounts]:
        """Return the changes to the states by name, after all files are closed."""
        return {self._states[state_id].name: changed for state_id, changed in self._tombstones.counts().items()}
