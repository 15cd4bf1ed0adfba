"""The formats ``flink-savepoint`` and ``flink-savepoint-metadata`` of Spark's Python Data Source API.

``schema()``, ``reader()`` and ``partitions()`` run in a Python worker on the driver, ``read()`` in workers on executors. Spark
pickles the reader before it asks for partitions, so the results of planning are in the partitions, once in each. Each of these
workers is a new process that imports this module, so modules that decode are imported only when values are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructField, StructType

from state_processor.backends.read.schemas import SCHEMAS
from state_processor.options.data_sources import METADATA_FORMAT, SAVEPOINT_FORMAT, SourceOptions, is_of_table
from state_processor.options.keywords import READING, READING_METADATA, WRITING, documents
from state_processor.options.user_serializers import TaskSerializers
from state_processor.spark.planned_read import grouped
from state_processor.spark.schemas import arrow_schema_of, spark_schema
from state_processor.spark.sessions import with_settings
from state_processor.spark.task_errors import asked_by_spark
from state_processor.spark.versions import HAS_FILTERS, filter_keys
from state_processor.support.errors import OptionError
from state_processor.support.locks import cached_property
from state_processor.support.mappings import without_keys

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.backends.read.state_access import SelectableStateReader
    from state_processor.backends.read.stored_operator import StoredOperator
    from state_processor.options.access import SnapshotAccess
    from state_processor.read.scans import KnownStates, ProjectedReader

KEY: Final = "key"

_PUSHABLE: Final = frozenset({pa.string(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_()})
"""Keys of which equal values have equal bytes, so that finding bytes finds what Spark's ``=`` finds (0.0 and -0.0 do not)."""
_PATH: Final = "path"


class SnapshotDataSource(DataSource):
    """A format that reads a snapshot."""

    code: ClassVar[TaskSerializers] = TaskSerializers()
    """Serializers that code passes; Spark pickles them with a class that is registered for them."""
    storage_options: ClassVar[Mapping[str, Any]] = {}
    """Settings of remote storage that code passes."""
    spark_settings: ClassVar[Mapping[str, Any]] = {}
    """Settings of S3 in the configuration of the session."""
    allowed: ClassVar[tuple[str, ...]] = ()
    """Modules that the option ``serializers`` may name."""

    def _parsed(self, source: str, schema: StructType | None = None) -> tuple[SourceOptions, TaskSerializers]:
        """Return the options, and the serializers of users, which this process knows from here on.

        ``source``: the name of the format. ``schema``: the schema of the read. It has the options of a table.
        """
        texts = self.options if schema is None else with_options_of_table(self.options, schema)
        options = SourceOptions.parse(texts, source, self.allowed)
        return replace(options, access=self.access_to(options.access, options.path)), self.entered(options.access)

    def entered(self, access: SnapshotAccess) -> TaskSerializers:
        """Return the serializers of users for a read, which this process knows from here on."""
        serializers = self.code.with_modules(access.serializers)
        serializers.enter()
        return serializers

    def access_to(self, access: SnapshotAccess, *paths: str | None) -> SnapshotAccess:
        """Return options of access with the settings of remote storage that code passes, or Spark has, unless they have own."""
        if self.storage_options and not access.storage_options:
            return replace(access, storage_options=self.storage_options)
        for path in filter(None, paths):
            access = with_settings(access, path, lambda: self.spark_settings)
        return access


