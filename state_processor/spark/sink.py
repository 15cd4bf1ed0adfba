"""``df.write.format("flink-savepoint")``: keyed state of one operator, from one DataFrame.

Spark offers a data source no shuffle, and its commit is one process without a session. Tasks encode their rows, in any
partitioning, into files of the write; the commit writes the files of the subtasks from these, in up to four threads, with one
blob of each subtask in memory at a time. Rows that are already partitioned by subtask would save nothing: the cost is in
encoding, and a task can't know that no other task has rows of its subtask. :class:`~state_processor.SavepointWriter` distributes
the second part too and supports all kinds of state: use it for large savepoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from state_processor.backends.write.entry_encoder import NAMESPACES, VALUE
from state_processor.backends.write.staging import Staging
from state_processor.options.data_sources import SinkOptions
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.spark.schemas import arrow_schema_of
from state_processor.spark.task_errors import asked_by_spark
from state_processor.support.errors import InvalidRowError, OptionError
from state_processor.types.declared_types import parse_type, spec_of, type_of_column
from state_processor.types.state_specs import AggregatingState, ListState, MapState, ReducingState, StateSpec, ValueState
from state_processor.write.build import DEFAULT_VERSION, SavepointBuild
from state_processor.write.plan.draft import DEFAULT_MAX_PARALLELISM, OperatorDraft
from state_processor.write.plan.keyed_changes import add_keyed_states, update_keyed_state
from state_processor.write.rows.row_columns import (
    METADATA,
    NAMES,
    KeyedRows,
    checked_schema,
    refuse_others,
    require,
    spelled_alike,
)
from state_processor.write.rows.row_protocol import Rows
from state_processor.write.tasks.local_engine import EncodedRows, LocalEngine
from state_processor.write.tasks.passes import BlobIndex, FirstPass, blob_indexes

_VALUE_KINDS: Final[dict[str, Callable[..., StateSpec]]] = {
    "VALUE": ValueState,
    "REDUCING": ReducingState,
    "AGGREGATING": AggregatingState,
    "LIST": ListState,
}
_OF_NEW_STATES: Final = ("kind", "ttl")
"""Options that describe a new state."""


@dataclass
class EncodedMessage(WriterCommitMessage):
    """Index files of a task."""

    indexes: Sequence[BlobIndex]


class SavepointSink(DataSourceArrowWriter):
    """Writer of a savepoint.

    Parameters
    ----------
    options
        See :class:`~state_processor.spark.datasource.FlinkSavepointDataSource`.
    schema
        The columns of the rows.
    overwrite
        Whether a savepoint that is there is replaced.
    """

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        self._options = options = replace(options, access=options.access.with_content())  # the commit uses the same
        column_schema = arrow_schema_of(schema)
        self._schema = pa.schema(
            map(pa.Field.with_name, column_schema, spelled_alike(column_schema.names, _expected_columns(options)))
        )
        self._staging = Staging(options.path, uuid4().hex[:16], options.access.storage(), replaces=overwrite)
        build = savepoint_build(options, EncodedRows(self._schema))
        self._digest = build.snapshot.digest if build.snapshot is not None else None
        first = build.first_pass(LocalEngine())
        self._columns = first.columns
        self._encode = FirstPass(first.task, self._staging)
        build.prepare(self._staging, os.getppid())  # this process only plans, and ends before the write does

    @asked_by_spark()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Encode the rows of one task."""
        rows = (batch.rename_columns(self._schema.names).select(self._columns) for batch in iterator)
        return EncodedMessage(blob_indexes(self._encode(rows)))

    @asked_by_spark()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the files of subtasks from the entries of all tasks, and ``_metadata``."""
        encoded = (message for message in messages if isinstance(message, EncodedMessage))
        indexes = list(chain.from_iterable(message.indexes for message in encoded))
        try:
            build = savepoint_build(self._options, EncodedRows(self._schema, indexes), self._digest)
            build.write(self._staging, LocalEngine())
        except BaseException as failure:
            self._staging.give_up(failure)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all files of this write; messages may be missing."""
        self._staging.abort()


