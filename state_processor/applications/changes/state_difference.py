"""Differences of a state of any kind between two snapshots.

Entries of keyed state are compared as bytes, and decoded if the bytes differ. Equal values may have different bytes: values of
different types, and values with different times of last access. The time of last access is not compared. Rows of operator state
are compared as multisets, or by key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.errors import NotFoundError, StateProcessorError, UnsupportedFormatError
from state_processor.options import ReadOptions
from state_processor.snapshots import IncrementalRemoteKeyedStateHandle, KeyGroupRange, Location, Snapshot, stream_identity
from state_processor.states import (
    SPLIT_BYTES,
    BytesRead,
    EntriesInMemory,
    EntryBytes,
    KeyedDescription,
    KeyedHandle,
    KeyedStateReader,
    KeyedStateSource,
    Narrowing,
    OperatorStateReader,
    StateDescription,
    StateEntries,
    StateReader,
    StoredOperator,
    UnreadState,
    cut_at_bounds,
    handles_with,
    key_group_chunks,
    keyed_handles,
    managed_handles,
    plan_read,
    shown_name,
    unequal_entries,
)
from state_processor.support import cached_property, pc, without_keys

CHANGE: Final = "change"
BEFORE: Final = "before"
AFTER: Final = "after"

INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE: Final = "update"


def check_columns(state: str, readers: tuple[StateReader | None, StateReader | None], of_any_type: Collection[str]) -> None:
    """Refuse a state whose rows have other columns in the two snapshots.

    ``readers``: the readers of the snapshots that have the state. ``of_any_type``: columns whose types may differ.
    """
    before, after = readers
    if before is None or after is None:
        return
    old, new = before.schema, after.schema
    if {*old.names} != {*new.names} or _types_of_others(old, of_any_type) != _types_of_others(new, of_any_type):
        raise UnsupportedFormatError(
            f"state {state!r}: its rows have the columns {_columns(old)} in one snapshot and {_columns(new)} in the other; "
            "only states with equal keys can be compared"
        )


def _types_of_others(schema: pa.Schema, names: Collection[str]) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema if field.name not in names]


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


_VALUE: Final = "value"
_VALUES: Final = (_VALUE, "map_value")
_CHUNK_BYTES: Final = 64 << 20
_KEY_PRINT: Final = 16

_Sources = dict[KeyedHandle, KeyedStateSource]


@dataclass(frozen=True, slots=True)
class DifferenceSplit:
    """A range of key groups, and the handles of both snapshots with these key groups. One task compares a split.

    ``size`` is an estimate of the bytes to read. ``whole`` is true if the snapshots have different numbers of key groups. Then a
    key belongs to different key groups in the two snapshots.
    """

    key_groups: KeyGroupRange
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
        self.has_same_keys = len(_types(old, _VALUE) | _types(new, _VALUE)) <= 1
        self._has_ttl = any(variant.has_ttl for variant in (*old.variants, *new.variants))
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
            return [DifferenceSplit(KeyGroupRange(0, max(counts) - 1), old, new, size, whole=True)]
        if not counts:
            return []
        (key_groups,) = counts
        size = self._bytes_to_read(old, new)
        parts = max(1, min(key_groups, round(size / split_bytes)))
        bounds = np.linspace(0, key_groups, parts + 1).astype(int).tolist()
        ranges = [KeyGroupRange(a, b - 1) for a, b in pairwise(bounds)]
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
                    old += chain.from_iterable(map(StateEntries.framed, olds))
                    new += chain.from_iterable(map(StateEntries.framed, news))
            yield from self._differences(old, new)

    def _beside(
        self, sources: tuple[_Sources, _Sources], key_groups: KeyGroupRange, whole: bool
    ) -> Iterator[tuple[list[StateEntries], list[StateEntries]]]:
        """Yield the entries of both snapshots, split at the starts and ends of handles."""
        bounds = [] if whole else [keyed.key_groups for keyed in chain(*sources)]
        for part in cut_at_bounds(key_groups, bounds):
            old, new = (list(self._entries(*of_side, part)) for of_side in zip((self._old, self._new), sources, strict=True))
            yield old, new

    def _entries(self, side: Side, sources: _Sources, part: KeyGroupRange) -> Iterator[StateEntries]:
        for handle, source in sources.items():
            key_groups = handle.key_groups.intersect(part)
            state = source.describe(self._name)
            if len(key_groups) and state is not None:
                yield StateEntries(source, state, handle.subtask, key_groups, side.max_parallelism, handle.size_of(key_groups))

    def _opened(
        self, split: DifferenceSplit, key_groups: KeyGroupRange, before: tuple[_Sources, _Sources]
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
        in_order = np.sort(rows)
        chosen = []
        first = 0
        for part in parts:
            last = first + len(part.entries)
            in_part = in_order[(in_order >= first) & (in_order < last)]
            if len(in_part):
                chosen.append(part.selected(in_part - first))
            first = last
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
        groups = KeyGroupRange(0, (self._old, self._new)[side].max_parallelism - 1)
        batches: list[pa.RecordBatch] = []
        for part in parts:
            batches += reader.read_source(EntriesInMemory(part), groups, None, part.origin.subtask)
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
    if isinstance(keyed.handle, IncrementalRemoteKeyedStateHandle):
        for file in keyed.handle.files:
            yield stream_identity(file.stream, snapshot.directory), file.stream.state_size


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
    variants = chain.from_iterable(side.variants for side in sides)
    return any(variant.kind == "MAP" for variant in variants)


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


NOT_COMPARED: Final = "not compared"
"""The change of a state that can't be compared."""
_KEY = "key"


