"""Savepoints and checkpoints as Spark DataFrames, under Flink's names."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.catalog import TABLES
from state_processor.backends.read.schemas import SCHEMAS, comments_of
from state_processor.backends.read.state_access import TIMER_KIND
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import READING_OPTIONS, format_options
from state_processor.options.groups import AccessOptions
from state_processor.options.keywords import takes_options
from state_processor.options.user_serializers import TaskSerializers
from state_processor.read.rows import typed_schema
from state_processor.read.scans import ProjectedReader, StateScan, splits_of, takes_keys
from state_processor.read.sizes import MeasurePart, SizeReport, SizesBy
from state_processor.read.snapshot_reader import SnapshotReader
from state_processor.serializers.base import TypeSerializer
from state_processor.spark.data_source_registration import format_of_read, register_for_reader
from state_processor.spark.datasource import FlinkSavepointDataSource
from state_processor.spark.engine import SparkEngine
from state_processor.spark.planned_read import can_plan, rows_of_parts
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
from state_processor.support.errors import OptionError
from state_processor.support.mappings import map_values, without_none
from state_processor.types.identifier import OperatorIdentifier

Uid: TypeAlias = str | OperatorIdentifier
Schema: TypeAlias = StructType | str | pa.Schema | TypeSerializer | Mapping[str, pa.DataType | DataType | TypeSerializer]


class SavepointReader(SnapshotReader[DataFrame, DataFrame, Schema], SnapshotPlots):
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

    def _table(self, name: str) -> DataFrame:
        """Return a table of metadata: the driver has its rows, so that Spark starts no Python process for it."""
        return self._spark.createDataFrame(TABLES[name](self._snapshot), spark_schema(SCHEMAS[name]))

    def _listed(self, rows: pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows.to_pylist(), spark_schema(rows.schema))

    def _sizes(self, operator: OperatorIdentifier | None, by: SizesBy, top: int | None) -> DataFrame:
        report = SizeReport.of(self._snapshot, operator, by, top)
        measure = MeasurePart(TaskSerializers.of_driver(self._access.serializers))
        tables = SparkEngine(self._spark).run_parts(report.parts, measure)
        merged = report.merged(without_none(tables))
        return self._spark.createDataFrame(merged, spark_schema(merged.schema))

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
        requested_schema = _parsed(schema) if isinstance(schema, str) else schema
        scan = self._scan(uid, state, kind, _for_arrow(requested_schema), options, only_windows=only_windows)
        of_spark = requested_schema if isinstance(requested_schema, StructType) else spark_schema(scan.schema)
        delivered = with_types_of(with_comments(of_spark, comments_of(scan.reader.schema)), typed_schema(scan))
        projected = ProjectedReader.of(scan.reader, arrow_schema_of(delivered))
        frame = self._planned(scan, projected, delivered) if can_plan(self._spark) else self._load(scan, delivered)
        return with_derived_times(frame) if kind == TIMER_KIND else frame

    def _planned(self, scan: StateScan, reader: ProjectedReader, schema: StructType) -> DataFrame:
        """Read by tasks that the driver plans."""
        source = scan.source
        serializers = TaskSerializers.of_driver(self._access.serializers)
        splits, snapshots = splits_of(reader.reader, source), [scan.stored.snapshot]
        reads_all_keys = source.read.keys is None and takes_keys(scan.reader)
        label = f"{source.label}, all keys (keys= reads fewer)" if reads_all_keys else source.label
        return rows_of_parts(self._spark, reader, snapshots, splits, schema, serializers, label, source.split_size)

    def _load(self, scan: StateScan, schema: StructType) -> DataFrame:
        """Read by the data source: Spark plans the read."""
        if scan.source.read.types.unpickle:
            raise OptionError(
                "unpickle: clients of Spark Connect send options as text, which loads no pickles: read with sp.arrow.read_state"
            )
        values = dict(scan.values)
        register_for_reader(self._spark)
        code = TaskSerializers.of_driver(values.pop("serializers", ()))
        storage = values.pop("storage_options", {})
        format_ = format_of_read(self._spark, FlinkSavepointDataSource, scan.source.label, code, storage)
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
        return map_values(_arrow_type, schema)
    if schema is None or isinstance(schema, TypeSerializer):
        return schema
    raise OptionError(f"schema={schema!r}: expected a StructType, DDL text, a pyarrow.Schema, or a mapping of names to types")


def _arrow_type(type_: Any) -> Any:
    of_spark = spark_type(type_) if isinstance(type_, pa.DataType) else type_
    return arrow_schema_of(StructType().add("value", of_spark)).field(0).type if isinstance(of_spark, DataType) else type_


__all__ = ["SavepointReader"]
