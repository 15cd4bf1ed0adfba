"""Operators whose state depends on the watermark and on timers: windows, joins by time, sorts by time, pattern matching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.applications.flink_sql.fields import (
    Identity,
    Relation,
    Relations,
    identity,
    is_time,
    names_text,
    normal_form,
    picked,
)
from state_processor.applications.flink_sql.nodes import (
    TIMES,
    WINDOWS,
    JobGraph,
    Meaning,
    Operator,
    Outlets,
    PlanNode,
    States,
    at_paths,
    by_name,
    unknown_rows,
)
from state_processor.applications.flink_sql.operators.aggregates import GROUPS, accumulators_in, changed_accumulators, group_rows
from state_processor.applications.flink_sql.state_changes import StateChanges, StateSuccession
from state_processor.states import MAP, KeyedDescription, StateDescription

_WAITING: Final = "rows that wait for the watermark, by time in epoch milliseconds"
TIMED: Final = "its state depends on the watermark and on timers"
"""Why the state of an operator by time can't be computed from rows."""


def _windows(node: PlanNode, relation: Relation) -> Any:
    """Return the windows of an aggregate with the identities of columns instead of numbers."""
    first = node.first_phase or node
    field = first.at("window", "timeField")
    if field is not None:  # by name, because its number counts the columns of an earlier input
        return normal_form({**first.at("window"), "timeField": relation.named(field.get("fieldName")), "alias": None})
    return with_columns(normal_form(first.at("windowing")), relation.columns)


_COLUMNS_OF_WINDOWS: Final = ("timeAttributeIndex", "windowStart", "windowEnd", "sliceEnd", "index", "partition_key_indices")


def with_columns(part: Any, columns: Sequence[Identity]) -> Any:
    """Return JSON of windows with the identities of columns instead of numbers."""
    if isinstance(part, list):
        return [with_columns(element, columns) for element in part]
    if not isinstance(part, Mapping):
        return part
    members = {}
    for name, member in part.items():
        convert = _columns_at if name in _COLUMNS_OF_WINDOWS else with_columns
        members[name] = convert(member, columns)
    return members


