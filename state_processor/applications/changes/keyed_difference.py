"""Rows of a keyed state that differ between two snapshots.

Entries are compared as bytes, and decoded if the bytes differ. Equal values may have different bytes: values of different types,
and values with different times of last access. The time of last access is not compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.applications.changes.changelog_changes import ChangelogChanges, Sources
from state_processor.applications.changes.comparison import (
    AFTER,
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    UPDATE,
    BytesRead,
    check_columns,
)
from state_processor.applications.changes.store_changes import StoreChanges
from state_processor.applications.changes.unequal_entries import unequal_entries
from state_processor.backends.analysis.entry_bytes import EntriesInMemory, EntryBytes, StateEntries
from state_processor.backends.files.location import Location
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.changelog import ChangelogSource
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.rocksdb_store import RocksDbSource
from state_processor.backends.formats.source import Block, FramedRun, KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import stream_identity
from state_processor.backends.read.keyed_reader import KeyedStateReader, plan_read
from state_processor.backends.read.keyed_splits import (
    SPLIT_BYTES,
    KeyedHandle,
    cut_at_bounds,
    handles_with,
    key_group_chunks,
    keyed_handles,
    managed_handles,
)
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.support.errors import StateProcessorError
from state_processor.support.late import pc
from state_processor.support.locks import cached_property


class Narrowing:
    """Restricts the entries of both snapshots, part by part. Open tables stay open for the following parts.

    ``name``: the state. ``tally``: counts the bytes that are read. ``full``: true to compare all entries, also in files that both
    snapshots have.
    """

    def __init__(self, name: str, tally: BytesRead, full: bool) -> None:
        self._name = name
        self._tally = tally
        self._full = full
        self._changes: dict[tuple[RocksDbSource, RocksDbSource], StoreChanges] = {}
        self._logged: dict[Sources, ChangelogChanges | None] = {}

    def narrowed(self, old: StateEntries, new: StateEntries) -> tuple[StateEntries, StateEntries]:
        """Return the entries of both sides that may differ.

        All entries are returned with ``full``, if a side is not a store of RocksDB or ForSt, or if the keys of the key groups
        have different bounds in the stores.

        ``old`` and ``new``: the entries of both sides, with the same types and key groups.
        """
        sources = old.source, new.source
        if not self._full and any(isinstance(source, ChangelogSource) for source in sources):
            return self._narrowed_by_log(old, new, sources)
        if self._full or not all(isinstance(source, RocksDbSource) for source in sources):
            self.count_full(old, new)
            return old, new
        old_source, new_source = (source for source in sources if isinstance(source, RocksDbSource))
        bounds = old_source.key_bounds(old.key_groups)
        if bounds is None or bounds != new_source.key_bounds(new.key_groups):
            self.count_full(old, new)
            return old, new
        if (old_source, new_source) not in self._changes:
            self._changes[old_source, new_source] = StoreChanges(
                old_source.store, new_source.store, self._name, old_source.prefix, self._tally
            )
        olds, news = self._changes[old_source, new_source].blocks(*bounds)
        return replace(old, source=_Narrowed(old_source, olds)), replace(new, source=_Narrowed(new_source, news))

    def _narrowed_by_log(self, old: StateEntries, new: StateEntries, sources: Sources) -> tuple[StateEntries, StateEntries]:
        if sources not in self._logged:
            self._logged[sources] = ChangelogChanges.of(sources, old.state, self._tally)
        changes = self._logged[sources]
        changed_sources = None if changes is None or old.key_groups != new.key_groups else changes.sources(old.key_groups)
        if changed_sources is None:
            self.count_full(old, new)
            return old, new
        return replace(old, source=changed_sources[0]), replace(new, source=changed_sources[1])

    def count_full(self, *sides: StateEntries) -> None:
        """Count entries that are compared in full."""
        self._tally.add_full(sum(side.size for side in sides))


class _Narrowed(KeyedStateSource):
    """Some entries of one state of a store. They can be read once."""

    def __init__(self, source: RocksDbSource, blocks: Iterator[Block]) -> None:
        super().__init__(source.header, source.context)
        self._source = source
        self._blocks = blocks

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._source.backend

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[FramedRun]:
        yield FramedRun(state, f"{self.context}, state {state.name!r}, {self._source.store.description}", self._blocks).of_keys(
            keys
        )


_VALUES: Final = (layouts.VALUE, layouts.MAP_VALUE)
_CHUNK_BYTES: Final = 64 << 20
_KEY_PRINT: Final = 16

_Sources = dict[KeyedHandle, KeyedStateSource]


@dataclass(frozen=True, slots=True)
class DifferenceSplit:
    """A range of key groups, and the handles of both snapshots with these key groups. One task compares a split.

    ``size`` is an estimate of the bytes to read. ``whole`` is true if the snapshots have different numbers of key groups. Then a
    key belongs to different key groups in the two snapshots.
    """

    key_groups: h.KeyGroupRange
    old: tuple[KeyedHandle, ...]
    new: tuple[KeyedHandle, ...]
    size: int
    whole: bool = False


class Side:
    """A state in one of the two snapshots, if it exists there.

    ``stored``: the operator of the state; ``None`` if the snapshot does not have it. ``variants``: the state in the headers of
    subtasks; empty if the operator does not have it.
    """

    def __init__(self, stored: StoredOperator | None, variants: Sequence[KeyedDescription]) -> None:
        self.stored = stored if variants else None
        self.variants = tuple(variants)
        self.max_parallelism = 0 if stored is None else stored.operator.max_parallelism

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"variants": ()}

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the handles."""
        assert self.stored is not None
        return self.stored.snapshot

    def handles(self) -> tuple[KeyedHandle, ...]:
        """Return the keyed handles of the operator; empty without the state."""
        if self.stored is None:
            return ()
        operator, is_timer = self.stored.operator, self.variants[0].is_timer
        return tuple(keyed_handles(operator, self.stored.snapshot) if is_timer else managed_handles(operator))

    def reader(self, options: ReadOptions) -> KeyedStateReader | None:
        """Return the reader of the state, if it exists; rows have the names of the plan."""
        if self.stored is None:
            return None
        return KeyedStateReader(self.stored, self.variants, plan_read(self.stored, self.variants[:1], options))


