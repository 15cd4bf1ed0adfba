"""Migration of states with input rows to another plan: joins, deduplications, normalizations, top-N and sinks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from state_processor.backends.sql.lineage import (
    Identity,
    Relation,
    join_columns,
    key_columns,
    order,
    rank_range,
    resolved,
    time_column,
)
from state_processor.backends.sql.meaning import sink_row
from state_processor.backends.sql.plan import PlanFields, PlanNode
from state_processor.backends.sql.row_changes import (
    MAP_KEY,
    VALUE,
    ChangedNode,
    StateChanges,
    StateSuccession,
    Successor,
    changed_key,
    changed_row,
    label,
    same_types,
)
from state_processor.backends.state.descriptions import VALUE as VALUE_STATE
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.errors import StateMigrationError


def changed_row_of_key(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of a deduplication or normalization."""
    before, after = old.inputs[0], new.inputs[0]
    if _waits(old.node) and not _waits(new.node) and _rules(old.node) == _rules(new.node):
        raise StateMigrationError(
            f"{label(new.node)} of the new plan keeps the first row by row time; the old state does not contain it. Flink would "
            "restore the savepoint without an error and emit a first row of each key again"
        )
    old.same(new, "the kept row of", (_rules(old.node), _rules(new.node)))
    old.same(new, "the time attribute of", (_time(old), _time(new)))
    conditions = [resolved(s.node.at("filterCondition"), g.columns) for s, g in ((old, before), (new, after))]
    old.same(new, "the condition of", (conditions[0], conditions[1]))
    if _waits(old.node):
        return {"waiting-to-emit-on-timer": StateSuccession({VALUE: changed_row(before, after)})}
    if _waits(new.node):
        return {"deduplicate-state": StateSuccession(successor=_EMITTED)}
    return {"deduplicate-state": StateSuccession({VALUE: changed_row(before, after)})}


