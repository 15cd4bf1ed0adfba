"""Requested changes to one operator: rows, keys and entries to delete, states that are added or left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from state_processor.backends.state.column_types import DeclaredNames, declared_names
from state_processor.backends.state.descriptions import KeyedDescription, OperatorDescription
from state_processor.backends.state.hash_inference import HashRule, UserHash
from state_processor.backends.state.python_states import PythonType
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.java.types import JavaType
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.rows.row_protocol import ColumnNames, OperatorRows, Replaced, Rows


@dataclass(frozen=True)
class StateRows:
    """Rows of keyed states."""

    rows: Rows
    columns: Mapping[str, ColumnNames]  # by state: the columns that it is written from
    replaces: Replaced = ""  # what a row replaces of the source savepoint: nothing, all entries of its key, or one entry of a map
    # by state: names of the fields of rows, which headers do not contain
    names: Mapping[str, DeclaredNames] = field(default_factory=dict)
    # by state of timers: service and domain of its rows. It has left out states, too: other rows fail the write.
    queues: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows, states: Sequence[tuple[KeyedDescription, ColumnNames]], replaces: Replaced = "") -> StateRows:
        """Return rows that states are written from, each with its columns."""
        columns = {state.name: names for state, names in states}
        return cls(rows, columns, replaces, {state.name: declared_names(state) for state, _ in states})

    def without_states(self, states: Collection[str]) -> tuple[StateRows, ...]:
        """Return the rows for other states; empty without other states."""
        columns = {name: names for name, names in self.columns.items() if name not in states}
        return (replace(self, columns=columns),) if columns else ()


@dataclass(frozen=True)
class Deletion:
    """Keys, or entries of a map, to delete from one keyed state of the source savepoint or (``None``) from all."""

    rows: Rows
    columns: ColumnNames
    state: str | None
    scope: Replaced = "keys"
    names: DeclaredNames = field(default_factory=dict)


@dataclass(frozen=True)
class ElementEdits:
    """Edits of an operator state whose other elements keep their bytes and their subtasks."""

    # new bytes by subtask and position; ``None`` leaves an element out. A broadcast state is one element of each subtask.
    elements: Mapping[tuple[int, int], bytes | None]
    counts: ChangeCounts  # the number of elements that are replaced or left out; of broadcast state, of entries

    def of_subtask(self, subtask: int) -> dict[int, bytes | None]:
        """Return the edits in one subtask by position."""
        return {position: new for (index, position), new in self.elements.items() if index == subtask}


RowForm = tuple[tuple[JavaType, ...], bool]
"""Form of the rows of a state: the types of the parts that Kryo wrote, and whether undescribed classes are given as bytes."""


@dataclass
class OperatorChanges:
    """Requested changes to one operator. :func:`~state_processor.write.plan.outcome.outcome_of` computes their outcome.

    ``parallelism`` and ``max_parallelism``: new values; ``None`` keeps the value of the source savepoint, or takes the default.
    """

    parallelism: int | None = None
    max_parallelism: int | None = None
    key: TypeSerializer | None = None  # the type of keys that was given or inferred
    # another type of the keys of the source savepoint, whose values have the same bytes
    retyped_key: TypeSerializer | None = None
    hashing: UserHash | tuple[HashRule, ...] | None = None  # ``hashCode`` of keys that their serializer can't compute
    # keyed states that are written from rows only. They replace states with the same names in the source savepoint.
    added: dict[str, KeyedDescription] = field(default_factory=dict)
    # list, union and broadcast states that are written from rows
    operator_states: dict[str, tuple[OperatorDescription, OperatorRows]] = field(default_factory=dict)
    # edits of list, union and broadcast states of the source savepoint
    edits: dict[str, ElementEdits] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)  # names of states, keyed or not, that are left out
    state_rows: list[StateRows] = field(default_factory=list)  # rows of keyed states
    deletions: list[Deletion] = field(default_factory=list)  # keys and entries to delete
    # the form of the rows, by state of the source savepoint that rows change
    forms: dict[str, RowForm] = field(default_factory=dict)
    # the kind and type of the rows, by state of a PyFlink job; ``None`` for rows with bytes
    python: dict[str, PythonType | None] = field(default_factory=dict)
    renamed: OperatorIdentifier | None = None  # the new identifier
    coordinator: bytes | None = None  # new state of the coordinator
    rewrites: bool = False  # whether all keyed state is written again, because files of the source savepoint may not stay
    # whether the entries that rows and deletions replace also leave the files of the source savepoint that stay
    erases: bool = False
    # whether the operator uses the asynchronous state API; ``None`` keeps the API of the source savepoint
    asynchronous: bool | None = None

    def copy(self) -> OperatorChanges:
        """Return a copy, whose collections can be changed."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        copies: dict[str, Any] = {name: v.copy() for name, v in values.items() if isinstance(v, dict | set | list)}
        return replace(self, **copies)

    @property
    def updated(self) -> frozenset[str]:
        """The states of the source savepoint that rows change."""
        return frozenset(name for rows in self.state_rows if rows.replaces for name in rows.columns)

    @property
    def changes_states(self) -> bool:
        """Whether states are written or left out, or keyed state is written again."""
        changes = (self.added, self.operator_states, self.edits, self.removed, self.state_rows, self.deletions, self.rewrites)
        return any(changes) or self.asynchronous is not None or self.retyped_key is not None

    def changes_entries(self, name: str) -> bool:
        """Return whether rows or deletions change entries of a state of the source savepoint."""
        return name in self.updated or any(deletion.state in (None, name) for deletion in self.deletions)

    def forget(self, name: str) -> None:
        """Drop the rows and deletions that were given for this state alone."""
        self.state_rows = [remaining for rows in self.state_rows for remaining in rows.without_states({name})]
        self.deletions = [deletion for deletion in self.deletions if deletion.state != name]
        self.forms.pop(name, None)
        self.python.pop(name, None)
        self.edits.pop(name, None)

    @property
    def summary(self) -> str:
        """The changes in a few words; empty without changes."""
        written = dict.fromkeys(
            [*(name for rows in self.state_rows for name in rows.columns), *self.operator_states, *self.edits]
        )
        parts = [
            f"write {', '.join(written)}" if written else "",
            f"remove {', '.join(sorted(self.removed))}" if self.removed else "",
            "delete keys" if any(d.scope == "keys" for d in self.deletions) else "",
            "delete map entries" if any(d.scope == "entries" for d in self.deletions) else "",
            f"become {self.renamed}" if self.renamed else "",
            f"parallelism {self.parallelism}" if self.parallelism else "",
        ]
        return "; ".join(filter(None, parts))
