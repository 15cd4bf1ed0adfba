"""Tombstones: keys whose entries of the source savepoint are left out, because rows replace or delete them.

Rows mark keys by entries without content. Like all blobs, they go to the subtask and key group of the key, and are compared
there with the entries of the source savepoint. A serialized key is never a prefix of another one. An entry therefore belongs to
a marked key if its bytes begin with the bytes of the key; the comparison does not need a serializer. A marker that continues
with the key of a map's entry covers this entry alone. The content of a marker is a boolean: whether it is the whole key of one
entry.

Pass 2 merges the entries of one subtask. Blobs arrive sorted by key group, state and phase. For each key group and state the
phases have this order:

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.entry_framing import count_entries, entry_spans, fingerprint, insert, with_room
from state_processor.backends.state.descriptions import (
    MAP,
    KeyedDescription,
    StateDescription,
    ValueDescription,
)
from state_processor.backends.state.descriptions import VALUE as VALUE_KIND
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.entry_encoder import (
    KEY,
    MAP_KEY,
    MAP_VALUE,
    NAMESPACES,
    NEW,
    PASSED_THROUGH,
    TOMBSTONES,
    VALUE,
    Blob,
    BlobAddress,
    GroupState,
    KeyedStateEncoder,
    check_present,
)
from state_processor.backends.write.keyed_writer import KeyedStateWriter
from state_processor.backends.write.pending_updates import PendingValueResolver, pairs
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.io import DataOutput
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.signatures import boolean, int64, partly_read, read, uint8, uint64, written
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer

_TIMESTAMP_SIZE: Final = 8
_MARK: Final = NumberSerializer("BOOLEAN")
_FIRST_SLOTS: Final = 1 << 10

Bytes = npt.NDArray[np.uint8]


class _AnyNamespace(VoidNamespaceSerializer):
    """A namespace without bytes: such a marker covers the key in every namespace."""

    length = 0
    min_size = 0

    def write(self, value: Any, target: DataOutput) -> None:
        pass


class TombstoneEncoder:
    """Writes the keys of rows as markers: with the namespace if the rows have its column, else for all namespaces.

    Of rows with ``map_key`` it is the entries of a map that are marked, which always have a namespace.

    The parameters are the same as for :class:`~state_processor.backends.write.entry_encoder.KeyedStateEncoder`.
    """

    def __init__(self, state: KeyedDescription, address: BlobAddress, schema: pa.Schema, **options: Any) -> None:
        space = next((n for n in NAMESPACES if n in schema.names and not state.in_void_namespace), None)
        self._context = ", ".join(filter(None, [options.get("context"), f"state {state.name!r}"]))
        self._columns = [KEY] if space is None else [KEY, space]
        self._may_be_null = {space} if state.namespace.writes_null else set()  # a global window is null in rows
        self._is_whole = MAP_KEY in schema.names or (state.kind != MAP and (space is not None or state.in_void_namespace))
        marker: KeyedDescription
        if MAP_KEY in schema.names:
            self._columns.append(MAP_KEY)
            self._value = MAP_VALUE
            marker = state.with_serializers(value=_MARK)
        else:
            self._value = VALUE
            namespace = state.namespace if self._is_whole or space is not None else _AnyNamespace()
            marker = ValueDescription(state.name, VALUE_KIND, _MARK, state.key, namespace)
        fields = list(map(schema.field, self._columns))
        self._encoder = KeyedStateEncoder(
            marker, replace(address, phase=TOMBSTONES), pa.schema([*fields, pa.field(self._value, pa.bool_())]), **options
        )

    def encode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Encode the blobs of the rows' keys."""
        for name in self._columns:
            if name not in self._may_be_null:
                check_present(batch, name, self._context)
        columns = list(map(batch.column, self._columns))
        whole = pa.repeat(self._is_whole, batch.num_rows)
        yield from self._encoder.encode(pa.RecordBatch.from_arrays([*columns, whole], names=[*self._columns, self._value]))


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Changes to the entries of one state; ``None`` is an unknown number: the source savepoint was not read.

    ``inserted`` and ``updated``: written entries whose key was not in the source savepoint, and written entries that replace an
    entry.
    """

    written: int = 0  # entries that were written from rows
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0  # entries of the source savepoint that are gone
    absent: int | None = 0  # keys, or keys of map entries, to delete that were not there

    def __add__(self, added: ChangeCounts) -> ChangeCounts:
        """Return the changes of both."""
        return ChangeCounts(
            self.written + added.written,
            _sum(self.inserted, added.inserted),
            _sum(self.updated, added.updated),
            _sum(self.deleted, added.deleted),
            _sum(self.absent, added.absent),
        )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


class Tombstones:
    """The marked keys of one key group and state at a time, and counts of what became of all of them.

    For each key group and state the calls come in this order: :meth:`add`, :meth:`without` or :meth:`taken`, :meth:`count_new`.

    ``states``: the states by their ids. ``max_parallelism``: of the operator.
    """

    def __init__(self, states: Sequence[StateDescription], max_parallelism: int) -> None:
        self._prefix = prefix_size(max_parallelism)
        self._skips = [self._prefix + (_TIMESTAMP_SIZE if s.is_timer else 0) for s in states]
        self._place: GroupState | None = None
        self._marked, self._met, self._removed = _KeySet(), _KeySet(), _KeySet()
        self._lengths: set[int] = set()
        self._updated = 0
        self._counts: dict[int, ChangeCounts] = {}

    def add(self, place: GroupState, markers: Bytes) -> None:
        """Mark keys; keys of another key group or state are forgotten."""
        if self._place != place:
            self._settle()
            self._place = place
        keys = np.ascontiguousarray(entry_spans(markers)[:, :2])
        keys[:, 0] += self._prefix
        self._marked.used += int(_mark(markers, keys, self._marked.with_room(len(keys))))
        self._lengths.update(np.unique(keys[:, 1] - keys[:, 0]).tolist())

    def without(self, place: GroupState, entries: Bytes) -> Bytes:
        """Return framed entries of the source savepoint without marked keys; entries of marked keys count as removed."""
        if self._place != place:
            return entries
        matched = self._match(entries)
        self._remove(entries, matched)
        return _selected(entries, matched, matching=False)

    def removed_entries(self, place: GroupState, entries: Bytes) -> Bytes:
        """Return framed entries of the source savepoint with marked keys, which count as removed."""
        if self._place != place:
            return entries[:0]
        matched = self._match(entries)
        self._remove(entries, matched)
        return _selected(entries, matched, matching=True)

    def only(self, place: GroupState, entries: Bytes) -> Bytes:
        """Return framed entries of marked keys, without a count."""
        return entries[:0] if self._place != place else _selected(entries, self._match(entries), matching=True)

    def count_new(self, place: GroupState, entries: Bytes, count: int) -> None:
        """Count framed entries from rows: an entry whose key was removed is an update."""
        updated = 0
        if self._place == place:
            self._match(entries)
            updated = int(_count_known(entries, self._prefix, self._removed.table)) if self._removed.used else 0
            self._updated += updated
        self._count(place[1], ChangeCounts(count, inserted=count - updated, updated=updated))

    def counts(self) -> dict[int, ChangeCounts]:
        """Return the changes of all states so far, by id."""
        self._settle()
        return self._counts

    def _settle(self) -> None:
        """Count the marked keys of the place, and forget them."""
        if self._place is None:
            return
        absent, deleted = self._marked.used - self._met.used, self._removed.used - self._updated
        self._count(self._place[1], ChangeCounts(deleted=deleted, absent=absent))
        for keys in (self._marked, self._met, self._removed):
            keys.clear()
        self._lengths.clear()
        self._updated, self._place = 0, None

    def _count(self, state_id: int, counts: ChangeCounts) -> None:
        self._counts[state_id] = self._counts.get(state_id, ChangeCounts()) + counts

    def _match(self, entries: Bytes) -> Bytes:
        """Return which entries have marked keys."""
        assert self._place is not None
        lengths = np.array(sorted(self._lengths), dtype=np.int64)
        matched = np.zeros(count_entries(entries), dtype=np.uint8)
        met = self._met.with_room(self._marked.used - self._met.used)
        self._met.used += int(_match(entries, self._skips[self._place[1]], lengths, self._marked.table, met, matched))
        return matched

    def _remove(self, entries: Bytes, matched: Bytes) -> None:
        table = self._removed.with_room(int(matched.sum()))
        self._removed.used += int(_remember(entries, matched, self._prefix, table))


class _KeySet:
    """Fingerprints of keys."""

    def __init__(self) -> None:
        self.table = np.zeros((_FIRST_SLOTS, 2), dtype=np.uint64)
        self.used = 0

    def with_room(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the table with room for more keys."""
        self.table = with_room(self.table, self.used + count)
        return self.table

    def clear(self) -> None:
        """Forget all keys."""
        if self.used:
            self.table, self.used = np.zeros((_FIRST_SLOTS, 2), dtype=np.uint64), 0