@documents(READING, WRITING)
class FlinkSavepointDataSource(SnapshotDataSource):
    """State of an operator of a Flink savepoint or checkpoint as a DataFrame.

    Reading takes the operator by ``uid`` or ``uidHash``. A schema (``spark.read.schema(…)``) chooses columns and wider types, and
    reads numbers in text as decimals. Unknown options are refused.

    Writing takes rows with one key of one operator each. ``append`` makes a new savepoint, and is refused if the directory has
    one; ``overwrite`` replaces a savepoint, which remains until the new one is complete. Rows may be partitioned in any way:
    tasks encode them, and the driver brings them together at the end. This takes time, but little memory. A write that fails
    removes its files. A write that is killed leaves files that are not a savepoint; the next write to the directory removes
    them. For other shapes and kinds of state, and for large ones, use :class:`~state_processor.SavepointWriter`.

    Examples
    --------
    >>> spark.read.format("flink-savepoint").option("uid", "orders").option("state", "total").load(path)  # doctest: +SKIP
    >>> sink = df.write.format("flink-savepoint").option("uid", "orders").option("state", "total")  # doctest: +SKIP
    >>> sink.mode("append").save(path)  # doctest: +SKIP
    """

    _states: KnownStates | None = None
    """What :meth:`schema` has read; Spark pickles the object after that, and hands it to the process that plans the read."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return SAVEPOINT_FORMAT

    @asked_by_spark()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of keyed state of one operator."""
        from state_processor.options.data_sources import SinkOptions
        from state_processor.spark.sink import SavepointSink

        options = SinkOptions.parse(self.options, self.allowed)
        options = replace(options, access=self.access_to(options.access, options.path, options.base))
        return SavepointSink(options, schema, overwrite)

    @asked_by_spark()
    def schema(self) -> StructType:
        """Return the columns of the state, as the snapshot describes them."""
        from state_processor.backends.read.state_access import StatesToRead
        from state_processor.read.scans import find_reader, known_states, open_operator

        options, _ = self._parsed(SAVEPOINT_FORMAT)
        stored = open_operator(options)
        self._states = known_states(options, stored)
        reader = find_reader(options, StatesToRead.find(stored, options.state, options.kind))
        return with_table_options(spark_schema(reader.schema), self.options)

    @asked_by_spark()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader. It takes filters only if the user promises that the DataFrame serves one query.

        Spark keeps the plan of a read with the DataFrame. A read that filters have narrowed would serve all later queries, too.
        """
        options, serializers = self._parsed(SAVEPOINT_FORMAT, schema)
        if options.pushdown is None:
            return SavepointStateReader(options, schema, serializers, self._states)
        if not HAS_FILTERS:
            raise OptionError(
                f"option pushdown={options.pushdown}: Python data sources get filters since Spark 4.1; use the option keys"
            )
        return KeyFilteringStateReader(options, schema, serializers, self._states)


@documents(READING_METADATA)
class FlinkSavepointMetadataDataSource(SnapshotDataSource):
    """Operators, states or stored pieces of a Flink savepoint or checkpoint as a DataFrame.

    Examples
    --------
    >>> spark.read.format("flink-savepoint-metadata").option("table", "states").load(path)  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return METADATA_FORMAT

    @asked_by_spark()
    def schema(self) -> StructType:
        """Return the columns of the table."""
        schema = spark_schema(SCHEMAS[SourceOptions.parse(self.options, METADATA_FORMAT, self.allowed).table])
        return with_table_options(schema, self.options)

    @asked_by_spark()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the table."""
        options, serializers = self._parsed(METADATA_FORMAT, schema)
        return SavepointTableReader(options, schema, serializers)


class StatePartition(InputPartition):
    """The input of one task: parts of the snapshot, and the reader that reads them."""

    def __init__(self, snapshot: Snapshot, reader: ProjectedReader, splits: Sequence[Any]) -> None:
        super().__init__(None)
        self.snapshot = snapshot
        self.reader = reader
        self.splits = tuple(splits)


class SavepointStateReader(DataSourceReader):
    """A reader of one state, or of all keyed states of an operator."""

    _not_sent: ClassVar[tuple[str, ...]] = ("_opened", "_states")
    """Attributes that tasks do not need."""
    _states: KnownStates | None = None

    def __init__(
        self, options: SourceOptions, schema: StructType, serializers: TaskSerializers, states: KnownStates | None
    ) -> None:
        self._options = options
        self._schema = schema
        self._serializers = serializers
        self._states = states

    @property
    def _reader(self) -> SelectableStateReader:
        return self._opened[1]

    @cached_property
    def _opened(self) -> tuple[StoredOperator, SelectableStateReader]:
        from state_processor.backends.read.state_access import StatesToRead
        from state_processor.read.scans import find_reader, open_operator

        self._serializers.enter()
        stored = open_operator(self._options, self._states)
        return stored, find_reader(self._options, StatesToRead.find(stored, self._options.state, self._options.kind))

    def __getstate__(self) -> dict[str, Any]:
        return without_keys(vars(self), self._not_sent)

    @asked_by_spark()
    def partitions(self) -> list[InputPartition]:  # type: ignore[override]
        """Return parts of similar size; small ones share a task."""
        from state_processor.backends.read.stored_operator import snapshot_for_tasks
        from state_processor.read.scans import ProjectedReader, splits_of

        stored, reader_of_states = self._opened
        reader, snapshot = (
            ProjectedReader.of(reader_of_states, arrow_schema_of(self._schema)),
            snapshot_for_tasks(stored.snapshot),
        )
        splits = splits_of(reader.reader, self._options)
        return [StatePartition(snapshot, reader, group) for group in grouped(splits, self._options.split_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one partition. Spark makes a partition without content if the reader plans no partitions."""
        if isinstance(partition, StatePartition):
            with asked_by_spark():
                self._serializers.enter()
                partition.snapshot.check_plan()
                for split in partition.splits:
                    yield from partition.reader.read(split)


