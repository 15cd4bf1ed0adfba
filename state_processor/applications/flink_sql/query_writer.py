"""Writing of state of queries of Flink SQL: start from rows, and migration to another query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from state_processor import OperatorIdentifier, QueryMigrationReport
from state_processor.applications.flink_sql.bootstrap import History, JoinedRows, KeptRow
from state_processor.applications.flink_sql.nodes import PlanOperator
from state_processor.applications.flink_sql.operators.registry import history_of
from state_processor.applications.flink_sql.plan import CompiledPlan, read_plan
from state_processor.applications.flink_sql.query_migration import OPTIONS, MigratedState, QueryMigration, migrated_entries
from state_processor.applications.flink_sql.query_rows import QueryRows
from state_processor.applications.flink_sql.query_states import NewState, check_inputs, joined, new_states, uses_rows_again
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess
from state_processor.serializers import RowDataSerializer
from state_processor.states import StateRequest
from state_processor.write import GivenRows, QueryWriter, Rows, SavepointBuild, WriterEngine, add_entries, naming, replace_state

PlanContent = str | PathLike[str] | Mapping[str, Any]
"""The file of a plan, its text, or the JSON."""


class FlinkSqlWriter(QueryWriter):
    """Writer of state of queries of Flink SQL."""

    def __init__(self, build: SavepointBuild, engine: WriterEngine) -> None:
        self._build = build
        self._engine = engine

    def bootstrap(
        self,
        plan: PlanContent,
        operator: str,
        rows: GivenRows | None,
        left: GivenRows | None,
        right: GivenRows | None,
        parallelism: int | None,
    ) -> None:
        """Write the state that an operator of a query has after some rows.

        ``rows``: the rows of the only input. ``left`` and ``right``: the rows of the inputs of a join.
        """
        planned = self._operator(self._plan(plan), operator)
        history = history_of(planned)
        key = RowDataSerializer((history.left if isinstance(history, JoinedRows) else history).rows.key_type)
        with self._build.change(planned.uid, parallelism=parallelism) as draft:
            check_inputs(history, planned.label, rows, left, right)
            for state in self._states_of(history, rows, left, right):
                add_entries(draft, state.name, state.spec, state.rows, key)

    def _states_of(
        self, history: History, table: GivenRows | None, left: GivenRows | None, right: GivenRows | None
    ) -> tuple[NewState, ...]:
        """Return the states of an operator, and their entries, for rows that have come to its inputs."""
        again = uses_rows_again(history)
        if isinstance(history, JoinedRows):
            assert left is not None
            assert right is not None
            with naming("left rows"):
                left_rows = QueryRows.of(self._engine.rows(left), history.left.rows)
            with naming("right rows"):
                right_rows = QueryRows.of(self._engine.rows(right), history.right.rows)
            return joined(history, left_rows.once(), right_rows.once()) if again else joined(history, left_rows, right_rows)
        assert table is not None
        rows = QueryRows.of(self._engine.rows(table), history.rows, history.time if isinstance(history, KeptRow) else None)
        return new_states(history, rows.once() if again else rows)

    def _operator(self, plan: CompiledPlan, name: str) -> PlanOperator:
        """Return an operator with the uid that it has in the source savepoint, or else the one that Flink gives it by default."""
        operators = plan.named(name)
        recorded = {draft.identifier.uid_hash for draft in self._build.drafts}
        return next((o for o in operators if o.uid_hash in recorded), operators[0])

    def migrate(self, old_plan: PlanContent, new_plan: PlanContent, drop: Collection[str]) -> QueryMigrationReport:
        """Rewrite the state of a query for another query, and return the outcome for each state."""
        migration = self._migration(old_plan, new_plan, drop)
        migration.check()
        with self._build.all_or_nothing():
            written = {(state.operator, state.new.name) for state in migration.states}
            unread = {(state.operator, state.old.name) for state in migration.states if state.leaves_out_old}
            for operator, name in sorted((unread | set(migration.dropped)) - written, key=str):
                with self._build.change(operator, existing=True) as draft:
                    draft.remove(name)
            for operator, key in migration.retyped_keys:
                with self._build.change(operator, existing=True) as draft:
                    draft.changes.retyped_key = key
            for state in migration.states:
                with self._build.change(state.operator, existing=True) as draft:
                    replace_state(draft, state.new, self._migrated_rows(state))
            for operator in migration.left_out:
                self._build.remove_operator(operator)
            self._build.rename_operators(migration.renamed)
        return migration.report

    def check_migration(self, old_plan: PlanContent, new_plan: PlanContent, drop: Collection[str]) -> QueryMigrationReport:
        """Return the outcome that a migration would have for each state, and change nothing."""
        return self._migration(old_plan, new_plan, drop).report

    def _recorded(self, operator: OperatorIdentifier) -> OperatorIdentifier:
        """Return the identifier of an operator in ``_metadata``: it differs for a query that was submitted as text."""
        recorded = {} if self._build.snapshot is None else self._build.snapshot.recorded_ids
        uid_hash = recorded.get(operator.uid_hash)
        return operator if uid_hash is None else OperatorIdentifier.for_uid_hash(uid_hash)

    def _migrated_rows(self, state: MigratedState) -> Rows:
        """Return the entries of a state of the source savepoint, converted for another query."""
        access = replace(self._build.access, plan=None)  # it names other fields than the state
        options = {"metadata": state.old.has_ttl, "nanos": OPTIONS.nanos, "row_kind": OPTIONS.row_kind}
        request = StateRequest(self._recorded(state.operator), state.old.name, options=options)
        rows = self._engine.read(self._build.open_source(access), access, request)
        return migrated_entries(state, rows)

    def _migration(self, old_plan: PlanContent, new_plan: PlanContent, drop: Collection[str]) -> QueryMigration:
        if self._build.snapshot is None:
            raise OptionError("this savepoint does not start from another, whose state could be migrated")
        old, new = self._plan(old_plan), self._plan(new_plan)
        return QueryMigration(self._build.drafts, old, new, drop)

    def _plan(self, plan: PlanContent) -> CompiledPlan:
        """Return a compiled plan."""
        path_or_text = SnapshotAccess.of(plan=plan).plan
        assert path_or_text is not None
        access = self._build.access
        if not path_or_text.lstrip().startswith("{"):
            access = self._engine.access_to(path_or_text, access)
        return read_plan(path_or_text, access)
