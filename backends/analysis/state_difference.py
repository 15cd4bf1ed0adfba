"""Opening the difference of a state of any kind between two snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from state_processor.backends.analysis.comparison import BytesRead
from state_processor.backends.analysis.keyed_difference import KeyedDifference, Side
from state_processor.backends.analysis.operator_difference import OperatorDifference
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.read_plan import plan_read
from state_processor.backends.read.state_access import StateReader
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription, UnreadState
from state_processor.backends.state.python_states import shown_name
from state_processor.serializers.errors import NotFoundError, UnsupportedFormatError
from state_processor.serializers.locks import cached_property

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
        """The states of either snapshot.

        Raises
        ------
        UnsupportedFormatError
            If a state can't be read.
        """
        for _, unread in self._surveys:
            for state in unread:
                raise state.error
        return tuple(dict.fromkeys([*self.states[1], *self.states[0]]))

    @cached_property
    def _surveys(self) -> list[tuple[States, list[UnreadState]]]:
        return [({}, []) if stored is None else stored.survey() for stored in (self.old, self.new)]

    def difference(self, name: str, options: ReadOptions, full: bool = False, *, exact_times: bool = False) -> DifferenceReader:
        """Open the difference of a state.

        Parameters
        ----------
        name
            The state.
        options
            Representation of values.
        full
            Whether tables that both snapshots have are compared, too. The rows are the same.
        exact_times
            Whether dates and times are text if a value of the state can have nanoseconds.

        Raises
        ------
        NotFoundError
            If neither snapshot has the state.
        UnsupportedFormatError
            If the state can't be read, or has different kinds or keys in the two snapshots. Other states are ignored.
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
            options = replace(options, nanos="string")
        if (new or old)[0].is_keyed:
            return KeyedDifference(name, Side(self.old, _keyed(old)), Side(self.new, _keyed(new)), options, full)
        return OperatorDifference(name, _reader(self.old, old, options), _reader(self.new, new, options))


def open_changes(
    old: Snapshot | None, new: Snapshot, operator_id: str, state: str, options: ReadOptions | None = None
) -> DifferenceReader:
    """Open the changes of a state of one operator between two snapshots.

    Parameters
    ----------
    old
        The earlier snapshot. With ``None``, each value of the new snapshot is an insert.
    new
        The later snapshot.
    operator_id
        Hash of the operator's uid.
    state
        The state, by its stored name.
    options
        Representation of values.

    Returns
    -------
    DifferenceReader
        The columns are ``change``, the columns that identify a value, ``before`` and ``after``. Both snapshots can be pickled
        with it, so that tasks read the splits.

    Raises
    ------
    NotFoundError
        If neither snapshot has the state.
    UnsupportedFormatError
        If the state can't be read, or has different kinds or keys in the two snapshots.
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
