"""Meanings of the states of an operator, by the node that it runs: names for the fields of rows, and a description."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from state_processor.backends.sql.calls import AggregateCall, accumulator, aggregate_calls, distinct_views
from state_processor.backends.sql.expressions import column_texts
from state_processor.backends.sql.plan import PlanNode, PlanOperator
from state_processor.backends.sql.plan_types import PlanField, PlanFields, distinct_names, plan_type
from state_processor.backends.state.descriptions import MAP, StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import nested, walk

_DISTINCT: Final = re.compile(r"distinctAcc_(\d+)(_null_state)?")
_VIEW: Final = re.compile(r"agg(\d+)\$(.+)")
_INPUT: Final = re.compile(r"(?:multi-join-)?input-state-(\d+)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a state.

    Parameters
    ----------
    description
        For people.
    rows
        The fields of the row in each part of the state: ``map_key`` and ``value``.
    tuples
        The names of the fields of tuples that rows or counts are in.
    """

    description: str
    rows: Mapping[str, PlanFields] = field(default_factory=dict)
    tuples: tuple[str, ...] = ()


def meaning_of(operator: PlanOperator, state: StateDescription) -> Meaning | None:
    """Return what a state of an operator holds; ``None`` if it is not known."""
    find = _STATES.get(operator.transformation)
    return None if find is None else find(operator.node, state)


def has_state(transformation: str) -> bool:
    """Return whether operators that do this are known to have state."""
    return transformation in _STATES


def key_of(operator: PlanOperator) -> PlanFields | None:
    """Return the fields of the keys of an operator; ``None`` if they are not known."""
    find = _KEYS.get(operator.transformation)
    return None if find is None else find(operator.node)


def _picked(fields: PlanFields, indices: Any) -> PlanFields:
    return tuple(fields[int(i)] for i in indices or ())


def _has_rows(part: TypeSerializer) -> bool:
    return any(isinstance(one, RowDataSerializer) for one in walk(part))


def _names(fields: Iterable[Any]) -> str:
    return ", ".join(f.name for f in fields)


def _inputs(node: PlanNode, member: str) -> PlanFields:
    """Return the rows that calls refer to: in two phases those before the first one."""
    return node.fields_of(member) if node.at(member) is not None else node.left


# Aggregates


def _retractions(node: PlanNode, member: str = "aggCallNeedRetractions") -> Sequence[bool]:
    found = node.at(member)
    return found if found is not None else (bool(node.at("needRetraction", default=False)),)


def group_calls(node: PlanNode) -> list[AggregateCall]:
    """Return the calls of an aggregate, whose arguments are columns of the rows before its first phase."""
    texts = column_texts(node)
    if node.at("partialOriginalAggCalls") is not None:
        columns = distinct_names(_inputs(node, "partialLocalAggInputRowType"))
        retractions = _retractions(node, "partialAggCallNeedRetractions")
        return aggregate_calls(node.at("partialOriginalAggCalls"), [f.name for f in columns], retractions, texts)
    columns = distinct_names(_inputs(node, "localAggInputRowType"))
    return aggregate_calls(node.at("aggCalls", default=()), [f.name for f in columns], _retractions(node), texts)


def counts_rows(node: PlanNode) -> bool:
    """Return whether an aggregate has to know how many rows a group has."""
    hopping = node.at("windowing", "window", "type") == "HoppingWindow"
    return hopping or any(bool(node.at(name)) for name in ("needRetraction", "partialAggNeedRetraction"))


def _aggregate(name: str, whose: str) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states of an operator with accumulators in the state of a name."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        calls = group_calls(node)
        if state.name == name:
            return _accumulators(calls, accumulator(calls, counts_rows=counts_rows(node)), whose)
        return _view(calls, node, state, counted=counts_rows(node)) or _windows(node, state)

    return find


def _accumulators(calls: Sequence[AggregateCall], fields: PlanFields, whose: str) -> Meaning:
    return Meaning(f"accumulators of {whose}: {', '.join(map(str, calls)) or 'no call'}", {"value": fields})