class KeyedDifference:
    """Reads the rows of a keyed state that differ, like a reader of a state.

    ``old`` and ``new``: the snapshots; at least one has the state. ``options``: representation of values. ``full``: true to
    compare also the files that both snapshots have. The rows are the same.
    """

    def __init__(self, name: str, old: Side, new: Side, options: ReadOptions, full: bool = False) -> None:
        self._name = name
        self._old, self._new = old, new
        options = replace(options, flatten=_is_map(old, new), metadata=False, keys=None)
        self._readers = (old.reader(options), new.reader(options))
        self._same_types = len(_types(old) | _types(new)) == 1
        self.has_same_keys = len(_types(old, layouts.VALUE) | _types(new, layouts.VALUE)) <= 1
        self._has_ttl = any(v.has_ttl for side in (old, new) for v in side.variants)
        self._full = full
        check_columns(name, self._readers, _VALUES)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"schema": self.schema}

    @cached_property
    def schema(self) -> pa.Schema:
        """``change``, the identifying columns (``key``, namespace, ``map_key``), ``before`` and ``after``."""
        before, after = self._readers
        side = after or before
        assert side is not None
        fields = [pa.field(CHANGE, pa.string()), *(f for f in side.schema if f.name not in _VALUES)]
        if any(f.name in _VALUES for f in side.schema):
            fields += [pa.field(BEFORE, _value_type(before or side)), pa.field(AFTER, _value_type(after or side))]
        return pa.schema(fields)

    def splits(self, split_bytes: int = SPLIT_BYTES) -> list[DifferenceSplit]:
        """Plan splits for tasks."""
        old, new = self._old.handles(), self._new.handles()
        counts = {s.max_parallelism for s, handles in ((self._old, old), (self._new, new)) if handles}
        if len(counts) > 1:
            size = sum(x.handle.state_size for x in (*old, *new))
            return [DifferenceSplit(h.KeyGroupRange(0, max(counts) - 1), old, new, size, whole=True)]
        if not counts:
            return []
        (key_groups,) = counts
        size = self._bytes_to_read(old, new)
        parts = max(1, min(key_groups, round(size / split_bytes)))
        bounds = np.linspace(0, key_groups, parts + 1).astype(int).tolist()
        ranges = [h.KeyGroupRange(a, b - 1) for a, b in pairwise(bounds)]
        return [DifferenceSplit(r, handles_with(old, r), handles_with(new, r), size * len(r) // key_groups) for r in ranges]

    def _bytes_to_read(self, *sides: Sequence[KeyedHandle]) -> int:
        """Estimate the bytes that a comparison reads: of stores, the files that only one snapshot has."""
        shared_files: list[set[Hashable]] = [set(), set()]
        if self._has_common_directory():
            for handles, side, identities in zip(sides, (self._old, self._new), shared_files, strict=True):
                for handle in handles:
                    identities.update(dict(_files(handle, side.snapshot)))
        read_bytes = 0
        for handles, side, identities in zip(sides, (self._old, self._new), shared_files[::-1], strict=True):
            for x in handles:
                files = _files(x, side.snapshot) if self._same_types else ()
                shared = sum(size for identity, size in files if identity in identities)
                read_bytes += x.handle.state_size - shared
        return read_bytes

    def _has_common_directory(self) -> bool:
        """Return whether both snapshots are of one job's directory, and not copies, which have files of their own."""
        if self._old.stored is None or self._new.stored is None:
            return False
        old, new = (Location.parse(side.snapshot.directory).parent for side in (self._old, self._new))
        return old == new

    def read(self, split: DifferenceSplit, tally: BytesRead | None = None) -> Iterator[pa.RecordBatch]:
        """Compare one split in steps of a few key groups, and yield the rows that differ.

        ``tally``: counts the bytes that are read.
        """
        whole = (split.key_groups,)
        sources: tuple[_Sources, _Sources] = ({}, {})
        narrowing = Narrowing(self._name, tally or BytesRead(), self._full)
        for key_groups in whole if split.whole else key_group_chunks(split.key_groups, split.size, _CHUNK_BYTES):
            old, new = list[EntryBytes](), list[EntryBytes]()
            sources = self._opened(split, key_groups, sources)
            for olds, news in self._beside(sources, key_groups, split.whole):
                if len(olds) == len(news) == 1 and not split.whole and olds[0].types == news[0].types:
                    unequal = unequal_entries(*narrowing.narrowed(olds[0], news[0]))
                    old += unequal[0]
                    new += unequal[1]
                else:
                    narrowing.count_full(*olds, *news)
                    old += [part for entries in olds for part in entries.framed()]
                    new += [part for entries in news for part in entries.framed()]
            yield from self._differences(old, new)

    def _beside(
        self, sources: tuple[_Sources, _Sources], key_groups: h.KeyGroupRange, whole: bool
    ) -> Iterator[tuple[list[StateEntries], list[StateEntries]]]:
        """Yield the entries of both snapshots, split at the starts and ends of handles."""
        bounds = [] if whole else [x.key_groups for handles in sources for x in handles]
        for part in cut_at_bounds(key_groups, bounds):
            old, new = (list(self._entries(*of_side, part)) for of_side in zip((self._old, self._new), sources, strict=True))
            yield old, new

    def _entries(self, side: Side, sources: _Sources, part: h.KeyGroupRange) -> Iterator[StateEntries]:
        for handle, source in sources.items():
            key_groups = handle.key_groups.intersect(part)
            state = source.describe(self._name)
            if len(key_groups) and state is not None:
                yield StateEntries(source, state, handle.subtask, key_groups, side.max_parallelism, handle.size_of(key_groups))

    def _opened(
        self, split: DifferenceSplit, key_groups: h.KeyGroupRange, before: tuple[_Sources, _Sources]
    ) -> tuple[_Sources, _Sources]:
        """Return the sources of some key groups; open sources stay open."""

        def opened(side: Side, handles: Sequence[KeyedHandle], open_before: _Sources) -> _Sources:
            return {x: open_before.get(x) or x.open(side.snapshot) for x in handles_with(handles, key_groups)}

        return opened(self._old, split.old, before[0]), opened(self._new, split.new, before[1])

    def _differences(self, old: list[EntryBytes], new: list[EntryBytes]) -> Iterator[pa.RecordBatch]:
        old_prints, new_prints = _fingerprints(old), _fingerprints(new)
        old_keys, new_keys = _column(old_prints, _KEY_PRINT), _column(new_prints, _KEY_PRINT)
        twin = pc.index_in(new_keys, value_set=old_keys)
        is_new = pc.is_null(twin).to_numpy(zero_copy_only=False)
        gone = np.ones(len(old_keys), dtype=bool)
        paired = np.flatnonzero(~is_new)
        partner = twin.drop_null().to_numpy().astype(np.int64)
        gone[partner] = False
        if self._same_types:
            is_changed = (old_prints[partner] != new_prints[paired]).any(axis=1)
            paired, partner = paired[is_changed], partner[is_changed]
        yield from self._rows(DELETE, self._decoded(0, old, np.flatnonzero(gone)), None)
        yield from self._rows(INSERT, None, self._decoded(1, new, np.flatnonzero(is_new)))
        before, after = self._decoded(0, old, partner), self._decoded(1, new, paired)
        if before is None or after is None:
            return
        if before.num_rows != after.num_rows:  # a reader omits entries that Flink drops, such as nulls with TTL
            yield from self._rows(DELETE, before, None)
            yield from self._rows(INSERT, None, after)
            return
        if not self._same_types or self._has_ttl:
            changed = _changed(_values(before), _values(after))
            before, after = _filtered(before, changed), _filtered(after, changed)
        yield from self._rows(UPDATE, before, after)

    def _decoded(self, side: int, parts: list[EntryBytes], rows: npt.NDArray[np.int64]) -> pa.Table | None:
        """Decode some entries to rows, in the order of ``rows``."""
        if self._readers[side] is None or not len(rows):
            return None
        bounds = np.cumsum([0, *(len(p.entries) for p in parts)])
        in_order = np.sort(rows)
        chosen = [
            part.selected(in_order[(in_order >= first) & (in_order < last)] - first)
            for part, first, last in zip(parts, bounds[:-1], bounds[1:], strict=True)
        ]
        chosen = [part for part in chosen if len(part.entries)]
        try:
            table = self._read(side, _joined(chosen))
        except StateProcessorError:
            table = self._read(side, chosen)  # entry by entry: the error names the subtask
        order = np.argsort(rows, kind="stable")
        return table.take(pa.array(np.argsort(order, kind="stable"))) if table.num_rows == len(rows) else table

    def _read(self, side: int, parts: Iterable[EntryBytes]) -> pa.Table:
        """Decode entries. Entries that are passed together share a decoder."""
        reader = self._readers[side]
        assert reader is not None
        groups = h.KeyGroupRange(0, (self._old, self._new)[side].max_parallelism - 1)
        batches = (b for p in parts for b in reader.read_source(EntriesInMemory(p), groups, None, p.origin.subtask))
        return pa.Table.from_batches(batches, reader.schema)

    def _rows(self, change: str, before: pa.Table | None, after: pa.Table | None) -> Iterator[pa.RecordBatch]:
        side = after if after is not None else before
        if side is None or not side.num_rows:
            return
        columns = []
        for field in self.schema:
            if field.name == CHANGE:
                columns.append(pa.repeat(pa.scalar(change), side.num_rows))
            elif field.name in (BEFORE, AFTER):
                table = before if field.name == BEFORE else after
                columns.append(pa.nulls(side.num_rows, field.type) if table is None else _values(table))
            else:
                columns.append(side.column(field.name))
        yield from pa.Table.from_arrays(columns, schema=self.schema).to_batches()


def _joined(parts: Iterable[EntryBytes]) -> Iterator[EntryBytes]:
    """Join entries of subtasks with the same types."""
    for _, same_layout in groupby(parts, lambda part: (part.origin.types, part.layout)):
        first, *more_parts = same_layout
        yield first.joined_with(more_parts)


def _files(keyed: KeyedHandle, snapshot: Snapshot) -> Iterator[tuple[Hashable, int]]:
    """Yield the files of a store: identity and size."""
    if isinstance(keyed.handle, h.IncrementalRemoteKeyedStateHandle):
        yield from ((stream_identity(f.stream, snapshot.directory), f.stream.state_size) for f in keyed.handle.files)


def _fingerprints(parts: Sequence[EntryBytes]) -> npt.NDArray[np.uint64]:
    return np.concatenate([np.empty((0, 4), dtype=np.uint64), *(part.fingerprints() for part in parts)])


def _column(prints: npt.NDArray[np.uint64], size: int) -> pa.Array:
    """Return the first bytes of fingerprints as a column."""
    data = np.ascontiguousarray(prints[:, : size // 8])
    return pa.Array.from_buffers(pa.binary(size), len(data), [None, pa.py_buffer(data)])


def _types(side: Side, *left_out: str) -> set[tuple[bytes, ...]]:
    types = set()
    for variant in side.variants:
        types.add(tuple(s.snapshot().to_bytes() for name, s in variant.serializers.items() if name not in left_out))
    return types


def _is_map(*sides: Side) -> bool:
    return any(v.kind == "MAP" for side in sides for v in side.variants)


def _value_type(reader: KeyedStateReader) -> pa.DataType:
    return next(f.type for f in reader.schema if f.name in _VALUES)


def _values(table: pa.Table) -> pa.ChunkedArray:
    return next(table.column(n) for n in table.column_names if n in _VALUES)


def _changed(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return whether values differ. Arrow does not compare nested values, and does not regard NaN as equal to NaN."""
    if before.type != after.type or pa.types.is_nested(before.type) or pa.types.is_floating(before.type):
        return pa.array([repr(a) != repr(b) for a, b in zip(before.to_pylist(), after.to_pylist(), strict=True)], pa.bool_())
    one_is_null = pc.xor(pc.is_null(before), pc.is_null(after))
    return pc.or_(one_is_null, pc.fill_null(pc.not_equal(before, after), False))


def _filtered(table: pa.Table, mask: pa.ChunkedArray | pa.Array) -> pa.Table:
    return table.take(pa.array(np.flatnonzero(mask.to_numpy(zero_copy_only=False))))
