"""Operators that keep rows of each key: deduplication, normalization of changes, and the first rows in an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from state_processor.applications.flink_sql.bootstrap import Input, KeptRow, LastRows, Order, RankedRows, Ranks
from state_processor.applications.flink_sql.fields import (
    Identity,
    Relation,
    Relations,
    identity,
    is_time,
    names_text,
    picked,
    resolved,
)
from state_processor.applications.flink_sql.nodes import (
    TIMES,
    WINDOWS,
    Meaning,
    Operator,
    PlanNode,
    at_paths,
    by_name,
    has_rows,
    unknown_rows,
)
from state_processor.applications.flink_sql.state_changes import (
    MAP_KEY,
    StateChanges,
    StateSuccession,
    Successor,
    changed_key,
    changed_value,
    same_types,
)
from state_processor.errors import OptionError, StateMigrationError
from state_processor.serializers import NumberSerializer
from state_processor.states import VALUE, StateDescription
from state_processor.types import is_ordered

_OF_FIRST_ROWS: Final = by_name(
    {"already-emitted-state-boolean": "whether the first row of the key was emitted"},
    {"waiting-to-emit-on-timer": "the first row of each key; it waits for the watermark"},
)


def _deduplicated(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name != "deduplicate-state":
        return _OF_FIRST_ROWS(node, state)
    if has_rows(state.value):
        return Meaning("the kept row of each key", {"value": node.input_row()})
    return Meaning("whether the key had a row" if str(state.value) == "BOOLEAN" else "the time of the kept row")


def _time_column(node: PlanNode) -> Identity | None:
    """Return the event time column, if it selects the kept row."""
    relation = node.input_relations[0]
    columns = zip(relation.columns, relation.fields, strict=True) if node.at("isRowtime") else ()
    return next((column for column, field in columns if is_time(field.type, "ROWTIME")), None)


def _condition(node: PlanNode) -> Any:
    return resolved(node.at("filterCondition"), node.input_relations[0].columns)


def _first_or_last(node: PlanNode, inputs: Relations) -> Relation:
    (relation,) = inputs
    last, by_time, time = node.at("keepLastRow"), node.at("isRowtime"), _time_column(node)
    spec = [relation.picked(node.at("uniqueKeys")), last, by_time, time]
    updates = relation.updates or bool(last) or not node.at("outputInsertOnly", default=not by_time)
    return Relation(identity("deduplicate", relation.rows, spec), relation.columns, node.output, updates)


def _normalized(node: PlanNode, inputs: Relations) -> Relation:
    (relation,) = inputs
    rows = identity("normalize", relation.rows, relation.picked(node.at("uniqueKeys")), _condition(node))
    return Relation(rows, relation.columns, node.output, updates=True)


def _kept_row(node: PlanNode) -> KeptRow:
    rows = Input.of(node.left, node.input_row(), node.at("uniqueKeys"))
    last, by_row_time = bool(node.at("keepLastRow")), bool(node.at("isRowtime"))
    if _waits(node):
        return KeptRow(rows, "already-emitted-state-boolean", None, last, node.has_ttl.get(0, False))
    times = rows.times("ROWTIME" if by_row_time else "PROCTIME")
    if not times:
        raise OptionError("its input does not have a time attribute")
    return KeptRow(rows, "deduplicate-state", times[0] if last or by_row_time else None, last, node.has_ttl.get(0, False))


def _last_rows(node: PlanNode) -> LastRows:
    if node.at("filterCondition") is not None:
        raise OptionError("it keeps only rows that fulfill a condition, which code of Flink computes")
    return LastRows(Input.of(node.left, node.input_row(), node.at("uniqueKeys")), node.has_ttl.get(0, False))


def _changed_row_of_key(old: PlanNode, new: PlanNode) -> StateChanges:
    before, after = old.input_relations[0], new.input_relations[0]
    if _waits(old) and not _waits(new) and _rules(old) == _rules(new):
        raise StateMigrationError(
            f"{new.label} of the new plan keeps the first row by row time; the old state does not contain it. Flink would "
            "restore the savepoint without an error and emit a first row of each key again"
        )
    old.same(new, "the kept row of", _rules)
    old.same(new, "the time attribute of", _time_column)
    old.same(new, "the condition of", _condition)
    if _waits(old):
        return {"waiting-to-emit-on-timer": changed_value(before, after)}
    if _waits(new):
        return {"deduplicate-state": StateSuccession(successor=_EMITTED)}
    return {"deduplicate-state": changed_value(before, after)}


_EMITTED: Final = Successor(
    "already-emitted-state-boolean",
    VALUE,
    {"value": True},
    "the first row of each key counts as emitted: the new operator does not retract it if an earlier row arrives later",
    NumberSerializer("BOOLEAN"),
    replaces=True,
)
"""Migration of the first row by row time (Flink 2: ``RowTimeDeduplicateKeepFirstRowFunction``).