class KeyFilteringStateReader(SavepointStateReader):
    """A reader of the key groups that hold the keys of ``key = …`` and ``key IN (…)``.

    Spark applies all filters itself as well: the reader only opens fewer key groups. Spark keeps the narrowed reader with the
    DataFrame, so that only a DataFrame that serves one query may have this reader.
    """

    _not_sent = ("_opened",)
    """Spark pickles it for the process that plans the read, too."""

    @asked_by_spark()
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take the keys from the filters, and hand all filters back."""
        if self._options.read.keys is None and self._has_plain_key():
            for keys in filter(None, (filter_keys(condition, KEY) for condition in filters)):
                self._narrow(keys)
        return filters

    def _has_plain_key(self) -> bool:
        from state_processor.read.scans import takes_keys

        schema, requested = self._reader.schema, arrow_schema_of(self._schema)
        return (
            takes_keys(self._reader)
            and KEY in schema.names
            and KEY in requested.names
            and schema.field(KEY).type in _PUSHABLE
            and requested.field(KEY).type == schema.field(KEY).type
        )

    def _narrow(self, allowed: tuple[Any, ...]) -> None:
        keys = self._options.read.keys
        common_keys = allowed if keys is None else tuple(k for k in keys if k in allowed)
        self._options = replace(self._options, read=replace(self._options.read, keys=tuple(dict.fromkeys(common_keys))))
        self.__dict__.pop("_opened", None)


class SavepointTableReader(DataSourceReader):
    """A reader of a table about the snapshot, in one task."""

    def __init__(self, options: SourceOptions, schema: StructType, serializers: TaskSerializers) -> None:
        self._options = options
        self._schema = schema
        self._serializers = serializers

    @asked_by_spark()
    def partitions(self) -> list[InputPartition]:  # type: ignore[override]
        """Return one partition."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the whole table."""
        from state_processor.backends.read.catalog import TABLES
        from state_processor.read.projection import Projection

        with asked_by_spark():
            self._serializers.enter()
            table = TABLES[self._options.table](self._options.access.open(self._options.path))
            projection = Projection(table.schema, arrow_schema_of(self._schema))
            for batch in table.to_batches():
                yield projection.apply(batch)


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table that ``CREATE TABLE … USING`` makes, with the table's options in its first column.

    Spark gives the options of a table to ``schema()``, when the table is made, and not to ``reader()``, when it is read. Spark
    keeps the schema with the table, and gives it to ``reader()``. The schema of a read without a table is unchanged.
    """
    if not is_of_table(options):
        return schema
    first, *rest = schema.fields
    metadata = {SAVEPOINT_FORMAT: dict(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *rest])


def with_options_of_table(options: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of a read. If a table is read, the options of the table are added.

    Raises
    ------
    OptionError
        If the table was made with columns. Its schema does not come from :func:`with_table_options`, and lacks the options.
    """
    for field in schema.fields:
        of_table: dict[str, str] | None = (field.metadata or {}).get(SAVEPOINT_FORMAT)
        if of_table is not None:
            return {**of_table, **options}
    if not any(name.lower() == _PATH for name in options):
        raise OptionError(
            "no path: pass the snapshot's directory to load(path). Of a table, Spark does not hand over the options if CREATE "
            "TABLE lists columns: leave these out"
        )
    return options
