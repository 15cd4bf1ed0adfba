"""Aggregates with ``OVER``: results of each row, over the rows around it.

States of unbounded windows by row time have two versions. Both keep accumulators, and rows by their times. The first version
has one timer per key, for the next watermark (Flink: ``AbstractRowTimeUnboundedPrecedingOver``). The second version has a timer
for each time of waiting rows, and loses rows without a timer (``RowTimeUnboundedPrecedingOverFunctionV2``). The first version
also works with the timers of the second version: each timer processes all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from state_processor.applications.flink_sql.bootstrap import AggregateCall, accumulator, aggregate_calls
from state_processor.applications.flink_sql.fields import (
    Identity,
    PlanFields,
    Relation,
    Relations,
    distinct_names,
    identity,
    is_time,
    names_text,
    normal_form,
    picked,
    resolved,
)
from state_processor.applications.flink_sql.nodes import TIMES, Column, Columns, Meaning, Operator, PlanNode, at_paths, by_name
from state_processor.applications.flink_sql.operators.aggregates import call_identities, calls_text, texts_by_name, view_of
from state_processor.applications.flink_sql.operators.timed import TIMED, with_columns
from state_processor.applications.flink_sql.state_changes import (
    Calls,
    StateChanges,
    Successor,
    changed_calls,
    changed_value,
    same_types,
)
from state_processor.errors import StateMigrationError
from state_processor.states import EVENT_TIMER, MAP, StateDescription
from state_processor.support import names_of

_FIRST, _SECOND = 1, 2
_OTHERS: Final = by_name(
    TIMES,
    {"inputState": "rows of the input, by time in epoch milliseconds", "valueMapState": "rows of the input, by number"},
)


def _spec(node: PlanNode, member: str) -> Any:
    return node.at("overSpec", member, default=())


def _ordered_by(group: Mapping[str, Any]) -> list[int]:
    """Return the positions of the columns that order rows."""
    return [int(f["index"]) for f in (group.get("orderBy") or {}).get("fields") or ()]


def _is_bounded(node: PlanNode) -> bool:
    """Return whether rows leave the window, and are retracted from its accumulators."""
    return any(group.get("lowerBound", {}).get("kind") == "BOUNDED_WINDOW" for group in _spec(node, "groups"))


def _calls(node: PlanNode, columns: Sequence[str], texts: Mapping[str, str] | None = None) -> list[AggregateCall]:
    """Return the calls, with some names for the columns of the input and the constants."""
    bounded = (_is_bounded(node),)
    calls: list[AggregateCall] = []
    for group in _spec(node, "groups"):
        calls += aggregate_calls(group.get("aggCalls", ()), columns, bounded, texts, node.release)
    return calls


def _named_calls(node: PlanNode) -> list[AggregateCall]:
    """Return the calls; arguments are columns of the input, and constants."""
    names = names_of(distinct_names(node.left))
    return _calls(node, _with_constants(node, names), texts_by_name(names, node.left_columns))


def _with_constants(node: PlanNode, columns: Sequence[str]) -> list[str]:
    return [*columns, *(str(constant.get("value")) for constant in _spec(node, "constants"))]


def _identities(node: PlanNode, relation: Relation) -> tuple[Identity, ...]:
    """Return the columns that calls refer to by number: columns of the input, then constants."""
    return (*relation.columns, *(identity("constant", normal_form(constant)) for constant in _spec(node, "constants")))


def _meaning(node: PlanNode, state: StateDescription) -> Meaning | None:
    calls, bounded = _named_calls(node), _is_bounded(node)
    if state.name in ("accState", "accMapState"):
        rows = {"value": accumulator(calls, counts_rows=bounded)}
        by_order = {"map_key": _order(node)} if state.kind == MAP else {}
        return Meaning(calls_text(calls, "all rows so far"), rows | by_order)
    if state.name == "sortedListState":
        text = f"the numbers of rows by {names_text(_order(node))}, in this order"
        return Meaning(text, {"value": _order(node)}, ("order", "numbers"))
    return view_of(calls, node.left, state, counted=bounded) or _OTHERS(node, state)


def _order(node: PlanNode) -> PlanFields:
    groups = _spec(node, "groups")
    return picked(node.input_row(), list(_ordered_by(groups[0])) if groups else [])


def _columns(node: PlanNode) -> Columns:
    calls = _calls(node, _with_constants(node, [column.text for column in node.left_columns]))
    return [*node.left_columns, *(Column(f"{call} OVER") for call in calls)]


def _windows(node: PlanNode, relation: Relation) -> Any:
    """Return the windows with the identities of columns instead of numbers."""
    columns = _identities(node, relation)
    return [with_columns(resolved({**group, "aggCalls": []}, columns), columns) for group in _spec(node, "groups")]


def _rows(node: PlanNode, inputs: Relations) -> Relation:
    (relation,) = inputs
    window = [relation.picked(node.key_columns[0]), _windows(node, relation)]
    calls = call_identities(_calls(node, _identities(node, relation)), "over", window)
    return Relation(identity("over", relation.rows, window), (*relation.columns, *calls), node.output, relation.updates)


_TIMERS: Final = Successor(
    "_timer_state/event_user-timers",
    EVENT_TIMER,
    {"timestamp": "map_key"},
    "a timer for each time of rows that wait for the watermark",
)


def _changes(old: PlanNode, new: PlanNode) -> StateChanges:
    before, after = old.input_relations[0], new.input_relations[0]
    same_types(before, after, before.picked(chain.from_iterable(map(_ordered_by, _spec(old, "groups")))))
    rows = changed_value(before, after)
    added = set(after.columns) - set(before.columns)

    def is_inert(call: AggregateCall) -> bool:
        """Return whether a call ignores all kept rows: a column that is null in them is its argument or filter."""
        return call.function in _IGNORING_NULL and bool(added & {*call.arguments, call.filter})

    calls = changed_calls("accState", _changed(old, before), _changed(new, after), is_inert)
    if not (rows.is_same and calls["accState"].is_same) and not _is_by_time(old):
        raise StateMigrationError(
            f"{new.label} orders rows by other columns than time, and computes its calls again for later rows if a row "
            "comes in between; its calls and columns have to stay unchanged"
        )
    return {**calls, "inputState": replace(rows, successor=_new_timers(old, new))}


_IGNORING_NULL: Final = frozenset(("count", "sum", "sum0", "avg"))


def _changed(node: PlanNode, relation: Relation) -> Calls:
    return Calls(_named_calls(node), _calls(node, _identities(node, relation)), _is_bounded(node), relation)


def _times(node: PlanNode, group: Mapping[str, Any], *kinds: str) -> Iterator[bool]:
    """Yield for each column that orders rows whether it is a time attribute of a kind."""
    return (is_time(node.left[position].type, *kinds) for position in _ordered_by(group))


def _is_by_time(node: PlanNode) -> bool:
    return all(all(_times(node, group, "ROWTIME", "PROCTIME")) for group in _spec(node, "groups"))


def _new_timers(old: PlanNode, new: PlanNode) -> Successor | None:
    """Return the timers that the second version of the states needs."""
    versions = [_unbounded_version(old), _unbounded_version(new)]
    for node, version in zip((old, new), versions, strict=True):
        if version not in (None, _FIRST, _SECOND) and versions[0] != versions[1]:
            raise StateMigrationError(f"{node.label} has unboundedOverVersion {version}, expected {_FIRST} or {_SECOND}")
    return _TIMERS if versions == [_FIRST, _SECOND] else None


def _unbounded_version(node: PlanNode) -> int | None:
    """Return the version of the states of an unbounded ``OVER`` by row time. The states of other aggregates do not differ."""
    for group in _spec(node, "groups"):
        is_unbounded = (group.get("lowerBound") or {}).get("kind") == "UNBOUNDED_PRECEDING"
        if is_unbounded and any(_times(node, group, "ROWTIME")):
            return int(node.at("unboundedOverVersion", default=_FIRST))
    return None


OPERATORS: Final = (
    Operator(
        names=("over-aggregate",),
        meaning=_meaning,
        state_names="inputState|accMapState|valueMapState|sortedListState|idState|processedCountState|lastTriggeringTsState",
        has_states=lambda states: "accState" in states and "cleanupTsState" in states,
        keys=at_paths(("overSpec", "partition", "fields")),
        columns=_columns,
        relation=_rows,
        windows=_windows,
        no_history=TIMED,
        changes=_changes,
    ),
)
