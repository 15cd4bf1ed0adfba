"""Meanings of the states of an operator, from its node in the plan: names for the fields of rows, and a description."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from state_processor.backends.sql.calls import AggregateCall, accumulator, distinct_views
from state_processor.backends.sql.node_calls import call_input, group_calls, over_calls, over_is_bounded, shown_columns
from state_processor.backends.sql.plan import PlanField, PlanFields, PlanNode, PlanOperator, distinct_names, plan_type
from state_processor.backends.state.descriptions import MAP, MapDescription, StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.table.logical_types import RowType
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import outermost_of, walk

_DISTINCT: Final = re.compile(r"distinctAcc_(\d+)(_null_state)?")
_VIEW: Final = re.compile(r"agg(\d+)\$(.+)")
_INPUT: Final = re.compile(r"multi-join-input-(\d+)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a state."""

    description: str  # text for users
    # the fields of the row in each part of the state: ``map_key`` and ``value``
    rows: Mapping[str, PlanFields] = field(default_factory=dict)
    tuples: tuple[str, ...] = ()  # the names of the fields of tuples that contain rows or counts


def meaning_of(operator: PlanOperator, state: StateDescription) -> Meaning | None:
    """Return the meaning of a state of an operator; ``None`` if it is not known."""
    find = _STATES.get(operator.transformation)
    return None if find is None else find(operator.node, state)


def has_state(transformation: str) -> bool:
    """Return whether operators of this kind are known to have state."""
    return transformation in _STATES


def key_of(operator: PlanOperator) -> PlanFields | None:
    """Return the fields of the key of an operator; ``None`` if they are not known."""
    find = _KEYS.get(operator.transformation)
    return None if find is None else find(operator.node)


def _picked(fields: PlanFields, indices: Any) -> PlanFields:
    return tuple(fields[int(i)] for i in indices or ())


def _has_rows(part: TypeSerializer) -> bool:
    return any(isinstance(serializer, RowDataSerializer) for serializer in walk(part))


def _names(fields: Iterable[Any]) -> str:
    return ", ".join(f.name for f in fields)


def _left(node: PlanNode) -> PlanFields:
    return _of_input(node, 0)


def _right(node: PlanNode) -> PlanFields:
    return _of_input(node, 1)


def _of_input(node: PlanNode, at: int) -> PlanFields:
    """Return the columns of the rows of an input."""
    return shown_columns(node.inputs[at]) if at < len(node.inputs) else ()


# Aggregates


def counts_rows(node: PlanNode) -> bool:
    """Return whether an aggregate counts the rows of a group."""
    hopping = node.at("windowing", "window", "type") == "HoppingWindow"
    return hopping or any(bool(node.at(name)) for name in ("needRetraction", "partialAggNeedRetraction"))


def _aggregate(name: str, whose: str) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states of an operator that has accumulators in a state with this name."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        calls = group_calls(node)
        if state.name == name:
            return Meaning(_calls_text(calls, whose), {"value": accumulator(calls, counts_rows=counts_rows(node))})
        return _view(calls, node, state, counted=counts_rows(node)) or _windows(node, state)

    return find


def _calls_text(calls: Sequence[AggregateCall], whose: str) -> str:
    return f"accumulators of {whose}: {', '.join(map(str, calls)) or 'no call'}"


def _view(calls: Sequence[AggregateCall], node: PlanNode, state: StateDescription, *, counted: bool) -> Meaning | None:
    """Return the meaning of a state with a part of an accumulator."""
    match = _DISTINCT.fullmatch(state.name)
    views = distinct_views(calls)
    if match and int(match[1]) < len(views):
        columns = views[int(match[1])]
        rows = {f.name: f for f in distinct_names(call_input(node))}
        of = [call for call in calls if call.has_view and call.arguments == columns]
        whose, values_text = ", ".join(map(str, of)), of[0].shown
        counted_as = "its number" if counted else "a bit for each of these calls that has counted it"
        if match[2]:
            return Meaning(f"{whose}: the null among the values of {values_text}: {counted_as}")
        fields = tuple(rows[c] for c in columns if c in rows) if len(columns) > 1 else ()
        text = f"{whose}: map keys are the values of {values_text}, the map value is {counted_as}"
        return Meaning(text, {"map_key": fields} if fields else {})
    match = _VIEW.fullmatch(state.name)
    if match and int(match[1]) < len(calls):
        return Meaning(f"{calls[int(match[1])]}: the view {match[2]!r} of its accumulator")
    return None


