"""Writing savepoints from Spark DataFrames, under Flink's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike, fspath
from typing import Any, Final, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from state_processor.backends.entry_encoder import KEY, NAMESPACES, TIMESTAMP, VALUE
from state_processor.backends.key_groups import check_parallelism
from state_processor.backends.metadata import OperatorState
from state_processor.backends.savepoint_writer import NewOperator, SubtaskHandles, commit_savepoint, metadata_version
from state_processor.backends.shapes import LAST_ACCESS
from state_processor.backends.snapshot_dir import Snapshot
from state_processor.backends.staging import Staging
from state_processor.backends.states import StateDescription
from state_processor.datasource import arrow_schema_of
from state_processor.identifier import OperatorIdentifier
from state_processor.inferred_types import inferred_type
from state_processor.operator_draft import OperatorDraft, RowSource
from state_processor.options import import_serializers
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import InvalidRowError, OptionError
from state_processor.state_specs import EVENT_TIME, USER_TIMERS, StateSpec, as_spec, timer_queue
from state_processor.write_job import encode_rows, write_subtasks
from state_processor.write_tasks import EncodeRows, KeyedTarget, StateColumns, WriteKeyedState, header_bytes, now_millis

Uid = str | OperatorIdentifier
_DEFAULT_MAX_PARALLELISM: Final = 128


@dataclass(frozen=True, slots=True)
class OperatorSummary:
    """What was written of one operator."""

    uid: str | None
    uid_hash: str
    parallelism: int
    max_parallelism: int
    states: tuple[str, ...]
    entries: int
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What was written, and where."""

    path: str
    checkpoint_id: int
    operators: tuple[OperatorSummary, ...]

    @property
    def entries(self) -> int:
        """Entries of keyed state in all operators."""
        return sum(o.entries for o in self.operators)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all operators' state."""
        return sum(o.size_in_bytes for o in self.operators)


