"""Reading savepoints and checkpoints as Spark DataFrames, under Flink's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from state_processor.arrow import arrow_schema, evolving_types
from state_processor.backends.connectors.source_splits import read_source_splits
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.state_access import KEYED_KIND, TIMER_KIND
from state_processor.backends.read.state_listing import find_operator, operator_label, state_variants
from state_processor.backends.state.descriptions import BROADCAST, OPERATOR_LIST, UNION_LIST, StateDescription
from state_processor.declared_types import DeclaredTypes
from state_processor.format_names import METADATA_FORMAT, SAVEPOINT_FORMAT
from state_processor.identifier import OperatorIdentifier
from state_processor.kryo_inference import kryo_types
from state_processor.options import SourceOptions, option_strings
from state_processor.portable_registrations import import_serializers, portable_registrations
from state_processor.read.projection import Projection
from state_processor.read.sources import find_reader
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.serializers.runtime.ttl import TtlAwareSerializerSnapshot, TtlSerializer
from state_processor.spark.registration import register
from state_processor.spark.schemas import arrow_schema_of, spark_schema
from state_processor.spark.task_errors import our_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

Uid: TypeAlias = str | OperatorIdentifier
Schema: TypeAlias = StructType | str | pa.Schema | TypeSerializer | Mapping[str, pa.DataType | DataType | TypeSerializer]


class SavepointReader:
    """Reads a savepoint or checkpoint (Flink: ``SavepointReader``); made by :meth:`read`.

    Schemas come from the snapshot: neither classes of the job nor types are needed. What is read is planned at once, so that a
    name that is not there is an error here; rows are read when Spark needs them.

    Examples
    --------
    >>> reader = SavepointReader.read(spark, "/savepoints/savepoint-1")  # doctest: +SKIP
    >>> reader.states().show()  # doctest: +SKIP
    >>> reader.read_keyed_state("orders", "total").show()  # doctest: +SKIP
    """

    def __init__(
        self,
        spark: SparkSession,
        snapshot: Snapshot,
        path_mapping: dict[str, str],
        serializers: tuple[str, ...],
        scratch: str | None = None,
    ) -> None:
        self._spark = spark
        self._snapshot = snapshot
        self._path_mapping = path_mapping
        self._serializers = serializers
        self._scratch = scratch

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        path: str | PathLike[str],
        path_mapping: Mapping[str, str] | None = None,
        *,
        serializers: Sequence[str] = (),
        scratch: str | PathLike[str] | None = None,
    ) -> SavepointReader:
        """Open a snapshot.

        Parameters
        ----------
        spark
            The session that reads it.
        path
            Its directory, or the ``_metadata`` in it: a path or URL that driver and executors can reach.
        path_mapping
            Recorded prefix to present prefix, where the files of a moved checkpoint are not found by themselves.
        serializers
            Modules that register serializers of your own; they are imported here and on every worker.
        scratch
            Directory on every worker for copies of files that RocksDB has to find there (remote ones, and parts of merged
            files), by default ``STATE_PROCESSOR_SCRATCH`` or the system's directory for temporary files.

        Raises
        ------
        NotASnapshotError
            There is no snapshot; the message names those below the path.
        CorruptSnapshotError
            ``_metadata`` is damaged.
        """
        import_serializers(serializers)
        directory = None if scratch is None else fspath(scratch)
        snapshot = open_snapshot(fspath(path), path_mapping, scratch=directory)
        register(spark)
        return cls(spark, snapshot, dict(path_mapping or {}), tuple(serializers), directory)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def path(self) -> str:
        """The directory that holds ``_metadata``."""
        return self._snapshot.directory

    def operators(self) -> DataFrame:
        """One row per operator, with parallelism and sizes: the columns of Flink's ``savepoint_metadata``, with underscores."""
        return self._table("operators")

    def states(self) -> DataFrame:
        """One row per state of every operator: kind, types, whether it has TTL, and the schema in which it is read."""
        return self._table("states")

    def handles(self) -> DataFrame:
        """One row per file, part of a file, or piece inside ``_metadata`` that the snapshot consists of."""
        return self._table("handles")

    def read_keyed_state(
        self,
        uid: Uid,
        state: str | None = None,
        *,
        schema: Schema | None = None,
        flatten: bool = True,
        metadata: bool = False,
        keys: Sequence[Any] | None = None,
        nanos: str = "error",
        row_kind: bool = False,
        ttl: str | timedelta | None = None,
        as_of: str | int | datetime | None = None,
        types: DeclaredTypes | None = None,
        infer_kryo: bool = False,
        undescribed: str = "error",
    ) -> DataFrame:
        """Read a keyed state, or all of an operator (Flink: ``readKeyedState``).

        Parameters
        ----------
        uid
            The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
        state
            Name of the state. ``None`` reads all keyed states side by side: one row per key, one column per state.
        schema
            Columns to deliver, in this order and with these types (a ``StructType``, DDL text, or ``pyarrow.Schema``), or a
            mapping of column names to types that changes only those. Types may be wider than the snapshot's; numbers that come
            as text may be asked for as ``decimal(p,s)``. A value that does not fit fails the read. A type of
            :class:`~state_processor.Types`, for a column or as the schema itself for the value, is one that the state is
            restored in by Flink's rules: fields that are gone are left out, new ones have Java's default value (0, false,
            null), Avro goes by the reader's schema.
        flatten
            Lists as ``key, list_index, list_value`` and maps as ``key, map_key, map_value``, one row per element; ``False`` gives
            one row per key with an array or map. Whole operators are never flattened.
        metadata
            Adds ``_key_group``, ``_subtask``, and ``_last_access`` (null for states without TTL).
        keys
            Read only these keys; only the key groups that hold them are opened.
        nanos
            ``error``, ``truncate`` or ``string``: what to do with nanoseconds, which Spark's microseconds can't hold.
        row_kind
            Gives rows (``Row``, ``RowData``) a first field ``row_kind``. Rows that are written back without it are inserts
            (``+I``), whatever they were.
        ttl, as_of
            Leave out values that were last accessed ``ttl`` (``timedelta``, or ISO-8601 such as ``PT1H``) or longer before
            ``as_of`` (``datetime``, ISO text, or epoch milliseconds), as Flink's ``NeverReturnExpired`` does.
        types
            Types of what collections hold that Kryo wrote, which snapshots do not tell, by path: the column, then the names of
            fields, ``element`` in lists, ``key`` and ``value`` in maps (``{"value.counters": Types.MAP(Types.STRING(),
            Types.LONG())}``). Such a part is an array or a map then, and text with JSON without; to write it, give the same
            types to :meth:`SavepointWriter.update_keyed_state`. Types may be text: ``"MAP<STRING,LONG>"``.
        undescribed
            What to do with values of a POJO's subclass that the snapshot does not describe: ``error``, or ``bytes``, where the
            format tells where they end (values and map values in canonical savepoints and embedded stores). The column then has
            a first field ``_class`` and a last one ``_bytes``: such a value has these two and no others. Decoding is slower.
        infer_kryo
            Looks for these types in the values, which the driver reads once more for it: of what is declared as ``List``,
            ``Set``, ``Collection`` or ``Map`` and holds objects of one class only.

        Raises
        ------
        NotFoundError
            There is no such operator or state, or it is of another kind; the message names the nearest.
        StateMigrationError
            Flink would not restore the state in a type of ``schema``; the message names the field and both types.
        OptionError
            An argument makes no sense.
        """
        return self._read(
            uid, state, KEYED_KIND if state is not None else None, schema,
            flatten=flatten, metadata=metadata, keys=keys, nanos=nanos, row_kind=row_kind, ttl=ttl, as_of=as_of,
            types=types, infer_kryo=infer_kryo, undescribed=undescribed,
        )  # fmt: skip

    def read_window_state(
        self,
        uid: Uid,
        state: str = "window-contents",
        *,
        schema: Schema | None = None,
        flatten: bool = True,
        metadata: bool = False,
        keys: Sequence[Any] | None = None,
        nanos: str = "error",
        row_kind: bool = False,
        ttl: str | timedelta | None = None,
        as_of: str | int | datetime | None = None,
        types: DeclaredTypes | None = None,
        infer_kryo: bool = False,
        undescribed: str = "error",
    ) -> DataFrame:
        """Read the state of a window operator (Flink: ``window(…)``): as keyed state, with ``window`` after ``key``.

        ``window`` is ``struct<start timestamp, end timestamp>``, null for the global window. Parameters and errors are those of
        :meth:`read_keyed_state`; the contents of windows are in the state ``window-contents``.
        """
        return self._read(
            uid, state, KEYED_KIND, schema,
            flatten=flatten, metadata=metadata, keys=keys, nanos=nanos, row_kind=row_kind, ttl=ttl, as_of=as_of,
            types=types, infer_kryo=infer_kryo, undescribed=undescribed,
        )  # fmt: skip

    def read_timers(
        self, uid: Uid, *, metadata: bool = False, keys: Sequence[Any] | None = None, schema: Schema | None = None
    ) -> DataFrame:
        """Read the timers of an operator: ``key``, ``window`` or ``namespace``, ``timestamp``, ``domain``, ``service``.

        ``timestamp`` is in epoch milliseconds, as Flink has it; ``domain`` is ``event_time`` or ``processing_time``. Parameters
        and errors are those of :meth:`read_keyed_state`.
        """
        return self._read(uid, None, TIMER_KIND, schema, metadata=metadata, keys=keys)

    def read_list_state(
        self,
        uid: Uid,
        name: str,
        *,
        schema: Schema | None = None,
        metadata: bool = False,
        nanos: str = "error",
        row_kind: bool = False,
        types: DeclaredTypes | None = None,
    ) -> DataFrame:
        """Read an operator list state: one row ``value`` per element, from all subtasks (Flink: ``readListState``).

        Parameters and errors are those of :meth:`read_keyed_state`.
        """
        return self._read(uid, name, OPERATOR_LIST, schema, metadata=metadata, nanos=nanos, row_kind=row_kind, types=types)

    def read_union_state(
        self,
        uid: Uid,
        name: str,
        *,
        schema: Schema | None = None,
        metadata: bool = False,
        nanos: str = "error",
        row_kind: bool = False,
        types: DeclaredTypes | None = None,
    ) -> DataFrame:
        """Read a union list state: one row ``value`` per element, from all subtasks (Flink: ``readUnionState``).

        Parameters and errors are those of :meth:`read_keyed_state`.
        """
        return self._read(uid, name, UNION_LIST, schema, metadata=metadata, nanos=nanos, row_kind=row_kind, types=types)

    def read_broadcast_state(
        self,
        uid: Uid,
        name: str,
        *,
        schema: Schema | None = None,
        metadata: bool = False,
        nanos: str = "error",
        row_kind: bool = False,
        types: DeclaredTypes | None = None,
    ) -> DataFrame:
        """Read a broadcast state: ``key``, ``value``, once (Flink: ``readBroadcastState``).

        Every subtask has a copy; copies that differ are an error. Parameters and errors are those of :meth:`read_keyed_state`.
        """
        return self._read(uid, name, BROADCAST, schema, metadata=metadata, nanos=nanos, row_kind=row_kind, types=types)

    def read_source_splits(self, uid: Uid, connector: str | None = None) -> DataFrame:
        """Read the splits of a source: what its readers work on, and what its enumerator still has.

        Offsets of Kafka, positions in files, numbers still to come: one row per split. Connectors, columns and errors are
        those of :func:`state_processor.arrow.read_source_splits`.

        Parameters
        ----------
        uid
            The source's operator.
        connector
            ``sequence``, ``kafka``, ``file``, ``hybrid``, ``kafka-consumer`` or ``raw``; by default the one that the bytes fit.
        """
        splits = read_source_splits(self._snapshot, self._operator(uid), connector)
        return self._spark.createDataFrame(splits.to_pylist(), spark_schema(splits.schema))

    def check_compatibility(self, uid: Uid, state: str, new_type: TypeSerializer) -> SchemaCompatibility:
        """Whether Flink would restore a state into a job that declares it with another type: a dry run of the restore.

        Parameters
        ----------
        uid, state
            The state.
        new_type
            What the new job declares: the value's type, or for list and map state the ``Types.LIST`` or ``Types.MAP`` of it (for
            a list the element's type alone will do).

        Returns
        -------
        SchemaCompatibility
            The worst verdict over all subtasks: compatible as is, with a reconfigured serializer, after migration, or
            incompatible.

        Raises
        ------
        NotFoundError
            There is no such operator or state.
        """
        operator = self._operator(uid)
        variants = state_variants(self._snapshot, operator)
        if state not in variants:
            raise NotFoundError.naming_nearest("state", state, variants, operator_label(operator))
        return SchemaCompatibility.worst(*(v for s in variants[state] for v in _verdicts(s, new_type)))

    def _operator(self, uid: Uid) -> Any:
        identifier = OperatorIdentifier.of(uid)
        if identifier.uid is not None:
            return find_operator(self._snapshot, uid=identifier.uid)
        return find_operator(self._snapshot, uid_hash=identifier.uid_hash)

    def _table(self, table: str) -> DataFrame:
        options = self._options(table=table)
        with our_errors():
            return self._spark.read.format(METADATA_FORMAT).options(**options).load(self.path)

    def _read(
        self,
        uid: Uid,
        state: str | None,
        kind: str | None,
        schema: Schema | None,
        *,
        types: DeclaredTypes | None = None,
        infer_kryo: bool = False,
        **reading: Any,
    ) -> DataFrame:
        identifier = OperatorIdentifier.of(uid)
        named = {"uid": identifier.uid} if identifier.uid is not None else {"uid_hash": identifier.uid_hash}
        evolving, schema = evolving_types(schema)
        both = {**evolving, **kryo_types(lambda: self._snapshot, identifier, state, types, infer_kryo)}
        options = self._options(**named, state=state, kind=kind, types=both or None, **reading)
        parsed = SourceOptions.parse(options | {"path": self.path})
        given = find_reader(parsed, self._snapshot).schema
        wanted = spark_schema(given) if schema is None else _wanted(schema, given)
        Projection(given, arrow_schema_of(wanted))  # what can't be converted is an error now, and not in a task
        with our_errors():
            return self._spark.read.format(SAVEPOINT_FORMAT).options(**options).schema(wanted).load(self.path)

    def _options(self, **arguments: Any) -> dict[str, str]:
        everywhere = {
            "path_mapping": self._path_mapping or None,
            "serializers": (*self._serializers, *portable_registrations()) or None,
            "scratch": self._scratch,
        }
        return option_strings(**arguments, **everywhere)