def _view(calls: Sequence[AggregateCall], node: PlanNode, state: StateDescription, *, counted: bool) -> Meaning | None:
    """Return the meaning of a state that is part of an accumulator."""
    match = _DISTINCT.fullmatch(state.name)
    views = distinct_views(calls)
    if match and int(match[1]) < len(views):
        columns = views[int(match[1])]
        before = "partialLocalAggInputRowType" if node.at("partialOriginalAggCalls") is not None else "localAggInputRowType"
        rows = {f.name: f for f in _inputs(node, before)}
        of = [call for call in calls if call.has_view and call.arguments == columns]
        whose, shown = ", ".join(map(str, of)), of[0].shown
        kept = "how often it is there" if counted else "a bit for each of these calls that has counted it"
        if match[2]:
            return Meaning(f"{whose}: the null among the values of {shown}: {kept}")
        fields = tuple(rows[c] for c in columns if c in rows) if len(columns) > 1 else ()
        text = f"{whose}: a map key for each value of {shown}, and as map value {kept}"
        return Meaning(text, {"map_key": fields} if fields else {})
    match = _VIEW.fullmatch(state.name)
    if match and int(match[1]) < len(calls):
        return Meaning(f"{calls[int(match[1])]}: the view {match[2]!r} of its accumulator")
    return None


def _windows(node: PlanNode, state: StateDescription) -> Meaning | None:
    texts = {
        "session-window-mapping": "session windows: each window that rows came for, and the one whose state has it",
        "merging-window-set": "session windows: each window that rows came for, and the one whose state has it",
        "previous-aggs": "results that were emitted before, to take them back",
        "watermark": "the watermark that the operator has come to",
    }
    return Meaning(texts[state.name]) if state.name in texts else None


def _over(node: PlanNode, state: StateDescription) -> Meaning | None:
    columns = [f.name for f in node.left] + [str(c.get("value")) for c in node.at("overSpec", "constants", default=())]
    groups, texts = node.at("overSpec", "groups", default=()), column_texts(node)
    # Rows leave a window that is bounded, and are taken back from its accumulators.
    bounded = any(group.get("lowerBound", {}).get("kind") == "BOUNDED_WINDOW" for group in groups)
    calls = [call for group in groups for call in aggregate_calls(group.get("aggCalls", ()), columns, (bounded,), texts)]
    order = [columns[f["index"]] for group in groups[:1] for f in group.get("orderBy", {}).get("fields", ())]
    if state.name in ("accState", "accMapState"):
        return _accumulators(calls, accumulator(calls, counts_rows=bounded, order=order), "the rows up to now")
    if state.name == "inputState":
        return Meaning("rows of the input, by time in epoch milliseconds", {"value": node.left})
    return _view(calls, node, state, counted=bounded) or _TIMES.get(state.name)


_TIMES: Final = {
    "lastTriggeringTsState": Meaning("the time of the last rows that were dealt with, in epoch milliseconds"),
    "cleanupTsState": Meaning("the time at which state is cleaned up, in epoch milliseconds"),
    "processedCountState": Meaning("the number of rows that were dealt with"),
}


# Joins


def _join_side(side: PlanFields, unique: Any, label: str, state: StateDescription) -> Meaning:
    """Return the meaning of a side of a join without time, by what is known to be unique (Flink: ``JoinRecordStateViews``)."""
    is_outer = bool(nested(TupleSerializer, state.value))
    more = ", and of the rows of the other side that belong to it" if is_outer else ""
    if not _has_rows(state.value):
        names = ("copies", "associations") if is_outer else ()
        return Meaning(f"rows of the {label} input: each as map key, with the number of copies{more}", {"map_key": side}, names)
    names = ("record", "associations") if is_outer else ()
    more = ", with the number of rows of the other side that belong to it" if is_outer else ""
    if state.kind != MAP:
        return Meaning(f"rows of the {label} input: one for each key, which is unique{more}", {"value": side}, names)
    smallest = min(unique, key=len, default=None) if unique else None
    rows = {"value": side} | ({} if smallest is None else {"map_key": _picked(side, smallest)})
    return Meaning(f"rows of the {label} input by their unique key{more}", rows, names)


def _join(node: PlanNode, state: StateDescription) -> Meaning | None:
    for label, side in (("left", node.left), ("right", node.right)):
        if state.name == f"{label}-records":
            unique = node.at(f"{label}UpsertKeys") or node.at(f"{label}UniqueKeys")
            return _join_side(side, unique, label, state)
    return None