class SavepointWriter:
    """Writes a savepoint (Flink: ``SavepointWriter``); made by :meth:`new` or :meth:`from_existing`.

    Methods note what is to be written and return the writer; :meth:`write` does it. Savepoints are in Flink's canonical
    format, which every Flink since 1.13 restores with any state backend.

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
        serializers: tuple[str, ...],
    ) -> None:
        self._spark = spark
        self._snapshot = snapshot
        self._max_parallelism = max_parallelism
        self._flink_version = flink_version
        self._serializers = serializers
        self._drafts: dict[str, OperatorDraft] = {}

    @classmethod
    def new(
        cls,
        spark: SparkSession,
        max_parallelism: int = _DEFAULT_MAX_PARALLELISM,
        flink_version: str | None = None,
        *,
        serializers: Sequence[str] = (),
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
            The oldest Flink to restore it, such as ``"1.20"``; by default the format that all since 1.13 read. Names and uids
            of operators are kept since 2.0 only.
        serializers
            Modules that register serializers of your own; they are imported here and on every worker.

        Raises
        ------
        OptionError
            If an argument makes no sense.
        """
        check_parallelism(1, max_parallelism)
        metadata_version(flink_version)
        import_serializers(serializers)
        return cls(spark, None, max_parallelism, flink_version, tuple(serializers))

    def with_keyed_state(
        self,
        uid: Uid,
        df: DataFrame,
        key: str = KEY,
        key_type: TypeSerializer | None = None,
        states: Mapping[str, StateSpec | TypeSerializer] | None = None,
        parallelism: int | None = None,
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
            The states: name of the state and of its column, to what it is. A type alone is value state. By default all other
            columns are value states of the types that they suggest.
        parallelism
            Number of subtasks, and files, of the operator. It does not bind the job that restores it.

        Raises
        ------
        OptionError
            If types are missing or do not go together.
        InvalidRowError
            If a column is missing or of a type that does not fit.
        """
        draft = self._draft(uid)
        schema = arrow_schema_of(df.schema)
        _require(schema, key, draft.label)
        if states is None:
            reserved = {key, LAST_ACCESS, *NAMESPACES}
            states = {n: inferred_type(schema.field(n).type, f"column {n!r}") for n in schema.names if n not in reserved}
        key_serializer = draft.take_key(key_type, None if key_type else _inferred_key(schema, key, draft))
        columns = {}
        for name, given in states.items():
            state = as_spec(name, given).describe(name, key_serializer)
            _require(schema, name, draft.label)
            draft.add(state)
            columns[name] = {KEY: key, VALUE: name} | _context_columns(state, schema)
        draft.sources.append(RowSource(df, columns))
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
        """
        draft = self._draft(uid)
        schema = arrow_schema_of(df.schema)
        _require(schema, key, draft.label)
        _require(schema, TIMESTAMP, draft.label)
        key_serializer = draft.take_key(key_type, None if key_type else _inferred_key(schema, key, draft))
        defaults = {"domain": EVENT_TIME, "service": USER_TIMERS}
        tagged = df.select("*", *(f.lit(value).alias(name) for name, value in defaults.items() if name not in schema.names))
        for domain, service in sorted(tuple(r) for r in tagged.select(*defaults).distinct().collect()):
            queue = timer_queue(service, domain, key_serializer, namespace)
            draft.add(queue)
            columns = {KEY: key, TIMESTAMP: TIMESTAMP} | _context_columns(queue, schema)
            rows = tagged.where((f.col("domain") == domain) & (f.col("service") == service))
            draft.sources.append(RowSource(rows, {queue.name: columns}))
        self._set_parallelism(draft, parallelism)
        return self

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> WriteSummary:
        """Write the savepoint.

        ``_metadata`` is written last, all at once: until then there is no savepoint, and on failure nothing is left behind.

        Parameters
        ----------
        path
            The directory of the new savepoint: a path or URL that driver and executors can reach.
        overwrite
            Whether a savepoint that is there may be replaced.

        Raises
        ------
        OptionError
            If there is a savepoint already.
        InvalidRowError
            If a row can't become state: the message names operator, state, key, and what is wrong.
        """
        staging = Staging(fspath(path), uuid4().hex[:16])
        staging.prepare()
        try:
            operators, counts = [], {}
            for draft in self._drafts.values():
                operator, counts[operator.operator_id] = self._write_operator(draft, staging)
                operators.append(operator)
            version = metadata_version(self._flink_version)
            metadata = commit_savepoint(staging, operators, version=version)
        except BaseException:
            staging.abort()
            raise
        return WriteSummary(staging.directory, metadata.checkpoint_id, tuple(_summary(o, 0, ()) for o in metadata.operators))

    def _write_operator(self, draft: OperatorDraft, staging: Staging) -> tuple[NewOperator, int]:
        parallelism, max_parallelism = draft.final_parallelism, draft.final_max_parallelism
        header = draft.header()
        subtasks: dict[int, SubtaskHandles] = {}
        if header is not None:
            target = KeyedTarget(
                draft.identifier.uid_hash,
                draft.label,
                header_bytes(header),
                2,
                parallelism,
                max_parallelism,
                self._serializers,
            )
            ids = {meta.name: i for i, meta in enumerate(header.states)}
            blobs = []
            for source in draft.sources:
                states = tuple(StateColumns(ids[n], dict(c), source.marks) for n, c in source.columns.items())
                needed = dict.fromkeys(c for s in states for c in s.columns.values())
                task = EncodeRows(target, states, now_millis())
                blobs.append(encode_rows(source.frame.select(*(f"`{c}`" for c in needed)), task))
            for subtask, (handle, _) in write_subtasks(blobs, parallelism, WriteKeyedState(target, staging)).items():
                subtasks[subtask] = SubtaskHandles(keyed=handle)
        identifier = draft.identifier
        return NewOperator(identifier.uid_hash, parallelism, max_parallelism, subtasks, uid=identifier.uid), 0

    def _draft(self, uid: Uid) -> OperatorDraft:
        identifier = OperatorIdentifier.of(uid)
        draft = self._drafts.get(identifier.uid_hash)
        if draft is None:
            draft = OperatorDraft(identifier, None, max_parallelism=self._max_parallelism)
            self._drafts[identifier.uid_hash] = draft
        return draft

    def _set_parallelism(self, draft: OperatorDraft, parallelism: int | None) -> None:
        if parallelism is None:
            return
        check_parallelism(parallelism, draft.final_max_parallelism)
        if draft.parallelism not in (None, parallelism):
            raise OptionError(f"{draft.label}: parallelism {draft.parallelism} before, {parallelism} now")
        draft.parallelism = parallelism


def _require(schema: pa.Schema, column: str, label: str) -> None:
    if schema.get_field_index(column) < 0:
        raise InvalidRowError(f"{label}: there is no column {column!r}; the rows have {', '.join(schema.names)}")


def _inferred_key(schema: pa.Schema, key: str, draft: OperatorDraft) -> TypeSerializer | None:
    if draft.key is not None or (draft.base is not None and draft.base.key is not None):
        return None
    return inferred_type(schema.field(key).type, f"column {key!r}")


def _context_columns(state: StateDescription, schema: pa.Schema) -> dict[str, str]:
    """Columns that say more than the value: the namespace, the time of last access."""
    names: list[str] = []
    if not state.in_void_namespace:
        names += [n for n in NAMESPACES if n in schema.names]
    if state.has_ttl and LAST_ACCESS in schema.names:
        names.append(LAST_ACCESS)
    return {n: n for n in names}


def _summary(operator: OperatorState, entries: int, states: tuple[str, ...]) -> OperatorSummary:
    return OperatorSummary(
        operator.uid, operator.operator_id, operator.parallelism, operator.max_parallelism, states, entries, operator.state_size
    )
