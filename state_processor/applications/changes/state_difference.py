"""Differences of a state of any kind between two snapshots. Rows of operator state are compared as multisets, or by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from state_processor.applications.changes.comparison import (
    AFTER,
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    UPDATE,
    check_columns,
)
from state_processor.applications.changes.keyed_difference import KeyedDifference, Side
from state_processor.errors import NotFoundError, UnsupportedFormatError
from state_processor.options import ReadOptions
from state_processor.snapshots import Snapshot
from state_processor.states import (
    BytesRead,
    KeyedDescription,
    OperatorStateReader,
    StateDescription,
    StateReader,
    StoredOperator,
    UnreadState,
    plan_read,
    shown_name,
)
from state_processor.support import cached_property

NOT_COMPARED: Final = "not compared"
"""The change of a state that can't be compared."""
_KEY = "key"
_VALUE = "value"


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
    yield from ({CHANGE: INSERT, _KEY: row[_KEY], AFTER: row[_VALUE]} for text, row in after.items() if text not in before)


def _by_value(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare without order: Flink redistributes elements to subtasks."""
    before, after = (Counter(map(repr, rows)) for rows in (old, new))
    values = {repr(row): row[_VALUE] for row in (*old, *new)}
    yield from ({CHANGE: DELETE, BEFORE: values[text]} for text in (before - after).elements())
    yield from ({CHANGE: INSERT, AFTER: values[text]} for text in (after - before).elements())


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
        states = [state for _, unread in reversed(self._surveys) for state in unread if state.name not in self.names]
        return list({state.name: state for state in states}.values())

    @cached_property
    def _surveys(self) -> list[tuple[States, list[UnreadState]]]:
        return [({}, []) if stored is None else stored.survey() for stored in (self.old, self.new)]

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
    if snapshot is None:
        return None
    return next((StoredOperator(snapshot, o) for o in snapshot.metadata.operators if o.operator_id == operator_id), None)


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