def _expected_columns(options: SinkOptions) -> tuple[str, ...]:
    """Return the columns whose names are not those of new states. Data sources don't see whether case counts in the session."""
    return (options.key, *METADATA) if options.state is None else (options.key, options.state, *NAMES)


def savepoint_build(options: SinkOptions, rows: Rows, digest: str | None = None) -> SavepointBuild:
    """Return the savepoint that options describe. Tasks have encoded rows for the source savepoint with a digest."""
    size, version, operator, state = options.max_parallelism, options.flink_version, options.operator, options.state
    if options.base is None:
        new_size = DEFAULT_MAX_PARALLELISM if size is None else size
        build = SavepointBuild.new(new_size, version or DEFAULT_VERSION, options.access)
    else:
        build = SavepointBuild.from_existing(options.base, version, options.access, digest=digest)
        if size is not None:
            build.set_max_parallelism(size)
    if state is not None and not options.replace and build.has_keyed_state(operator, state):
        with build.change(operator, existing=True) as draft:
            _update_state(draft, state, options, rows)
        if options.parallelism is not None:
            build.set_parallelism(operator, options.parallelism)
    else:
        with build.change(operator, parallelism=options.parallelism) as draft:
            _add_states(draft, state, options, rows)
    return build


def _update_state(draft: OperatorDraft, state: str, options: SinkOptions, rows: Rows) -> None:
    unused = [n for n in _OF_NEW_STATES if getattr(options, n) is not None]
    if unused:
        raise OptionError(
            f"state {state!r} exists in the source savepoint, and option {unused[0]} does not apply to it; leave the option out, "
            "or replace the whole state with replace=true"
        )
    types = _declared(options, rows.schema, state)
    update_keyed_state(draft, state, KeyedRows(rows, options.key), types=types, python_type=options.python_type)


def _add_states(draft: OperatorDraft, state: str | None, options: SinkOptions, rows: Rows) -> None:
    schema, key = checked_schema(rows), options.key
    values = [n for n in schema.names if n not in (key, *METADATA, *NAMESPACES)]
    if state is not None:
        values = [n for n in dict.fromkeys((VALUE, state)) if n in values] or [VALUE]
        if len(values) > 1:
            raise InvalidRowError(f"state {state!r}: the columns {VALUE!r} and {state!r} both have its content; drop one")
    require(schema.names, [key, *values])
    refuse_others(schema.names, [key, *values])
    if options.python_type is not None and (state is None or options.kind is not None or options.value_type is not None):
        raise OptionError("option pythonType is for one state, named by the option state, and says its kind and type itself")
    specs = {column: _spec(options, schema.field(column)) for column in values}
    key_type = parse_type(options.key_type, schema.field(key).type) if options.key_type else None
    columns = dict.fromkeys(values, state) if state is not None else None
    python = True if options.python_type is not None else None
    add_keyed_states(draft, KeyedRows(rows, key), key_type, specs, columns=columns, python=python)


def _declared(options: SinkOptions, schema: pa.Schema, state: str) -> dict[str, TypeSerializer]:
    """Return the types that options name for the columns of an existing state."""
    value = state if state in schema.names else VALUE
    named = {"key": (options.key_type, options.key), "value": (options.value_type, value)}
    return {n: parse_type(t, schema.field(c).type) for n, (t, c) in named.items() if t and c in schema.names}


def _spec(options: SinkOptions, column: pa.Field) -> StateSpec:
    """Return the kind and type of a new state."""
    if options.python_type is not None:
        return spec_of(options.python_type, ttl=options.ttl)
    kind = options.kind or "VALUE"
    text = options.value_type
    type_ = parse_type(text, column.type) if text else type_of_column(column.type, f"column {column.name!r}")
    if kind == "MAP":
        if not isinstance(type_, MapSerializer):
            raise OptionError(f"column {column.name!r}: MAP state is of a Types.MAP, not of {type_}")
        return MapState(type_.key, type_.value.inner, ttl=options.ttl)
    if kind == "LIST" and isinstance(type_, ListSerializer):
        type_ = type_.element
    return _VALUE_KINDS[kind](type_, ttl=options.ttl)
