"""Rows of a snapshot: an iterator of batches that is also a stream of Arrow, and the types of states in the metadata of columns.

Rows are written in the types that they were read with. The metadata is data: the bytes of serializer snapshots, the kind and the
name of the state. Tables of Arrow, files of Parquet and Arrow, and DataFrames of Spark keep it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY, NAMESPACE, VALUE
from state_processor.backends.formats.row_shapes import WINDOW
from state_processor.backends.read.read_options import Kind
from state_processor.backends.read.schemas import comments_of
from state_processor.backends.read.state_access import StatesToRead
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.column_types import AS_WRITTEN, ColumnTypes
from state_processor.backends.state.descriptions import (
    TIMERS,
    BroadcastDescription,
    KeyedDescription,
    MapDescription,
    StateDescription,
)
from state_processor.backends.state.python_states import PythonType, is_python_state, of_map, shown_name
from state_processor.backends.state.state_headers import DESCRIBED, Same
from state_processor.read.scans import StateScan
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.shared_types import PortableType, merged
from state_processor.serializers.table.python_state import PythonKeySerializer
from state_processor.serializers.traversal import walk
from state_processor.support.errors import CorruptSnapshotError, NotFoundError, StateProcessorError, UnsupportedFormatError
from state_processor.support.late import require
from state_processor.types.state_specs import StateSpec, spec_of, whole_type

if TYPE_CHECKING:
    import pandas as pd

_AT_END: Final = "these rows were read to their end by iteration"
_FIRST_ROWS: Final = 10
"""Rows that a terminal or a notebook shows."""


class Rows(Iterator[pa.RecordBatch]):
    """Rows of a snapshot that are read on demand.

    Rows are an iterator of record batches, of at least one, which may be empty. They are also a stream of Arrow
    (``__arrow_c_stream__``): Polars, DuckDB and pyarrow take them wherever they take tables. Each stream, and each call of
    :meth:`read_all` and :meth:`to_pandas`, reads the snapshot from its start. An iterator can't go back: once a batch was
    taken by iteration, a stream and a second loop are errors. Memory holds a few batches for each thread. :meth:`close` ends an
    iteration early, with its threads.

    Parameters
    ----------
    schema
        The columns.
    batches
        Starts a read.
    notes
        What the rows leave out, if no comment of a column has it.
    """

    starts_again: Final = True
    """Each stream of these rows reads them from their start."""

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]], notes: Iterable[str] = ()) -> None:
        self._schema = schema
        self._batches = batches
        self._notes = tuple(notes)
        self._iterated: Iterator[pa.RecordBatch] | None = None
        self._end: str | None = None  # how the iteration ended

    @property
    def schema(self) -> pa.Schema:
        """The columns of all batches."""
        return self._schema

    @property
    def notes(self) -> tuple[str, ...]:
        """What the rows leave out, such as states of windows, and the time zones of their columns: the comments of columns."""
        comments = comments_of(self._schema).values()
        notes = dict.fromkeys(comments)
        for note in self._notes:
            if not any(note in comment for comment in comments):
                notes[note] = None
        return tuple(notes)

    def __iter__(self) -> Rows:
        if self._end is not None:
            raise StateProcessorError(f"{self._end}, and can't be iterated twice: read them again")
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._end not in (None, _AT_END):
            raise StateProcessorError(f"{self._end}: read them again")
        if self._iterated is None:
            self._iterated = self._batches()
        try:
            return next(self._iterated)
        except StopIteration:
            self._end = _AT_END
            raise
        except BaseException as problem:  # an iterator that failed is at its end: the rest would be missing without a word
            self._end = f"the iteration of these rows ended with {type(problem).__name__}"
            raise

    def close(self) -> None:
        """End the iteration. Its threads end after the batches that they decode."""
        self._end = self._end or "these rows were closed"
        if isinstance(self._iterated, Generator):
            self._iterated.close()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a new read of all rows as a stream of the Arrow C data interface."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> pa.RecordBatchReader:
        """Return a new read of all rows as a reader of pyarrow.

        Raises
        ------
        StateProcessorError
            If a batch was taken by iteration.
        """
        return pa.RecordBatchReader.from_batches(self._schema, self._started())

    def read_all(self) -> pa.Table:
        """Read all rows into a table.

        Raises
        ------
        StateProcessorError
            If a batch was taken by iteration.
        """
        return pa.Table.from_batches(self._started(), self._schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Read all rows into a frame of pandas.

        Parameters
        ----------
        **options
            Arguments of :meth:`pyarrow.Table.to_pandas`. By default numbers and booleans have the types of pandas that know
            missing values (``Int64``, ``Float64``, ``boolean``): NumPy's have NaN where a value is null.

        Raises
        ------
        OptionError
            If pandas is not installed.
        StateProcessorError
            If a batch was taken by iteration.
        """
        if "types_mapper" not in options:
            options["types_mapper"] = _nullable_types().get
        return self.read_all().to_pandas(**options)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse conversions by NumPy, which ``pandas.DataFrame(rows)`` asks for: they lose the names and types of columns."""
        raise TypeError("these rows are not an array: rows.to_pandas() returns a frame of pandas, rows.read_all() a table")

    def __repr__(self) -> str:
        from state_processor.display.text_tables import render_records

        return "\n".join([f"{self._columns()}{self._beginning(render_records)}", *self.notes])

    def _repr_html_(self) -> str:
        from html import escape

        from state_processor.display.showing import html_table

        table = self._beginning(html_table) or f"<p>{escape(self._columns())}</p>"
        return "\n".join([table, *(f"<p>{escape(note)}</p>" for note in self.notes)])

    def _columns(self) -> str:
        return f"Rows({', '.join(f'{field.name}: {field.type}' for field in self._schema)})"

    def _beginning(self, table: Callable[[Sequence[str], list[dict[str, Any]]], str]) -> str:
        """Return a table of the first rows, by a read of their own; nothing once a batch was taken by iteration."""
        if self._iterated is not None:
            return ""
        try:
            rows = next(self._batches()).slice(0, _FIRST_ROWS + 1).to_pylist()
        except StateProcessorError as error:
            return f"\n{error}"
        rest = "…" if len(rows) > _FIRST_ROWS else ""
        return "\n".join(["", table(self._schema.names, rows[:_FIRST_ROWS]), *([rest] if rest else [])])

    def _started(self) -> Iterator[pa.RecordBatch]:
        if self._iterated is not None:
            raise StateProcessorError(
                "batches of these rows were taken by iteration. A stream would miss or repeat them: read the rows again"
            )
        return self._batches()


def _nullable_types() -> dict[pa.DataType, Any]:
    pd = require("pandas", "pandas", "data frames of pandas")
    numbers = {pa.int8(): pd.Int8Dtype, pa.int16(): pd.Int16Dtype, pa.int32(): pd.Int32Dtype, pa.int64(): pd.Int64Dtype}
    numbers |= {pa.float32(): pd.Float32Dtype, pa.float64(): pd.Float64Dtype}
    return {type_: dtype() for type_, dtype in (*numbers.items(), (pa.bool_(), pd.BooleanDtype))}


METADATA: Final = b"flink"
"""Key of the metadata of a column."""


@dataclass(frozen=True, slots=True)
class ReadType:
    """The type of a column of rows that were read.

    ``state`` and ``kind``: name and kind of the state; empty for the columns of keys and namespaces.
    """

    # the type of its values, without time-to-live. A column of whole lists or maps has the type of the list or map.
    type: TypeSerializer
    state: str = ""
    kind: str = ""
    has_ttl: bool = False  # whether the state has time-to-live
    elements: bool = False  # whether each row has an element of a list, or an entry of a map
    left_out: tuple[str, ...] = ()  # names of the operator's timers and window states, which rows of all keyed states do not have
    # whether the column has byte arrays of a state of PyFlink, which was read without its type in the job
    byte_arrays: bool = False

    def on(self, column: pa.Field) -> pa.Field:
        """Return the column with this type in its metadata."""
        portable = _portable(Same(self.type))
        content = {
            "type": b64encode(portable.snapshot).decode(),
            "rows": portable.rows,
            "state": self.state,
            "kind": self.kind,
            "ttl": self.has_ttl,
            "elements": self.elements,
            "left_out": self.left_out,
            "byte_arrays": self.byte_arrays,
        }
        return column.with_metadata({**(column.metadata or {}), METADATA: json.dumps(content).encode()})


class OperatorTypes(dict[str, StateSpec]):
    """The types of the keyed states of an operator, by name: ``states`` of ``with_keyed_state``."""

    def __init__(self, states: Mapping[str, StateSpec], key: TypeSerializer) -> None:
        super().__init__(states)
        self.key = key

    @classmethod
    def of(cls, stored: StoredOperator) -> OperatorTypes:
        """Return the types of an operator; for errors see :meth:`~state_processor.SavepointReader.types`."""
        described = list(map(merged_description, stored.states().values()))
        keyed = [state for state in described if isinstance(state, KeyedDescription)]
        if not keyed:
            raise NotFoundError(f"{stored.label} does not have keyed state")
        if any(is_python_state(state.name) for state in keyed):
            raise UnsupportedFormatError(
                f"{stored.label} has states of PyFlink, whose types savepoints do not contain; copy_operator copies them"
            )
        states = (state for state in keyed if not state.is_timer)
        specs = {s.name: spec_of(s.name, s.kind, whole_type(s), s.namespace, has_ttl=s.has_ttl) for s in states}
        return cls(specs, keyed[0].key)


def read_type(column: pa.Field) -> ReadType | None:
    """Return the type that a column was read with; ``None`` if it was not read from a snapshot."""
    stored = (column.metadata or {}).get(METADATA)
    if stored is None:
        return None
    try:
        content = json.loads(stored)
        portable = PortableType(b64decode(content["type"], validate=True), _tuples(content["rows"]))
        facts = (str(content["state"]), str(content["kind"]), bool(content["ttl"]), bool(content["elements"]))
        left_out = tuple(map(str, content["left_out"]))
        byte_arrays = bool(content.get("byte_arrays", False))  # tables of earlier releases lack it
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptSnapshotError(f"column {column.name!r}: its metadata {METADATA.decode()!r} is damaged: {problem}") from None
    return ReadType(portable.restore(), *facts, left_out, byte_arrays)


def with_read_types(schema: pa.Schema, states: StatesToRead, column_types: ColumnTypes = AS_WRITTEN) -> pa.Schema:
    """Return the columns of a read with their types in their metadata.

    Columns of raw state have none, and of maps of Flink 2.0, whose types the savepoint does not contain. States of PyFlink have
    the types that are given, also if their pickles were loaded, or else the types of their byte arrays.
    """
    types: dict[str, ReadType] = {}
    left_out: tuple[str, ...] = ()
    if states.kind is Kind.WHOLE:
        left_out = tuple(name for name in states.stored.surveyed[0] if name not in states.variants)
    for name, variants in states.variants.items():
        state = merged_description(variants)
        if isinstance(state, MapDescription) and state.map_key is None:
            return schema
        if isinstance(state, KeyedDescription) and KEY not in types:
            key = state.key.content if isinstance(state.key, PythonKeySerializer) else state.key
            types[KEY] = ReadType(key, left_out=left_out)
        python = column_types.type_in_python(name)
        byte_arrays = python is None and is_python_state(name)
        typed = state if python is None else _of_job(state, python)
        if states.kind is not Kind.WHOLE:
            types = _by_column(typed, byte_arrays=byte_arrays) | types
            break
        if isinstance(typed, KeyedDescription):
            types.setdefault(shown_name(name), _of_value(typed, byte_arrays=byte_arrays))
    return pa.schema([types[f.name].on(f) if f.name in types else f for f in schema], metadata=schema.metadata)


def typed_schema(scan: StateScan) -> pa.Schema:
    """Return the columns of a scan with their types, unless the scan converts the state to other types."""
    if scan.source.read.types.types:
        return scan.schema
    return with_read_types(scan.schema, scan.states, scan.source.read.types)


def rows_of(scan: StateScan) -> Rows:
    """Return the rows of a scan, with their types in the metadata of columns."""
    return Rows(typed_schema(scan), scan.read, scan.notes)


def with_metadata_of(schema: pa.Schema, typed: pa.Schema) -> pa.Schema:
    """Return a schema with the types that the columns of the same names have in another schema."""
    types = {f.name: f.metadata[METADATA] for f in typed if f.metadata and METADATA in f.metadata}
    return pa.schema([f.with_metadata({**(f.metadata or {}), METADATA: types[f.name]}) if f.name in types else f for f in schema])


def merged_description(variants: Sequence[StateDescription]) -> StateDescription:
    """Return the description of a state that fits all subtasks, which know different subclasses of a POJO."""
    return reduce(_merged, variants)


def _merged(first: StateDescription, second: StateDescription) -> StateDescription:
    serializers = {}
    for role in first.serializers.keys() & second.serializers.keys():
        first_snapshot = first.serializers[role].snapshot()
        snapshot = merged(first_snapshot, second.serializers[role].snapshot())
        # A serializer may be more than its snapshot, such as the key of PyFlink
        if snapshot is not None and snapshot is not first_snapshot:
            serializers[role] = snapshot.restore_serializer()
    return first.with_serializers(**serializers)


def _of_job(state: StateDescription, type_: PythonType) -> StateDescription:
    """Return a state of PyFlink with the types that the job declares."""
    from state_processor.types.declared_types import spec_of  # few states belong to PyFlink

    type_ = of_map(type_)
    if type_.map_key is not None and isinstance(state, BroadcastDescription):
        return state.with_serializers(key=type_.map_key.restore(), value=type_.value.restore())
    if not isinstance(state, KeyedDescription):
        return state
    return spec_of(type_, ttl=state.has_ttl or None).describe(state.name, state.key)


def _by_column(state: StateDescription, *, byte_arrays: bool) -> dict[str, ReadType]:
    """Return the types of the columns of a single state."""
    if isinstance(state, KeyedDescription):
        types = {name: ReadType(state.namespace) for name in (NAMESPACE, WINDOW)}
        if state.kind in TIMERS:
            return types
        whole, types[VALUE] = state.COLUMNS, _of_value(state, byte_arrays=byte_arrays)
        elements = {role: name for name, role in whole.items() if name not in (KEY, VALUE)}
        if "value" in elements:
            types[elements["value"]] = replace(types[VALUE], elements=True)
        if isinstance(state, MapDescription) and state.map_key is not None:
            types[elements["map_key"]] = ReadType(state.map_key, byte_arrays=byte_arrays)
        return types
    of_columns = {name: getattr(state, role) for name, role in state.COLUMNS.items()}
    return {name: ReadType(type_, state.name, state.kind, byte_arrays=byte_arrays) for name, type_ in of_columns.items()}


def _of_value(state: KeyedDescription, *, byte_arrays: bool) -> ReadType:
    return ReadType(whole_type(state), state.name, state.kind, state.has_ttl, byte_arrays=byte_arrays)


@lru_cache(maxsize=DESCRIBED)
def _portable(type_: Same) -> PortableType:
    """Return a type as bytes; each read of a state asks for them."""
    (serializer,) = type_.objects
    return PortableType.of(serializer) if _has_rows(serializer) else PortableType(serializer.snapshot().to_bytes())


def _has_rows(serializer: TypeSerializer) -> bool:
    """Return whether a type has rows; the module of rows of SQL is not imported if none was read."""
    parts = list(walk(serializer))
    return any(isinstance(p, RowSerializer | TupleSerializer) or type(p).__module__.endswith(".rowdata") for p in parts)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