def _selected(entries: Bytes, matched: Bytes, *, matching: bool) -> Bytes:
    """Return the framed entries that match, or the others."""
    count = int(matched.sum())
    if count == (len(matched) if matching else 0):
        return entries
    out = np.empty(len(entries), dtype=np.uint8)
    return out[: _select(entries, matched, matching, out)]


@entry_point(read(uint8), read(int64, 2), written(uint64, 2))
def _mark(data, keys, seen):  # type: ignore[no-untyped-def]
    """Put keys into the set; returns how many are new."""
    added = 0
    for i in range(len(keys)):
        first, second = fingerprint(data, keys[i, 0], keys[i, 1])
        if insert(seen, first, second):
            added += 1
    return added


@kernel
def _contains(seen, first, second):  # type: ignore[no-untyped-def]
    mask = len(seen) - 1
    slot = np.int64(second & np.uint64(mask))
    while seen[slot, 0] != 0:
        if seen[slot, 0] == first and seen[slot, 1] == second:
            return True
        slot = (slot + 1) & mask
    return False


@entry_point(partly_read(uint8), int64, read(int64), read(uint64, 2), written(uint64, 2), written(uint8))
def _match(data, skip, lengths, marked, met, matched):  # type: ignore[no-untyped-def]
    """Find the entries whose key begins with a marked key, ``skip`` bytes from its start.

    An entry may belong to several marked keys. All of them go into ``met``; returns how many of them are new there.
    """
    added = 0
    pos = 0
    for entry in range(len(matched)):
        key = pos + 4
        end = key + load_be_i32(data, pos)
        pos = end + 4 + load_be_i32(data, end)
        for i in range(len(lengths)):
            if key + skip + lengths[i] > end:
                break
            first, second = fingerprint(data, key + skip, key + skip + lengths[i])
            if _contains(marked, first, second):
                matched[entry] = 1
                if insert(met, first, second):
                    added += 1
    return added


