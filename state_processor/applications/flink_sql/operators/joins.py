"""Joins without time, of two inputs (Flink: ``StreamingJoinOperator``) or more."""

from __future__ import annotations

import re
from typing import Any, Final

from state_processor.applications.flink_sql.bootstrap import Input, JoinedRows, JoinSide
from state_processor.applications.flink_sql.fields import (
    Identity,
    PlanField,
    PlanFields,
    Relation,
    Relations,
    distinct_names,
    identity,
    names_text,
    picked,
    resolved,
)
from state_processor.applications.flink_sql.nodes import Meaning, Operator, PlanNode, at_paths, has_rows
from state_processor.applications.flink_sql.operators.timed import has_sides_of_windows
from state_processor.applications.flink_sql.state_changes import (
    MAP_KEY,
    VALUE,
    StateChanges,
    StateSuccession,
    changed_key,
    changed_row,
)
from state_processor.errors import OptionError, StateMigrationError
from state_processor.serializers import RowDataSerializer, TupleSerializer, TypeSerializer
from state_processor.states import MAP, StateDescription
from state_processor.types import RowType, outermost_of

_SIDES: Final = ("left", "right")


def _unique_keys(node: PlanNode, side: str) -> Any:
    return node.at(f"{side}UpsertKeys") or node.at(f"{side}UniqueKeys") or ()


def _meaning(node: PlanNode, state: StateDescription) -> Meaning | None:
    """Return the meaning of a side of a join, by the known unique keys (Flink: ``JoinRecordStateViews``)."""
    side, _, suffix = state.name.partition("-")
    if side not in _SIDES or suffix != "records":
        return None
    row, unique = node.input_row(_SIDES.index(side)), _unique_keys(node, side)
    is_outer = bool(outermost_of(TupleSerializer, state.value))
    suffix = ", and of matching rows of the other side" if is_outer else ""
    if not has_rows(state.value):
        names = ("copies", "associations") if is_outer else ()
        return Meaning(f"rows of the {side} input: each as map key, with the number of copies{suffix}", {"map_key": row}, names)
    names = ("record", "associations") if is_outer else ()
    suffix = ", with the number of matching rows of the other side" if is_outer else ""
    if state.kind != MAP:
        return Meaning(f"rows of the {side} input: one for each unique key{suffix}", {"value": row}, names)
    smallest = min(unique, key=len, default=None)
    rows = {"value": row} | ({} if smallest is None else {"map_key": picked(row, smallest)})
    return Meaning(f"rows of the {side} input by their unique key{suffix}", rows, names)


_INPUT: Final = re.compile(r"multi-join-input-(\d+)")


def _multi_join(node: PlanNode, state: StateDescription) -> Meaning | None:
    """Return the meaning of the rows of an input of a multi-join (Flink: ``MultiJoinStateViews``).

    Entries are found by the columns that join the input with earlier inputs. The first input does not have such columns.
    """
    match = _INPUT.fullmatch(state.name)
    if match is None or int(match[1]) >= len(node.inputs) or state.kind != MAP:
        return None
    at = int(match[1])
    side = node.input_row(at)
    keys = (node.at("inputUniqueKeys", default=()) or [()] * len(node.inputs))[at]
    joined = node.at("joinAttributeMap", str(at), default=())
    joined_by = distinct_names(picked(side, [a["rightFieldIndex"] for a in joined if int(a["leftInputId"]) >= 0]))
    is_unique = has_rows(state.value)
    row = picked(side, min(keys, key=len, default=())) if is_unique else side
    by = f", by {names_text(joined_by)}" if joined_by else ""
    text = f"rows of input {at}{by}: " + ("one for each unique key" if is_unique else "each with the number of copies")
    values = {"value": side} if is_unique else {}
    map_key = state.serializers.get("map_key")
    sizes = _sizes_of_rows(map_key)
    if sizes:
        pair = (PlanField("joined_by", fields=joined_by), PlanField("unique_key" if is_unique else "record", fields=row))
        fits = [len(part.fields) for part in pair] == sizes
        return Meaning(text, values | {"map_key": pair if fits else tuple(PlanField(part.name) for part in pair)})
    size = len(map_key.slot.fields) if isinstance(map_key, RowDataSerializer) else 0
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
    return picked(node.input_row(), properties[0].get("requiredDistribution", {}).get("keys") if properties else ())


def _condition_columns(left: Relation, right: Relation) -> tuple[Identity, ...]:
    """Return the columns in the condition of a join."""
    return (*(identity("left", c) for c in left.columns), *(identity("right", c) for c in right.columns))


def _joined(node: PlanNode, inputs: Relations) -> Relation:
    left, right = inputs
    spec = dict(node.at("joinSpec", default={}))
    columns = _condition_columns(left, right)
    keys = left.picked(spec.pop("leftKeys", ())), right.picked(spec.pop("rightKeys", ()))
    rows = identity("join", left.rows, right.rows, keys, resolved(spec, columns))
    updates = left.updates or right.updates or node.at("joinSpec", "joinType") != "INNER"
    return Relation(rows, columns[: len(node.output)], node.output, updates)


