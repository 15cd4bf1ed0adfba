"""Migration of the accumulators of an aggregate to another plan: kept calls and new calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from state_processor.backends.sql.accumulators import call_fields
from state_processor.backends.sql.calls import AggregateCall
from state_processor.backends.sql.lineage import Identity, Relation, grouping, identified_calls
from state_processor.backends.sql.meaning import counts_rows
from state_processor.backends.sql.node_calls import group_calls
from state_processor.backends.sql.plan_types import distinct_names
from state_processor.backends.sql.row_changes import (
    VALUE,
    ChangedNode,
    NewField,
    RowChange,
    StateChange,
    StateChanges,
    refuse_other_meaning,
    same_types,
)
from state_processor.serializers.errors import OptionError, StateMigrationError
from state_processor.serializers.table.logical_types import LogicalType


def changed_accumulators(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of an aggregate without windows."""
    before, after = _Calls.of(old), _Calls.of(new)
    same_types(old.inputs[0], new.inputs[0], old.inputs[0].picked(grouping(old.node)))
    views = [[c for c in side.identified if c.has_view] for side in (before, after)]
    if views[0] != views[1]:
        shown = [", ".join(str(c) for c in side.calls if c.has_view) or "none" for side in (before, after)]
        raise StateMigrationError(
            f"calls with DISTINCT are {shown[0]} in the old plan, {shown[1]} in the new one. "
            "They share states with their values, so calls with DISTINCT have to stay unchanged"
        )
    return {"accState": StateChange({VALUE: _accumulator(before, after, (old.inputs[0], new.inputs[0]))})}


@dataclass(frozen=True)
class _Calls:
    """The calls of an aggregate.

    Parameters
    ----------
    calls, identified
        The calls with the names of columns, and with their identities.
    counts
        Whether the aggregate counts the rows of a group.
    """

    calls: list[AggregateCall]
    identified: list[AggregateCall]
    counts: bool

    @classmethod
    def of(cls, side: ChangedNode) -> _Calls:
        given = side.inputs[0]
        return cls(group_calls(side.node), identified_calls(side.node, given), counts_rows(side.node))

    @property
    def row_count(self) -> int | None:
        """The position of the row count in the accumulator."""
        for call, at in zip(self.calls, self.positions, strict=True):
            if call.counts_rows:
                return at
        return self.size_of_calls if self.counts else None

    @property
    def positions(self) -> list[int]:
        """The position of the first field of each call."""
        sizes = [len(list(call.fields())) for call in self.calls]
        return [sum(sizes[:i]) for i in range(len(sizes))]

    @property
    def size_of_calls(self) -> int:
        return sum(len(list(call.fields())) for call in self.calls)

    @property
    def adds_count(self) -> bool:
        return self.counts and not any(call.counts_rows for call in self.calls)

    @property
    def views(self) -> int:
        return len(dict.fromkeys(c.arguments for c in self.calls if c.has_view))


def _accumulator(old: _Calls, new: _Calls, relations: tuple[Relation, Relation]) -> RowChange:
    fields: list[NewField] = []
    notes = []
    used: list[int] = []
    added: list[str] = []
    types = {f.name: f.type for f in distinct_names(relations[1].fields) if f.type is not None}
    for i, (call, identity) in enumerate(zip(new.calls, new.identified, strict=True)):
        at = _position(old, identity)
        if at is not None:
            used.append(at)
            _check_call(old.calls[at], call, at, i)
            if call.function != "count" or call.has_view:
                _check_arguments(call, identity.arguments, relations)
            start = old.positions[at]
            fields += [NewField(start + n) for n in range(len(list(call.fields())))]
        elif call.counts_rows and old.row_count is not None:
            fields.append(NewField(old.row_count))
            notes.append(f"{call} starts with the operator's row count")
        else:
            fields += _new_call(call, types)
            added.append(str(call))
            notes.append(f"{call} is new, and starts with the values of an empty group: {_starts(fields, call)}")
    if new.adds_count:
        if old.row_count is None:
            raise StateMigrationError(
                "rows may be retracted in the new plan, so the operator needs the row count of each group; the old state "
                "does not contain it"
            )
        fields.append(NewField(old.row_count))
    first_view = old.size_of_calls + old.adds_count
    fields += [NewField(first_view + n) for n in range(old.views)]
    gone = [str(call) for i, call in enumerate(old.calls) if i not in used]
    refuse_other_meaning("call", added, gone)
    if used != sorted(used):
        notes.append("the order of calls changes")
    return RowChange(first_view + old.views, tuple(fields), (*notes, *(f"{call} is dropped" for call in gone)))


def _position(old: _Calls, wanted: AggregateCall) -> int | None:
    """Return the position of the same call in the old plan, regardless of retractions."""
    for i, call in enumerate(old.identified):
        if replace(call, retracts=wanted.retracts, type=wanted.type) == wanted:
            return i
    return None


_ALIKE: Final = frozenset({"count", "avg", "sum0"})
"""Functions whose accumulators do not depend on retractions."""


def _check_call(old: AggregateCall, new: AggregateCall, before: int, after: int) -> None:
    if old.type != new.type:
        raise StateMigrationError(f"{new} is {old.type} in the old plan, {new.type} in the new one")
    if old.retracts != new.retracts and new.function not in _ALIKE:
        words = ["may be retracted" if call.retracts else "are only added" for call in (old, new)]
        raise StateMigrationError(
            f"{new}: rows {words[0]} in the old plan, and {words[1]} in the new one; the accumulators differ"
        )
    has_own_states = new.function not in _PLAIN or (new.retracts and new.function in ("min", "max"))
    if has_own_states and before != after:
        raise StateMigrationError(
            f"{new} is call {before} in the old plan and call {after} in the new one; the names of its "
            "states contain this number; keep its position among the calls"
        )


def _check_arguments(call: AggregateCall, arguments: Sequence[Identity], relations: tuple[Relation, Relation]) -> None:
    """Refuse arguments of another type: the accumulator may change even if the type of the result does not."""
    for name, identity in zip(call.arguments, arguments, strict=True):
        found = [dict(zip(one.columns, one.fields, strict=True)).get(identity) for one in relations]
        before, after = (None if f is None or f.type is None else replace(f.type, nullable=True) for f in found)
        if before != after:
            raise StateMigrationError(
                f"{call}: column {name} is {before} in the old plan, {after} in the new one; the accumulator contains its values"
            )


_PLAIN: Final = frozenset({"count", "sum", "sum0", "avg", "min", "max"})


def _new_call(call: AggregateCall, types: Mapping[str, LogicalType]) -> list[NewField]:
    if call.retracts:
        raise StateMigrationError(
            f"{call} is new, but earlier rows may be retracted: it would retract rows that it has not counted"
        )
    try:
        found = call_fields(call, types)
    except OptionError as error:
        raise StateMigrationError(f"a new call: {error}") from None
    return [NewField(None, one.type, one.start) for one in found]


def _starts(fields: Sequence[NewField], call: AggregateCall) -> str:
    own = fields[-len(list(call.fields())) :]
    return ", ".join("null" if one.start is None else str(one.start) for one in own)
