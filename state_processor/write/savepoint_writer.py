"""Writers of a savepoint: methods for operator state and queries, with Spark and without, and the writer without Spark.

An application writes the state of queries of Flink SQL. It is imported when a query is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from os import PathLike
from typing import Any, Final, Protocol, Self, Unpack

from state_processor.backends.state.descriptions import OPERATOR_LIST, UNION_LIST
from state_processor.backends.write.entry_encoder import VALUE
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import ChangedSavepointOptions, NewSavepointOptions
from state_processor.options.keywords import takes_options
from state_processor.serializers.base import TypeSerializer
from state_processor.support.errors import OptionError
from state_processor.write.build import DEFAULT_VERSION, SavepointBuild, Uid
from state_processor.write.operator_state_changes import add_broadcast_state, add_list_state, set_sink_state, set_source_splits
from state_processor.write.plan.draft import DEFAULT_MAX_PARALLELISM
from state_processor.write.plan.reports import QueryMigrationReport
from state_processor.write.rows.row_columns import NAMES
from state_processor.write.rows.row_protocol import GivenRows
from state_processor.write.state_writer import StateWriter
from state_processor.write.tasks.local_engine import LocalEngine
from state_processor.write.tasks.passes import WriterEngine

GivenPlan = str | PathLike[str] | Mapping[str, Any]
"""The file of a plan, its text, or the JSON."""

_PROVIDER: Final = "state_processor.applications.flink_sql.query_writer"
"""The module that writes state of queries: its ``FlinkSqlWriter`` is a :class:`QueryWriter`."""


class QueryWriter(Protocol):
    """Starts and migrates queries in a new savepoint; see the methods of :class:`~state_processor.SavepointWriter`."""

    def bootstrap(
        self,
        plan: GivenPlan,
        operator: str,
        rows: GivenRows | None,
        left: GivenRows | None,
        right: GivenRows | None,
        parallelism: int | None,
    ) -> None:
        """Write the state that an operator of a query has after some rows."""

    def migrate(self, old_plan: GivenPlan, new_plan: GivenPlan, drop: Collection[str]) -> QueryMigrationReport:
        """Rewrite the state of a query for another query."""

    def check_migration(self, old_plan: GivenPlan, new_plan: GivenPlan, drop: Collection[str]) -> QueryMigrationReport:
        """Preview a migration, and change nothing."""


def query_writer(build: SavepointBuild, engine: WriterEngine) -> QueryWriter:
    """Return what writes state of queries to a new savepoint."""
    writer: QueryWriter = import_module(_PROVIDER).FlinkSqlWriter(build, engine)
    return writer


class SavepointMethods(StateWriter):
    """Methods of writers for operator state, splits of sources, state of sinks, and queries of Flink SQL."""

    _query_migration: QueryMigrationReport | None = None

    def with_list_state(
        self, uid: Uid, name: str, df: GivenRows, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> Self:
        """Write a list of operator state; Flink distributes it over the subtasks (Flink: ``getListState``).

        Each subtask gets a range of the elements, in the order of the rows; the sizes of the ranges differ by one at most. With
        fewer elements than subtasks, the first subtasks get one each.

        Parameters
        ----------
        uid, name
            The operator, and the state. A state of the source savepoint is replaced.
        df
            The elements: a column ``value``, or the only column.
        type
            The type of the elements; by default the one that the column's type suggests.
        parallelism
            As for :meth:`SavepointWriter.with_keyed_state`.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            add_list_state(draft, name, self._engine.rows(df, VALUE), type, OPERATOR_LIST)
        return self

    def with_union_state(
        self, uid: Uid, name: str, df: GivenRows, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> Self:
        """Write a list of operator state that every subtask gets as a whole (Flink: ``getUnionListState``).

        For parameters see :meth:`with_list_state`.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            add_list_state(draft, name, self._engine.rows(df, VALUE), type, UNION_LIST)
        return self

    def with_broadcast_state(
        self,
        uid: Uid,
        name: str,
        df: GivenRows,
        key_type: TypeSerializer | None = None,
        value_type: TypeSerializer | None = None,
        parallelism: int | None = None,
        *,
        python: bool | None = None,
    ) -> Self:
        """Write broadcast state: every subtask has a copy, and it has to fit in memory (Flink: ``getBroadcastState``).

        Parameters
        ----------
        uid, name
            The operator, and the state. A state of the source savepoint is replaced.
        df
            Columns ``key`` and ``value``; ``key_type`` and ``value_type`` are by default the types that these suggest.
        parallelism
            As for :meth:`SavepointWriter.with_keyed_state`.
        python
            Whether the job that restores the state is one of PyFlink; by default as the state in the source savepoint.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            add_broadcast_state(draft, name, self._engine.rows(df, *NAMES), key_type, value_type, python=python)
        return self

    def with_source_splits(self, uid: Uid, df: GivenRows, connector: str | None = None) -> Self:
        """Write the splits of a source: the positions of its readers, and the splits that its enumerator has left.

        The table replaces all splits. Flink distributes the splits of readers again, since they are in list state. The
        state of the enumerator follows from the table, so that no split is read twice.

        Parameters
        ----------
        uid
            The source operator.
        df
            A row per split, in the columns of :meth:`SavepointReader.read_source_splits`. A row without ``subtask`` is a split
            that no reader has; without a column ``subtask``, readers have all. ``assignment``, ``version`` and ``raw`` may be
            missing, and for Kafka ``split_id`` and ``stopping_offset``. It has to fit in the driver's memory.
        connector
            A source of :func:`state_processor.connectors.names`; needed where it does not follow from the source savepoint.
            In a source of other sources, changes to their columns go to ``wrapped``; the state of the enumerator is copied from
            the source savepoint, so that rows of splits without a reader may be left out, but not changed.
        """
        with self._build.change(uid) as draft:
            set_source_splits(draft, self._engine.rows(df), connector)
        return self

    def with_sink_state(self, uid: Uid, df: GivenRows, connector: str | None = None, committer: Uid | None = None) -> Self:
        """Write the state of a sink: the state of its writers, and the commits that its committers have left.

        The table replaces the state that the source savepoint has of the sink. A committable without a row is not committed:
        the file stays invisible, and ``KafkaSink`` aborts the transaction, as its writers no longer name it either. The prefix
        of transactional ids can be changed, which transactions that are left to commit do not follow: they have their ids.

        Parameters
        ----------
        uid
            The sink.
        df
            Rows of :meth:`SavepointReader.read_sink_state`, changed or left out. Committables can't be added, nor files changed.
            It has to fit in the driver's memory.
        connector
            ``kafka``, ``file`` or ``raw``; by default the one that the bytes fit. The rows of ``raw`` can be left out only.
        committer
            The operator of the committers, where its uid is not ``Sink Committer:`` and the uid of the sink.
        """
        set_sink_state(self._build, uid, self._engine.rows(df), connector, committer)
        return self

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

        Aggregates without windows get accumulators of ``COUNT``, ``SUM``, ``AVG``, ``MIN`` and ``MAX``, in one phase or two, and
        the values of calls with ``DISTINCT``; deduplications the first or last row of each key; top-N operators the first rows
        of each key, and all rows if they may be retracted; normalizations the last row of each key; joins without time the rows
        of both sides. Other operators and functions of users are refused, and so are ``MIN`` and ``MAX`` of rows that may be
        retracted. Every operator of the query that has state needs a call, and sources have to start where the table ends: see
        :meth:`with_source_splits`. Spark computes the entries when the savepoint is written; without Spark, they are computed
        now, from all rows in memory.

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
            Any of several rows with the same time is kept. Rows of a top-N operator that are equal in its order keep the order of
            the table; in Spark, that is the order of its partitions. ``_last_access`` is the time of the last access of states
            with time-to-live; the latest time of a key counts. The default is the time of writing.
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
        query_writer(self._build, self._engine).bootstrap(plan, operator, df, left, right, parallelism)
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
        deduplications, normalizations, top-N, ``OVER`` and sinks keep are null; calls and columns that are gone are dropped. Open
        windows go on with other calls. An operator of
        another kind keeps its state unchanged, if it and all of its input are the same in both plans. Operators that are not in
        the old plan are unchanged. :meth:`query_migration_report` has the outcome for each state;
        :meth:`check_query_migration` previews it.

        Parameters
        ----------
        old_plan
            The compiled plan of the query that wrote the source savepoint: its file, its text, or the JSON.
        new_plan
            The compiled plan of the new query, in the same forms.
        drop
            Operators of the old plan that are left out, by label (``join[5]``), uid, or kind (``join``) if the plan has only
            one of the kind. Their state is lost; in the new query such an operator starts without state.

        Raises
        ------
        StateMigrationError
            If the state of an operator can't be kept, and ``drop`` does not name the operator. The message has the reasons: other
            keys or conditions, a column or result of another type, a new column ``NOT NULL``, a column or call that has its old
            name and is computed in another way, other windows, calls whose accumulators differ where rows may be
            taken back, state of another shape, one phase instead of two.
        NotFoundError
            If ``drop`` names an operator that does not exist.
        OptionError
            If the savepoint was not written by the query of the old plan, or state was changed before.
        """
        self._query_migration = query_writer(self._build, self._engine).migrate(old_plan, new_plan, drop)
        return self

    def check_query_migration(
        self, old_plan: GivenPlan, new_plan: GivenPlan, *, drop: Collection[str] = ()
    ) -> QueryMigrationReport:
        """Preview :meth:`migrate_query` with the same arguments, and change nothing. Only headers of files are read.

        Returns
        -------
        QueryMigrationReport
            The outcome for each state; ``impossible`` lists the states that can't be kept, with the reasons.

        Raises
        ------
        NotFoundError
            If ``drop`` names an operator that does not exist.
        OptionError
            If the savepoint was not written by the query of the old plan.
        """
        return query_writer(self._build, self._engine).check_migration(old_plan, new_plan, drop)

    def query_migration_report(self) -> QueryMigrationReport:
        """Return the outcome of :meth:`migrate_query` for each state: unchanged, converted, new or left out, and what changes.

        Raises
        ------
        OptionError
            If :meth:`migrate_query` was not called.
        """
        if self._query_migration is None:
            raise OptionError("no query was migrated; call migrate_query first")
        return self._query_migration


class SavepointWriter(SavepointMethods):
    """Writer of a savepoint without Spark (Flink: ``SavepointWriter``); made by :meth:`new` or :meth:`from_existing`.

    It has the methods of :class:`state_processor.SavepointWriter`, with the same checks, messages and results.

    Rows are objects with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (tables and readers of pyarrow, data frames of Polars
    and pandas, results of DuckDB, rows of :func:`state_processor.arrow.read_state`), or lists of dictionaries.

    The tasks run in threads of this process. Readers and results of DuckDB are read batch by batch when the savepoint is written.
    Until all rows are encoded, encoded entries are stored in files in the directory of the new savepoint if it is local, or else
    in scratch space. Memory does not grow with the number of rows, except of rows with an element of a list each
    (``list_index``), timers, broadcast state, and rows that later rows replace.
    """

    def __init__(self, build: SavepointBuild) -> None:
        super().__init__(build, LocalEngine(build.scratch, build.access.threads))
        build.takes_arrow = True

    @classmethod
    @takes_options
    def new(
        cls,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        flink_version: str = DEFAULT_VERSION,
        **options: Unpack[NewSavepointOptions],
    ) -> SavepointWriter:
        """Start a savepoint without a source savepoint (Flink: ``newSavepoint``).

        Parameters
        ----------
        max_parallelism, flink_version, **options
            As for :meth:`state_processor.SavepointWriter.new`.
        """
        access = SnapshotAccess.among(options)
        return cls(SavepointBuild.new(max_parallelism, flink_version, access, options.get("scratch")))

    @classmethod
    @takes_options
    def from_existing(
        cls,
        path: str | PathLike[str],
        flink_version: str | None = None,
        **options: Unpack[ChangedSavepointOptions],
    ) -> SavepointWriter:
        """Start a savepoint as a copy of a savepoint or checkpoint (Flink: ``fromExistingSavepoint``).

        Parameters
        ----------
        path, flink_version, **options
            As for :meth:`state_processor.SavepointWriter.from_existing`.

        Raises
        ------
        NotASnapshotError, CorruptSnapshotError
            If the snapshot does not exist, or its ``_metadata`` is damaged.
        """
        access = SnapshotAccess.among(options)
        return cls(SavepointBuild.from_existing(path, flink_version, access, options.get("scratch")))