def _wanted(schema: Schema, given: pa.Schema) -> StructType:
    """What a user passes as ``schema``, in Spark's terms."""
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        parsed = StructType.fromDDL(schema)
        if not isinstance(parsed, StructType):
            raise OptionError(f"schema={schema!r}: columns with their types are wanted, such as 'key STRING, value BIGINT'")
        return parsed
    if isinstance(schema, Mapping):
        types = {n: _arrow_type(t) if isinstance(t, DataType) else t for n, t in schema.items()}
        return spark_schema(arrow_schema(types, given))
    if isinstance(schema, pa.Schema):
        return spark_schema(schema)
    raise OptionError(f"schema={schema!r}: a StructType, DDL text, pyarrow.Schema, or mapping of names to types is wanted")


def _arrow_type(data_type: DataType) -> pa.DataType:
    return arrow_schema_of(StructType().add("value", data_type)).field(0).type


def _verdicts(state: StateDescription, new_type: TypeSerializer) -> Iterator[SchemaCompatibility]:
    """The verdicts for the parts of a state: a map's key and value, a list's element, any other state's value."""
    wanted = new_type
    if state.kind == "MAP" and state.map_key is not None:
        if not isinstance(new_type, MapSerializer):
            yield SchemaCompatibility.incompatible(f"the state is a MAP, the new type is {new_type}")
            return
        yield state.map_key.snapshot().resolve_schema_compatibility(new_type.key)
        wanted = new_type.value.inner
    elif state.kind == "LIST" and isinstance(new_type, ListSerializer):
        wanted = new_type.element
    written = state.value
    assert written is not None
    if isinstance(written, TtlSerializer) == isinstance(wanted, TtlSerializer):
        yield written.snapshot().resolve_schema_compatibility(wanted)
    elif isinstance(written, TtlSerializer):  # the new type says nothing of time-to-live: it stays
        yield written.value.snapshot().resolve_schema_compatibility(wanted)
    else:
        yield TtlAwareSerializerSnapshot.of(written.snapshot()).resolve_schema_compatibility(
            TtlAwareSerializerSnapshot.of(wanted.snapshot())
        )


__all__ = ["SavepointReader"]
