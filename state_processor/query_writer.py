"""The part of a writer of savepoints that knows queries of Flink SQL, by their compiled plans."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from state_processor.backends.sql.bootstrap import Accumulators, History, JoinedRows, history_of
from state_processor.backends.sql.plan import CompiledPlan, PlanOperator
from state_processor.options.access import read_plan
from state_processor.options.values import PLAN
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.spark.query_rows import NewState, accumulated, joined, kept
from state_processor.spark.rows import SparkRows
from state_processor.spark.storage_settings import with_settings_of_spark
from state_processor.write import keyed_changes
from state_processor.write.plan import SavepointPlan


class QueryWriter:
    """Methods of :class:`~state_processor.SavepointWriter` for queries of Flink SQL."""

    _spark: SparkSession
    _plan: SavepointPlan

    def bootstrap_query(
        self,
        plan: str | PathLike[str] | Mapping[str, Any],
        operator: str,
        df: DataFrame | None = None,
        *,
        left: DataFrame | None = None,
        right: DataFrame | None = None,
        parallelism: int | None = None,
    ) -> Self:
        """Write the state that an operator of a query has after the rows of a table: the query goes on where the table ends.

        Aggregates without windows get accumulators of ``COUNT``, ``SUM``, ``AVG``, ``MIN`` and ``MAX``, in one phase or two;
        deduplications the first or last row of each key; joins without time the rows of both sides. The work is done by Spark.
        Other operators, calls with ``DISTINCT`` and functions of users are refused, and so are ``MIN`` and ``MAX`` of rows that
        may be taken back. Every operator of the query that has state needs a call, and sources have to start where the table
        ends: see :meth:`with_source_splits`.

        Parameters
        ----------
        plan
            The plan that ``COMPILE PLAN`` wrote and that the job executes: its file, its text, or the JSON.
        operator
            The operator, as ``operators()`` names it with the plan: ``group-aggregate[5]``, its uid ``5_group-aggregate``, or
            ``group-aggregate`` if the plan has one only. Its states in the source savepoint are replaced.
        df
            The rows that have come to the operator, with the columns of its input in the plan. For an input that changes, the
            rows that it has in the end. Columns of processing time may be left out, unless a deduplication keeps the last row:
            then the column says in which order rows came. Of rows with the same time, any is kept. ``_last_access`` is the time
            of the last access of states with time-to-live, of which the latest counts for a key; by default that of writing.
        left, right
            For a join, the rows of its sides in the place of ``df``: all rows that the query has not forgotten.
        parallelism
            As for :meth:`SavepointWriter.with_keyed_state`.

        Raises
        ------
        NotFoundError
            If the plan has no such operator.
        OptionError
            If its state does not follow from rows, with the reason; or the plan has several such operators.
        InvalidRowError
            If the rows do not have the columns and types of the input.
        """
        planned = self._operator(self._compiled(plan), operator)
        history = history_of(planned)
        key = RowDataSerializer((history.left if isinstance(history, JoinedRows) else history).rows.key_type)
        with self._plan.change(planned.uid) as draft:
            for state in _states(history, planned.label, df, left, right):
                keyed_changes.add_entries(draft, state.name, state.spec, SparkRows(state.rows), key)
            draft.set_parallelism(parallelism)
        return self

    def _compiled(self, plan: str | PathLike[str] | Mapping[str, Any]) -> CompiledPlan:
        given: str = PLAN.of_argument("plan", plan)
        access = self._plan.access
        if not given.lstrip().startswith("{"):
            access = with_settings_of_spark(self._spark, access, given)
        return read_plan(given, access.storage())

    def _operator(self, plan: CompiledPlan, name: str) -> PlanOperator:
        """Return an operator with the uid that it has in the source savepoint, or else the one that Flink gives it by default."""
        found = plan.named(name)
        known = {draft.identifier.uid_hash for draft in self._plan.drafts}
        return next((o for o in found if o.uid_hash in known), found[0])


def _states(
    history: History, label: str, df: DataFrame | None, left: DataFrame | None, right: DataFrame | None
) -> tuple[NewState, ...]:
    """Return the states of an operator, and their entries.

    Raises
    ------
    OptionError
        If rows are missing, or given for inputs that the operator does not have.
    """
    if isinstance(history, JoinedRows):
        if df is not None or left is None or right is None:
            raise OptionError(f"{label} has two inputs: give the rows of both as left= and right=; a side may be empty")
        return joined(history, left, right)
    if df is None or left is not None or right is not None:
        raise OptionError(f"{label} has one input: give its rows as df; left= and right= are for joins")
    return (accumulated(history, df) if isinstance(history, Accumulators) else kept(history, df),)
