"""Contents of one key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.key_rows import KeyReader
from state_processor.backends.read.read_options import Kind, ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import stored_name
from state_processor.display.text_tables import render_records, text_of
from state_processor.options.data_sources import READ_OPTIONS
from state_processor.options.keywords import EFFECTIVE_OPTIONS, check_arguments
from state_processor.options.option import check_effects, check_time_to_live, values_of
from state_processor.serializers.kryo.classes import log_undescribed, undescribed_classes
from state_processor.types.identifier import OperatorIdentifier

_TIMERS = "timers"
_PLACES: Final = ("window", "namespace")
_COLUMNS: Final = ("state", *_PLACES, "value")
_NAMES: Final = frozenset({"state"})
_LONGEST = 4000
"""Characters of a value in notebooks: more than in tables of many rows."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyContents:
    """What an operator keeps for one key; as text, a table of states and timers.

    Parameters
    ----------
    operator
        The operator.
    key
        The key.
    states
        Name of each keyed state to its rows, with the columns of
        :meth:`~state_processor.SavepointReader.read_keyed_state` with ``flatten=False``: one row for each namespace (such as a
        window), none if the key has no entry.
    timers
        The timers of the key, with the columns of :meth:`~state_processor.SavepointReader.read_timers`; ``None`` if the operator
        does not have timers, or one state was asked for.
    """

    operator: OperatorIdentifier
    key: Any
    states: Mapping[str, pa.Table]
    timers: pa.Table | None

    @staticmethod
    def find(
        snapshot: Snapshot, operator: OperatorIdentifier, key: Any, state: str | None, options: Mapping[str, Any]
    ) -> KeyContents:
        """Read the contents of a key; see :func:`state_processor.arrow.lookup`."""
        return KeyLookUp(snapshot, operator, state, options).find(key)

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables that have rows: the states by name, then ``timers``."""
        timers = {} if self.timers is None else {_TIMERS: self.timers}
        return {name: table for name, table in (*self.states.items(), *timers.items()) if table.num_rows}

    def __bool__(self) -> bool:
        """Return True if any state has rows for the key, or there are timers."""
        return bool(self.tables())

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        head = f"operator {text_of(str(self.operator))}, key {self.key!r}"
        tables = self.tables()
        if not tables:
            return f"{head}: nothing"
        return f"{head}\n\n{render_records(*self.rows(), whole=_NAMES)}"

    def rows(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return all states and timers as one table: its columns, and its rows by column.

        The column ``state`` is the name of the state, or ``timers``. A row without a single value has a struct of its columns.
        """
        rows = []
        with_value = {"state", "value"}
        for state, table in self.tables().items():
            for entry in table.drop_columns(["key"]).to_pylist():
                row = _row(state, entry)
                rows.append(row)
                with_value |= {name for name, value in row.items() if value is not None}
        return [c for c in _COLUMNS if c in with_value], rows

    def _repr_html_(self) -> str:
        from html import escape

        from state_processor.display.showing import html_table

        table = html_table(*self.rows(), longest=_LONGEST) if self else ""
        return f"<p>{escape(str(self).partition(chr(10))[0])}</p>{table}"


class KeyLookUp:
    """Look-ups of keys in an operator. Plans and open files are kept for further keys; threads may share it.

    ``state``: one state; ``None`` for all keyed states and the timers. ``options``: keyword arguments of a look-up; see
    :func:`state_processor.arrow.lookup`.
    """

    def __init__(self, snapshot: Snapshot, operator: OperatorIdentifier, state: str | None, options: Mapping[str, Any]) -> None:
        arguments = check_arguments(options)
        stored = StoredOperator.find(snapshot, operator.uid, operator.uid_hash)
        check_effects(arguments, Kind.LOOKUP, EFFECTIVE_OPTIONS, stored.label)
        if "ttl" in arguments:
            _check_time_to_live(stored, state, arguments)
        read = ReadOptions.of(**values_of(READ_OPTIONS, arguments))
        self._operator = operator
        self._reader = KeyReader(stored, state, replace(read, flatten=False), exact_times="nanos" not in arguments)
        log_undescribed(undescribed_classes(*(tuple(s.serializers.values()) for s in _states(stored, state))))

    def find(self, key: Any) -> KeyContents:
        """Read the contents of a key."""
        return KeyContents(self._operator, key, *self._reader.rows(key))


def _check_time_to_live(stored: StoredOperator, state: str | None, arguments: Collection[str]) -> None:
    """Refuse options about time-to-live where no state that is read has one; a state that is not there is refused later."""
    read = _states(stored, state)
    subject = stored.label if state is None else f"state {state!r} of {stored.label}"
    if read:
        check_time_to_live(arguments, subject, has_ttl=any(s.has_ttl for s in read))


def _states(stored: StoredOperator, name: str | None) -> list[StateDescription]:
    """Return the descriptions of a state, or of all states that may have rows for a key."""
    states = stored.surveyed[0]
    stored_as = None if name is None else stored_name(name, states)
    variants = chain.from_iterable(states.values() if stored_as is None else [states.get(stored_as, [])])
    return [state for state in variants if state.is_keyed]


def _row(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a state, or of the timers, as a row of one table."""
    place: dict[str, Any] = {c: columns.pop(c) for c in _PLACES if c in columns}
    return {"state": name, **place, "value": columns["value"] if [*columns] == ["value"] else columns}
