"""Sinks, and the rows that a sink keeps for each primary key (Flink: ``SinkUpsertMaterializer``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.applications.flink_sql.fields import PlanField, PlanFields, Relation, is_time, picked, plan_type
from state_processor.applications.flink_sql.nodes import JobGraph, Meaning, Operator, Outlets, PlanNode, has_rows, role_by_keys
from state_processor.applications.flink_sql.state_changes import StateChanges, changed_value, same_types
from state_processor.errors import StateMigrationError
from state_processor.states import StateDescription
from state_processor.support import names_of


def sink_row(node: PlanNode) -> PlanFields:
    """Return the stored columns of a sink; empty if only the catalog contains them."""
    columns = node.at("dynamicTableSink", "table", "resolvedTable", "schema", "columns", default=())
    stored = [c for c in columns if str(c.get("kind", "PHYSICAL")).upper() == "PHYSICAL"]
    return tuple(PlanField(str(c["name"]), plan_type(c.get("dataType"))) for c in stored)


def has_row_time(node: PlanNode) -> bool:
    """Return whether the input of a sink has a time attribute by row time."""
    return any(is_time(f.type, "ROWTIME") for f in node.left)


def _keeps_rows(node: PlanNode) -> bool:
    return bool(node.at("requireUpsertMaterialize"))


def _strategy(node: PlanNode) -> Any:
    return node.at("upsertMaterializeStrategy", default="LEGACY")


_SEQUENCES: Final = {
    "list": "rows of the primary key in the order of changes, with their times; the sink contains the last row",
    "values": "rows of the primary key; the sink contains the last row",
    "rowToSqnState": "the numbers of the first and the last change with each row of the primary key",
    "sqnToNodeState": "rows of the primary key by the number of their change; the sink contains the last row",
    "highestSqnState": "the number of the last change, and of rows",
}


def _meaning(node: PlanNode, state: StateDescription) -> Meaning | None:
    if state.name not in _SEQUENCES:
        return None
    row = sink_row(node)
    roles = {"value": row} if row and has_rows(state.value) else {}
    upsert = picked(row, node.at("inputUpsertKey")) if row else ()
    by_row = {"map_key": upsert or row} if row and state.name == "rowToSqnState" else {}
    return Meaning(_SEQUENCES[state.name], roles | by_row, ("record", "timestamp"))


def _primary_key(node: PlanNode) -> list[list[int]]:
    """Return the positions of the primary key among the stored columns."""
    names = node.at("dynamicTableSink", "table", "resolvedTable", "schema", "primaryKey", "columns", default=())
    row = names_of(sink_row(node))
    return [list(map(row.index, names)) if row else []]


def _role(node: PlanNode) -> tuple[Any, ...] | None:
    table = node.at("dynamicTableSink", "table", "identifier")
    if table is not None and not _keeps_rows(node):
        return (node.kind, table)
    return (*(role_by_keys(node) or ()), table, _strategy(node))


def _stored_fields(node: PlanNode) -> PlanFields:
    """Return the stored columns of a sink: the columns of its input, in order."""
    sink_columns, input_fields = sink_row(node), node.input_relations[0].fields
    if len(sink_columns) != len(input_fields):
        raise StateMigrationError(
            f"{node.label} has {len(input_fields)} columns, and its table {len(sink_columns)} stored columns in the plan; "
            "expected a table without columns of metadata, and a plan that was compiled with table.plan.compile.catalog-objects "
            "= SCHEMA"
        )
    return sink_columns


def _stored_rows(node: PlanNode) -> Relation:
    return replace(node.input_relations[0], fields=_stored_fields(node))


def _changes(old: PlanNode, new: PlanNode) -> StateChanges:
    is_same = old.input_relations[0].columns == new.input_relations[0].columns and sink_row(old) == sink_row(new)
    if not _keeps_rows(old) or is_same:
        return {}
    before, after = _stored_rows(old), _stored_rows(new)
    old.same(new, "the known key of rows of", lambda node: node.input_relations[0].picked(node.at("inputUpsertKey")))
    upsert = before.picked(old.at("inputUpsertKey"))
    change = changed_value(before, after)
    strategy = _strategy(old)
    if strategy != "LEGACY":
        same_types(before, after, upsert)
    if not upsert and strategy != "LEGACY" and not change.is_same:
        raise StateMigrationError(
            f"{old.label} finds its rows by all of their columns, by code for these columns that Flink has generated and "
            f"stored with the state (strategy {strategy}). Keep the columns and their order, or drop this operator"
        )
    if not upsert:
        change.refuse_new_columns(f"the rows of {old.label}")
    return dict.fromkeys(("values", "list", "sqnToNodeState"), change)


def _translated(graph: JobGraph, node: PlanNode, inputs: Sequence[Outlets]) -> Outlets:
    way, outlets = graph.way, list(inputs)
    if way.validated[node.id]:
        outlets = [graph.add("constraint-validator", outlets)]
    changes: Any = node.at("inputChangelogMode", default=())
    if _keeps_rows(node) and list(changes) != ["INSERT"]:
        outlets = [graph.add("upsert-materialize", outlets, chained=False)]
    if way.timestamps and has_row_time(node):
        outlets = [graph.add("timestamp-inserter", outlets)]
    for name, chained in way.shapes[node.id]:
        outlets = [graph.add(name, outlets, chained=chained)]
    return outlets[0]


OPERATORS: Final = (
    Operator(
        names=("upsert-materialize",),
        nodes=("sink",),
        transformations=(
            *("sink", "upsert-materialize", "constraint-validator", "partitioner", "timestamp-inserter", "row-kind-setter"),
            *("streaming-writer", "compact-coordinator", "compact-operator", "partition-committer", "discarding-sink"),
        ),
        meaning=_meaning,
        state_names="rowToSqnState|sqnToNodeState|highestSqnState",
        has_states=lambda states: "list" in states or "values" in states,
        keys=_primary_key,
        key=lambda node: picked(sink_row(node), _primary_key(node)[0]) or None,
        no_history="its state depends on the order of rows",
        changes=_changes,
        role=_role,
        keyed_rows=lambda node: _stored_rows(node) if _keeps_rows(node) and sink_row(node) else None,
        check=_stored_fields,
        has_versions=False,  # connectors define the state of sinks
        mismatch="does something else",
        translate=_translated,
    ),
)
