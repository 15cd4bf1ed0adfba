"""The check of the state of a query against another query: their compiled plans are compared, operator by operator.

Rows in the state of a query lack names, and equal types prove nothing: ``MAX`` and ``SUM`` have the same accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from state_processor.applications.flink_sql.descriptions import fits
from state_processor.applications.flink_sql.nodes import PlanNode, PlanOperator
from state_processor.applications.flink_sql.plan import CompiledPlan, uid_formats
from state_processor.applications.flink_sql.query_changes import QueryChanges
from state_processor.applications.flink_sql.query_migration import MigratingOperator, QueryMigration
from state_processor.applications.flink_sql.state_changes import StateSuccession
from state_processor.applications.jobs.opening import state_signature
from state_processor.applications.jobs.signature import KEY, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.errors import StateProcessorError
from state_processor.write import SavepointBuild

_CONNECTORS: Final = {"source": "scanTableSource", "sink": "dynamicTableSink"}
_HARMLESS: Final = (
    *("table.exec.mini-batch.size", "table.exec.mini-batch.allow-latency", "table.exec.rank.topn-cache-size"),
    *("table.exec.source.idle-timeout", "table.exec.simplify-operator-name-enabled", "table.exec.sink.not-null-enforcer"),
)
"""Options in a plan that do not change states or their meaning."""


@dataclass(frozen=True, slots=True)
class QueryOperator:
    """What becomes of the state of an operator in another query."""

    verdicts: tuple[StateVerdict, ...] = ()  # the verdicts on the whole operator, without a state, and on states
    # the states that the operator of the new query registers, as far as they are known; ``None`` without a savepoint
    states: Mapping[str, StateSignature] | None = field(default=None)
    is_same: bool = False  # whether the plans show that the operator does the same with the same rows

    def applied_to(self, new: OperatorSignature) -> OperatorSignature:
        """Return the operator of the new query with its states."""
        return replace(new, states=self.states)

    def of_state(self, state: str) -> Iterator[StateVerdict]:
        """Yield the verdicts on a state; those on the whole operator for an empty name."""
        return (verdict for verdict in self.verdicts if verdict.state == state)


def query_operators(
    build: SavepointBuild, states: Mapping[str | None, OperatorSignature], old: CompiledPlan, new: CompiledPlan
) -> dict[str, QueryOperator]:
    """Return what becomes of the operators of a savepoint in another query, by their hashes.

    ``states``: its operators with their states, by hash. ``old`` and ``new``: the plan of the query that wrote the savepoint, and
    the plan of the other query.
    """
    migration = QueryMigration(build.drafts, old, new)
    recorded = {} if build.snapshot is None else build.snapshot.recorded_ids
    operators = {}
    for operator in migration.operators:
        planned, uid_hash = operator.planned, operator.draft.identifier.uid_hash
        if planned is not None and states[uid_hash].has_state:
            changes = tuple(_of_operator(operator, planned, migration.changes))
            verdicts = (*_ids(operator, recorded.get(uid_hash)), *changes)
            is_same = not changes and (planned.transformation not in _CONNECTORS or _has_connector(planned, migration.changes))
            operators[uid_hash] = QueryOperator(verdicts, _states(operator, states[uid_hash]), is_same)
    return operators


def plan_operators(old: CompiledPlan, new: CompiledPlan) -> dict[str, QueryOperator]:
    """Return what becomes of the operators of a query in another query, by their hashes, without a savepoint."""
    changes = QueryChanges(old, new)
    return {uid_hash: QueryOperator(tuple(_without_savepoint(planned, changes))) for uid_hash, planned in old.operators.items()}


def _without_savepoint(planned: PlanOperator, changes: QueryChanges) -> Iterator[StateVerdict]:
    try:
        partner = changes.partner(planned.node)
        states = changes.changes(planned.node)
        key = changes.key_change(planned.node)
    except StateProcessorError as error:
        yield _unlike(planned.node, str(error), changes)
        return
    uid = uid_formats(partner, planned.transformation)[uid_formats(planned.node, planned.transformation).index(planned.uid)]
    if uid != planned.uid:
        yield _moved(uid)
    for name, change in states.items():
        if text := _meaning(change):
            yield StateVerdict("", Outcome.CHANGED, f"{name}: {text}", cause=Cause.QUERY)
    if key is not None and not key.is_same:
        yield StateVerdict("", Outcome.CHANGED, f"keys: {'; '.join(key.notes)}", cause=Cause.QUERY)
    yield from _options(planned.node, partner)


def _ids(operator: MigratingOperator, recorded: str | None) -> Iterator[StateVerdict]:
    """Yield verdicts on an operator that has another id in the new query."""
    if recorded is not None:
        text = f"the query was submitted as text: the snapshot has the id {recorded}, and a job that runs the plan another one"
        yield StateVerdict("", Outcome.LOST, text, cause=Cause.QUERY_TEXT)
    if operator.becomes is not None:
        yield _moved(operator.becomes)


def _moved(uid: str) -> StateVerdict:
    text = f"the new query has this operator as {uid!r}: Flink does not find its state"
    return StateVerdict("", Outcome.LOST, text, cause=Cause.QUERY)


def _unlike(node: PlanNode, reason: str, changes: QueryChanges) -> StateVerdict:
    """Return the verdict on an operator that no operator of the new query continues."""
    if changes.is_ambiguous(node):
        return StateVerdict("", Outcome.UNKNOWN, reason, cause=Cause.QUERY)
    text = f"{reason}: Flink refuses the state, or goes on with values of another meaning"
    return StateVerdict("", Outcome.CHANGED, text, cause=Cause.QUERY)


def _of_operator(operator: MigratingOperator, planned: PlanOperator, changes: QueryChanges) -> Iterator[StateVerdict]:
    source = operator.draft.source
    if source is None:
        return
    try:
        registered = source.keyed_states | source.operator_states
    except StateProcessorError as error:
        yield StateVerdict("", Outcome.UNKNOWN, str(error), cause=Cause.CODE)
        return
    for name, state in registered.items():
        if not fits(planned, {name: [state]}):
            text = f"{planned.label} of the old plan does not have this state: it is the plan of another query"
            yield StateVerdict(name, Outcome.UNKNOWN, text, cause=Cause.QUERY)
    if operator.problem:
        verdict = _unlike(planned.node, operator.problem, changes)
        for name, state in registered.items():
            if not state.is_timer:
                yield replace(verdict, state=name)
        return
    for migrated in operator.migrated:
        if text := _meaning(migrated.change):
            yield StateVerdict(migrated.old.name, Outcome.CHANGED, text, cause=Cause.QUERY)
    yield from _options(planned.node, changes.partner(planned.node))


def _meaning(change: StateSuccession) -> str:
    """Return what changes apart from time-to-live, whose change types show."""
    change = replace(change, ttl=None)
    return "" if change.is_same or change.is_dropped else "; ".join(change.notes) or "its columns change places"


def _options(old: PlanNode, new: PlanNode) -> Iterator[StateVerdict]:
    before, after = (node.at("configuration", default={}) for node in (old, new))
    names = [name for name in before.keys() & after.keys() if name not in _HARMLESS and before[name] != after[name]]
    if names:
        text = f"the plans have other options: {', '.join(sorted(names))}"
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.QUERY)


def _has_connector(planned: PlanOperator, changes: QueryChanges) -> bool:
    """Return whether both plans have the same options of the table of a source or sink: a connector defines the state."""

    def options(node: PlanNode) -> Any:
        return node.at(_CONNECTORS[planned.transformation], "table", "resolvedTable", "options")

    return options(planned.node) is not None and options(planned.node) == options(changes.partner(planned.node))


def _states(operator: MigratingOperator, old: OperatorSignature) -> Mapping[str, StateSignature] | None:
    """Return the states that the operator of the new query registers."""
    states = dict(old.states or {})
    for name in operator.dropped_states:
        states.pop(name, None)
    for migrated in operator.migrated:
        if migrated.leaves_out_old:
            states.pop(migrated.old.name, None)
        states[migrated.new.name] = state_signature([migrated.new])
    if operator.key is None:
        return states
    key = operator.key.snapshot()
    return {name: replace(state, snapshots={**state.snapshots, KEY: key}) for name, state in states.items()}