def _windows(node: PlanNode, state: StateDescription) -> Meaning | None:
    texts = {
        "session-window-mapping": "session windows: each window with rows, and the window with its state",
        "merging-window-set": "session windows: each window with rows, and the window with its state",
        "previous-aggs": "emitted results, for retractions",
        "watermark": "the watermark of the operator",
    }
    return Meaning(texts[state.name]) if state.name in texts else None


def _over(node: PlanNode, state: StateDescription) -> Meaning | None:
    calls, bounded = over_calls(node), over_is_bounded(node)
    if state.name in ("accState", "accMapState"):
        rows = {"value": accumulator(calls, counts_rows=bounded)}
        by_order = {"map_key": _over_order(node)} if state.kind == MAP else {}
        return Meaning(_calls_text(calls, "all rows so far"), rows | by_order)
    if state.name == "inputState":
        return Meaning("rows of the input, by time in epoch milliseconds", {"value": _left(node)})
    if state.name == "valueMapState":
        return Meaning("rows of the input, by number", {"value": _left(node)})
    if state.name == "sortedListState":
        text = f"the numbers of rows by {_names(_over_order(node))}, in this order"
        return Meaning(text, {"value": _over_order(node)}, ("order", "numbers"))
    return _view(calls, node, state, counted=bounded) or _TIMES.get(state.name)


def _over_order(node: PlanNode) -> PlanFields:
    """Return the columns that order rows."""
    groups = node.at("overSpec", "groups", default=())
    return _picked(_left(node), [f["index"] for group in groups[:1] for f in group.get("orderBy", {}).get("fields", ())])


_TIMES: Final = {
    "lastTriggeringTsState": Meaning("the time of the last processed rows, in epoch milliseconds"),
    "cleanupTsState": Meaning("the time of the cleanup of state, in epoch milliseconds"),
    "processedCountState": Meaning("the number of processed rows"),
    "idState": Meaning("the number of the next row"),
}


# Joins


def _join_side(side: PlanFields, unique: Any, label: str, state: StateDescription) -> Meaning:
    """Return the meaning of a side of a join without time, by the known unique keys (Flink: ``JoinRecordStateViews``)."""
    is_outer = bool(outermost_of(TupleSerializer, state.value))
    suffix = ", and of matching rows of the other side" if is_outer else ""
    if not _has_rows(state.value):
        names = ("copies", "associations") if is_outer else ()
        return Meaning(f"rows of the {label} input: each as map key, with the number of copies{suffix}", {"map_key": side}, names)
    names = ("record", "associations") if is_outer else ()
    suffix = ", with the number of matching rows of the other side" if is_outer else ""
    if state.kind != MAP:
        return Meaning(f"rows of the {label} input: one for each unique key{suffix}", {"value": side}, names)
    smallest = min(unique, key=len, default=None) if unique else None
    rows = {"value": side} | ({} if smallest is None else {"map_key": _picked(side, smallest)})
    return Meaning(f"rows of the {label} input by their unique key{suffix}", rows, names)


def _join(node: PlanNode, state: StateDescription) -> Meaning | None:
    for label, side in (("left", _left(node)), ("right", _right(node))):
        if state.name == f"{label}-records":
            unique = node.at(f"{label}UpsertKeys") or node.at(f"{label}UniqueKeys")
            return _join_side(side, unique, label, state)
    return None


def _multi_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    """Return the meaning of the rows of an input of a multi-join (Flink: ``MultiJoinStateViews``).

    Entries are found by the columns that join the input with earlier inputs. The first input does not have such columns.
    """
    match = _INPUT.fullmatch(state.name)
    if match is None or int(match[1]) >= len(node.inputs) or not isinstance(state, MapDescription):
        return None
    at = int(match[1])
    side = _of_input(node, at)
    keys = (node.at("inputUniqueKeys", default=()) or [()] * len(node.inputs))[at]
    joined = node.at("joinAttributeMap", str(at), default=())
    joined_by = distinct_names(_picked(side, [a["rightFieldIndex"] for a in joined if int(a["leftInputId"]) >= 0]))
    is_unique = _has_rows(state.value)
    row = _picked(side, min(keys, key=len, default=())) if is_unique else side
    by = f", by {_names(joined_by)}" if joined_by else ""
    text = f"rows of input {at}{by}: " + ("one for each unique key" if is_unique else "each with the number of copies")
    values = {"value": side} if is_unique else {}
    sizes = _sizes_of_rows(state.map_key)
    if sizes:
        pair = (PlanField("joined_by", fields=joined_by), PlanField("unique_key" if is_unique else "record", fields=row))
        fits = [len(side.fields) for side in pair] == sizes
        return Meaning(text, values | {"map_key": pair if fits else tuple(replace(side, fields=()) for side in pair)})
    size = len(state.map_key.slot.fields) if isinstance(state.map_key, RowDataSerializer) else 0
    fields = next((fields for fields in (row, joined_by) if len(fields) == size), ())
    return Meaning(text, values | ({"map_key": fields} if fields else {}))


