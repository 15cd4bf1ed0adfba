"""Migration of rows in states to another plan: kept, new and dropped columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from state_processor.backends.sql.lineage import Identity, Lineage, Relation
from state_processor.backends.sql.plan import PlanField, PlanNode, distinct_names
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import StateMigrationError
from state_processor.serializers.table.logical_types import BytesType, DecimalType, LogicalType, TextType, TimestampType

_GAINED: Final = "gets time-to-live; the time of last access is the time of writing"
_LOST: Final = "loses time-to-live; expired values stay"
VALUE: Final = "value"
MAP_KEY: Final = "map_key"


@dataclass(frozen=True)
class NewField:
    """A field of a row in the new state."""

    source: int | None  # position of the field in the old row; ``None`` for a new field
    type: LogicalType | None = None  # type in state; ``None`` for the type of the old field
    start: int | bytes | None = None  # value of a new field
    # name of the column in the new plan; ``None`` for fields of accumulators. The bytes of rows do not depend on it.
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RowChange:
    """Replacement of a row in a state."""

    size: int  # the number of fields of the old row
    fields: tuple[NewField, ...]
    notes: tuple[str, ...] = ()  # the changes as text for users

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.fields == tuple(map(NewField, range(self.size)))


@dataclass(frozen=True)
class ViewChange:
    """The change of the numbers of a distinct value. A view has a number for each of its calls."""

    size: int  # the number of calls in the old plan
    calls: tuple[int | None, ...]  # for each call in the new plan, its position in the old one; ``None`` for a new call
    # whether a call has one bit: set if it has counted the value. Otherwise it has the number of rows with the value.
    as_bits: bool

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.calls == tuple(range(self.size))


@dataclass(frozen=True)
class Successor:
    """A new state that replaces or supplements another state, with an entry for each entry of the other state."""

    name: str
    kind: str
    columns: Mapping[str, str | bool]  # the columns of its rows: columns of the other state, or constants
    note: str  # the change as text for users
    value: TypeSerializer | None = None  # the type of values; ``None`` for timers
    replaces: bool = False


@dataclass(frozen=True)
class StateSuccession:
    """The change of a state."""

    # the changed rows, by part of the state: ``map_key`` and ``value``
    rows: Mapping[str, RowChange] = field(default_factory=dict)
    merges: bool = False  # whether different rows may become equal. Then their numbers of copies are added.
    successor: Successor | None = None  # a state that is made of the entries. Then the rows do not change.
    ttl: bool | None = None  # whether the state gets time-to-live or loses it; ``None`` if this does not change
    becomes: str | None = None  # the new name of the state; ``None`` if it does not change
    counted: ViewChange | None = None  # the change of the numbers in a view of distinct values
    is_dropped: bool = False  # whether the new query does not have the state
    refused: str = ""  # the reason why the state can't be kept, if a savepoint has it

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        if self.is_dropped or self.refused or any(part is not None for part in (self.successor, self.ttl, self.becomes)):
            return False
        return all(row.is_same for row in self.rows.values()) and (self.counted is None or self.counted.is_same)

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes as text for users."""
        rows = tuple(note for row in self.rows.values() for note in row.notes)
        if self.ttl is not None:
            rows = (*rows, _GAINED if self.ttl else _LOST)
        if self.counted is not None and not self.counted.is_same:
            rows = (*rows, "other calls count its values")
        if self.becomes is not None:
            rows = (*rows, f"becomes {self.becomes}")
        if self.is_dropped:
            rows = (*rows, "no call of the new query needs it")
        return rows if self.successor is None else (*rows, self.successor.note)


StateChanges = Mapping[str, StateSuccession]
"""Changes by the name of the state. A name that ends in ``$`` is the start of the names of the states of a call."""


def change_of(changes: StateChanges, state: str) -> StateSuccession:
    """Return the change of a state."""
    call, mark, suffix = state.partition("$")
    change = changes.get(state) or (changes.get(call + mark) if mark else None) or StateSuccession()
    return (
        change if change.becomes is None or not change.becomes.endswith("$") else replace(change, becomes=change.becomes + suffix)
    )


