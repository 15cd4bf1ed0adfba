"""Migration of accumulators to another plan, of aggregates and of ``OVER``: kept calls and new calls, and their views.

States of unbounded windows by row time have two versions. Both keep accumulators, and rows by their times. The first version
has one timer per key, for the next watermark (Flink: ``AbstractRowTimeUnboundedPrecedingOver``). The second version has a timer
for each time of waiting rows, and loses rows without a timer (``RowTimeUnboundedPrecedingOverFunctionV2``). The first version
also works with the timers of the second version: each timer processes all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from state_processor.backends.sql.accumulators import call_fields
from state_processor.backends.sql.calls import AggregateCall
from state_processor.backends.sql.lineage import Identity, Relation, identified_calls, over_columns
from state_processor.backends.sql.meaning import counts_rows
from state_processor.backends.sql.node_calls import group_calls, over_calls, over_calls_of, over_is_bounded
from state_processor.backends.sql.plan import PlanNode, distinct_names
from state_processor.backends.sql.row_changes import (
    VALUE,
    ChangedNode,
    NewField,
    RowChange,
    StateChanges,
    StateSuccession,
    Successor,
    ViewChange,
    changed_row,
    keeps_bytes,
    label,
    refuse_other_meaning,
    same_types,
)
from state_processor.backends.state.descriptions import EVENT_PREFIX, EVENT_TIMER
from state_processor.serializers.errors import OptionError, StateMigrationError
from state_processor.serializers.locks import cached_property
from state_processor.serializers.table.logical_types import MAP_VIEW, LogicalType, TextType, TimestampType


def changed_accumulators(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of an aggregate without windows."""
    before, after = Calls.of(old), Calls.of(new)
    return changed_calls("accState", before, after, (old.inputs[0], new.inputs[0]))