def _sizes_of_rows(part: TypeSerializer | None) -> list[int]:
    """Return the numbers of fields of both rows in rows that consist of two rows; empty for other rows."""
    types = part.slot.type.types if isinstance(part, RowDataSerializer) else ()
    rows = [type_ for type_ in types if isinstance(type_, RowType)]
    return [len(row.fields) for row in rows] if len(rows) == len(types) == 2 else []


def _distributed_by(node: PlanNode) -> PlanFields:
    """Return the columns that distribute the rows of the first input."""
    properties = node.at("inputProperties", default=())
    return _picked(_left(node), properties[0].get("requiredDistribution", {}).get("keys") if properties else ())


def _window_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    sides = {"left-records": ("left", _left(node)), "right-records": ("right", _right(node))}
    if state.name not in sides:
        return None
    label, side = sides[state.name]
    return Meaning(f"rows of the {label} input in a window; the end of the window is the namespace", {"value": side})


def _interval_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    for label, side in (("Left", _left(node)), ("Right", _right(node))):
        if state.name == f"IntervalJoin{label}Cache":
            text = f"rows of the {label.lower()} input by time in epoch milliseconds, and whether each was emitted"
            return Meaning(text, {"value": side}, ("record", "emitted"))
        if state.name == f"IntervalJoin{label}TimerState":
            return Meaning(f"the time of the cleanup timer of the {label.lower()} rows, in epoch milliseconds")
    return None


def _temporal_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    by_time = "by time in epoch milliseconds" if state.kind == MAP else "the last one"
    return {
        "left": Meaning("waiting rows of the left input, by number", {"value": _left(node)}),
        "right": Meaning(f"versions of the right input, {by_time}", {"value": _right(node)}),
        "next-index": Meaning("the number of the next row of the left input"),
        "timer": Meaning("the time of the next timer, in epoch milliseconds"),
        "cleanup-time": Meaning("the time of the cleanup of state, in epoch milliseconds"),
    }.get(state.name)


# Unchanged rows


def _kept(text: str, *names: str) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states whose values are input rows."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        if state.name in names:
            return Meaning(text, {"value": _left(node)})
        return _TIMES.get(state.name) or _windows(node, state)

    return find


_FIRST_ROW: Final = {"already-emitted-state-boolean": Meaning("whether the first row of the key was emitted")}


