"""The methods of a writer of savepoints for queries of Flink SQL, by their compiled plans."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Self

from pyspark.sql import DataFrame, SparkSession

from state_processor.backends.sql.bootstrap import Accumulators, History, JoinedRows, history_of
from state_processor.backends.sql.plan import CompiledPlan, PlanOperator
from state_processor.options.access import SnapshotAccess, read_plan
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.spark.dataframe_rows import SparkRows, rows_of
from state_processor.spark.migrated_rows import OPTIONS, migrated_entries
from state_processor.spark.query_rows import NewState, accumulated, joined, kept
from state_processor.spark.storage_settings import with_settings_of_spark
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write import keyed_changes
from state_processor.write.query_checks import GivenPlan, QueryChecks, plan_text
from state_processor.write.row_protocol import GivenRows

if TYPE_CHECKING:
    from state_processor.reader import SavepointReader


class QueryWriter(QueryChecks):
    """Methods of :class:`~state_processor.SavepointWriter` for queries of Flink SQL."""

    _spark: SparkSession

    def _source_reader(self) -> SavepointReader:
        """Return a reader of the source savepoint that does not use its plan."""
        raise NotImplementedError

    def _recorded(self, operator: OperatorIdentifier) -> OperatorIdentifier:
        """Return the identifier of an operator in ``_metadata``: it differs for a query that was submitted as text."""
        recorded = {} if self._build.snapshot is None else self._build.snapshot.recorded_ids
        found = recorded.get(operator.uid_hash)
        return operator if found is None else OperatorIdentifier.for_uid_hash(found)

    def bootstrap_query(
        self,
        plan: GivenPlan,
        operator: str,
        df: GivenRows | None = None,
        *,
        left: GivenRows | None = None,
        right: GivenRows | None = None,
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
            The rows that have come to the operator, with the columns of its input. Computed columns have the names
            that reading shows (``price * 2``) or those in the plan (``$f2``). Entries of maps are in the order that
            they have in Flink. For an input that changes, the rows that it has in the end. Columns of processing time
            may be left out, unless a deduplication keeps the last row: then the column orders the rows.
            Any of several rows with the same time is kept. ``_last_access`` is the time of the last access of states with
            time-to-live; the latest time of a key counts. The default is the time of writing.
        left, right
            For a join, the rows of its sides instead of ``df``: all rows that the query has not forgotten.
        parallelism
            As for :meth:`SavepointWriter.with_keyed_state`.

        Raises
        ------
        NotFoundError
            If the operator is not in the plan.
        OptionError
            If its state does not follow from rows, with the reason; or the plan has several such operators.
        InvalidRowError
            If the rows do not have the columns and types of the input.
        """
        planned = self._operator(self._plan(plan), operator)
        history = history_of(planned)
        key = RowDataSerializer((history.left if isinstance(history, JoinedRows) else history).rows.key_type)
        with self._build.change(planned.uid) as draft:
            given = [None if rows is None else rows_of(self._spark, rows).frame for rows in (df, left, right)]
            for state in _states(history, planned.label, *given):
                keyed_changes.add_entries(draft, state.name, state.spec, SparkRows(state.rows), key)
            draft.set_parallelism(parallelism)
        return self

    def migrate_query(
        self,
        old_plan: GivenPlan,
        new_plan: GivenPlan,
        *,
        drop: Collection[str] = (),
    ) -> Self:
        """Rewrite the state of a query for another query, which goes on with it: Flink itself refuses other columns or calls.

        Operators of both plans go together if they do the same with the same rows by the same keys; they get the uids of the new
        plan. Accumulators go on by call, whatever their order. A new call starts as for a group without rows, also in groups that
        have some: ``COUNT`` and ``AVG`` with 0, ``SUM``, ``MIN`` and ``MAX`` with null. New columns of rows that joins,
        deduplications, normalizations and top-N keep are null; calls and columns that are gone are dropped. An operator of
        another kind keeps its state unchanged, if it and all of its input are the same in both plans. Operators that are not in
        the old plan are unchanged. :meth:`query_migration_report` has the outcome for each state;
        :meth:`check_query_migration` previews it.

        Parameters
        ----------
        old_plan
            The plan of the query that wrote the source savepoint, which ``COMPILE PLAN`` wrote: its file, its text, or the JSON.
        new_plan
            That of the query that is to go on.
        drop
            Operators of the old plan that are left out, by label (``join[5]``), uid, or what they do (``join``) if the plan has
            only one. Their state is lost; in the new query such an operator starts without state.

        Raises
        ------
        StateMigrationError
            If there are operators whose state can't be kept, and that ``drop`` does not name. The message has the reasons: other
            keys or conditions, a column or result of another type, a new column ``NOT NULL``, a column or call that has its old
            name and is computed in another way, other calls with ``DISTINCT``,
            calls whose accumulators differ where rows may be taken back, state of another shape, one phase instead of two.
        NotFoundError
            If ``drop`` names an operator that does not exist.
        OptionError
            If the savepoint was not written by the query of the old plan, or state was changed before.
        """
        migration = self._migration(old_plan, new_plan, drop)
        migration.check()
        reader = self._source_reader()
        with self._build.all_or_nothing():
            for state in migration.states:
                with self._build.change(state.operator, existing=True) as draft:
                    rows = reader.read_keyed_state(
                        self._recorded(state.operator),
                        state.old.name,
                        metadata=state.old.has_ttl,
                        nanos=OPTIONS.nanos,
                        row_kind=OPTIONS.row_kind,
                    )
                    keyed_changes.replace_entries(draft, state.new, SparkRows(migrated_entries(state, rows)))
                    if state.leaves_out_old:
                        draft.remove(state.old.name)
            for operator in migration.left_out:
                self._build.remove_operator(operator)
            self._build.rename_operators(migration.renamed)
        self._query_migration = migration.report
        return self

    def _plan(self, plan: GivenPlan) -> CompiledPlan:
        return _compiled_plan(self._spark, self._build.access, plan)

    def _operator(self, plan: CompiledPlan, name: str) -> PlanOperator:
        """Return an operator with the uid that it has in the source savepoint, or else the one that Flink gives it by default."""
        found = plan.named(name)
        known = {draft.identifier.uid_hash for draft in self._build.drafts}
        return next((o for o in found if o.uid_hash in known), found[0])


def _compiled_plan(spark: SparkSession, access: SnapshotAccess, plan: GivenPlan) -> CompiledPlan:
    """Return a compiled plan. Its file may be in storage that Spark has the settings of."""
    given = plan_text(plan)
    if not given.lstrip().startswith("{"):
        access = with_settings_of_spark(spark, access, given)
    return read_plan(given, access.storage())


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
