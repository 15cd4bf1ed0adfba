"""Writing savepoints from Spark DataFrames, under Flink's names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from typing import Final, Unpack
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from state_processor.backends.connectors.source_splits import READER_STATE, source_state
from state_processor.backends.connectors.splits_writer import written_source
from state_processor.backends.files.storage import Location
from state_processor.backends.formats.entry_layouts import NAMESPACE
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE, WINDOW
from state_processor.backends.state.column_types import declared
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OPERATOR_LIST,
    UNION_LIST,
    BroadcastDescription,
    KeyedDescription,
    OperatorListDescription,
)
from state_processor.backends.state.hash_inference import HashRule
from state_processor.backends.state.key_groups import check_parallelism
from state_processor.backends.state.row_field_names import DeclaredNames, declared_names, named_by, names_in, with_names
from state_processor.backends.write.assembly import WIDEST_VERSION, commit_savepoint, metadata_version
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, NAMESPACES, TIMESTAMP, VALUE, KeyHash
from state_processor.backends.write.staging import Staging
from state_processor.declared_types import DeclaredTypes, asking_for_types, of_columns_and_parts
from state_processor.identifier import OperatorIdentifier
from state_processor.inferred_types import inferred_type
from state_processor.kryo_inference import kryo_types
from state_processor.migration_report import MigrationReport
from state_processor.options.access import SnapshotAccess
from state_processor.options.keywords import takes_options
from state_processor.options.table import SnapshotOptions, WorkerOptions
from state_processor.portable_registrations import import_serializers
from state_processor.reader import SavepointReader
from state_processor.same_keys import check_comparable, identity, quoted
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.errors import InvalidRowError, NotFoundError, OptionError, StateMigrationError
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.keys.hash_codes import require_hash_code
from state_processor.spark.engine import SparkEngine
from state_processor.spark.schemas import arrow_schema_of
from state_processor.spark.task_errors import our_errors
from state_processor.spark.timer_rows import timer_rows
from state_processor.spark.update_rows import context_columns, entry_columns, has_bytes, key_columns, map_entries, shaped_rows
from state_processor.state_specs import StateSpec, as_spec, whole_type, with_type
from state_processor.write.column_checks import (
    METADATA,
    check_distinct,
    check_key_types,
    check_types,
    naming,
    refuse_others,
    require,
)
from state_processor.write.draft import Deletion, OperatorDraft, RowSource
from state_processor.write.engines import Engine
from state_processor.write.migration_plan import TypesOfStates, plan_migrations, types_by_path
from state_processor.write.operator_job import OperatorJob, copy_unchanged
from state_processor.write.shuffle import ShuffleBlobs
from state_processor.write.source_operator import SourceOperator
from state_processor.write_summary import OperatorSummary, WriteSummary

Uid = str | OperatorIdentifier
_DEFAULT_MAX_PARALLELISM: Final = 128
DEFAULT_VERSION: Final = "1.20"
"""The Flink that a savepoint is for where nothing says otherwise."""


class SavepointWriter:
    """Writes a savepoint (Flink: ``SavepointWriter``); made by :meth:`new` or :meth:`from_existing`.

    Methods note what is to be written and return the writer; :meth:`write` does it. Savepoints are in Flink's canonical
    format, which every Flink since 1.13 restores with any state backend but ForSt.

    What a null means depends on where it stands:

    - key, key of a map's entry: refused.
    - value, list or map of a row: there is no entry for the key; :meth:`update_keyed_state` removes the one that is there.
    - value of a map's entry, element of a list or array, field of a tuple: a null, where the type has one (``STRING``,
      ``BIG_INT``, ``BIG_DEC``, ``POJO``, ``NULLABLE``, ``KRYO``, dates and times but ``SQL_TIMESTAMP``); where it has none
      (``LONG`` and other primitives, ``TUPLE``, ``ROW``, ``LIST``, ``MAP``, arrays, ``ENUM``) the row is refused. Entries are
      removed by :meth:`delete_map_entries`. With TTL, a null in a map has a time of last access as other values have.
    - value of a ``MAP`` inside a value, element of a ``SET``, field of a ``ROW`` or ``POJO``: a null, whatever the type; but
      not of a POJO's field that :func:`~state_processor.serializers.register_primitive_fields` names.

    Examples
    --------
    >>> writer = SavepointWriter.new(spark, max_parallelism=128)  # doctest: +SKIP
    >>> writer.with_keyed_state("orders", df, key="user_id", states={"total": Types.LONG()})  # doctest: +SKIP
    >>> writer.write("/savepoints/bootstrapped")  # doctest: +SKIP
    """

    def __init__(
        self,
        spark: SparkSession,
        snapshot: Snapshot | None,
        max_parallelism: int,
        flink_version: str | None,
        access: SnapshotAccess,
    ) -> None:
        self._access = access
        self._spark = spark
        self._snapshot = snapshot
        self._max_parallelism = max_parallelism
        self._flink_version = flink_version
        self._serializers = access.serializers
        self._migrated_to: str | None = None
        self._drafts: dict[str, OperatorDraft] = {}
        for operator in snapshot.metadata.operators if snapshot is not None else ():
            identifier = OperatorIdentifier(operator.uid, operator.operator_id)
            assert snapshot is not None
            self._drafts[operator.operator_id] = OperatorDraft(identifier, SourceOperator(snapshot, operator))

    def __repr__(self) -> str:
        asked = {draft.identifier: draft.summary for draft in self._drafts.values()}
        lines = [f"{operator}: {summary}" for operator, summary in asked.items() if summary]
        return "\n  ".join([f"{type(self).__name__}(max_parallelism={self._max_parallelism})", *lines])

    @classmethod
    @takes_options
    def new(
        cls,
        spark: SparkSession,
        max_parallelism: int = _DEFAULT_MAX_PARALLELISM,
        flink_version: str = DEFAULT_VERSION,
        **options: Unpack[WorkerOptions],
    ) -> SavepointWriter:
        """A savepoint from nothing (Flink: ``newSavepoint``).

        Parameters
        ----------
        spark
            The session that writes it.
        max_parallelism
            Number of key groups of every operator. The job that restores it has to have the same; one that sets none takes it
            over.
        flink_version
            The oldest Flink to restore it: ``"1.20"``, and any from 1.13 on. Names and uids of operators are kept since 2.0
            only; what Kryo writes is for this major version only.
        **options
            See :class:`~state_processor.options.table.WorkerOptions`.

        Raises
        ------
        OptionError
            If an argument makes no sense.
        """
        check_parallelism(1, max_parallelism)
        metadata_version(flink_version)
        access = SnapshotAccess.of(**options)
        import_serializers(access.serializers)
        return cls(spark, None, max_parallelism, flink_version, access)

    @classmethod
    @takes_options
    def from_existing(
        cls,
        spark: SparkSession,
        path: str | PathLike[str],
        flink_version: str | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> SavepointWriter:
        """A savepoint that starts as a copy of another, or of a checkpoint (Flink: ``fromExistingSavepoint``).

        What is not changed is taken over byte for byte, coordinator state included; keyed state of other formats than the
        canonical one is framed anew. The new savepoint refers to no file of the old one, which is only read.

        Parameters
        ----------
        spark
            The session that writes it.
        path
            Directory of the savepoint or checkpoint, or its ``_metadata``.
        flink_version
            The oldest Flink to restore the new savepoint; by default the format of the base. Going from Flink 1.x to 2.x takes
            more than that: see :meth:`migrate`.
        **options
            See :class:`~state_processor.options.table.SnapshotOptions`.

        Raises
        ------
        NotASnapshotError
            There is no snapshot.
        CorruptSnapshotError
            ``_metadata`` is damaged.
        """
        metadata_version(flink_version)
        access = SnapshotAccess.of(**options)
        snapshot = access.open(path)
        largest = max((o.max_parallelism for o in snapshot.metadata.operators), default=_DEFAULT_MAX_PARALLELISM)
        return cls(spark, snapshot, largest, flink_version, access)

    def with_keyed_state(
        self,
        uid: Uid,
        df: DataFrame,
        key: str = KEY,
        key_type: TypeSerializer | None = None,
        states: Mapping[str, StateSpec | TypeSerializer] | None = None,
        parallelism: int | None = None,
        key_hash: KeyHash | HashRule | None = None,
        *,
        columns: Mapping[str, str] | None = None,
    ) -> SavepointWriter:
        """Keyed states from a table: one row per key, one column per state.

        May be called several times for an operator, for different states. A state that the base has is replaced.

        Parameters
        ----------
        uid
            The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
        df
            The rows. A null, or an empty list or map, is no entry. ``window`` or ``namespace`` is a column of states that have
            one, ``_last_access`` (timestamp) of states with TTL, by default the time of writing.
        key
            The column of the key, which is never null and unique.
        key_type
            The type of the key; by default that of the operator, or what the column's type suggests.
        states
            The states: name of the column, and of the state, to what it is. A type alone is value state. By default all other
            columns are value states of the types that they suggest.
        parallelism
            Number of subtasks, and files, of the operator. It does not bind the job that restores it.
        key_hash
            Java's ``hashCode`` of keys of a class whose own code computes it: a function from a ``pyarrow.Array`` of keys to
            ``numpy.int32``, or a :class:`~state_processor.backends.state.hash_inference.HashRule`. An operator of the base
            needs none: its keys tell.
        columns
            Names of states that are not those of their columns: column to state.

        Raises
        ------
        OptionError
            If types are missing or do not go together.
        InvalidRowError
            If a column is missing or of a type that does not fit.
        """
        schema = arrow_schema_of(df.schema)
        with self._changing(uid) as draft:
            check_distinct(df, schema.names)
            require(schema.names, [key])
            if states is None:
                states = _inferred_states(schema, key)
            unknown = [c for c in columns or {} if c not in states]
            if unknown:
                raise OptionError(f"columns={unknown[0]!r}: no state is written from it; there are {', '.join(states)}")
            key_serializer = draft.take_key(key_type, None if key_type else _inferred_key(schema, key, draft))
            encoded: dict[str, dict[str, str]] = {}
            names: dict[str, DeclaredNames] = {}
            for column, given in states.items():
                require(schema.names, [column])
                name = (columns or {}).get(column, column)
                state = as_spec(name, given).describe(name, key_serializer)
                draft.add(state)
                context = context_columns(state, schema)
                if context.keys() & {key, column}:
                    taken = " and ".join(map(repr, sorted(context.keys() & {key, column})))
                    raise InvalidRowError(f"state {name!r}: column {taken} says more of an entry; rename the key's or value's")
                encoded[name] = context | {KEY: key, VALUE: column}
                names[name] = declared_names(state)
                self._check_types(draft, state, schema, encoded[name])
            if WINDOW in schema.names and key != WINDOW and not any(WINDOW in given.values() for given in encoded.values()):
                raise InvalidRowError(
                    f"column {WINDOW!r} would be ignored: no state has windows; name namespace=Types.TIME_WINDOW(), or drop it"
                )
            if not encoded:
                raise OptionError(f"there is no state to write: the rows have only {', '.join(schema.names)}")
            draft.sources.append(RowSource(df, encoded, names=names))
            if key_hash is not None:
                draft.hashing = (key_hash,) if isinstance(key_hash, HashRule) else key_hash
            elif draft.hashing is None and (draft.base is None or draft.base.key is None):
                require_hash_code(key_serializer)
            self._set_parallelism(draft, parallelism)
        return self

    def update_keyed_state(
        self,
        uid: Uid,
        state: str,
        df: DataFrame,
        key: str = KEY,
        *,
        types: DeclaredTypes | None = None,
        infer_kryo: bool = False,
    ) -> SavepointWriter:
        """Change a keyed state of the base for some keys; all other keys and states stay as they are, byte for byte.

        Parameters
        ----------
        uid, state
            The state.
        df
            Rows of the shape that reading the state gives: ``key`` and ``value`` (or a column named like the state); lists also
            as ``list_index`` and ``list_value``, maps as ``map_key`` and ``map_value``; ``window`` or ``namespace`` where the
            state has one. What a row says replaces what the key had; a null removes it. Rows with ``map_key`` replace single
            entries of a map. Parts that Kryo wrote and that are as they were read (a ``List`` or ``Map`` in a POJO of Flink
            1.x, whose column is JSON) keep their bytes, whatever they hold; they are compared with what the base has for the
            same key. Changed ones are encoded, in the classes that they had. Values with ``_bytes``, as reading with
            ``undescribed="bytes"`` gives them, are these bytes. A ``Row`` or ``RowData`` without a field ``row_kind`` is an
            insert (``+I``): read with ``row_kind=True`` to keep other kinds. With TTL, a row without ``_last_access`` is
            accessed at the time of writing: read with ``metadata=True`` to keep the time.
        key
            The column of the key.
        types
            The types that the job declares for ``key``, ``value``, ``list_value``, ``map_key`` or ``map_value``. They name the
            fields of rows (``Types.ROW_NAMED``, ``Types.ROW_DATA``), which savepoints do not hold: without them a struct for a
            row has the fields ``f0, f1, …``, as reading gives it. By path (``"value.counters"``) the types of what collections
            hold that Kryo wrote, as for :meth:`SavepointReader.read_keyed_state`: needed where they were given to read the rows,
            and to change whole numbers in such a part.
        infer_kryo
            Looks for the latter in the values, as when reading.

        Raises
        ------
        NotFoundError
            The base has no such state.
        OptionError
            If a type is not that of the state, but for names, or of no part that Kryo wrote.
        InvalidRowError
            If a column is missing or of a type that does not fit.
        """
        with self._changing(uid, existing=True) as draft, naming(f"state {state!r}"):
            named = draft.keyed(state)
            columns_of, parts_of = of_columns_and_parts(named, types or {})
            java_types = kryo_types(self._base, draft.identifier, state, parts_of, infer_kryo)
            described = declared(named_by(named, columns_of), java_types)
            schema = arrow_schema_of(df.schema)
            check_distinct(df, schema.names)
            description = draft.updates(described, with_bytes=has_bytes(schema))
            frame, columns, marks = shaped_rows(df, schema, description, key)
            with asking_for_types(description):
                self._check_types(draft, description, arrow_schema_of(frame.schema), columns)
            self._give_way(draft, [state], frame, columns)
            draft.sources.append(RowSource(frame, {state: columns}, marks, {state: declared_names(description)}))
        return self

    def delete_keys(
        self,
        uid: Uid,
        keys_df: DataFrame,
        state: str | None = None,
        key: str | None = None,
        *,
        key_type: TypeSerializer | None = None,
    ) -> SavepointWriter:
        """Remove what a keyed operator holds for some keys.

        Parameters
        ----------
        uid
            The operator.
        keys_df
            The keys; with a column ``window`` or ``namespace``, of these only.
        state
            The state to remove them from; ``None`` for all keyed states, timers and what was added before included.
        key
            The column of the key; by default the only column, or ``key``.
        key_type
            The type of keys as the job declares it; it names the fields of rows, see ``types`` of :meth:`update_keyed_state`.

        Raises
        ------
        NotFoundError
            The base has no such operator or state.
        OptionError
            If the keys are of another type, but for names.
        """
        with self._changing(uid, existing=True) as draft:
            schema = arrow_schema_of(keys_df.schema)
            check_distinct(keys_df, schema.names)
            column = key or (schema.names[0] if len(schema.names) == 1 else KEY)
            names = draft.carried_names()
            columns = key_columns(schema, column, None if state is None else draft.keyed(state), names)
            keys: DeclaredNames = {}
            if key_type is not None and draft.base is not None and draft.base.key is not None:
                keys = {"key": names_in(key_type, draft.base.key, "key")}
            for name in names if state is None else [state]:
                check_key_types(with_names(draft.keyed(name), keys), schema, columns)
            if state is None:
                for added in draft.added.values():
                    check_key_types(added, schema, columns)
                names = (*names, *draft.added)
            self._give_way(draft, names if state is None else [state], keys_df, columns)
            draft.deletions.append(Deletion(keys_df, columns, state, names=keys))
        return self

    def delete_map_entries(
        self, uid: Uid, state: str, df: DataFrame, key: str = KEY, *, types: Mapping[str, TypeSerializer] | None = None
    ) -> SavepointWriter:
        """Remove single entries of a map state; what else the maps hold stays as it is, byte for byte.

        Parameters
        ----------
        uid, state
            The state.
        df
            The entries: ``key`` and ``map_key``; ``window`` or ``namespace`` where the state has one. Other columns are not
            looked at, so that rows as reading the state gives them will do. Entries that are not there are no error.
        key
            The column of the key.
        types
            As for :meth:`update_keyed_state`.

        Raises
        ------
        NotFoundError
            The base has no such state.
        InvalidRowError
            If the state is no map, or a column is missing.
        """
        with self._changing(uid, existing=True) as draft, naming(f"state {state!r}"):
            schema = arrow_schema_of(df.schema)
            check_distinct(df, schema.names)
            description = named_by(draft.keyed(state), types or {})
            columns = entry_columns(schema, description, key)
            check_key_types(description, schema, columns)
            self._give_way(draft, [state], df, columns)
            draft.deletions.append(Deletion(df, columns, state, "entries", declared_names(description)))
        return self

    def with_list_state(
        self, uid: Uid, name: str, df: DataFrame, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> SavepointWriter:
        """A list of operator state, which is dealt out to the subtasks (Flink: ``getListState``).

        Parameters
        ----------
        uid, name
            The operator, and the state. One that the base has is replaced.
        df
            The elements: a column ``value``, or the only one.
        type
            The type of the elements; by default what the column's type suggests.
        parallelism
            As for :meth:`with_keyed_state`.
        """
        return self._with_list(uid, name, df, type, OPERATOR_LIST, parallelism)

    def with_union_state(
        self, uid: Uid, name: str, df: DataFrame, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> SavepointWriter:
        """A list of operator state of which every subtask gets all (Flink: ``getUnionListState``).

        Parameters are those of :meth:`with_list_state`.
        """
        return self._with_list(uid, name, df, type, UNION_LIST, parallelism)

    def with_broadcast_state(
        self,
        uid: Uid,
        name: str,
        df: DataFrame,
        key_type: TypeSerializer | None = None,
        value_type: TypeSerializer | None = None,
        parallelism: int | None = None,
    ) -> SavepointWriter:
        """Broadcast state, of which every subtask has a copy; it has to fit in memory (Flink: ``getBroadcastState``).

        Parameters
        ----------
        uid, name
            The operator, and the state. One that the base has is replaced.
        df
            Columns ``key`` and ``value``.
        key_type, value_type
            Their types; by default what the columns' types suggest.
        parallelism
            As for :meth:`with_keyed_state`.
        """
        schema = arrow_schema_of(df.schema)
        with self._changing(uid) as draft, naming(f"state {name!r}"):
            check_distinct(df, schema.names)
            require(schema.names, [KEY, VALUE])
            refuse_others(schema.names, [KEY, VALUE])
            key = key_type or inferred_type(schema.field(KEY).type, "column 'key'")
            value = value_type or inferred_type(schema.field(VALUE).type, "column 'value'")
            for serializer, column in ((key, KEY), (value, VALUE)):
                bind(serializer, schema.field(column).type, column)
            draft.add_operator_state(BroadcastDescription(name, BROADCAST, value, key), df.select(KEY, VALUE))
            self._set_parallelism(draft, parallelism)
        return self

    def with_source_splits(self, uid: Uid, df: DataFrame, connector: str | None = None) -> SavepointWriter:
        """The splits of a source: where its readers go on, and what its enumerator still has.

        The table is the whole of them: a split that it lacks is forgotten. Splits of readers are in list state, which Flink deals
        out anew; the enumerator's state follows from the table, so that no split is read twice.

        Parameters
        ----------
        uid
            The source. What the base has for it is replaced.
        df
            A row per split, in the columns that :meth:`SavepointReader.read_source_splits` gives. A row without ``subtask`` is
            one that no reader has; without a column ``subtask``, readers have all. ``assignment``, ``version`` and ``raw`` may be
            missing, and for Kafka ``split_id`` and ``stopping_offset``. It has to fit in the driver's memory.
        connector
            ``sequence``, ``kafka``, ``file`` or ``hybrid``; needed where the base does not tell it. The enumerator's state of a
            hybrid source stays as the base has it.

        Raises
        ------
        OptionError
            The connector has to be named, or its splits can't be written.
        InvalidRowError
            A row lacks a value, or has one that is none, or two rows are the same split.
        """
        with self._changing(uid) as draft:
            base = source_state(draft.base.snapshot, draft.base.operator) if draft.base is not None else None
            with our_errors():
                rows = df.toArrow().to_pylist()
            with naming(f"state {READER_STATE!r}"):
                written = written_source(rows, base, connector)
            elements = self._spark.createDataFrame([(element,) for element in written.elements], "value binary").coalesce(1)
            draft.coordinator = written.coordinator
            draft.add_operator_state(OperatorListDescription(READER_STATE, OPERATOR_LIST, BytesSerializer()), elements)
        return self

    def _with_list(
        self, uid: Uid, name: str, df: DataFrame, type_: TypeSerializer | None, kind: str, parallelism: int | None
    ) -> SavepointWriter:
        schema = arrow_schema_of(df.schema)
        with self._changing(uid) as draft, naming(f"state {name!r}"):
            check_distinct(df, schema.names)
            column = schema.names[0] if len(schema.names) == 1 else VALUE
            require(schema.names, [column])
            refuse_others(schema.names, [column])
            value = type_ or inferred_type(schema.field(column).type, f"column {column!r}")
            bind(value, schema.field(column).type, column)
            frame = df.select(f.col(quoted(column)).alias(VALUE))
            draft.add_operator_state(OperatorListDescription(name, kind, value), frame)
            self._set_parallelism(draft, parallelism)
        return self

    def with_timers(
        self,
        uid: Uid,
        df: DataFrame,
        key: str = KEY,
        key_type: TypeSerializer | None = None,
        namespace: TypeSerializer | None = None,
        parallelism: int | None = None,
    ) -> SavepointWriter:
        """Timers from a table of the shape that reading timers gives.

        Those that the base has are replaced where they are of a domain and service that the table has rows of; others stay.

        Parameters
        ----------
        uid, key, key_type, parallelism
            As for :meth:`with_keyed_state`.
        df
            Columns ``key``, ``timestamp`` (bigint, milliseconds); where they are there, also ``domain`` (``event_time`` or
            ``processing_time``, default ``event_time``), ``service`` (default ``user-timers``, those of process functions), and
            ``window`` or ``namespace``.
        namespace
            The namespace's type: ``Types.TIME_WINDOW()`` for a column ``window``; by default there is none.

        Raises
        ------
        OptionError
            If there are no rows and the base has timers.
        """
        schema = arrow_schema_of(df.schema)
        with self._changing(uid) as draft:
            check_distinct(df, schema.names)
            require(schema.names, [key, TIMESTAMP])
            spaces = (NAMESPACE,) if namespace is None else NAMESPACES
            hint = "name the type of the window by namespace=Types.TIME_WINDOW()" if WINDOW in schema.names else ""
            refuse_others(schema.names, (key, TIMESTAMP, DOMAIN, SERVICE, *spaces), hint)
            key_serializer = draft.take_key(key_type, None if key_type else _inferred_key(schema, key, draft))
            queues = list(timer_rows(df, schema, key_serializer, namespace))
            held = [n for n, state in (draft.base.keyed_states if draft.base is not None else {}).items() if state.is_timer]
            if held and not queues:
                raise OptionError(
                    f"there are no rows, which would leave the timers of the base as they are; to leave them out, call "
                    f"remove_state for {' and '.join(map(repr, held))}"
                )
            for queue, rows in queues:
                draft.add(queue)
                columns = context_columns(queue, schema) | {KEY: key, TIMESTAMP: TIMESTAMP}
                self._check_types(draft, queue, schema, columns)
                draft.sources.append(RowSource(rows, {queue.name: columns}, names={queue.name: declared_names(queue)}))
            self._set_parallelism(draft, parallelism)
        return self

    def remove_operator(self, uid: Uid) -> SavepointWriter:
        """Leave out an operator of the base, or one that was added.

        Raises
        ------
        NotFoundError
            There is none.
        """
        draft = self._existing(uid)
        del self._drafts[draft.identifier.uid_hash]
        return self

    def remove_state(self, uid: Uid, name: str) -> SavepointWriter:
        """Leave out one state of an operator: one of the base, what was to change in it, or one that was added. Its other
        states stay as they are, byte for byte.

        Raises
        ------
        NotFoundError
            There is no such operator or state.
        """
        with self._changing(uid, existing=True) as draft:
            draft.remove(name)
        return self

    def change_operator_identifier(self, old: Uid, new: Uid) -> SavepointWriter:
        """Give an operator another uid; all its state goes with it, that of its coordinator too.

        The change applies at the end: other methods go on to name the operator as before.

        Raises
        ------
        NotFoundError
            There is no such operator.
        OptionError
            If another operator has the new uid.
        """
        with self._changing(old, existing=True) as draft:
            draft.renamed = OperatorIdentifier.of(new)
            self._check_free(draft)
        return self

    def evolve_state(self, uid: Uid, state: str, new_type: TypeSerializer) -> SavepointWriter:
        """Rewrite a keyed state of the base in another schema, by the rules that Flink has for POJOs and Avro.

        Fields that are new are null, 0 for numbers, or Avro's default; those that are gone are dropped. Where
        :func:`~state_processor.serializers.register_primitive_fields` tells which numbers are boxed, new ones of these are null.

        Parameters
        ----------
        uid, state
            The state.
        new_type
            The type of its values; of a list or map state the ``Types.LIST`` or ``Types.MAP`` (or a list's element).

        Raises
        ------
        NotFoundError
            The base has no such state.
        OptionError
            If rows were given for the state before, or keys to be deleted from it: they would be lost.
        StateMigrationError
            Flink would refuse to restore the state with this type; the message says why.
        """
        draft = self._existing(uid)
        old = draft.keyed(state)
        if draft.changed_before(state):
            raise OptionError(
                f"{draft.label}, state {state!r} was to be changed before, which evolve_state would undo: it begins with the "
                "values of the base. Call it before delete_keys; for other changes, write one savepoint after the other"
            )
        assert self._snapshot is not None
        new = with_type(old, new_type)
        reader = SavepointReader.read(self._spark, self._snapshot.directory, **self._access.values())
        verdict = reader.check_compatibility(draft.identifier, state, new_type)
        if verdict.is_incompatible:
            raise StateMigrationError(f"{draft.label}, state {state!r} can't become {new_type}: {verdict.reason}")
        frame = reader.read_keyed_state(
            draft.identifier,
            state,
            schema={"value": whole_type(new)},
            flatten=False,
            metadata=old.has_ttl,
            nanos="string",
            row_kind=True,
        )
        with self._changing(uid, existing=True) as changed, naming(f"state {state!r}"):
            schema = arrow_schema_of(frame.schema)
            frame, columns, _ = shaped_rows(frame, schema, new, KEY)
            self._check_types(changed, new, schema, columns)
            changed.add(new)
            changed.sources.append(RowSource(frame, {state: columns}, names={state: declared_names(new)}))
        return self

    def migrate(self, flink_version: str = "2.x", types: Mapping[Uid, TypesOfStates] | None = None) -> SavepointWriter:
        """Make a savepoint of Flink 1.x one that Flink 2.x restores: rewrite what it can't restore as it is.

        Fields declared as ``List``, ``Collection``, ``Iterable``, ``Set`` or ``Map`` were Kryo's in Flink 1.x; Flink 2.x infers
        serializers of its own for them (``TypeExtractor``: ``NullableListTypeInfo`` and the like) and refuses the old state with
        a ``StateMigrationException``. What stays with Kryo has other bytes in Kryo 5. Serializer snapshots that were renamed get
        their new names. Everything else is carried byte for byte.

        States that change are read once to find out what is in their collections, and whether each value can be converted.
        :meth:`migration_report` tells the result; nothing is written before :meth:`write`, which refuses as long as a state that
        can't be migrated is not left out with :meth:`remove_state` or given anew. Call it again with more ``types`` as needed.

        Parameters
        ----------
        flink_version
            The Flink that is to restore the savepoint: ``"2.0"`` or later, or ``"2.x"`` for any of them.
        types
            The types that the new job declares, where values do not tell them (they are empty, of several classes, or of the
            user's own classes): by operator, state and path. A path is made of the names of fields, with dots (``"tags"``,
            ``"address.lines"``); ``element`` of lists, ``key`` and ``value`` of maps; ``f0`` of tuples and rows; it begins
            with ``map_key:``, ``key:`` or ``namespace:`` where it is not in the state's value; a type in the place of the paths
            is that of the value as a whole. ``Types.LIST``, ``SET`` and ``MAP`` are what Flink infers for the
            declaration, null included; ``Types.KRYO`` says that the part stays with Kryo, as it does where type
            arguments are wildcards or have arguments themselves.

        Raises
        ------
        OptionError
            If there is no base, the version is none of 2.x, or a path leads to nothing that Kryo wrote.
        NotFoundError
            There is no operator or state of a name.

        Examples
        --------
        >>> writer.migrate("2.3", {"orders": {"profile": {"tags": Types.LIST(Types.STRING())}}})  # doctest: +SKIP
        >>> print(writer.migration_report())  # doctest: +SKIP
        """
        return self.migrate_by(SparkEngine(self._spark), flink_version, types)

    def migrate_by(self, engine: Engine, flink_version: str, types: Mapping[Uid, TypesOfStates] | None = None) -> SavepointWriter:
        """The same where an engine of one's own reads the values."""
        if self._snapshot is None:
            raise OptionError("there is nothing to migrate: this savepoint does not start from another")
        if metadata_version(flink_version) < metadata_version("2.0"):
            raise OptionError(f"flink_version={flink_version!r}: migrations are to Flink 2.0 and later")
        named = {self._existing(uid).identifier.uid_hash: types_by_path(states) for uid, states in (types or {}).items()}
        for uid_hash, plan in plan_migrations(engine, list(self._drafts.values()), named, self._serializers).items():
            self._drafts[uid_hash].migration = plan
        self._flink_version = self._migrated_to = flink_version
        return self

    def migration_report(self) -> MigrationReport:
        """What :meth:`migrate` found: whether each state of the base is unchanged, converted, or can't be migrated, and why.

        Raises
        ------
        OptionError
            If there was no migration.
        """
        if self._migrated_to is None:
            raise OptionError("there is no migration to report on; call migrate first")
        return MigrationReport(self._migrated_to, tuple(r for draft in self._drafts.values() for r in draft.migration_reports))

    def with_parallelism(self, uid: Uid, parallelism: int) -> SavepointWriter:
        """Distribute an operator's state over another number of subtasks.

        Raises
        ------
        NotFoundError
            There is no such operator.
        OptionError
            If it is more than the max parallelism.
        """
        draft = self._existing(uid)
        check_parallelism(parallelism, draft.final_max_parallelism)
        draft.parallelism = parallelism
        return self

    def with_max_parallelism(self, max_parallelism: int) -> SavepointWriter:
        """Change the number of key groups of all operators: every key gets its key group anew, timers too.

        Flink itself can't: the max parallelism of a job is fixed by its first checkpoint.

        Raises
        ------
        OptionError
            If it is less than the parallelism of an operator, or no possible number.
        """
        check_parallelism(1, max_parallelism)
        for draft in self._drafts.values():
            if draft.final_parallelism > max_parallelism:
                raise OptionError(
                    f"{draft.label} has parallelism {draft.final_parallelism}, more than {max_parallelism}; change it first, "
                    "by with_parallelism"
                )
        for draft in self._drafts.values():
            draft.max_parallelism = max_parallelism
        self._max_parallelism = max_parallelism
        return self

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> WriteSummary:
        """Write the savepoint.

        ``_metadata`` is written last, all at once: until then there is no savepoint, and on failure nothing is left behind. Where
        the process is killed, files are left which are no savepoint; the next write to the directory removes them. Of several
        writes to one directory the first that is complete counts, and the others fail.

        Parameters
        ----------
        path
            The directory of the new savepoint: a path or URL that driver and executors can reach.
        overwrite
            Whether a savepoint that is there may be replaced; it stays until the new one is complete. The base can't be.

        Raises
        ------
        OptionError
            If there is a savepoint already, or nothing to write.
        InvalidRowError
            If a row can't become state: the message names operator, state, key, and what is wrong.
        WriteError
            If files can't be written, or another write to the same directory was complete before.
        """
        staging = Staging(fspath(path), uuid4().hex[:16], replaces=overwrite)
        self.prepare(staging)
        try:
            return self.write_to(staging, SparkEngine(self._spark))
        except BaseException as failure:
            staging.give_up(failure)
            raise

    def prepare(self, staging: Staging) -> None:
        """Check what can be checked before rows are looked at, and make the directory."""
        drafts = list(self._drafts.values())
        self._check(drafts)
        if self._snapshot is not None and same_directory(self._snapshot.directory, staging.directory):
            raise OptionError(
                f"{staging.directory} is the savepoint to start from, which is never changed; write to another directory"
            )
        staging.prepare()

    def first_pass(self, engine: Engine, staging: Staging) -> tuple[list[str], ShuffleBlobs]:
        """The columns and the first pass of the one source of rows that there is."""
        (draft,) = (d for d in self._drafts.values() if d.sources)
        job = OperatorJob(engine, staging, draft, self._flink_major, self._serializers)
        target = job.target()
        assert target is not None
        (task,) = job.encoders(target)
        return job.columns(draft.sources[0]), task

    def has_state(self, uid: Uid, state: str) -> bool:
        """Whether the base has a keyed state."""
        draft = self._drafts.get(OperatorIdentifier.of(uid).uid_hash)
        return draft is not None and draft.base is not None and state in draft.base.keyed_states

    def write_to(self, staging: Staging, engine: Engine) -> WriteSummary:
        """Write into a directory that is prepared."""
        drafts = list(self._drafts.values())
        copies = copy_unchanged(engine, drafts, staging)
        written = [OperatorJob(engine, staging, draft, self._flink_major, self._serializers).run(copies) for draft in drafts]
        base = self._snapshot.metadata if self._snapshot is not None else None
        metadata = commit_savepoint(
            staging,
            [w.operator for w in written],
            version=self._version,
            checkpoint_id=base.checkpoint_id if base is not None else 1,
            master_states=base.master_states if base is not None else (),
        )
        report = self.migration_report() if self._migrated_to is not None else None
        return WriteSummary(staging.directory, metadata.checkpoint_id, tuple(map(OperatorSummary.of, written)), report)

    @property
    def _version(self) -> int:
        if self._flink_version is not None or self._snapshot is None:
            return metadata_version(self._flink_version)
        return max(self._snapshot.metadata.version, WIDEST_VERSION)

    @property
    def _flink_major(self) -> int:
        if self._snapshot is not None and self._migrated_to is None:
            return self._snapshot.flink_major
        return int((self._flink_version or DEFAULT_VERSION).split(".")[0])

    def _check(self, drafts: Sequence[OperatorDraft]) -> None:
        if not drafts:
            raise OptionError("there is no operator to write; add state first")
        taken: dict[str, OperatorDraft] = {}
        for draft in drafts:
            check_parallelism(draft.final_parallelism, draft.final_max_parallelism)
            other = taken.setdefault(draft.final_identifier.uid_hash, draft)
            if other is not draft:
                raise OptionError(f"{other.label} and {draft.label} would both be {draft.final_identifier}")
        left = [report for draft in drafts for report in draft.not_migrated]
        if left:
            raise StateMigrationError(
                f"{len(left)} states can't be migrated to Flink {self._migrated_to}; do what is said of them, or leave them out "
                "with remove_state:\n" + "\n".join(map(str, left))
            )

    def _base(self) -> Snapshot:
        """The snapshot that the savepoint starts from."""
        assert self._snapshot is not None  # methods that change states of it have found them there
        return self._snapshot

    def _draft(self, uid: Uid) -> OperatorDraft:
        """The draft of an operator, which may be new."""
        identifier = OperatorIdentifier.of(uid)
        draft = self._drafts.get(identifier.uid_hash)
        if draft is None:
            draft = OperatorDraft(identifier, None, max_parallelism=self._max_parallelism)
            self._check_free(draft)
        elif draft.identifier.uid is None:
            draft.identifier = identifier
        return draft

    @contextmanager
    def _changing(self, uid: Uid, *, existing: bool = False) -> Iterator[OperatorDraft]:
        """The draft of an operator, to be changed; where that fails, it is as it was. Errors name the operator."""
        draft = (self._existing(uid) if existing else self._draft(uid)).copy()
        with naming(draft.label):
            yield draft
        self._drafts[draft.identifier.uid_hash] = draft

    def _check_free(self, draft: OperatorDraft) -> None:
        """Refuse an operator with the identifier of another."""
        for other in self._drafts.values():
            same = other.final_identifier.uid_hash == draft.final_identifier.uid_hash
            if same and other.identifier.uid_hash != draft.identifier.uid_hash:
                raise OptionError(f"{other.label} and {draft.label} would both be {draft.final_identifier}")

    def _check_types(self, draft: OperatorDraft, state: KeyedDescription, schema: pa.Schema, columns: Mapping[str, str]) -> None:
        check_types(state, schema, columns, draft.final_max_parallelism, self._flink_major)

    def _existing(self, uid: Uid) -> OperatorDraft:
        identifier = OperatorIdentifier.of(uid)
        if identifier.uid_hash not in self._drafts:
            raise NotFoundError.naming_nearest("operator", str(identifier), [str(d.identifier) for d in self._drafts.values()])
        return self._draft(uid)

    @staticmethod
    def _give_way(draft: OperatorDraft, states: Sequence[str], frame: DataFrame, columns: Mapping[str, str]) -> None:
        """Of rows that were given before, take away those that later ones are about: what is said last counts."""
        names = [n for n in columns if n in (KEY, *NAMESPACES, MAP_KEY)]
        for i, source in enumerate(draft.sources):
            if not set(source.columns) & set(states):
                continue
            name, given = next(iter(source.columns.items()))  # of several states, which are new, the key is the same
            if source.marks and MAP_KEY in columns and MAP_KEY not in given:  # whole maps, of which some entries change
                whole = {n: c for n, c in given.items() if n in (KEY, *NAMESPACES)}
                draft.deletions.append(Deletion(source.frame, whole, name, names=source.names.get(name, {})))
                rows, given = map_entries(source.frame, dict(given))
                source = RowSource(rows, {name: given}, "entries", source.names)
            shared = [n for n in names if n in given]
            for n in shared:
                check_comparable(source.frame, given[n], frame, columns[n])
            later = frame.select(*(identity(frame, columns[n]).alias(f"_later_{n}") for n in shared))
            same = [identity(source.frame, given[n]) == f.col(f"_later_{n}") for n in shared]
            draft.sources[i] = replace(source, frame=source.frame.join(later, same, "left_anti"))

    @staticmethod
    def _set_parallelism(draft: OperatorDraft, parallelism: int | None) -> None:
        if parallelism is None:
            return
        check_parallelism(parallelism, draft.final_max_parallelism)
        if draft.parallelism not in (None, parallelism):
            raise OptionError(f"{draft.label}: parallelism {draft.parallelism} before, {parallelism} now")
        draft.parallelism = parallelism


def same_directory(one: str, other: str) -> bool:
    """Whether two paths or URLs lead to the same directory."""
    locations = [Location.parse(p) for p in (one, other)]
    if all(location.is_local for location in locations):
        return len({os.path.realpath(location.path) for location in locations}) == 1
    return len({(location.scheme, location.authority, location.path.rstrip("/")) for location in locations}) == 1


def _inferred_states(schema: pa.Schema, key: str) -> dict[str, StateSpec | TypeSerializer]:
    """Every column but the key as value state."""
    names = [n for n in schema.names if n != key]
    reserved = [n for n in names if n in (*METADATA, *NAMESPACES)]
    if reserved:
        listed = " and ".join(map(repr, reserved))
        raise InvalidRowError(f"column {listed} says more of an entry and is no state: name the states by states=, or drop it")
    return {n: inferred_type(schema.field(n).type, f"state {n!r}: column {n!r}") for n in names}


def _inferred_key(schema: pa.Schema, key: str, draft: OperatorDraft) -> TypeSerializer | None:
    if draft.key is not None or (draft.base is not None and draft.base.key is not None):
        return None
    return inferred_type(schema.field(key).type, f"column {key!r}")
