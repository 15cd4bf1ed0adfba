"""Aggregates by groups (Flink: ``GroupAggFunction``), in one phase or in two, and parts that aggregates by windows share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from state_processor.applications.flink_sql.bootstrap import (
    Accumulators,
    AggregateCall,
    Input,
    accumulator,
    accumulator_fields,
    aggregate_calls,
    calls_of_view,
    distinct_values,
    distinct_views,
)
from state_processor.applications.flink_sql.fields import (
    Identity,
    PlanFields,
    Relation,
    Relations,
    distinct_names,
    identity,
    picked,
)
from state_processor.applications.flink_sql.nodes import (
    WINDOWS,
    Column,
    Columns,
    Meaning,
    Operator,
    PlanNode,
    at_paths,
    by_name,
    unknown_rows,
)
from state_processor.applications.flink_sql.state_changes import Calls, StateChanges, changed_calls
from state_processor.errors import OptionError
from state_processor.states import StateDescription
from state_processor.support import index_by_name, names_of

_DISTINCT: Final = re.compile(r"distinctAcc_(\d+)(_null_state)?")
_VIEW: Final = re.compile(r"agg(\d+)\$(.+)")


def group_calls(node: PlanNode) -> list[AggregateCall]:
    """Return the calls of an aggregate; arguments are input columns of its first phase."""
    is_partial = node.at("partialOriginalAggCalls") is not None
    needed = "partialAggCallNeedRetractions" if is_partial else "aggCallNeedRetractions"
    retracts = node.at(needed)
    if retracts is None:
        retracts = (bool(node.at("needRetraction", default=False)),)
    names = names_of(distinct_names(_call_input(node)))
    calls = node.at("partialOriginalAggCalls" if is_partial else "aggCalls", default=())
    return aggregate_calls(calls, names, retracts, texts_by_name(names, _call_columns(node)), node.release)


def texts_by_name(names: Sequence[str], columns: Sequence[Column]) -> dict[str, str]:
    """Return the texts of columns by their names; nothing if their number differs."""
    return {name: column.text for name, column in zip(names, columns, strict=True)} if len(columns) == len(names) else {}


def _call_input(node: PlanNode) -> PlanFields:
    """Return the fields of the rows that the calls of an aggregate refer to: the input of its first phase."""
    member = "partialLocalAggInputRowType" if node.at("partialOriginalAggCalls") is not None else "localAggInputRowType"
    return node.fields_of(member) if node.at(member) is not None else node.left


def _call_columns(node: PlanNode) -> Sequence[Column]:
    """Return the columns that the calls of an aggregate refer to."""
    before = node
    while before.inputs and node.kind.startswith(("global-", "incremental-")):
        before = before.inputs[0]
        if before.kind.startswith("local-"):
            return before.left_columns
        if before.kind.startswith("incremental-"):
            keys = picked(before.left_columns, before.at("partialAggGrouping"))
            return [*keys, *(Column(str(call)) for call in group_calls(before))]
        if not before.operator.passes:
            break
    return node.left_columns


def _identified_calls(node: PlanNode, relation: Relation) -> list[AggregateCall]:
    """Return the calls of an aggregate with the identities of columns instead of names."""
    by_name = dict(zip(names_of(distinct_names(relation.fields)), relation.columns, strict=True))

    def identified(name: str) -> Identity:
        return by_name.get(name) or identity("column of an unknown input", name, relation.rows, relation.columns)

    calls = []
    for call in group_calls(node):
        arguments = tuple(map(identified, call.arguments))
        calls.append(replace(call, arguments=arguments, filter=call.filter and identified(call.filter)))
    return calls


def call_identities(calls: Iterable[AggregateCall], *context: object) -> list[Identity]:
    """Return the identities of calls whose columns are identities, in a context such as the window of an aggregate."""
    return [identity(*context, c.function, c.arguments, c.distinct, c.filter, str(c.type)) for c in calls]


def _counts_rows(node: PlanNode) -> bool:
    hopping = node.at("windowing", "window", "type") == "HoppingWindow"
    return hopping or any(bool(node.at(name)) for name in ("needRetraction", "partialAggNeedRetraction"))


def accumulators_in(name: str, owner: str) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states of an operator that has accumulators in a state with this name."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        calls, counted = group_calls(node), _counts_rows(node)
        if state.name == name:
            return Meaning(calls_text(calls, owner), {"value": accumulator(calls, counts_rows=counted)})
        return view_of(calls, _call_input(node), state, counted=counted) or by_name(WINDOWS)(node, state)

    return find


def calls_text(calls: Sequence[AggregateCall], owner: str) -> str:
    """Return the description of accumulators."""
    return f"accumulators of {owner}: {', '.join(map(str, calls)) or 'no call'}"


def view_of(calls: Sequence[AggregateCall], fields: PlanFields, state: StateDescription, *, counted: bool) -> Meaning | None:
    """Return the meaning of a state with a part of an accumulator. ``fields``: the fields that calls refer to."""
    match = _DISTINCT.fullmatch(state.name)
    views = distinct_views(calls)
    if match and int(match[1]) < len(views):
        columns = views[int(match[1])]
        rows = index_by_name(distinct_names(fields))
        view_calls = calls_of_view(calls, columns)
        call_names, values_text = ", ".join(map(str, view_calls)), view_calls[0].argument_text
        counted_as = "its number" if counted else "a bit for each of these calls that has counted it"
        if match[2]:
            return Meaning(f"{call_names}: the null among the values of {values_text}: {counted_as}")
        key = tuple(rows[c] for c in columns if c in rows) if len(columns) > 1 else ()
        text = f"{call_names}: map keys are the values of {values_text}, the map value is {counted_as}"
        return Meaning(text, {"map_key": key} if key else {})
    match = _VIEW.fullmatch(state.name)
    if match and int(match[1]) < len(calls):
        return Meaning(f"{calls[int(match[1])]}: the view {match[2]!r} of its accumulator")
    return None


def _grouped(node: PlanNode, member: str) -> list[Column]:
    return [node.left_columns[int(i)] for i in node.at(member, default=()) if int(i) < len(node.left_columns)]


def _group_columns(node: PlanNode) -> Columns:
    """Return the grouping columns, then the results of calls."""
    return [*_grouped(node, "grouping"), *(Column(str(call)) for call in group_calls(node))]


def group_rows(node: PlanNode, inputs: Relations) -> Relation:
    """Return the groups of an aggregate."""
    (relation,) = inputs
    keys = relation.picked(node.key_columns[0])
    rows = identity("groups", relation.rows, keys)
    calls = call_identities(_identified_calls(node, relation), "call")
    return Relation(rows, (*keys, *calls), node.output, updates=True)


def _partial_rows(node: PlanNode, inputs: Relations) -> Relation:
    """Return the rows of a first phase, with the identity of the input rows."""
    return replace(unknown_rows(node, inputs), rows=inputs[0].rows)


def _merged_accumulators(node: PlanNode) -> Accumulators:
    """Return the accumulators of the second phase; they merge the accumulators of the input rows of the first phase."""
    local = node.first_phase
    if local is None or local.left != node.fields_of("localAggInputRowType"):
        raise OptionError("its input is not the first phase of the same aggregate")
    return _started(node, local)


def _started(node: PlanNode, first: PlanNode) -> Accumulators:
    """Return the accumulators after the input rows of the first phase."""
    rows = Input.of(first.left, first.input_row(), first.at("grouping"))
    calls, counts = group_calls(node), _counts_rows(node)
    fields = accumulator_fields(calls, rows.columns, counts_rows=counts)
    distinct = distinct_values(calls, rows.columns, counts_rows=counts)
    return Accumulators(rows, fields, distinct, node.has_ttl.get(0, False))


def changed_accumulators(state: str, old: PlanNode, new: PlanNode) -> StateChanges:
    """Return the changes of the accumulators in a state."""
    return changed_calls(state, _calls(old), _calls(new))


def _calls(node: PlanNode) -> Calls:
    relation = node.input_relations[0]
    return Calls(group_calls(node), _identified_calls(node, relation), _counts_rows(node), relation)


_WITHOUT_CHANGES: Final = Operator(
    names=("group-table-aggregate",),
    meaning=accumulators_in("accState", "each group"),
    keys=at_paths(("grouping",)),
    columns=_group_columns,
    no_history="a user class defines the accumulators of table functions",
)
GROUPS: Final = replace(
    _WITHOUT_CHANGES,
    names=("group-aggregate",),
    has_states=lambda states: (
        "cleanupTsState" not in states
        if "accState" in states
        else bool({"distinctAcc_0", "distinctAcc_0_null_state"} & states.keys())
    ),
    relation=group_rows,
    history=lambda node: _started(node, node),
    changes=lambda old, new: changed_accumulators("accState", old, new),
    changes_ttl=True,
    other_shapes={"global-group-aggregate": "the new query aggregates in two phases; their accumulators differ"},
)
OPERATORS: Final = (
    GROUPS,
    replace(
        GROUPS,
        names=("global-group-aggregate",),
        has_states=None,
        first_phase="local-group-aggregate",
        history=_merged_accumulators,
        other_shapes={"group-aggregate": "the new query aggregates in one phase; its accumulators differ"},
    ),
    Operator(
        names=("local-group-aggregate", "local-window-aggregate"),
        columns=lambda node: _grouped(node, "grouping"),
        relation=_partial_rows,
    ),
    replace(
        _WITHOUT_CHANGES,
        names=("incremental-group-aggregate",),
        keys=at_paths(("partialAggGrouping",)),
        columns=lambda node: _grouped(node, "finalAggGrouping"),
        no_history="Flink makes the rows of its input; compile the plan without table.optimizer.distinct-agg.split.enabled",
    ),
    _WITHOUT_CHANGES,
)