def changed_windows(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of an aggregate by windows: each window, or slice of windows, has accumulators."""
    before, after = Calls.of(old), Calls.of(new)
    changes = changed_calls("window-aggs", before, after, (old.inputs[0], new.inputs[0]))
    if changes["window-aggs"].is_same:
        return changes
    return {**changes, "previous-aggs": StateSuccession(refused=_EMITTED)}


_EMITTED: Final = (
    "windows emit results early, and their state has the emitted results; drop this operator, or keep its calls until the "
    "windows are closed"
)


@dataclass(frozen=True)
class Calls:
    """The calls of an aggregate.

    ``calls`` and ``identified``: the calls with the names of columns, and with their identities.
    """

    calls: list[AggregateCall]
    identified: list[AggregateCall]
    counts: bool  # whether the aggregate counts the rows of a group

    @classmethod
    def of(cls, side: ChangedNode) -> Calls:
        """Return the calls of an aggregate by groups."""
        relation = side.inputs[0]
        return cls(group_calls(side.node), identified_calls(side.node, relation), counts_rows(side.node))

    @classmethod
    def of_over(cls, side: ChangedNode) -> Calls:
        """Return the calls of an ``OVER`` aggregate."""
        identified = over_calls_of(side.node, over_columns(side.node, side.inputs[0]))
        return cls(over_calls(side.node), identified, over_is_bounded(side.node))

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
        """The number of fields of all calls."""
        return sum(len(list(call.fields())) for call in self.calls)

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
        """Return the position of each call of the new plan in this one."""
        return [_position(self, identity) for identity in new.identified]


def changed_calls(
    state: str,
    old: Calls,
    new: Calls,
    relations: tuple[Relation, Relation],
    is_inert: Callable[[AggregateCall], bool] = lambda call: False,
) -> dict[str, StateSuccession]:
    """Return the changes of the accumulators in a state, and of the states of their views.

    ``relations``: the old and the new input. ``is_inert``: whether a new call ignores all rows from before, so that it may
    retract them.
    """
    carried = old.carried(new)
    changes = {state: StateSuccession({VALUE: _accumulator(old, new, carried, relations, is_inert)})}
    return changes | _own_states(old, carried) | _views(old, new, carried)


def _accumulator(
    old: Calls,
    new: Calls,
    carried: Sequence[int | None],
    relations: tuple[Relation, Relation],
    is_inert: Callable[[AggregateCall], bool],
) -> RowChange:
    fields: list[NewField] = []
    notes = []
    added: list[str] = []
    types = {f.name: f.type for f in distinct_names(relations[1].fields) if f.type is not None}
    for call, identity, at in zip(new.calls, new.identified, carried, strict=True):
        if at is not None:
            _check_call(old.calls[at], call)
            if call.function != "count" or call.has_view:
                _check_arguments(call, identity.arguments, relations)
            start = old.positions[at]
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
    first_view = old.size_of_calls + old.adds_count
    # Each view has the same byte in its place, whatever its entries.
    fields += [NewField(first_view + n) if n < len(old.views) else _NEW_VIEW for n in range(len(new.views))]
    gone = [str(call) for i, call in enumerate(old.calls) if i not in carried]
    refuse_other_meaning("call", added, gone)
    calls_carried = [at for at in carried if at is not None]
    if calls_carried != sorted(calls_carried):
        notes.append("the order of calls changes")
    return RowChange(first_view + len(old.views), tuple(fields), (*notes, *(f"{call} is dropped" for call in gone)))


_NEW_VIEW: Final = NewField(None, MAP_VIEW, b"\0")
"""A view whose entries are a state (Flink: ``NullSerializer``)."""


def _position(old: Calls, call_sought: AggregateCall) -> int | None:
    """Return the position of the same call in the old plan, regardless of retractions."""
    for i, call in enumerate(old.identified):
        if replace(call, retracts=call_sought.retracts, type=call_sought.type) == call_sought:
            return i
    return None


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
        views_carried = {source: calls for source, calls in enumerate(old.views) if any(carried[i] in calls for i in members)}
        for source, calls in views_carried.items():
            positions = tuple(calls.index(at) if (at := carried[i]) in calls else None for i in members)
            counted = ViewChange(len(calls), positions, as_bits=not old.counts)
            _check_view(old.calls[calls[0]], counted, (old, new), is_one=len(views_carried) == 1)
            changes[source] = StateSuccession(becomes=None if source == number else _view(number), counted=counted)
    return {
        _view(number) + suffix: replace(change, becomes=None if change.becomes is None else change.becomes + suffix)
        for number, change in changes.items()
        for suffix in ("", "_null_state")
    }


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
            f"another call with DISTINCT of {call.shown} is new, and its state has the numbers of rows of all such calls; "
            "give the new call another argument, such as a computed column, and it starts without values"
        )


_FIRST, _SECOND = 1, 2

_TIMERS: Final = Successor(
    f"{EVENT_PREFIX}user-timers",
    EVENT_TIMER,
    {"timestamp": "map_key"},
    "a timer for each time of rows that wait for the watermark",
)


def changed_over(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of an ``OVER`` aggregate with the same windows in both plans."""
    before, after = old.inputs[0], new.inputs[0]
    order = [int(f["index"]) for group in old.node.at("overSpec", "groups", default=()) for f in _order(group)]
    same_types(before, after, before.picked(order))
    rows = StateSuccession({VALUE: changed_row(before, after)})
    added = set(after.columns) - set(before.columns)

    def is_inert(call: AggregateCall) -> bool:
        """Return whether a call ignores all kept rows: a column that is null in them is its argument or filter."""
        return call.function in _IGNORING_NULL and bool(added & {*call.arguments, call.filter})

    calls = changed_calls("accState", Calls.of_over(old), Calls.of_over(new), (before, after), is_inert)
    if not (rows.is_same and calls["accState"].is_same) and not _is_by_time(old.node):
        raise StateMigrationError(
            f"{label(new.node)} orders rows by other columns than time, and computes its calls again for later rows if a row "
            "comes in between; its calls and columns have to stay unchanged"
        )
    timers = _new_timers(old, new)
    return {**calls, "inputState": replace(rows, successor=timers)}


_IGNORING_NULL: Final = frozenset(("count", "sum", "sum0", "avg"))


def _order(group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (group.get("orderBy") or {}).get("fields") or ()


def _is_by_time(node: PlanNode) -> bool:
    """Return whether rows are ordered by a time attribute."""
    groups = node.at("overSpec", "groups", default=())
    types = [node.left[int(f["index"])].type for group in groups for f in _order(group)]
    return all(isinstance(type_, TimestampType) and type_.kind in ("ROWTIME", "PROCTIME") for type_ in types)


def _new_timers(old: ChangedNode, new: ChangedNode) -> Successor | None:
    """Return the timers that the second version of the states needs."""
    versions = [_unbounded_version(side.node) for side in (old, new)]
    for side, version in zip((old, new), versions, strict=True):
        if version not in (None, _FIRST, _SECOND) and versions[0] != versions[1]:
            raise StateMigrationError(f"{label(side.node)} has unboundedOverVersion {version}, expected {_FIRST} or {_SECOND}")
    return _TIMERS if versions == [_FIRST, _SECOND] else None


def _unbounded_version(node: PlanNode) -> int | None:
    """Return the version of the states of an unbounded ``OVER`` by row time. The states of other aggregates do not differ."""
    for group in node.at("overSpec", "groups", default=()):
        if (group.get("lowerBound") or {}).get("kind") != "UNBOUNDED_PRECEDING":
            continue
        times = [node.left[int(f["index"])].type for f in _order(group)]
        if any(isinstance(time, TimestampType) and time.kind == "ROWTIME" for time in times):
            return int(node.at("unboundedOverVersion", default=_FIRST))
    return None