def _multi_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    match = _INPUT.search(state.name)
    if match is None or int(match[1]) >= len(node.inputs):
        return None
    at = int(match[1])
    unique = node.at("inputUniqueKeys", default=())
    return _join_side(node.inputs[at].output, unique[at] if at < len(unique) else None, f"{at}th", state)


def _window_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    sides = {"left-records": ("left", node.left), "right-records": ("right", node.right)}
    if state.name not in sides:
        return None
    label, side = sides[state.name]
    return Meaning(f"rows of the {label} input in a window, whose end is the namespace", {"value": side})


def _interval_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    for label, side in (("Left", node.left), ("Right", node.right)):
        if state.name == f"IntervalJoin{label}Cache":
            text = f"rows of the {label.lower()} input by time in epoch milliseconds, and whether each was emitted"
            return Meaning(text, {"value": side}, ("record", "emitted"))
        if state.name == f"IntervalJoin{label}TimerState":
            return Meaning(f"the time of the timer that cleans up the {label.lower()} rows, in epoch milliseconds")
    return None


def _temporal_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    by_time = "by time in epoch milliseconds" if state.kind == MAP else "the last one"
    return {
        "left": Meaning("rows of the left input that wait for the watermark, by number", {"value": node.left}),
        "right": Meaning(f"versions of the right input, {by_time}", {"value": node.right}),
        "next-index": Meaning("the number of the next row of the left input"),
        "timer": Meaning("the time of the next timer, in epoch milliseconds"),
        "cleanup-time": Meaning("the time at which state is cleaned up, in epoch milliseconds"),
    }.get(state.name)


# Rows that are kept as they are


def _kept(text: str, *names: str) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states of some names that have rows of the input as values."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        if state.name in names:
            return Meaning(text, {"value": node.left})
        return _TIMES.get(state.name) or _windows(node, state)

    return find