@dataclass(frozen=True, slots=True)
class BothSplits:
    """The splits of a state in both snapshots."""

    old: tuple[Any, ...]
    new: tuple[Any, ...]

    @property
    def size(self) -> int:
        """Bytes of the snapshots to read."""
        return sum(split.size for split in (*self.old, *self.new))


class OperatorDifference:
    """Compares the rows of two readers of operator state in memory.

    ``old`` and ``new``: the readers; ``None`` if a snapshot does not have the state.
    """

    def __init__(self, name: str, old: OperatorStateReader | None, new: OperatorStateReader | None) -> None:
        self._readers = (old, new)
        check_columns(name, self._readers, (_KEY, _VALUE))

    @cached_property
    def schema(self) -> pa.Schema:
        """``change``, ``key`` of broadcast state, ``before`` and ``after``."""
        old, new = self._readers
        side = new or old
        assert side is not None
        keys = [f for f in side.schema if f.name == _KEY]
        values = [pa.field(n, (r or side).schema.field(_VALUE).type) for n, r in ((BEFORE, old), (AFTER, new))]
        return pa.schema([pa.field(CHANGE, pa.string()), *keys, *values])

    def splits(self, split_bytes: int = 0) -> list[BothSplits]:
        """Return the only split: both whole snapshots."""
        return [BothSplits(*(tuple(reader.splits()) if reader is not None else () for reader in self._readers))]

    def read(self, split: BothSplits, tally: BytesRead | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ; ``tally`` counts the bytes that are read."""
        if tally is not None:
            tally.add_full(split.size)
        old, new = (_rows(reader, parts) for reader, parts in zip(self._readers, (split.old, split.new), strict=True))
        changes = _by_key(old, new) if _KEY in self.schema.names else _by_value(old, new)
        yield pa.RecordBatch.from_pylist(list(changes), self.schema)


def _rows(reader: OperatorStateReader | None, parts: Sequence[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if reader is not None:
        for part in parts:
            for batch in reader.read(part):
                rows += batch.to_pylist()
    return rows


def _by_key(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    before = {repr(row[_KEY]): row for row in old}
    after = {repr(row[_KEY]): row for row in new}
    for text, row in before.items():
        if text not in after:
            yield {CHANGE: DELETE, _KEY: row[_KEY], BEFORE: row[_VALUE]}
        elif repr(row) != repr(after[text]):
            yield {CHANGE: UPDATE, _KEY: row[_KEY], BEFORE: row[_VALUE], AFTER: after[text][_VALUE]}
    for row in without_keys(after, before).values():
        yield {CHANGE: INSERT, _KEY: row[_KEY], AFTER: row[_VALUE]}


def _by_value(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare without order: Flink redistributes elements to subtasks."""
    before, after = (Counter(map(repr, rows)) for rows in (old, new))
    values = {repr(row): row[_VALUE] for row in (*old, *new)}
    for text in (before - after).elements():
        yield {CHANGE: DELETE, BEFORE: values[text]}
    for text in (after - before).elements():
        yield {CHANGE: INSERT, AFTER: values[text]}


States = dict[str, list[StateDescription]]
"""States by name, each with the registrations of the subtasks."""


class DifferenceReader(StateReader, Protocol):
    """Reads the rows of a state that differ."""

    def read(self, split: Any, tally: BytesRead | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part that differ; ``tally`` counts the bytes that are read."""


@dataclass(frozen=True)
class OperatorPair:
    """An operator in two snapshots; ``None`` for a snapshot without the operator."""

    label: str
    old: StoredOperator | None
    new: StoredOperator | None

    @cached_property
    def states(self) -> tuple[States, States]:
        """The readable states in the old and in the new snapshot."""
        return self._surveys[0][0], self._surveys[1][0]

    @property
    def names(self) -> tuple[str, ...]:
        """The readable states of either snapshot."""
        return tuple(dict.fromkeys([*self.states[1], *self.states[0]]))

    @property
    def unread(self) -> list[UnreadState]:
        """The states that neither snapshot describes, each once."""
        states = chain.from_iterable(unread for _, unread in reversed(self._surveys))
        by_name = {state.name: state for state in states}
        return list(without_keys(by_name, self.names).values())

    @cached_property
    def _surveys(self) -> list[tuple[States, list[UnreadState]]]:
        return [({}, []) if stored is None else stored.surveyed for stored in (self.old, self.new)]

    def difference(self, name: str, options: ReadOptions, full: bool = False, *, exact_times: bool = False) -> DifferenceReader:
        """Open the difference of a state.

        ``options``: representation of values. ``full``: whether tables that both snapshots have are compared, too. The rows are
        the same. ``exact_times``: whether dates and times are text if a value of the state can have nanoseconds.
        """
        old, new = (states.get(name, []) for states in self.states)
        for is_stored, (_, unread) in zip((old, new), self._surveys, strict=True):
            for state in unread:
                if not is_stored and state.name in (None, name):
                    raise state.error
        if not old and not new:
            raise NotFoundError.naming_nearest("state", name, map(shown_name, self.names), self.label)
        kinds = [v[0].kind for v in (old, new) if v]
        if len(set(kinds)) > 1:
            raise UnsupportedFormatError(f"state {name!r} of {self.label} is {' in one snapshot and '.join(kinds)} in the other")
        if exact_times and any(_can_have_nanos(*side, options) for side in ((self.old, old), (self.new, new))):
            options = options.with_values(nanos="string")
        if (new or old)[0].is_keyed:
            return KeyedDifference(name, Side(self.old, _keyed(old)), Side(self.new, _keyed(new)), options, full)
        return OperatorDifference(name, _reader(self.old, old, options), _reader(self.new, new, options))


@dataclass(frozen=True, slots=True)
class NoComparison:
    """The reader of a state that can't be compared: one row with the reason, instead of differences."""

    reason: str

    @property
    def schema(self) -> pa.Schema:
        """``change`` and ``after``."""
        return pa.schema([pa.field(CHANGE, pa.string()), pa.field(AFTER, pa.string())])

    def splits(self, split_bytes: int = 0) -> list[BothSplits]:
        """Return one split, which reads nothing."""
        return [BothSplits((), ())]

    def read(self, split: BothSplits, tally: BytesRead | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the row."""
        yield pa.RecordBatch.from_pylist([{CHANGE: NOT_COMPARED, AFTER: self.reason}], self.schema)


def open_changes(
    old: Snapshot | None, new: Snapshot, operator_id: str, state: str, options: ReadOptions | None = None
) -> DifferenceReader:
    """Open the changes of a state of one operator between two snapshots.

    ``old``: the earlier snapshot. With ``None``, each value of the new snapshot is an insert. ``new``: the later snapshot.
    ``operator_id``: hash of the operator's uid. ``state``: the state, by its stored name. ``options``: representation of values.

    Returns: the columns are ``change``, the columns that identify a value, ``before`` and ``after``. Both snapshots can be
    pickled with it, so that tasks read the splits.
    """
    before, after = (_operator(side, operator_id) for side in (old, new))
    side = after or before
    label = side.label if side is not None else f"operator {operator_id}"
    return OperatorPair(label, before, after).difference(state, options or ReadOptions())


def _operator(snapshot: Snapshot | None, operator_id: str) -> StoredOperator | None:
    operator = None if snapshot is None else snapshot.metadata.operators_by_id.get(operator_id)
    return None if snapshot is None or operator is None else StoredOperator(snapshot, operator)


def _reader(stored: StoredOperator | None, variants: list[StateDescription], options: ReadOptions) -> OperatorStateReader | None:
    """Return the reader of an operator state; ``None`` if the snapshot does not have it.

    Rows have the names of the plan; dates use the time zone of the job.
    """
    if stored is None or not variants:
        return None
    return OperatorStateReader(stored, variants, plan_read(stored, variants[:1], options))


def _can_have_nanos(stored: StoredOperator | None, variants: list[StateDescription], options: ReadOptions) -> bool:
    """Return whether values of a state can have nanoseconds; false if the snapshot does not have the state."""
    if variants and variants[0].is_keyed:
        reader = Side(stored, _keyed(variants)).reader(options)
        return reader is not None and reader.can_have_nanos
    operator_reader = _reader(stored, variants, options)
    return operator_reader is not None and operator_reader.can_have_nanos


def _keyed(variants: list[StateDescription]) -> list[KeyedDescription]:
    return [v for v in variants if isinstance(v, KeyedDescription)]