@dataclass(frozen=True)
class ChangedNode:
    """A node with its plan, old or new."""

    node: PlanNode
    lineage: Lineage

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The input rows."""
        return self.lineage.inputs(self.node)

    def same(self, new: ChangedNode, subject: str, *pairs: tuple[Any, Any]) -> None:
        """Refuse different values."""
        if any(value != another for value, another in pairs):
            raise StateMigrationError(f"{subject} {label(new.node)} of the new plan differs")


def label(node: PlanNode) -> str:
    """Return the function and the number of a node."""
    return f"{node.kind}[{node.id}]"


def changed_row(old: Relation, new: Relation) -> RowChange:
    """Return the change of input rows to the columns of the new plan."""
    before, after = distinct_names(old.fields), distinct_names(new.fields)
    fields, notes = [], []
    added: list[str] = []
    for identity, column in zip(new.columns, after, strict=True):
        if identity in old.columns:
            at = old.columns.index(identity)
            fields.append(NewField(at, _type(before[at], column), name=column.name))
        else:
            fields.append(NewField(None, _type_of_new(column), name=column.name))
            if _is_time(column):
                continue  # null in every row
            added.append(column.name)
            notes.append(f"column {column.name} is new, and null")
    gone = [f.name for c, f in zip(old.columns, before, strict=True) if c not in new.columns and not _is_time(f)]
    refuse_other_meaning("column", added, gone)
    return RowChange(len(before), tuple(fields), (*notes, *(f"column {name} is dropped" for name in gone)))


def _type(old: PlanField, new: PlanField) -> LogicalType | None:
    """Return the type of a column in the new plan; ``None`` for the old type."""
    if old.type == new.type:
        return None
    if old.type is None or new.type is None or not keeps_bytes(old.type, new.type):
        raise StateMigrationError(f"column {new.name} is {old.type} in the old plan, {new.type} in the new one")
    return new.type


def keeps_bytes(old: LogicalType, new: LogicalType) -> bool:
    """Return whether every value of a type is a value of another type, with the same bytes in a row.

    The hash code of a row is computed from its bytes (Flink: ``BinaryRowData``), so that keys stay in their key groups.
    """
    if old.nullable and not new.nullable:
        return False
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return (old.scale, old.is_compact) == (new.scale, new.is_compact) and old.precision <= new.precision
    if isinstance(old, TextType | BytesType) and isinstance(new, TextType | BytesType) and old.name in _OF_ANY_LENGTH:
        return old.name == new.name and old.length <= new.length
    return replace(old, nullable=new.nullable) == new


_OF_ANY_LENGTH: Final = ("VARCHAR", "VARBINARY")
"""Types whose values are not padded to their length."""


def _type_of_new(column: PlanField) -> LogicalType:
    if column.type is None:
        raise StateMigrationError(f"column {column.name} is new, and of a Java class that the plan does not describe")
    if not column.type.nullable and not _is_time(column):
        raise StateMigrationError(f"column {column.name} is new and NOT NULL, but rows in state don't have a value for it")
    return column.type


def _is_time(column: PlanField) -> bool:
    """Return whether a column is processing time; such columns are null in state."""
    return isinstance(column.type, TimestampType) and column.type.kind == "PROCTIME"


def refuse_other_meaning(subject: str, added: Sequence[str], gone: Sequence[str]) -> None:
    """Refuse a name whose meaning changes: its values would be lost silently."""
    for name in added:
        if name in gone and "$" not in name:
            raise StateMigrationError(
                f"{subject} {name} has another expression in the new plan; give it another name to start without the old values"
            )


def same_types(old: Relation, new: Relation, identities: Sequence[Identity]) -> None:
    """Refuse other types of columns that order rows in code that Flink has stored."""
    for identity in identities:
        before, after = (relation.fields[relation.columns.index(identity)] for relation in (old, new))
        if before.type != after.type:
            raise _other_type(before, after)


def changed_key(old: Relation, new: Relation, identities: Sequence[Identity]) -> RowChange:
    """Return the change of a key with these columns: its type may change, its bytes stay."""
    fields, notes = [], []
    for place, identity in enumerate(identities):
        before, after = (relation.fields[relation.columns.index(identity)] for relation in (old, new))
        if before.type == after.type:
            fields.append(NewField(place))
            continue
        if before.type is None or after.type is None or not keeps_bytes(before.type, after.type):
            raise _other_type(before, after)
        fields.append(NewField(place, after.type))
        notes.append(f"the key column {after.name} was {before.type}, and becomes {after.type}")
    return RowChange(len(fields), tuple(fields), tuple(notes))


def _other_type(before: PlanField, after: PlanField) -> StateMigrationError:
    return StateMigrationError(
        f"column {after.name} identifies kept rows; it is {before.type} in the old plan, {after.type} in the new one"
    )