def _deduplicate(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name != "deduplicate-state":
        return None
    if _has_rows(state.value):
        return Meaning("the row that is kept for each key", {"value": node.left})
    return Meaning("that a row of the key has come" if str(state.value) == "BOOLEAN" else "the time of the row that is kept")


def _rank(node: PlanNode, state: StateDescription) -> Meaning | None:
    order = _picked(node.left, [f["index"] for f in node.at("orderBy", "fields", default=())])
    unique = _picked(node.left, node.at("rankStrategy", "primaryKeys"))
    by_order = {"map_key": order, "value": node.left}
    return {
        "data-state": Meaning(f"rows of the input, by {_names(order)}", by_order),
        "data-state-with-append": Meaning(f"rows that have a rank, by {_names(order) or 'nothing'}", by_order),
        "data-state-with-update": Meaning(
            f"rows that have a rank, by {_names(unique)}, with their place among equals",
            {"map_key": unique, "value": node.left},
            ("record", "place"),
        ),
        "sorted-map": Meaning(f"the number of rows of each {_names(order)}", {"value": order}),
        "Top1-Rank-State": Meaning("the row that comes first", {"value": node.left}),
        "counterState": Meaning("the number of rows that were emitted"),
        "rankEnd": Meaning("the last rank, which a column of the input gives"),
    }.get(state.name)


def _window_rank(node: PlanNode, state: StateDescription) -> Meaning | None:
    order = _picked(node.left, [f["index"] for f in node.at("sortSpec", "fields", default=())])
    if state.name == "window_rank":
        return Meaning(f"rows that have a rank in a window, by {_names(order)}", {"map_key": order, "value": node.left})
    return _windows(node, state)


_MATCH: Final = {
    "nfaStateName": Meaning("how far partial matches have come"),
    "sharedBuffer-entries": Meaning("how rows of partial matches follow one another"),
    "sharedBuffer-entries-with-lockable-edges": Meaning("how rows of partial matches follow one another"),
    "sharedBuffer-events-count": Meaning("the number of rows of each time that matches refer to"),
}


def _match(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name in ("sharedBuffer-events", "eventQueuesStateName"):
        what = "that partial matches refer to" if state.name == "sharedBuffer-events" else "that wait for the watermark, by time"
        return Meaning(f"rows of the input {what}", {"value": node.left})
    return _MATCH.get(state.name)


def _session(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name == "session-window-tvf-acc":
        return Meaning("rows of a session by number", {"value": node.left})
    if state.name == "session-window-tvf-counter":
        return Meaning("the number of the next row of a session")
    return _windows(node, state)


def _sink_row(node: PlanNode) -> PlanFields:
    """Return the columns of a sink that are stored; none if the plan leaves them to the catalog."""
    columns = node.at("dynamicTableSink", "table", "resolvedTable", "schema", "columns", default=())
    stored = [c for c in columns if str(c.get("kind", "PHYSICAL")).upper() == "PHYSICAL"]
    return tuple(PlanField(str(c["name"]), plan_type(c.get("dataType"))) for c in stored)


def _materialized(node: PlanNode, state: StateDescription) -> Meaning | None:
    row = _sink_row(node)
    text = "rows of the primary key, the last one of which the sink has"
    return Meaning(text, {"value": row} if row else {}) if _has_rows(state.value) else None


def _primary_key(node: PlanNode) -> PlanFields | None:
    names = node.at("dynamicTableSink", "table", "resolvedTable", "schema", "primaryKey", "columns")
    row = {f.name: f for f in _sink_row(node)}
    return None if names is None or not row else tuple(row[name] for name in names)


def _by(*path: str) -> Callable[[PlanNode], PlanFields]:
    """Return the function that picks the key from the columns of the input, by indices in the JSON."""
    return lambda node: _picked(node.left, node.at(*path))


def _whole(node: PlanNode) -> PlanFields:
    return ()


_group: Final = _aggregate("accState", "each group")
_windowed: Final = _aggregate("window-aggs", "each window, whose end or extent is the namespace")

_STATES: Final[Mapping[str, Callable[[PlanNode, StateDescription], Meaning | None]]] = {
    **dict.fromkeys(
        ("group-aggregate", "global-group-aggregate", "incremental-group-aggregate", "group-table-aggregate"), _group
    ),
    **dict.fromkeys(("window-aggregate", "global-window-aggregate", "group-window-aggregate"), _windowed),
    "over-aggregate": _over,
    "join": _join,
    "multi-join": _multi_join,
    "window-join": _window_join,
    "interval-join": _interval_join,
    "temporal-join": _temporal_join,
    "deduplicate": _deduplicate,
    "changelog-normalize": _kept("the last row of each key", "deduplicate-state"),
    "window-deduplicate": _kept("the row that is kept in a window, whose end is the namespace", "window_deduplicate"),
    "temporal-sort": _kept("rows that wait for the watermark, by time in epoch milliseconds", "dataState", "sortState"),
    "async-calc": _kept("rows whose results have not come yet", "_async_wait_operator_state_"),
    "rank": _rank,
    "window-rank": _window_rank,
    "match": _match,
    "window": _session,
    "upsert-materialize": _materialized,
    "source": lambda node, state: Meaning("splits of the source") if state.name == "SourceReaderState" else None,
}

_KEYS: Final[Mapping[str, Callable[[PlanNode], PlanFields | None]]] = {
    **dict.fromkeys(
        (
            *("group-aggregate", "global-group-aggregate", "group-table-aggregate"),
            *("window-aggregate", "global-window-aggregate", "group-window-aggregate"),
        ),
        _by("grouping"),
    ),
    "incremental-group-aggregate": _by("partialAggGrouping"),
    "over-aggregate": _by("overSpec", "partition", "fields"),
    **dict.fromkeys(("join", "window-join", "temporal-join"), _by("joinSpec", "leftKeys")),
    "interval-join": _by("intervalJoinSpec", "joinSpec", "leftKeys"),
    "deduplicate": _by("uniqueKeys"),
    "changelog-normalize": _by("uniqueKeys"),
    "window-deduplicate": _by("partitionKeys"),
    "temporal-sort": _whole,
    "rank": _by("partition", "fields"),
    "window-rank": _by("partitionSpec", "fields"),
    "match": _by("matchSpec", "partition", "fields"),
    "window": _by("windowing", "window", "partition_key_indices"),
    "upsert-materialize": _primary_key,
}