_EMITTED: Final = Successor(
    "already-emitted-state-boolean",
    VALUE_STATE,
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


def _time(side: ChangedNode) -> Identity | None:
    return time_column(side.inputs[0]) if side.node.at("isRowtime") else None


def changed_ranks(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of a top-N."""
    before, after = old.inputs[0], new.inputs[0]
    specs = [[order(s.node, g), rank_range(s.node, g), s.node.at("rankType")] for s, g in ((old, before), (new, after))]
    old.same(new, "the order or the ranks of", (specs[0], specs[1]))
    strategies = [
        (s.node.at("rankStrategy", "type"), g.picked(s.node.at("rankStrategy", "primaryKeys")))
        for s, g in ((old, before), (new, after))
    ]
    old.same(new, "the strategy (the known unique keys) of", (strategies[0], strategies[1]))
    ordered = [field["index"] for field in order(old.node, before)]
    rows = {VALUE: changed_row(before, after)}
    change = StateSuccession(rows)
    if strategies[0][0] == "Retract":
        same_types(before, after, ordered)
        _check_found_again(change, "rows that the top-N keeps")
    return {
        **dict.fromkeys(("data-state", "Top1-Rank-State"), change),
        "data-state-with-append": StateSuccession(rows | {MAP_KEY: changed_key(before, after, ordered)}),
        "data-state-with-update": StateSuccession(rows | {MAP_KEY: changed_key(before, after, strategies[0][1])}),
    }


def changed_materialized(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of the rows that a sink keeps for each primary key (Flink: ``SinkUpsertMaterializer``)."""
    is_same = old.inputs[0].columns == new.inputs[0].columns and sink_row(old.node) == sink_row(new.node)
    if not materializes(old.node) or is_same:
        return {}
    before, after = (replace(side.inputs[0], fields=sink_fields(side)) for side in (old, new))
    upsert = before.picked(old.node.at("inputUpsertKey"))
    old.same(new, "the known key of rows of", (upsert, after.picked(new.node.at("inputUpsertKey"))))
    change = StateSuccession({VALUE: changed_row(before, after)})
    strategy = old.node.at("upsertMaterializeStrategy", default="LEGACY")
    if strategy != "LEGACY":
        same_types(before, after, upsert)
    if not upsert and strategy != "LEGACY" and not change.is_same:
        raise StateMigrationError(
            f"{label(old.node)} finds its rows by all of their columns, by code for these columns that Flink has generated and "
            f"stored with the state (strategy {strategy}). Keep the columns and their order, or drop this operator"
        )
    if not upsert:
        _check_found_again(change, f"the rows of {label(old.node)}")
    return dict.fromkeys(("values", "list", "sqnToNodeState"), change)


def materializes(node: PlanNode) -> bool:
    """Return whether a sink keeps rows."""
    return bool(node.at("requireUpsertMaterialize"))


def sink_fields(side: ChangedNode) -> PlanFields:
    """Return the stored columns of a sink: the columns of its input, in order."""
    sink_columns, input_fields = sink_row(side.node), side.inputs[0].fields
    if len(sink_columns) != len(input_fields):
        raise StateMigrationError(
            f"{label(side.node)} has {len(input_fields)} columns, and its table {len(sink_columns)} stored columns in the plan; "
            "expected a table without columns of metadata, and a plan that was compiled with table.plan.compile.catalog-objects "
            "= SCHEMA"
        )
    return sink_columns


def changed_join(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of a join without time."""
    specs = [s.node.at("joinSpec", default={}) for s in (old, new)]
    conditions = [
        resolved(spec.get("nonEquiCondition"), join_columns(*side.inputs)) for spec, side in zip(specs, (old, new), strict=True)
    ]
    old.same(new, "the type of", (specs[0].get("joinType"), specs[1].get("joinType")))
    if specs[0].get("joinType") != "INNER":  # its state counts the matching rows of the other side
        old.same(new, "the condition of", (conditions[0], conditions[1]))
        old.same(new, "the comparison of nulls in", (specs[0].get("filterNulls"), specs[1].get("filterNulls")))
    return {f"{label}-records": _changed_side(old, new, i, label) for i, label in enumerate(("left", "right"))}


def _changed_side(old: ChangedNode, new: ChangedNode, at: int, label: str) -> StateSuccession:
    before, after = old.inputs[at], new.inputs[at]
    old_unique, new_unique = _unique(old.node, before, at, label), _unique(new.node, after, at, label)
    if old_unique != new_unique:
        shapes = [_shape(*pair) for pair in ((before, old_unique), (after, new_unique))]
        raise StateMigrationError(
            f"its {label} rows are kept {shapes[0]} in the old plan, {shapes[1]} in the new one; the layouts differ"
        )
    change = changed_row(before, after)
    merges = old_unique is None and len({f.source for f in change.fields} - {None}) < change.size
    rows = {MAP_KEY: change} if old_unique is None else {VALUE: change, MAP_KEY: changed_key(before, after, old_unique)}
    side_change = StateSuccession(rows, merges)
    if old_unique is None and before.updates:
        _check_found_again(side_change, f"the {label} rows of the join")
    return side_change


def _check_found_again(change: StateSuccession, whose: str) -> None:
    """Refuse new columns of rows that are retracted by their whole content."""
    if any(field.source is None for row in change.rows.values() for field in row.fields):
        raise StateMigrationError(
            f"{whose} have new columns ({'; '.join(change.notes)}), but not a known key. Retracted rows are found "
            "by all of their columns; they would not be found without the values of the new columns"
        )


def _unique(node: PlanNode, relation: Relation, at: int, label: str) -> tuple[Identity, ...] | None:
    """Return the unique columns of the rows of a side; empty if a key has one row, ``None`` if rows are not unique."""
    unique = node.at(f"{label}UpsertKeys") or node.at(f"{label}UniqueKeys") or ()
    key = set(relation.picked(key_columns(node)[at]))
    keys = [tuple(relation.picked(columns_of_key)) for columns_of_key in unique]
    if any(set(columns_of_key) <= key for columns_of_key in keys):
        return ()
    return min(keys, key=len, default=None)


def _shape(relation: Relation, unique: tuple[Identity, ...] | None) -> str:
    if unique is None:
        return "with the number of their copies"
    names = [relation.fields[relation.columns.index(identity)].name for identity in unique]
    return f"by {', '.join(names)}" if names else "one for each key"