_OUTER: Final = {"INNER": (), "LEFT": ("left",), "RIGHT": ("right",), "FULL": _SIDES, "SEMI": ("left",), "ANTI": ("left",)}
"""The sides whose rows count matching rows of the other side, by type of join."""


def _history(node: PlanNode) -> JoinedRows:
    kind = str(node.at("joinSpec", "joinType"))
    if kind not in _OUTER:
        raise OptionError(f"it is a join of type {kind}; supported are {', '.join(_OUTER)}")
    if _OUTER[kind] and node.at("joinSpec", "nonEquiCondition") is not None:
        raise OptionError(
            "its state counts the matching rows of the other side for each row. Flink code computes its condition "
            "if that is not only equality of columns; inner joins with such a condition are supported"
        )
    filtered = node.at("joinSpec", "filterNulls", default=())
    left, right = (_started(node, at, side in _OUTER[kind]) for at, side in enumerate(_SIDES))
    return JoinedRows(left, right, frozenset(i for i, filters in enumerate(filtered) if not filters))


def _started(node: PlanNode, at: int, outer: bool) -> JoinSide:
    side = _SIDES[at]
    output = node.inputs[at].output if at < len(node.inputs) else ()
    rows = Input.of(output, node.input_row(at), node.at("joinSpec", f"{side}Keys"))
    names = tuple(rows.columns)
    keys = [picked(names, key) for key in _unique_keys(node, side)]
    within = next((key for key in keys if set(key) <= set(rows.key)), None)
    return JoinSide(rows, within or min(keys, key=len, default=()), outer, node.has_ttl.get(at, False))


def _changes(old: PlanNode, new: PlanNode) -> StateChanges:
    old.same(new, "the type of", lambda node: node.at("joinSpec", "joinType"))
    if old.at("joinSpec", "joinType") != "INNER":  # its state counts the matching rows of the other side
        old.same(new, "the condition of", _condition)
        old.same(new, "the comparison of nulls in", lambda node: node.at("joinSpec", "filterNulls"))
    return {f"{side}-records": _changed_side(old, new, at) for at, side in enumerate(_SIDES)}


def _condition(node: PlanNode) -> Any:
    return resolved(node.at("joinSpec", "nonEquiCondition"), _condition_columns(*node.input_relations))


def _changed_side(old: PlanNode, new: PlanNode, at: int) -> StateSuccession:
    side, before, after = _SIDES[at], old.input_relations[at], new.input_relations[at]
    old_unique, new_unique = _unique(old, before, at), _unique(new, after, at)
    if old_unique != new_unique:
        shapes = [_shape(*pair) for pair in ((before, old_unique), (after, new_unique))]
        raise StateMigrationError(
            f"its {side} rows are kept {shapes[0]} in the old plan, {shapes[1]} in the new one; the layouts differ"
        )
    change = changed_row(before, after)
    if old_unique is not None:
        return StateSuccession({VALUE: change, MAP_KEY: changed_key(before, after, old_unique)})
    columns_kept = {field.source for field in change.fields} - {None}
    side_change = StateSuccession({MAP_KEY: change}, merges=len(columns_kept) < change.size)
    if before.updates:
        side_change.refuse_new_columns(f"the {side} rows of the join")
    return side_change


def _unique(node: PlanNode, relation: Relation, at: int) -> tuple[Identity, ...] | None:
    """Return the unique columns of the rows of a side; empty if a key has one row, ``None`` if rows are not unique."""
    key = set(relation.picked(node.key_columns[at]))
    keys = [tuple(relation.picked(columns_of_key)) for columns_of_key in _unique_keys(node, _SIDES[at])]
    if any(set(columns_of_key) <= key for columns_of_key in keys):
        return ()
    return min(keys, key=len, default=None)


def _shape(relation: Relation, unique: tuple[Identity, ...] | None) -> str:
    if unique is None:
        return "with the number of their copies"
    names = [relation.fields[relation.columns.index(column)].name for column in unique]
    return f"by {', '.join(names)}" if names else "one for each key"


OPERATORS: Final = (
    Operator(
        names=("join",),
        meaning=_meaning,
        has_states=lambda states: has_sides_of_windows(states) is False,
        keys=at_paths(("joinSpec", "leftKeys"), ("joinSpec", "rightKeys")),
        relation=_joined,
        history=_history,
        changes=_changes,
        ttl_states={0: "left-records", 1: "right-records"},
        changes_ttl=True,
        other_shapes={
            "multi-join": (
                "the new query joins all inputs in one operator with other states; compile it with "
                "table.optimizer.multi-join.enabled = false"
            ),
        },
    ),
    Operator(
        names=("multi-join",),
        meaning=_multi_join,
        state_names=r"multi-join-input-\d+",
        key=_distributed_by,
        no_history="it keeps the rows of more than two inputs",
    ),
)
