"""``df.write.format("flink-savepoint")``: keyed state of one operator, from one DataFrame.

Spark offers a data source no shuffle, and its commit is one process without a session. So tasks encode the rows they get,
however they are partitioned, into files of the write; the commit brings each subtask's entries together, in threads: as many
cores as the driver has, up to four, and of each subtask one portion of rows in memory at a time. Rows that are partitioned by
subtask already would save nothing: what costs is encoding, and a task can't know that no other has rows of its subtask.
:class:`~state_processor.SavepointWriter` distributes the second part too and knows all kinds of state: it is the one for large
savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from state_processor.backends.write.entry_encoder import NAMESPACES, VALUE
from state_processor.backends.write.staging import Staging
from state_processor.inferred_types import inferred_type
from state_processor.options.sink import SinkOptions
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.errors import InvalidRowError, OptionError
from state_processor.spark.schemas import arrow_schema_of
from state_processor.state_specs import AggregatingState, ListState, MapState, ReducingState, StateSpec, ValueState
from state_processor.type_text import parse_type
from state_processor.write.column_checks import METADATA, check_distinct, naming, refuse_others, require
from state_processor.write.engines import LocalEngine
from state_processor.write.shuffle import ShuffleBlobs
from state_processor.write.shuffle_index import ShuffleIndex, WriteShuffleIndex, shuffle_indexes
from state_processor.writer import DEFAULT_VERSION, SavepointWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VALUE_KINDS: Final[dict[str, Callable[..., StateSpec]]] = {
    "VALUE": ValueState,
    "REDUCING": ReducingState,
    "AGGREGATING": AggregatingState,
    "LIST": ListState,
}
_OF_NEW_STATES: Final = ("kind", "ttl")
"""Options that say what a state is, where the base does not."""


class EncodedRows:
    """Rows that tasks have encoded, in the place of a DataFrame: only their columns are known here."""

    sparkSession = None  # noqa: N815 - as in a DataFrame

    def __init__(self, schema: StructType, runs: Sequence[ShuffleIndex] = ()) -> None:
        self.schema = schema
        self.runs = runs

    def __getattr__(self, name: str) -> Any:
        raise OptionError(
            "rows of this shape have to be gathered first, which a data source can't: write one row per key (read with "
            "flatten=False), or use SavepointWriter"
        )


class RowsEngine(LocalEngine):
    """Runs the second pass in this process, on rows that are encoded."""

    def encode_rows(self, rows: Any, columns: Sequence[str], task: ShuffleBlobs) -> Sequence[ShuffleIndex]:
        """See :class:`LocalEngine`; rows are :class:`EncodedRows`."""
        return rows.runs  # type: ignore[no-any-return]


@dataclass
class EncodedMessage(WriterCommitMessage):
    """What a task has encoded."""

    runs: Sequence[ShuffleIndex]


class SavepointSink(DataSourceArrowWriter):
    """Writes a savepoint.

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
        self._options = options
        self._schema = schema
        self._staging = Staging(options.path, uuid4().hex[:16], replaces=overwrite)
        writer = planned(options, EncodedRows(schema))
        self._columns, self._encode = writer.first_pass(RowsEngine(), self._staging)
        writer.prepare(self._staging)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Encode the rows of one task."""
        rows = (batch.select(self._columns) for batch in iterator)
        return EncodedMessage(shuffle_indexes(WriteShuffleIndex(self._encode)(rows)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Bring the entries of all tasks together and write ``_metadata``."""
        runs = [run for m in messages if isinstance(m, EncodedMessage) for run in m.runs]
        try:
            planned(self._options, EncodedRows(self._schema, runs)).write_to(self._staging, RowsEngine())
        except BaseException as failure:
            self._staging.give_up(failure)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all files of this write; messages may be missing."""
        self._staging.abort()


def planned(options: SinkOptions, rows: EncodedRows) -> SavepointWriter:
    """The writer that does what options ask for."""
    base, max_parallelism, version = options.base, options.max_parallelism, options.flink_version
    frame: Any = rows
    session: Any = None  # neither this nor the frame is one of Spark's: no part of the write that comes after needs them
    if base is None:
        size = 128 if max_parallelism is None else max_parallelism
        writer = SavepointWriter.new(session, size, version or DEFAULT_VERSION, serializers=options.access.serializers)
    else:
        writer = SavepointWriter.from_existing(session, base, version, **options.access.values())
        if max_parallelism is not None:
            writer.with_max_parallelism(max_parallelism)
    operator, state = options.operator, options.state
    if state is not None and not options.replace and writer.has_state(operator, state):
        told = [n for n in _OF_NEW_STATES if getattr(options, n) is not None]
        if told:
            raise OptionError(
                f"operator {operator}: state {state!r} of the base is updated as what it is, which option {told[0]} does not "
                "change; leave it out, or replace the state as a whole with replace=true"
            )
        key = options.key
        writer.update_keyed_state(operator, state, frame, key, types=_declared(options, arrow_schema_of(rows.schema), key, state))
        parallelism = options.parallelism
        return writer if parallelism is None else writer.with_parallelism(operator, parallelism)
    return _with_new_states(writer, options, rows)


def _with_new_states(writer: SavepointWriter, options: SinkOptions, rows: EncodedRows) -> SavepointWriter:
    schema = arrow_schema_of(rows.schema)
    key, state = options.key, options.state
    with naming(f"operator {options.operator}"):
        check_distinct(cast("DataFrame", rows), schema.names)
        values = [n for n in schema.names if n not in (key, *METADATA, *NAMESPACES)]
        if state is not None:
            values = [n for n in dict.fromkeys((VALUE, state)) if n in values] or [VALUE]
            if len(values) > 1:
                raise InvalidRowError(f"state {state!r}: the columns {VALUE!r} and {state!r} both say what it holds; drop one")
        require(schema.names, [key, *values])
        refuse_others(schema.names, [key, *values])
    specs = {column: _spec(options, schema.field(column)) for column in values}
    key_type = options.key_type
    frame: Any = rows
    return writer.with_keyed_state(
        options.operator,
        frame,
        key,
        parse_type(key_type, schema.field(key).type) if key_type else None,
        specs,
        options.parallelism,
        columns=dict.fromkeys(values, state) if state is not None else None,
    )


def _declared(options: SinkOptions, schema: pa.Schema, key: str, state: str) -> dict[str, TypeSerializer]:
    """The types that options name for the columns of a state that the base has."""
    value = state if state in schema.names else VALUE
    named = {"key": (options.key_type, key), "value": (options.value_type, value)}
    return {n: parse_type(t, schema.field(c).type) for n, (t, c) in named.items() if t and c in schema.names}


def _spec(options: SinkOptions, column: pa.Field) -> StateSpec:
    kind = options.kind or "VALUE"
    text = options.value_type
    given = parse_type(text, column.type) if text else inferred_type(column.type, f"column {column.name!r}")
    if kind == "MAP":
        if not isinstance(given, MapSerializer):
            raise OptionError(f"column {column.name!r}: MAP state is of a Types.MAP, not of {given}")
        return MapState(given.key, given.value.inner, ttl=options.ttl)
    if kind == "LIST" and isinstance(given, ListSerializer):
        given = given.element
    return _VALUE_KINDS[kind](given, ttl=options.ttl)