def _deduplicate(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name != "deduplicate-state":
        return _FIRST_ROW.get(state.name) or (
            Meaning("the first row of each key; it waits for the watermark", {"value": _left(node)})
            if state.name == "waiting-to-emit-on-timer"
            else None
        )
    if _has_rows(state.value):
        return Meaning("the kept row of each key", {"value": _left(node)})
    return Meaning("whether the key had a row" if str(state.value) == "BOOLEAN" else "the time of the kept row")


def _rank(node: PlanNode, state: StateDescription) -> Meaning | None:
    order = _picked(_left(node), [f["index"] for f in node.at("orderBy", "fields", default=())])
    unique = _picked(_left(node), node.at("rankStrategy", "primaryKeys"))
    by_order = {"map_key": order, "value": _left(node)}
    return {
        "data-state": Meaning(f"rows of the input, by {_names(order)}", by_order),
        "data-state-with-append": Meaning(f"ranked rows, by {_names(order) or 'arrival'}", by_order),
        "data-state-with-update": Meaning(
            f"ranked rows, by {_names(unique)}, with their position among equal rows",
            {"map_key": unique, "value": _left(node)},
            ("record", "place"),
        ),
        "sorted-map": Meaning(f"the number of rows of each {_names(order)}", {"value": order}),
        "Top1-Rank-State": Meaning("the first row", {"value": _left(node)}),
        "counterState": Meaning("the number of emitted rows"),
        "rankEnd": Meaning("the last rank, from a column of the input"),
    }.get(state.name)


def _window_rank(node: PlanNode, state: StateDescription) -> Meaning | None:
    order = _picked(_left(node), [f["index"] for f in node.at("sortSpec", "fields", default=())])
    if state.name == "window_rank":
        return Meaning(f"ranked rows of a window, by {_names(order)}", {"map_key": order, "value": _left(node)})
    return _windows(node, state)


_MATCH: Final = {
    "nfaStateName": Meaning("the progress of partial matches"),
    "sharedBuffer-entries": Meaning("the sequence of rows in partial matches"),
    "sharedBuffer-entries-with-lockable-edges": Meaning("the sequence of rows in partial matches"),
    "sharedBuffer-events-count": Meaning("the number of matched rows of each time"),
}


def _match(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name in ("sharedBuffer-events", "eventQueuesStateName"):
        waiting = "in partial matches" if state.name == "sharedBuffer-events" else "that wait for the watermark, by time"
        return Meaning(f"rows of the input {waiting}", {"value": _left(node)})
    return _MATCH.get(state.name)


def _session(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name == "session-window-tvf-acc":
        return Meaning("rows of a session by number", {"value": _left(node)})
    if state.name == "session-window-tvf-counter":
        return Meaning("the number of the next row of a session")
    return _windows(node, state)


def sink_row(node: PlanNode) -> PlanFields:
    """Return the stored columns of a sink; empty if only the catalog contains them."""
    columns = node.at("dynamicTableSink", "table", "resolvedTable", "schema", "columns", default=())
    stored = [c for c in columns if str(c.get("kind", "PHYSICAL")).upper() == "PHYSICAL"]
    return tuple(PlanField(str(c["name"]), plan_type(c.get("dataType"))) for c in stored)


_SEQUENCES: Final = {
    "list": "rows of the primary key in the order of changes, with their times; the sink contains the last row",
    "values": "rows of the primary key; the sink contains the last row",
    "rowToSqnState": "the numbers of the first and the last change with each row of the primary key",
    "sqnToNodeState": "rows of the primary key by the number of their change; the sink contains the last row",
    "highestSqnState": "the number of the last change, and of rows",
}


def _materialized(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name not in _SEQUENCES:
        return None
    row = sink_row(node)
    roles = {"value": row} if row and _has_rows(state.value) else {}
    upsert = tuple(row[int(i)] for i in node.at("inputUpsertKey", default=())) if row else ()
    by_row = {"map_key": upsert or row} if row and state.name == "rowToSqnState" else {}
    return Meaning(_SEQUENCES[state.name], roles | by_row, ("record", "timestamp"))


def primary_key(node: PlanNode) -> list[int]:
    """Return the positions of the primary key among the stored columns of a sink."""
    names = node.at("dynamicTableSink", "table", "resolvedTable", "schema", "primaryKey", "columns", default=())
    row = [f.name for f in sink_row(node)]
    return list(map(row.index, names)) if row else []


def _primary_key(node: PlanNode) -> PlanFields | None:
    return _picked(sink_row(node), primary_key(node)) or None


def _by(*path: str) -> Callable[[PlanNode], PlanFields]:
    """Return the function that selects key columns of the input by indices in the JSON."""
    return lambda node: _picked(_left(node), node.at(*path))


def _partition_keys(node: PlanNode) -> PlanFields:
    """Return the columns that partition the first table of a process table function (Flink: ``RexTableArgCall``)."""
    tables = (operand for operand in node.at("functionCall", "operands", default=()) if operand.get("kind") == "TABLE_ARG_CALL")
    first: Mapping[str, Any] = next((table for table in tables if int(table.get("inputIndex", 0)) == 0), {})
    return _picked(_left(node), first.get("partitionKeys"))


def _whole(node: PlanNode) -> PlanFields:
    return ()


_group: Final = _aggregate("accState", "each group")
_windowed: Final = _aggregate("window-aggs", "each window; the namespace is its end or extent")

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
    "window-deduplicate": _kept("the kept row of a window; the end of the window is the namespace", "window_deduplicate"),
    "temporal-sort": _kept("rows that wait for the watermark, by time in epoch milliseconds", "dataState", "sortState"),
    "async-calc": _kept("rows without a result yet", "_async_wait_operator_state_"),
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
    "multi-join": _distributed_by,
    "process": _partition_keys,
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
