"""Migration of states to another plan: kept, new and dropped columns of rows, and calls of accumulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Final

from state_processor.applications.flink_sql.bootstrap import AggregateCall, call_fields
from state_processor.applications.flink_sql.fields import Identity, PlanField, Relation, distinct_names, is_time
from state_processor.errors import OptionError, StateMigrationError
from state_processor.serializers import TypeSerializer
from state_processor.support import cached_property, without_none
from state_processor.types import MAP_VIEW, BytesType, DecimalType, LogicalType, TextType

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
        rows = tuple(chain.from_iterable(row.notes for row in self.rows.values()))
        if self.ttl is not None:
            rows = (*rows, _GAINED if self.ttl else _LOST)
        if self.counted is not None and not self.counted.is_same:
            rows = (*rows, "other calls count its values")
        if self.becomes is not None:
            rows = (*rows, f"becomes {self.becomes}")
        if self.is_dropped:
            rows = (*rows, "no call of the new query needs it")
        return rows if self.successor is None else (*rows, self.successor.note)

    def refuse_new_columns(self, subject: str) -> None:
        """Refuse new columns of rows that are retracted by their whole content."""
        fields = chain.from_iterable(row.fields for row in self.rows.values())
        if any(field.source is None for field in fields):
            raise StateMigrationError(
                f"{subject} have new columns ({'; '.join(self.notes)}), but not a known key. Retracted rows are found "
                "by all of their columns; they would not be found without the values of the new columns"
            )


StateChanges = Mapping[str, StateSuccession]
"""Changes by the name of the state. A name that ends in ``$`` is the start of the names of the states of a call."""


def change_of(changes: StateChanges, state: str) -> StateSuccession:
    """Return the change of a state."""
    call, mark, suffix = state.partition("$")
    change = changes.get(state) or (changes.get(call + mark) if mark else None) or StateSuccession()
    is_start = change.becomes is not None and change.becomes.endswith("$")
    return replace(change, becomes=f"{change.becomes}{suffix}") if is_start else change


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
            if is_time(column.type, "PROCTIME"):
                continue  # processing time is null in every row
            added.append(column.name)
            notes.append(f"column {column.name} is new, and null")
    gone = []
    for identity, column in zip(old.columns, before, strict=True):
        if identity not in new.columns and not is_time(column.type, "PROCTIME"):
            gone.append(column.name)
    refuse_other_meaning("column", added, gone)
    return RowChange(len(before), tuple(fields), (*notes, *(f"column {name} is dropped" for name in gone)))


def changed_value(old: Relation, new: Relation) -> StateSuccession:
    """Return the change of a state whose values are input rows."""
    return StateSuccession({VALUE: changed_row(old, new)})


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
    if not column.type.nullable and not is_time(column.type, "PROCTIME"):
        raise StateMigrationError(f"column {column.name} is new and NOT NULL, but rows in state don't have a value for it")
    return column.type


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


@dataclass(frozen=True)
class Calls:
    """The calls of an aggregate.

    ``calls`` and ``identified``: the calls with the names of columns, and with their identities.
    """

    calls: list[AggregateCall]
    identified: list[AggregateCall]
    counts: bool  # whether the aggregate counts the rows of a group
    relation: Relation  # the input

    @property
    def row_count(self) -> int | None:
        """The position of the row count in the accumulator."""
        starts = (start for call, start in zip(self.calls, self.starts, strict=False) if call.counts_rows)
        return next(starts, self.starts[-1] if self.counts else None)

    @cached_property
    def starts(self) -> list[int]:
        """The position of the first field of each call, and of the field after all calls."""
        return list(accumulate((len(list(call.fields())) for call in self.calls), initial=0))

    @property
    def adds_count(self) -> bool:
        """Whether a field for the row count follows the calls."""
        return self.counts and not any(call.counts_rows for call in self.calls)

    @cached_property
    def views(self) -> list[list[int]]:
        """The views of distinct values: the positions of the calls of each."""
        calls_of_views: dict[tuple[str, ...], list[int]] = {}
        for i, call in enumerate(self.calls):
            if call.has_view:
                calls_of_views.setdefault(call.arguments, []).append(i)
        return list(calls_of_views.values())

    def carried(self, new: Calls) -> list[int | None]:
        """Return the position of each call of the new plan in this one, regardless of retractions."""
        calls, new_calls = self._functions, new._functions
        return [calls.index(call) if call in calls else None for call in new_calls]

    @property
    def _functions(self) -> list[AggregateCall]:
        """The calls without what retractions decide."""
        return [replace(call, retracts=False, type=None) for call in self.identified]


def changed_calls(
    state: str, old: Calls, new: Calls, is_inert: Callable[[AggregateCall], bool] = lambda call: False
) -> dict[str, StateSuccession]:
    """Return the changes of the accumulators in a state, and of the states of their views.

    ``is_inert``: whether a new call ignores all rows from before, so that it may retract them.
    """
    carried = old.carried(new)
    changes = {state: StateSuccession({VALUE: _accumulator(old, new, carried, is_inert)})}
    return changes | _own_states(old, carried) | _views(old, new, carried)


def _accumulator(old: Calls, new: Calls, carried: Sequence[int | None], is_inert: Callable[[AggregateCall], bool]) -> RowChange:
    fields: list[NewField] = []
    notes = []
    added: list[str] = []
    types = {f.name: f.type for f in distinct_names(new.relation.fields) if f.type is not None}
    for call, identity, at in zip(new.calls, new.identified, carried, strict=True):
        if at is not None:
            _check_call(old.calls[at], call)
            if call.function != "count" or call.has_view:
                _check_arguments(call, identity.arguments, (old.relation, new.relation))
            start = old.starts[at]
            fields += [NewField(start + n) for n in range(len(list(call.fields())))]
        elif call.counts_rows and old.row_count is not None:
            fields.append(NewField(old.row_count))
            notes.append(f"{call} starts with the operator's row count")
        else:
            fields += _new_call(call, types, retracts=call.retracts and not is_inert(identity))
            added.append(str(call))
            notes.append(f"{call} is new, and starts with the values of an empty group: {_starts(fields, call)}")
    if new.adds_count:
        if old.row_count is None:
            raise StateMigrationError(
                "rows may be retracted in the new plan, so the operator needs the row count of each group; the old state "
                "does not contain it"
            )
        fields.append(NewField(old.row_count))
    first_view = old.starts[-1] + old.adds_count
    # Each view has the same byte in its place, whatever its entries.
    fields += [NewField(first_view + n) if n < len(old.views) else _NEW_VIEW for n in range(len(new.views))]
    gone = [str(call) for i, call in enumerate(old.calls) if i not in carried]
    refuse_other_meaning("call", added, gone)
    calls_carried = without_none(carried)
    if calls_carried != sorted(calls_carried):
        notes.append("the order of calls changes")
    return RowChange(first_view + len(old.views), tuple(fields), (*notes, *(f"{call} is dropped" for call in gone)))


_NEW_VIEW: Final = NewField(None, MAP_VIEW, b"\0")
"""A view whose entries are a state (Flink: ``NullSerializer``)."""


def _keeps_text(call: AggregateCall) -> bool:
    """Return whether the accumulator of a call keeps texts as ``STRING``, whatever their length is."""
    is_plain = not (call.retracts or call.has_view) and call.function in ("min", "max", "listagg")
    return is_plain and isinstance(call.type, TextType)


_ALIKE: Final = frozenset({"count", "avg", "sum0"})
"""Functions whose accumulators do not depend on retractions."""


def _check_call(old: AggregateCall, new: AggregateCall) -> None:
    if old.type != new.type and not (_keeps_text(old) and _keeps_text(new)):
        raise StateMigrationError(f"{new} is {old.type} in the old plan, {new.type} in the new one")
    if old.retracts != new.retracts and new.function not in _ALIKE:
        words = ["may be retracted" if call.retracts else "are only added" for call in (old, new)]
        raise StateMigrationError(
            f"{new}: rows {words[0]} in the old plan, and {words[1]} in the new one; the accumulators differ"
        )


def _check_arguments(call: AggregateCall, arguments: Sequence[Identity], relations: tuple[Relation, Relation]) -> None:
    """Refuse arguments of another type: the accumulator may change even if the type of the result does not."""
    for name, identity in zip(call.arguments, arguments, strict=True):
        types = [dict(zip(relation.columns, relation.fields, strict=True)).get(identity) for relation in relations]
        before, after = (None if f is None or f.type is None else replace(f.type, nullable=True) for f in types)
        is_text = before is not None and after is not None and _keeps_text(call) and keeps_bytes(before, after)
        if before != after and not is_text:
            raise StateMigrationError(
                f"{call}: column {name} is {before} in the old plan, {after} in the new one; the accumulator contains its values"
            )


def _new_call(call: AggregateCall, types: Mapping[str, LogicalType], *, retracts: bool) -> list[NewField]:
    if retracts or (call.retracts and call.has_view):
        raise StateMigrationError(
            f"{call} is new, but earlier rows may be retracted: it would retract rows that it has not counted"
        )
    try:
        fields_of_call = call_fields(replace(call, distinct=False), types)
    except OptionError as error:
        raise StateMigrationError(f"a new call: {error}") from None
    return [NewField(None, field.type, field.start) for field in fields_of_call]


def _starts(fields: Sequence[NewField], call: AggregateCall) -> str:
    own_fields = fields[-len(list(call.fields())) :]
    return ", ".join("null" if field.start is None else str(field.start) for field in own_fields)


def _own_states(old: Calls, carried: Sequence[int | None]) -> dict[str, StateSuccession]:
    """Return the changes of states whose names contain the number of a call: views of its accumulator."""
    changes = {f"agg{i}$": StateSuccession(is_dropped=True) for i in range(len(old.calls))}
    for i, at in enumerate(carried):
        if at is not None:
            changes[f"agg{at}$"] = StateSuccession(becomes=None if at == i else f"agg{i}$")
    return changes


_MOST_BITS: Final = 64


def _views(old: Calls, new: Calls, carried: Sequence[int | None]) -> dict[str, StateSuccession]:
    """Return the changes of the views of distinct values: their names contain numbers, their values have one for each call."""
    changes = dict.fromkeys(range(len(old.views)), StateSuccession(is_dropped=True))
    for number, members in enumerate(new.views):
        sources = [carried[member] for member in members]
        views_carried = {source: calls for source, calls in enumerate(old.views) if not set(calls).isdisjoint(sources)}
        for source, calls in views_carried.items():
            positions = tuple(calls.index(at) if at in calls else None for at in sources)
            counted = ViewChange(len(calls), positions, as_bits=not old.counts)
            _check_view(old.calls[calls[0]], counted, (old, new), is_one=len(views_carried) == 1)
            changes[source] = StateSuccession(becomes=None if source == number else _view(number), counted=counted)
    of_states: dict[str, StateSuccession] = {}
    for number, change in changes.items():
        for suffix in ("", "_null_state"):
            becomes = None if change.becomes is None else change.becomes + suffix
            of_states[_view(number) + suffix] = replace(change, becomes=becomes)
    return of_states


def _view(number: int) -> str:
    return f"distinctAcc_{number}"


def _check_view(call: AggregateCall, change: ViewChange, sides: tuple[Calls, Calls], *, is_one: bool) -> None:
    before, after = (side.counts for side in sides)
    if before != after:
        words = ["the number of rows with each value" if counts else "which values it has counted" for counts in (before, after)]
        raise StateMigrationError(f"{call}: the state has {words[0]} in the old plan, {words[1]} in the new one")
    if change.is_same:
        return
    if not is_one:
        raise StateMigrationError(f"{call}: its values are in several states of the old plan; drop this call")
    if change.as_bits and max(change.size, len(change.calls)) > _MOST_BITS:
        raise StateMigrationError(f"{call}: more than {_MOST_BITS} calls with DISTINCT share its values; drop some of them")
    if not change.as_bits and None in change.calls:
        raise StateMigrationError(
            f"another call with DISTINCT of {call.argument_text} is new, and its state has the numbers of rows of all such "
            "calls; give the new call another argument, such as a computed column, and it starts without values"
        )