Before, the row was emitted at once, and retracted if an earlier row arrived. Now the row waits for the watermark, and is final.
"""


def _rules(node: PlanNode) -> list[bool]:
    """Return the members that select the kept row and its state."""
    last, by_time, before = (bool(node.at(name)) for name in ("keepLastRow", "isRowtime", "generateUpdateBefore"))
    return [last, by_time, before and last and not by_time]


def _waits(node: PlanNode) -> bool:
    """Return whether a first row by row time waits for the watermark: ``outputInsertOnly`` of plans since Flink 2."""
    return bool(node.at("isRowtime")) and not node.at("keepLastRow") and bool(node.at("outputInsertOnly"))


def _ranked(node: PlanNode, state: StateDescription) -> Meaning | None:
    row = node.input_row()
    order = picked(row, [f["index"] for f in node.at("orderBy", "fields", default=())])
    unique = picked(row, node.at("rankStrategy", "primaryKeys"))
    by_order = {"map_key": order, "value": row}
    return {
        "data-state": Meaning(f"rows of the input, by {names_text(order)}", by_order),
        "data-state-with-append": Meaning(f"ranked rows, by {names_text(order) or 'arrival'}", by_order),
        "data-state-with-update": Meaning(
            f"ranked rows, by {names_text(unique)}, with their position among equal rows",
            {"map_key": unique, "value": row},
            ("record", "place"),
        ),
        "sorted-map": Meaning(f"the number of rows of each {names_text(order)}", {"value": order}),
        "Top1-Rank-State": Meaning("the first row", {"value": row}),
        "counterState": Meaning("the number of emitted rows"),
        "rankEnd": Meaning("the last rank, from a column of the input"),
    }.get(state.name)


def _order(node: PlanNode) -> list[Any]:
    """Return the columns of the order, with directions."""
    columns = node.input_relations[0].columns
    return [{**f, "index": columns[int(f["index"])]} for f in node.at("orderBy", "fields", default=())]


def _rank_range(node: PlanNode) -> Any:
    ranks = dict(node.at("rankRange", default={}))
    if "endIndex" in ranks:
        ranks["endIndex"] = node.input_relations[0].columns[int(ranks["endIndex"])]
    return ranks


def _ranked_rows(node: PlanNode, inputs: Relations) -> Relation:
    (relation,) = inputs
    partition = relation.picked(node.at("partition", "fields"))
    spec = [_order(node), node.at("rankType"), _rank_range(node)]
    rows = identity("rank", relation.rows, partition, spec)
    rank_numbers = [identity("number", rows, i) for i in range(len(node.output) - len(relation.columns))]
    return Relation(rows, (*relation.columns, *rank_numbers), node.output, updates=True)


_RANKS: Final[Mapping[str, Ranks]] = {"AppendFast": "append", "UpdateFast": "update", "Retract": "retract"}


def _started_ranks(node: PlanNode) -> RankedRows:
    rows = Input.of(node.left, node.input_row(), node.at("partition", "fields"))
    names = tuple(rows.columns)
    order = []
    for field in node.at("orderBy", "fields", default=()):
        sort = Order(names[int(field["index"])], bool(field["isAscending"]), bool(field["nullIsLast"]))
        type_ = rows.columns[sort.column]
        if not is_ordered(type_):
            raise OptionError(f"its order has the column {sort.column!r} of type {type_}; expected numbers, text or times")
        order.append(sort)
    rank, strategy = str(node.at("rankRange", "type")), str(node.at("rankStrategy", "type"))
    if rank != "Constant" or strategy not in _RANKS:
        raise OptionError(f"its ranks are {rank} with the strategy {strategy}; expected Constant with {', '.join(_RANKS)}")
    start, end = int(node.at("rankRange", "start")), int(node.at("rankRange", "end"))
    kind = _RANKS[strategy]
    if kind == "append" and len(order) == 1 and order[0].ascending and order[0].column in rows.processing_time:
        kind = "count"
    elif kind != "retract" and start == end == 1:
        kind = "first"
    if kind != "count" and rows.processing_time & {sort.column for sort in order}:
        raise OptionError("its order is the processing time of rows, which is not stored")
    unique = picked(names, node.at("rankStrategy", "primaryKeys"))
    return RankedRows(rows, kind, tuple(order), end, unique, node.has_ttl.get(0, False))


def _strategy(node: PlanNode) -> tuple[Any, list[Identity]]:
    return node.at("rankStrategy", "type"), node.input_relations[0].picked(node.at("rankStrategy", "primaryKeys"))


def _changed_ranks(old: PlanNode, new: PlanNode) -> StateChanges:
    before, after = old.input_relations[0], new.input_relations[0]
    old.same(new, "the order or the ranks of", lambda node: [_order(node), _rank_range(node), node.at("rankType")])
    old.same(new, "the strategy (the known unique keys) of", _strategy)
    (strategy, unique), ordered = _strategy(old), [field["index"] for field in _order(old)]
    change = changed_value(before, after)
    if strategy == "Retract":
        same_types(before, after, ordered)
        change.refuse_new_columns("rows that the top-N keeps")
    return {
        **dict.fromkeys(("data-state", "Top1-Rank-State"), change),
        "data-state-with-append": replace(change, rows={**change.rows, MAP_KEY: changed_key(before, after, ordered)}),
        "data-state-with-update": replace(change, rows={**change.rows, MAP_KEY: changed_key(before, after, unique)}),
    }


_RANK: Final = Operator(
    names=("rank",),
    meaning=_ranked,
    state_names="data-state(-with-append|-with-update)?|sorted-map|Top1-Rank-State|rankEnd",
    keys=at_paths(("partition", "fields")),
    relation=_ranked_rows,
    history=_started_ranks,
    changes=_changed_ranks,
)
OPERATORS: Final = (
    Operator(
        names=("deduplicate",),
        meaning=_deduplicated,
        state_names="already-emitted-state-boolean|waiting-to-emit-on-timer",
        has_states=lambda states: "deduplicate-state" in states,
        keys=at_paths(("uniqueKeys",)),
        relation=_first_or_last,
        history=_kept_row,
        changes=_changed_row_of_key,
        changes_ttl=True,
    ),
    Operator(
        names=("changelog-normalize",),
        meaning=by_name(TIMES | WINDOWS, {"deduplicate-state": "the last row of each key"}),
        has_states=lambda states: "deduplicate-state" in states and has_rows(states["deduplicate-state"].value),
        keys=at_paths(("uniqueKeys",)),
        relation=_normalized,
        history=_last_rows,
        changes=_changed_row_of_key,
        changes_ttl=True,
    ),
    _RANK,
    replace(_RANK, nodes=("limit", "sort-limit"), state_names="", relation=unknown_rows, changes=None),
)