def _columns_at(numbers: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(numbers, list):
        return [_columns_at(element, columns) for element in numbers]
    return columns[numbers] if isinstance(numbers, int) and 0 <= numbers < len(columns) else numbers


def _grouped_windows(node: PlanNode, inputs: Relations) -> Relation:
    """Return the groups of windows: grouping columns, results of calls, properties of windows."""
    if node.operator.first_phase and node.first_phase is None:
        return unknown_rows(node, inputs)
    (relation,) = inputs
    groups = group_rows(node, inputs)
    rows = identity("windows", groups.rows, _windows(node, relation))
    properties = [property_.get("property", {}).get("kind") for property_ in node.at("namedWindowProperties", default=())]
    columns = (*groups.columns, *(identity("property", rows, kind) for kind in properties))
    emits = [str(value) for name, value in node.at("configuration", default={}).items() if name.startswith("table.exec.emit.")]
    return replace(groups, rows=rows, columns=columns, updates=relation.updates or "true" in emits)


_EMITTED: Final = (
    "windows emit results early, and their state has the emitted results; drop this operator, or keep its calls until the "
    "windows are closed"
)


def _changed_windows(old: PlanNode, new: PlanNode) -> StateChanges:
    """Return the changes of an aggregate by windows: each window, or slice of windows, has accumulators."""
    changes = changed_accumulators("window-aggs", old, new)
    if changes["window-aggs"].is_same:
        return changes
    return {**changes, "previous-aggs": StateSuccession(refused=_EMITTED)}


def has_sides_of_windows(states: States) -> bool | None:
    """Return whether states of the sides of a join are by window; ``None`` without such states."""
    state = states.get("left-records") or states.get("right-records")
    return None if state is None else not (isinstance(state, KeyedDescription) and state.in_void_namespace)


def _window_rank(node: PlanNode, state: StateDescription) -> Meaning | None:
    order = picked(node.input_row(), [f["index"] for f in node.at("sortSpec", "fields", default=())])
    if state.name == "window_rank":
        return Meaning(f"ranked rows of a window, by {names_text(order)}", {"map_key": order, "value": node.input_row()})
    return by_name(WINDOWS)(node, state)


_AGGREGATES: Final = replace(
    GROUPS,
    names=("window-aggregate", "group-window-aggregate"),
    meaning=accumulators_in("window-aggs", "each window; the namespace is its end or extent"),
    state_names="window-aggs",
    has_states=None,
    relation=_grouped_windows,
    windows=_windows,
    history=None,
    no_history=TIMED,
    changes=_changed_windows,
    changes_ttl=False,
    other_shapes={},
)


def _interval_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    for at, label in enumerate(("Left", "Right")):
        if state.name == f"IntervalJoin{label}Cache":
            text = f"rows of the {label.lower()} input by time in epoch milliseconds, and whether each was emitted"
            return Meaning(text, {"value": node.input_row(at)}, ("record", "emitted"))
        if state.name == f"IntervalJoin{label}TimerState":
            return Meaning(f"the time of the cleanup timer of the {label.lower()} rows, in epoch milliseconds")
    return None


def _translated_interval(graph: JobGraph, node: PlanNode, inputs: Sequence[Outlets]) -> Outlets:
    """Add the join, or operators without state if no rows may match."""
    bounds = node.at("intervalJoinSpec", "windowBounds", default={})
    if int(bounds.get("leftUpperBound", 0)) >= int(bounds.get("leftLowerBound", 0)):
        return graph.add("interval-join", inputs)
    join_type = str(node.at("intervalJoinSpec", "joinSpec", "joinType", default="INNER"))
    left = graph.add("pad-left" if join_type in ("LEFT", "FULL") else "filter-left", inputs[:1])
    return left + graph.add("pad-right" if join_type in ("RIGHT", "FULL") else "filter-right", inputs[1:])


def _temporal_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    by_time = "by time in epoch milliseconds" if state.kind == MAP else "the last one"
    return {
        "left": Meaning("waiting rows of the left input, by number", {"value": node.input_row()}),
        "right": Meaning(f"versions of the right input, {by_time}", {"value": node.input_row(1)}),
        "next-index": Meaning("the number of the next row of the left input"),
        "timer": Meaning("the time of the next timer, in epoch milliseconds"),
        "cleanup-time": Meaning("the time of the cleanup of state, in epoch milliseconds"),
    }.get(state.name)


def _translated_match(graph: JobGraph, node: PlanNode, inputs: Sequence[Outlets]) -> Outlets:
    order = node.at("matchSpec", "orderBy", "fields", default=())
    if not any(is_time(node.left[int(f["index"])].type, "ROWTIME") for f in order[:1]):
        return graph.add("match", inputs)
    inserted = graph.add("timestamp-inserter", inputs)
    return graph.add("match", [inserted], chained=graph.way.match_chained)


OPERATORS: Final = (
    _AGGREGATES,
    replace(_AGGREGATES, names=("global-window-aggregate",), state_names="", first_phase="local-window-aggregate"),
    Operator(
        names=("window-join",),
        meaning=by_name(
            {},
            {"left-records": "rows of the left input in a window; the end of the window is the namespace"},
            {"right-records": "rows of the right input in a window; the end of the window is the namespace"},
        ),
        has_states=lambda states: has_sides_of_windows(states) is True,
        keys=at_paths(("joinSpec", "leftKeys")),
        no_history=TIMED,
    ),
    Operator(
        names=("window-rank",),
        meaning=_window_rank,
        state_names="window_rank",
        keys=at_paths(("partitionSpec", "fields")),
        no_history=TIMED,
    ),
    Operator(
        names=("window-deduplicate",),
        meaning=by_name(
            TIMES | WINDOWS, {"window_deduplicate": "the kept row of a window; the end of the window is the namespace"}
        ),
        state_names="window_deduplicate",
        keys=at_paths(("partitionKeys",)),
        no_history=TIMED,
    ),
    Operator(
        names=("window",),
        nodes=("window-table-function",),
        kind="window-table-function",
        meaning=by_name(
            {"session-window-tvf-counter": "the number of the next row of a session", **WINDOWS},
            {"session-window-tvf-acc": "rows of a session by number"},
        ),
        state_names="session-window-tvf-.*",
        keys=at_paths(("windowing", "window", "partition_key_indices")),
        no_history=TIMED,
    ),
    Operator(
        names=("interval-join",),
        transformations=("interval-join", "filter-left", "filter-right", "pad-left", "pad-right"),
        meaning=_interval_join,
        state_names="IntervalJoin(Left|Right)(Cache|TimerState)",
        keys=at_paths(("intervalJoinSpec", "joinSpec", "leftKeys")),
        no_history=TIMED,
        translate=_translated_interval,
    ),
    Operator(
        names=("temporal-join",),
        meaning=_temporal_join,
        state_names="next-index",
        has_states=lambda states: "left" in states and "right" in states,
        keys=at_paths(("joinSpec", "leftKeys")),
        no_history=TIMED,
    ),
    Operator(
        names=("temporal-sort",),
        meaning=by_name(TIMES | WINDOWS, dict.fromkeys(("dataState", "sortState"), _WAITING)),
        state_names="dataState|sortState",
        keys=lambda node: [[]],
        no_history=TIMED,
    ),
    Operator(
        names=("match",),
        transformations=("match", "timestamp-inserter"),
        meaning=by_name(
            {
                "nfaStateName": "the progress of partial matches",
                "sharedBuffer-entries": "the sequence of rows in partial matches",
                "sharedBuffer-entries-with-lockable-edges": "the sequence of rows in partial matches",
                "sharedBuffer-events-count": "the number of matched rows of each time",
            },
            {
                "sharedBuffer-events": "rows of the input in partial matches",
                "eventQueuesStateName": "rows of the input that wait for the watermark, by time",
            },
        ),
        state_names="nfaStateName|sharedBuffer-.*|eventQueuesStateName",
        keys=at_paths(("matchSpec", "partition", "fields")),
        columns=None,
        no_history="partial matches depend on the order of rows and on the watermark",
        unchanged="the state has the rows that the old pattern has matched, which stay matched: it can only be kept unchanged",
        translate=_translated_match,
    ),
)
