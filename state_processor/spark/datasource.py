"""The formats ``flink-savepoint`` and ``flink-savepoint-metadata`` of Spark's Python Data Source API.

``schema()``, ``reader()`` and ``partitions()`` run in a Python worker on the driver, ``read()`` in workers on executors. Spark
pickles the reader before it asks for partitions, so what planning finds travels with the partitions, once for each. Each of these
workers is a new process that imports this module: what decodes is imported only where something is decoded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from state_processor.backends.read.catalog_schemas import SCHEMAS
from state_processor.format_names import METADATA_FORMAT, SAVEPOINT_FORMAT
from state_processor.options import SourceOptions
from state_processor.portable_registrations import import_serializers
from state_processor.serializers.errors import OptionError
from state_processor.spark.schemas import arrow_schema_of, spark_schema
from state_processor.spark.versions import HAS_FILTERS, filter_keys

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from state_processor.backends.read.state_access import StateReader
    from state_processor.read.sources import ProjectedReader

KEY: Final = "key"

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_PUSHABLE: Final = frozenset({pa.string(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_()})
"""Keys of which equal values have equal bytes, so that finding bytes finds what Spark's ``=`` finds (0.0 and -0.0 do not)."""


class FlinkSavepointDataSource(DataSource):
    """State of an operator of a Flink savepoint or checkpoint as a DataFrame.

    Options
    -------
    path
        Directory of the snapshot, or its ``_metadata``; usually the argument of ``load``.
    uid, uidHash
        The operator, by uid or by the hash of it. One of them is needed.
    state
        Name of the state; without it all keyed states of the operator, one row per key and one column per state.
    kind
        What the state has to be: ``KEYED``, ``TIMER``, ``OPERATOR_LIST``, ``UNION_LIST``, ``BROADCAST``. ``TIMER`` without state
        reads all timers; ``RAW_KEYED`` and ``RAW_OPERATOR``, without state, the bytes that the operator wrote itself.
    flatten : true
        Lists and maps as a row per element, or (``false``) as arrays and maps.
    metadata : false
        Adds ``_key_group``, ``_subtask``, ``_last_access``.
    keys
        JSON list of keys: read only these.
    nanos : error
        ``error``, ``truncate`` or ``string``: what to do with nanoseconds that microseconds can't hold.
    rowKind : false
        Gives rows a first field ``row_kind``.
    ttl, asOf
        Leave out what was not accessed for this ISO-8601 duration at this time (ISO text, or epoch milliseconds).
    undescribed
        ``bytes`` reads values of POJO's subclasses that nothing describes as bytes (see ``SavepointReader``); else an error.
    types
        JSON object: types of what collections hold that Kryo wrote, by path (``{"value.counters": "MAP<STRING,LONG>"}``); and
        types that columns are read in by Flink's rules for state that evolves, as serializer snapshots; those are made by
        the ``schema`` argument of ``SavepointReader``.
    pathMapping
        JSON object: recorded prefix to present prefix, where files of a moved checkpoint are not found by themselves.
    splitSize : 96m
        Bytes of the snapshot that one task reads, about.
    serializers
        Modules that register serializers of your own, separated by commas; they are imported on every worker.
    scratch
        Directory on every worker for copies of files that RocksDB has to find there (remote ones, and parts of merged files),
        by default ``STATE_PROCESSOR_SCRATCH`` or the system's directory for temporary files.
    pushdown
        ``true``, ``false``, or left out to follow ``spark.sql.python.filterPushdown.enabled``: whether ``key =`` and ``key IN``
        read only the key groups that hold these keys.

    An option that is none of these is refused.

    A schema may be given (``spark.read.schema(…)``): a choice of columns, and wider types; numbers in text as decimals.

    Examples
    --------
    >>> spark.read.format("flink-savepoint").option("uid", "orders").option("state", "total").load(path)  # doctest: +SKIP

    Options of writing
    ------------------
    One row per key of one operator; ``append`` makes a new savepoint, and is refused where there is one; ``overwrite`` replaces
    one, which stays as it is until the new one is complete. Rows may be partitioned in any way: tasks encode them, and the
    driver brings them together at the end, which takes time but little memory. A write that fails leaves nothing; one that is
    killed leaves files that are no savepoint, and that the next write to the directory removes. For other shapes and kinds of
    state, and for large ones, there is :class:`~state_processor.SavepointWriter`.

    path, uid, uidHash, pathMapping, serializers
        As above; the path is the directory of the new savepoint.
    base
        The savepoint to start from. A state that it has is updated for the keys of the rows (a null removes).
    state
        Name of the state, which is in the column ``value`` or one of that name; without it every column but the key is a state.
    replace : false
        Whether a state that the base has is replaced as a whole.
    key : key
        The column of the key.
    keyType, valueType
        Flink's types, such as ``LONG``, ``MAP<STRING,LONG>``, ``POJO<com.acme.Account>`` (with the fields of the column); by
        default what the columns' types suggest.
    kind : VALUE
        ``VALUE``, ``LIST``, ``MAP``, ``REDUCING``, ``AGGREGATING``.
    ttl : false
        Whether the state has time-to-live.
    parallelism, maxParallelism, flinkVersion
        As for :class:`~state_processor.SavepointWriter`.

    Examples
    --------
    >>> sink = df.write.format("flink-savepoint").option("uid", "orders").option("state", "total")  # doctest: +SKIP
    >>> sink.mode("append").save(path)  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return SAVEPOINT_FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of one operator's keyed state."""
        from state_processor.spark.sink import SavepointSink, SinkOptions

        return SavepointSink(SinkOptions.parse(self.options), schema, overwrite)

    def schema(self) -> StructType:
        """The columns of the state, as the snapshot describes them."""
        from state_processor.read.sources import find_reader

        return spark_schema(find_reader(SourceOptions.parse(self.options)).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader that takes filters where Spark offers them, else one that does not, since Spark refuses it then."""
        options = SourceOptions.parse(self.options)
        if options.pushdown and not HAS_FILTERS:
            raise OptionError("option pushdown=true: Spark hands filters to Python data sources since 4.1; use the option keys")
        pushdown = HAS_FILTERS and _planning_with_filters() if options.pushdown is None else options.pushdown
        return (KeyFilteringStateReader if pushdown else SavepointStateReader)(options, schema)


class FlinkSavepointMetadataDataSource(DataSource):
    """What a Flink savepoint or checkpoint consists of, as a DataFrame.

    Options
    -------
    path
        Directory of the snapshot, or its ``_metadata``.
    table : operators
        ``operators``, ``states``, or ``handles``: one row per operator, state, or stored piece.
    pathMapping, serializers, scratch
        As for ``flink-savepoint``.

    Examples
    --------
    >>> spark.read.format("flink-savepoint-metadata").option("table", "states").load(path)  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return METADATA_FORMAT

    def schema(self) -> StructType:
        """The columns of the table."""
        return spark_schema(SCHEMAS[SourceOptions.parse(self.options, METADATA_FORMAT).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the table."""
        return SavepointTableReader(SourceOptions.parse(self.options, METADATA_FORMAT), schema)


def _planning_with_filters() -> bool:
    """Whether this Python worker is the one that Spark starts to plan a read with filters.

    It does so only where pushdown is enabled, and tells the data source in no other way; a reader that overrides
    ``pushFilters`` while it is disabled fails.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)


class StatePartition(InputPartition):
    """What one task reads: parts of the snapshot, and the reader that reads them."""

    def __init__(self, reader: ProjectedReader, splits: Sequence[Any]) -> None:
        super().__init__(None)
        self.reader = reader
        self.splits = tuple(splits)


class SavepointStateReader(DataSourceReader):
    """Reads one state, or all keyed states of an operator."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @cached_property
    def _reader(self) -> StateReader:
        from state_processor.read.sources import find_reader

        return find_reader(self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}

    def partitions(self) -> list[InputPartition]:  # type: ignore[override]
        """Parts of similar size; small ones are read together."""
        from state_processor.read.projection import Projection
        from state_processor.read.sources import ProjectedReader, splits_of

        splits = splits_of(self._reader, self._options)
        reader = ProjectedReader(self._reader, Projection(self._reader.schema, arrow_schema_of(self._schema)))
        return [StatePartition(reader, group) for group in grouped(splits, self._options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; Spark makes one without content where there are none."""
        if isinstance(partition, StatePartition):
            import_serializers(self._options.serializers)
            for split in partition.splits:
                yield from partition.reader.read(split)


class KeyFilteringStateReader(SavepointStateReader):
    """Looks into the key groups that hold the keys of ``key = …`` and ``key IN (…)`` only.

    Spark is told to apply all filters itself nevertheless: this one only saves reading.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take the keys from the filters, and hand all filters back."""
        if self._options.read.keys is None and self._has_plain_key():
            for keys in filter(None, (filter_keys(condition, KEY) for condition in filters)):
                self._narrow(keys)
        return filters

    def _has_plain_key(self) -> bool:
        from state_processor.read.sources import takes_keys

        schema, asked = self._reader.schema, arrow_schema_of(self._schema)
        return (
            takes_keys(self._reader)
            and KEY in schema.names
            and KEY in asked.names
            and schema.field(KEY).type in _PUSHABLE
            and asked.field(KEY).type == schema.field(KEY).type
        )

    def _narrow(self, wanted: tuple[Any, ...]) -> None:
        keys = self._options.read.keys
        both = wanted if keys is None else tuple(k for k in keys if k in wanted)
        self._options = replace(self._options, read=replace(self._options.read, keys=tuple(dict.fromkeys(both))))
        self.__dict__.pop("_reader", None)


class SavepointTableReader(DataSourceReader):
    """Reads a table about the snapshot, in one task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:  # type: ignore[override]
        """One."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The whole table."""
        from state_processor.read.projection import Projection
        from state_processor.read.sources import TABLES, open_source

        table = TABLES[self._options.table](open_source(self._options))
        projection = Projection(table.schema, arrow_schema_of(self._schema))
        for batch in table.to_batches():
            yield projection.apply(batch)


_SPLIT_BYTES: Final = 96 << 20
_SMALLEST_GROUP: Final = 4 << 20
_OPEN_BYTES: Final = 256 << 10
_WAYS: Final = 32


def grouped(splits: Sequence[Any], split_bytes: int | None = None) -> list[list[Any]]:
    """Splits in groups of similar size, so that many small handles do not become as many tasks.

    A group has up to ``split_bytes``, but no more than a 32nd of all, for work to spread. Opening a handle counts as reading a
    quarter of a megabyte.
    """
    sizes = [s.size + _OPEN_BYTES for s in splits]
    target = min(split_bytes or _SPLIT_BYTES, max(_SMALLEST_GROUP, sum(sizes) // _WAYS))
    groups: list[list[Any]] = []
    filled = target
    for split, size in zip(splits, sizes, strict=True):
        if filled + size > target:
            groups.append([])
            filled = 0
        groups[-1].append(split)
        filled += size
    return groups
