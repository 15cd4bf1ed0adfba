"""Writing of savepoints from Spark DataFrames, under Flink's names."""

from __future__ import annotations

from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Unpack

from pyspark.sql import SparkSession

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import ChangedSavepointOptions, NewSavepointOptions
from state_processor.options.keywords import takes_options
from state_processor.read.scans import StateRequest
from state_processor.reader import SavepointReader
from state_processor.spark.dataframe_rows import SparkRows, rows_of
from state_processor.spark.engine import SparkEngine
from state_processor.spark.sessions import with_settings_of_spark
from state_processor.spark.task_errors import lost_sessions
from state_processor.write.build import DEFAULT_VERSION, SavepointBuild
from state_processor.write.plan.draft import DEFAULT_MAX_PARALLELISM
from state_processor.write.savepoint_writer import SavepointMethods


class SessionEngine(SparkEngine):
    """Engine of a writer with Spark; see :class:`~state_processor.write.tasks.passes.WriterEngine`."""

    def rows(self, source: Any, *columns: str) -> SparkRows:
        """Return rows that a user gives, with columns that the session may spell in another way."""
        return rows_of(self.spark, source).spelled(columns)

    def read(self, snapshot: Snapshot, access: SnapshotAccess, request: StateRequest) -> SparkRows:
        """Return the rows of a keyed state of a snapshot."""
        reader = SavepointReader(self.spark, snapshot, access)
        return SparkRows(reader.read_keyed_state(request.operator, request.state, schema=request.schema, **request.options))

    def access_to(self, path: str | PathLike[str], access: SnapshotAccess) -> SnapshotAccess:
        """Return the options of access to a path, with the settings that the session has for its storage."""
        return with_settings_of_spark(self.spark, access, path)

    def errors(self) -> AbstractContextManager[None]:
        """Return a context that raises the end of Spark's JVM as an error of this library."""
        return lost_sessions()


class SavepointWriter(SavepointMethods):
    """Writer of a savepoint (Flink: ``SavepointWriter``); made by :meth:`new` or :meth:`from_existing`.

    Rows are DataFrames of Spark. DataFrames of pandas and Polars, and tables and readers of Arrow, are accepted too; the driver
    holds them in memory. A reader can be given once. NaN is a number; null is pandas' ``NA``.

    Methods can be chained; nothing is written until :meth:`write`, which writes Flink's canonical format by default: every
    Flink version since 1.13 restores it with any state backend but ForSt.

    The meaning of a null depends on its position:

    - key, key of a map's entry: refused.
    - value, list or map of a row: the key does not get an entry; :meth:`update_keyed_state` removes the existing one.
    - element of list state, keyed or not: refused, as by ``ListState.add``.
    - value of a map's entry, element of a list or array inside a value, field of a tuple: a null, where the type has one
      (``STRING``, ``BIG_INT``, ``BIG_DEC``, ``POJO``, ``NULLABLE``, ``KRYO``, dates and times but ``SQL_TIMESTAMP``); where it
      has none (``LONG`` and other primitives, ``TUPLE``, ``ROW``, ``LIST``, ``MAP``, arrays, ``ENUM``) the row is refused. It
      never removes an entry: :meth:`delete_map_entries` does. With TTL, a null in a map has a time of last access like others.
    - value of a ``MAP`` inside a value, element of a ``SET``, field of a ``ROW`` or ``POJO``: a null, whatever the type; but
      not of a POJO's field that :func:`~state_processor.serializers.register_primitive_fields` names.

    Methods raise ``NotFoundError`` for an operator or state that does not exist, ``OptionError`` for arguments that are invalid
    or contradict each other, and ``InvalidRowError`` for a column that is missing or does not fit the type. Columns are checked
    when a method is called, values when they are written. A method that fails changes nothing.
    """

    def __init__(self, spark: SparkSession, build: SavepointBuild) -> None:
        super().__init__(build, SessionEngine(spark))

    @classmethod
    @takes_options
    def new(
        cls,
        spark: SparkSession,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        flink_version: str = DEFAULT_VERSION,
        **options: Unpack[NewSavepointOptions],
    ) -> SavepointWriter:
        """Start a savepoint without a source savepoint (Flink: ``newSavepoint``).

        Parameters
        ----------
        spark
            The session that writes it.
        max_parallelism
            Number of key groups of every operator. The job that restores the savepoint needs the same, or sets none.
        flink_version
            The oldest Flink version that has to restore the savepoint: ``"1.20"``, and any from 1.13 on. Names and uids of
            operators are stored since 2.0 only; values that Kryo writes are for this major version only.
        **options
            See :class:`~state_processor.options.groups.NewSavepointOptions`.
        """
        return cls(
            spark, SavepointBuild.new(max_parallelism, flink_version, SnapshotAccess.among(options), options.get("scratch"))
        )

    @classmethod
    @takes_options
    def from_existing(
        cls,
        spark: SparkSession,
        path: str | PathLike[str],
        flink_version: str | None = None,
        **options: Unpack[ChangedSavepointOptions],
    ) -> SavepointWriter:
        """Start a savepoint as a copy of a savepoint or checkpoint (Flink: ``fromExistingSavepoint``).

        Unchanged state is copied byte for byte, coordinator state included; keyed state in other formats than the canonical one
        is framed again. The source savepoint is only read. The new savepoint does not refer to its files, unless
        :meth:`write` shares them.

        Parameters
        ----------
        spark
            The session that writes it.
        path
            Directory of the savepoint or checkpoint, or its ``_metadata``.
        flink_version
            The oldest Flink version that has to restore the new savepoint; by default the format of the source savepoint. States
            that are carried over are checked against it, and not converted: see :meth:`migrate`.
        **options
            See :class:`~state_processor.options.groups.ChangedSavepointOptions`.

        Raises
        ------
        NotASnapshotError, CorruptSnapshotError
            If the path does not have a snapshot, or its ``_metadata`` is damaged.
        """
        access = with_settings_of_spark(spark, SnapshotAccess.among(options), path)
        return cls(spark, SavepointBuild.from_existing(path, flink_version, access, options.get("scratch")))