@entry_point(read(uint8), read(uint8), boolean, written(uint8))
def _select(data, matched, matching, out):  # type: ignore[no-untyped-def]
    """Copy the entries that match, or the others; return their size."""
    size = 0
    pos = 0
    for entry in range(len(matched)):
        end = pos + 4 + load_be_i32(data, pos)
        after = end + 4 + load_be_i32(data, end)
        if (matched[entry] == 1) == matching:
            for i in range(pos, after):
                out[size] = data[i]
                size += 1
        pos = after
    return size


@entry_point(read(uint8), read(uint8), int64, written(uint64, 2))
def _remember(data, matched, prefix, seen):  # type: ignore[no-untyped-def]
    """Put the whole keys of entries that match into a set; returns how many are new."""
    added = 0
    pos = 0
    for entry in range(len(matched)):
        key = pos + 4
        end = key + load_be_i32(data, pos)
        pos = end + 4 + load_be_i32(data, end)
        if matched[entry]:
            first, second = fingerprint(data, key + prefix, end)
            if insert(seen, first, second):
                added += 1
    return added


@entry_point(read(uint8), int64, read(uint64, 2))
def _count_known(data, prefix, seen):  # type: ignore[no-untyped-def]
    """Return how many entries have whole keys that are in a set."""
    count = 0
    pos = 0
    while pos < len(data):
        key = pos + 4
        end = key + load_be_i32(data, pos)
        pos = end + 4 + load_be_i32(data, end)
        first, second = fingerprint(data, key + prefix, end)
        if _contains(seen, first, second):
            count += 1
    return count


class EntryMerge:
    """Merge of the entries of one subtask into its files.

    ``states``: the states by their ids. ``updated``: the names of the states of the source savepoint that rows change.
    ``max_parallelism``: of the operator. ``writers``: the writer of each state's file, by id. ``context``: the operator, for
    messages.
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
        # not a method of this object: the writers, with large tables, would stay until the garbage collector finds the circle
        self._pending = PendingValueResolver(states, updated, partial(_describe, writers), context)

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
            return
        writer.expect(*blob.of_phase)
        if blob.phase == PASSED_THROUGH:
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
            writer.delete_stored(state_id, self._tombstones.removed_entries(self._place, entries))

    def changes(self) -> dict[str, ChangeCounts]:
        """Return the changes to the states by name, after all files are closed."""
        return {self._states[state_id].name: changed for state_id, changed in self._tombstones.counts().items()}


def _describe(writers: Sequence[KeyedStateWriter], entries: memoryview, position: int, state_id: int) -> str:
    return writers[state_id].describe(entries, position, state_id)
