"""Savepoints and checkpoints as Spark DataFrames, under Flink's names."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from state_processor.backends.connectors.sink_state import read_sink_state, sink_state
from state_processor.backends.connectors.source_splits import read_source_splits
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.catalog import TABLES
from state_processor.backends.read.catalog_schemas import SCHEMAS
from state_processor.backends.read.option import Kind
from state_processor.backends.read.schema_text import comments_of
from state_processor.backends.read.state_access import KEYED_KIND, TIMER_KIND
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OPERATOR_LIST,
    UNION_LIST,
)
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import READING_OPTIONS, format_options
from state_processor.options.groups import AccessOptions, KeyedStateOptions, OperatorStateOptions, TimerOptions
from state_processor.options.keywords import takes_options
from state_processor.options.user_serializers import TaskSerializers
from state_processor.read.read_types import typed_schema
from state_processor.read.scans import ProjectedReader, StateRequest, splits_of, takes_keys
from state_processor.read.sizes import MeasurePart, SizeReport, SizesBy
from state_processor.read.snapshot_reader import SnapshotReader
from state_processor.serializers.base import TypeSerializer
from state_processor.spark.data_source_registration import format_of_read, register_for_reader
from state_processor.spark.datasource import FlinkSavepointDataSource
from state_processor.spark.engine import SparkEngine
from state_processor.spark.planned_read import can_plan, planned_read
from state_processor.spark.plots import SnapshotPlots
from state_processor.spark.schemas import (
    arrow_schema_of,
    spark_schema,
    spark_type,
    with_comments,
    with_derived_times,
    with_types_of,
)
from state_processor.spark.sessions import with_settings_of_spark
from state_processor.spark.task_errors import unwrap_spark_errors
from state_processor.support.doors import current_door, read_with
from state_processor.support.errors import NotFoundError, OptionError
from state_processor.types.identifier import OperatorIdentifier

Uid: TypeAlias = str | OperatorIdentifier
Schema: TypeAlias = StructType | str | pa.Schema | TypeSerializer | Mapping[str, pa.DataType | DataType | TypeSerializer]


class SavepointReader(SnapshotReader, SnapshotPlots):
    """A savepoint or checkpoint to read (Flink: ``SavepointReader``); made by :meth:`read`.

    Schemas come from the snapshot: neither classes of the job nor types are needed. A read is planned at once, so that an
    unknown name is an error here; rows are read when Spark needs them.

    Examples
    --------
    >>> reader = SavepointReader.read(spark, "/savepoints/savepoint-1")  # doctest: +SKIP
    >>> reader.states().show()  # doctest: +SKIP
    >>> reader.read_keyed_state("orders", "total").show()  # doctest: +SKIP
    """

    def __init__(self, spark: SparkSession, snapshot: Snapshot, access: SnapshotAccess) -> None:
        super().__init__(snapshot, access)
        self._spark = spark

    @classmethod
    @takes_options
    def read(
        cls,
        spark: SparkSession,
        path: str | PathLike[str],
        path_mapping: Mapping[str, str] | None = None,
        **options: Unpack[AccessOptions],
    ) -> SavepointReader:
        """Open a snapshot.

        Parameters
        ----------
        spark
            The session that reads it.
        path
            Its directory, or the ``_metadata`` in it: a path or URL that driver and executors can reach.
        path_mapping
            Recorded prefix to present prefix, if files of a moved checkpoint are not found without it.
        **options
            See :class:`~state_processor.options.groups.AccessOptions`.

        Raises
        ------
        NotASnapshotError
            If the path does not have a snapshot; the message names snapshots below it.
        CorruptSnapshotError
            ``_metadata`` is damaged.
        """
        access = with_settings_of_spark(spark, SnapshotAccess.of(path_mapping=path_mapping, **options), path)
        return cls(spark, access.open(path), access)

    def operators(self) -> DataFrame:
        """Return one row per operator, with parallelism and sizes: the columns of Flink's ``savepoint_metadata``."""
        return self._table("operators")

    def states(self) -> DataFrame:
        """Return one row per state of every operator: kind, types, whether it has TTL, and the schema of a read."""
        return self._table("states")

    def handles(self) -> DataFrame:
        """Return one row per file, part of a file, or piece inside ``_metadata`` that the snapshot consists of."""
        return self._table("handles")

    @takes_options
    def read_keyed_state(
        self, uid: Uid, state: str | None = None, *, schema: Schema | None = None, **options: Unpack[KeyedStateOptions]
    ) -> DataFrame:
        """Read a keyed state, or all of an operator (Flink: ``readKeyedState``).

        Parameters
        ----------
        uid
            The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
        state
            Name of the state. ``None`` reads all keyed states side by side: one row per key, one column per state. These columns
            are not flattened.
        schema
            Columns to deliver, in this order and with these types (a ``StructType``, DDL text, or ``pyarrow.Schema``), or a
            mapping of column names to types that changes only those. Types may be wider than the snapshot's; numbers in text
            may be read as ``decimal(p,s)``. A value that does not fit fails the read. A type of
            :class:`~state_processor.Types`, for a column or as the schema itself for the value, is one that the state is
            restored in by Flink's rules: removed fields are left out, new ones have Java's default value (0, false,
            null), Avro records are resolved to the reader's schema.
        **options
            See :class:`~state_processor.options.groups.KeyedStateOptions`.

        Raises
        ------
        NotFoundError
            If the operator or the state does not exist, or is of another kind; the message names the nearest.
        StateMigrationError
            Flink would not restore the state in a type of ``schema``; the message names the field and both types.
        OptionError
            An argument has an unexpected value.
        """
        return self._read(uid, state, KEYED_KIND if state is not None else None, schema, options)

    @takes_options
    def read_window_state(
        self,
        uid: Uid,
        state: str = "window-contents",
        *,
        schema: Schema | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> DataFrame:
        """Read the state of a window operator (Flink: ``window(…)``): as keyed state, with ``window`` after ``key``.

        ``window`` is ``struct<start timestamp, end timestamp>``, null for the global window. For parameters and errors see
        :meth:`read_keyed_state`. The contents of windows are in the state ``window-contents``.
        """
        return self._read(uid, state, KEYED_KIND, schema, options, only_windows=True)

    @takes_options
    def read_timers(self, uid: Uid, *, schema: Schema | None = None, **options: Unpack[TimerOptions]) -> DataFrame:
        """Read timers: ``key``, ``window`` or ``namespace``, ``timestamp``, ``fires_at``, ``domain``, ``service``.

        ``timestamp`` is in epoch milliseconds, as in Flink; ``fires_at`` is the same point in time, null where its year is not
        one of 1 to 9999: Flink fires timers of ``Long.MAX_VALUE`` when the input ends. ``domain`` is ``event_time`` or
        ``processing_time``. For parameters and errors see :meth:`read_keyed_state`.
        """
        return with_derived_times(self._read(uid, None, TIMER_KIND, schema, options))

    @takes_options
    def read_list_state(
        self, uid: Uid, name: str, *, schema: Schema | None = None, **options: Unpack[OperatorStateOptions]
    ) -> DataFrame:
        """Read an operator list state: one row ``value`` per element, from all subtasks (Flink: ``readListState``).

        For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, name, OPERATOR_LIST, schema, options)

    @takes_options
    def read_union_state(
        self, uid: Uid, name: str, *, schema: Schema | None = None, **options: Unpack[OperatorStateOptions]
    ) -> DataFrame:
        """Read a union list state: one row ``value`` per element, from all subtasks (Flink: ``readUnionState``).

        For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, name, UNION_LIST, schema, options)

    @takes_options
    def read_broadcast_state(
        self, uid: Uid, name: str, *, schema: Schema | None = None, **options: Unpack[OperatorStateOptions]
    ) -> DataFrame:
        """Read a broadcast state: ``key``, ``value``, once (Flink: ``readBroadcastState``).

        Every subtask has a copy; copies that differ are an error. For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, name, BROADCAST, schema, options)

    def read_source_splits(self, uid: Uid, connector: str | None = None) -> DataFrame:
        """Read the splits of a source: the splits of its readers, and the splits that its enumerator still has.

        Offsets of Kafka, positions in files, numbers still to come: one row per split. For connectors, columns
        and errors see :func:`state_processor.arrow.read_source_splits`.

        Parameters
        ----------
        uid
            The source's operator.
        connector
            See :func:`state_processor.arrow.read_source_splits`; by default the connector that the bytes fit.
        """
        splits = read_source_splits(self._snapshot, self._operator(uid), connector)
        return self._spark.createDataFrame(splits.to_pylist(), spark_schema(splits.schema))

    def read_sink_state(self, uid: Uid, connector: str | None = None, committer: Uid | None = None) -> DataFrame:
        """Read the state of a sink: the state of its writers, and the commits that its committers have left.

        Files in progress and files to be committed, transactional ids and transactions to be committed: one row each.
        For connectors, columns and errors see :func:`state_processor.arrow.read_sink_state`.

        Parameters
        ----------
        uid
            The sink.
        connector
            ``kafka``, ``file`` or ``raw``; by default the one that the bytes fit.
        committer
            The operator of the committers, where its uid is not ``Sink Committer:`` and the uid of the sink.
        """
        committers = OperatorIdentifier.of(committer).uid_hash if committer is not None else None
        state = sink_state(self._snapshot, self._operator(uid), OperatorIdentifier.of(uid).uid, committers)
        rows = read_sink_state(state, connector)
        return self._spark.createDataFrame(rows.to_pylist(), spark_schema(rows.schema))

    def size_report(self, uid: Uid | None = None, by: SizesBy = "state", top: int | None = 20) -> DataFrame:
        """Measure keyed state and timers, with a job of Spark. Entries are walked through, values are not decoded.

        Parameters
        ----------
        uid
            One operator; ``None`` for all.
        by
            ``state``, ``key_group``, ``subtask``, or ``key`` (of one operator, over all its states).
        top
            Number of rows, the largest ones; ``None`` for all.

        Returns
        -------
        DataFrame
            The columns of :func:`state_processor.arrow.size_report`, ``entries`` and ``size_in_bytes`` last; largest first.

        Raises
        ------
        NotFoundError
            If the operator does not exist, or does not have keyed state.
        OptionError
            ``by`` is unknown, or ``key`` without an operator.
        """
        self._snapshot.check_plan()
        operator = None if uid is None else OperatorIdentifier.of(uid)
        report = SizeReport.of(self._snapshot, operator, by, top)
        measure = MeasurePart(TaskSerializers.of_driver(self._access.serializers))
        tables = SparkEngine(self._spark).run_parts(report.parts, measure)
        merged = report.merged(table for table in tables if table is not None)
        return self._spark.createDataFrame(merged, spark_schema(merged.schema))

    def _table(self, name: str) -> DataFrame:
        """Return a table of metadata: the driver has its rows, so that Spark starts no Python process for it."""
        return self._spark.createDataFrame(TABLES[name](self._snapshot), spark_schema(SCHEMAS[name]))

    def _read(
        self,
        uid: Uid,
        state: str | None,
        kind: str | None,
        schema: Schema | None,
        options: Mapping[str, Any],
        *,
        only_windows: bool = False,
    ) -> DataFrame:
        asked = _parsed(schema) if isinstance(schema, str) else schema
        request = StateRequest(OperatorIdentifier.of(uid), state, kind, _for_arrow(asked), {**options, **self._access.values()})
        stored = request.find(self._snapshot)
        scan = request.open(stored, current_door())
        if only_windows and scan.states.kind is Kind.KEYED:
            raise NotFoundError(f"state {state!r} of {stored.label} is not in windows; read it with {read_with('KEYED')}")
        source = scan.source
        of_spark = asked if isinstance(asked, StructType) else spark_schema(scan.schema)
        delivered = with_types_of(with_comments(of_spark, comments_of(scan.reader.schema)), typed_schema(scan))
        projected = ProjectedReader.of(scan.reader, arrow_schema_of(delivered))
        if not can_plan(self._spark):
            if source.read.types.unpickle:
                raise OptionError(
                    "unpickle: clients of Spark Connect send options as text, which loads no pickles: read with "
                    "sp.arrow.read_state"
                )
            return self._load(dict(scan.values), delivered, source.label)
        serializers = TaskSerializers.of_driver(self._access.serializers)
        splits, snapshots = splits_of(projected.reader, source), [stored.snapshot]
        reads_all_keys = source.read.keys is None and takes_keys(scan.reader)
        label = f"{source.label}, all keys (keys= reads fewer)" if reads_all_keys else source.label
        return planned_read(self._spark, projected, snapshots, splits, delivered, serializers, label, source.split_size)

    def _load(self, values: dict[str, Any], schema: StructType, label: str) -> DataFrame:
        """Read by the data source: Spark plans the read. Plans show the label."""
        register_for_reader(self._spark)
        code = TaskSerializers.of_driver(values.pop("serializers", ()))
        storage = values.pop("storage_options", {})
        format_ = format_of_read(self._spark, FlinkSavepointDataSource, label, code, storage)
        with unwrap_spark_errors():
            return (
                self._spark.read.format(format_).options(**format_options(READING_OPTIONS, values)).schema(schema).load(self.path)
            )


def _parsed(schema: str) -> StructType:
    """Return the schema that DDL text describes."""
    parsed = StructType.fromDDL(schema)
    if not isinstance(parsed, StructType):
        raise OptionError(f"schema={schema!r}: expected columns with types, such as 'key STRING, value BIGINT'")
    return parsed


def _for_arrow(schema: Any) -> Any:
    """Return the argument ``schema`` as one of :func:`state_processor.arrow.read_state`, with types that Spark has."""
    if isinstance(schema, StructType):
        return arrow_schema_of(schema)
    if isinstance(schema, pa.Schema):
        return arrow_schema_of(spark_schema(schema))
    if isinstance(schema, Mapping):
        return {name: _arrow_type(type_) for name, type_ in schema.items()}
    if schema is None or isinstance(schema, TypeSerializer):
        return schema
    raise OptionError(f"schema={schema!r}: expected a StructType, DDL text, a pyarrow.Schema, or a mapping of names to types")


def _arrow_type(type_: Any) -> Any:
    of_spark = spark_type(type_) if isinstance(type_, pa.DataType) else type_
    return arrow_schema_of(StructType().add("value", of_spark)).field(0).type if isinstance(of_spark, DataType) else type_


__all__ = ["SavepointReader"]
