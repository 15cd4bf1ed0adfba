"""Columns of rows: the names that the encoder has for them, and checks before rows are read.

Rows have the columns that reading a state gives, or fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from logging import getLogger
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.row_shapes import FIRES_AT, LAST_ACCESS, LIST_INDEX, LIST_VALUE, SUBTASK, WINDOW
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.backends.state.python_states import is_python_state, shown_name
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES, TIMESTAMP, VALUE
from state_processor.read.rows import ReadType, read_type
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.kernel.encode.conversion_table import EXACT, conversion, is_castable, spark_name
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import BYTES_FIELD
from state_processor.serializers.table.logical_types import escape
from state_processor.support.arrow_types import inner_types
from state_processor.support.doors import spelled
from state_processor.support.errors import InvalidRowError, OptionError, UnsupportedFormatError, third_party_errors
from state_processor.support.mappings import unrenamed, without_keys
from state_processor.types.declared_types import type_of_column
from state_processor.types.state_specs import StateSpec, ValueState, spec_of
from state_processor.write.rows.row_protocol import (
    TIMESTAMP_MS,
    ColumnNames,
    Operation,
    OperatorRows,
    Replaced,
    Rows,
    collect_lists,
)

_ELEMENTS: Final = {LIST: (LIST_INDEX, LIST_VALUE), MAP: (MAP_KEY, MAP_VALUE)}
"""The columns of rows with an element each, by kind of state."""

METADATA: Final = (KEY_GROUP_COLUMN, SUBTASK, LAST_ACCESS)
"""Columns that reading adds on request; the first two follow from the key, and are left alone."""

NAMES: Final = (
    *(KEY, VALUE, MAP_KEY, MAP_VALUE, LIST_INDEX, LIST_VALUE, *NAMESPACES, *METADATA),
    *(TIMESTAMP, TIMESTAMP_MS, FIRES_AT, "domain", "service"),
)
"""All columns that reading a state gives, unless the state names them."""

_LOG: Final = getLogger("state_processor")
_CASE: Final = "spark.sql.caseSensitive"

_NAMED: Final[ContextVar[tuple[str, ...]]] = ContextVar("named", default=())


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Put the operator, or operator and state, in front of messages of errors that lack it."""
    token = _NAMED.set((*_NAMED.get(), place))
    try:
        yield
    except (InvalidRowError, OptionError, UnsupportedFormatError) as problem:
        if place in str(problem):
            raise
        raise type(problem)(f"{place}: {problem}") from problem
    finally:
        _NAMED.reset(token)


def later_message(message: str) -> str:
    """Return the message of an error that is raised after the blocks of :func:`naming`, with their names in front."""
    return ": ".join((*_NAMED.get(), message))


def named_later(operation: Operation) -> Operation:
    """Return an operation that runs after the blocks of :func:`naming`, with their names in front of its messages."""
    names = ": ".join(_NAMED.get())
    return partial(_run_named, operation, names) if names else operation


def _run_named(operation: Operation, names: str, rows: pa.Table) -> pa.Table:
    with naming(names):
        return operation(rows)


def field_type(column: pa.Field, label: str) -> TypeSerializer:
    """Return the type that a column was read with from a snapshot, or else the type that it suggests."""
    read = read_type(column)
    return type_of_column(column.type, label) if read is None else read.type


def has_byte_arrays(column: pa.Field) -> bool:
    """Return whether a column has the stored byte arrays of a state of PyFlink."""
    read = read_type(column)
    return read is not None and read.byte_arrays


def has_values(column: pa.Field) -> bool:
    """Return whether a column was read from a snapshot, and does not have such byte arrays."""
    read = read_type(column)
    return read is not None and not read.byte_arrays


def check_byte_arrays(column: pa.Field, *, typed: bool, typing: str) -> None:
    """Refuse bytes of a state of PyFlink that may be values of the job, or values as the job's coder wrote them.

    ``column``: a column of the state's content. ``typed``: whether the type in the job is given. ``typing``: the parameters that
    give it, for messages.
    """
    stored = has_byte_arrays(column)
    if stored and typed:
        raise OptionError(
            f"column {column.name!r} has byte arrays of PyFlink as they are stored, and {typing} is the type of values: read "
            f"the rows with {spelled('python_type')} too, or leave it out here to write the bytes as they were read"
        )
    if not (stored or typed) and _has_bytes(column.type):
        raise OptionError(
            f"column {column.name!r} has bytes, which may be values of the job, or byte arrays as PyFlink stores them: give the "
            f"type in the job by {typing}. Rows as they were read keep their bytes if the columns keep their metadata, as tables "
            "of Arrow do"
        )


def _has_bytes(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(map(_has_bytes, inner_types(type_)))
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_))


def checked_schema(rows: OperatorRows, columns: Collection[str] = ()) -> pa.Schema:
    """Return the columns of rows. Check that their names differ, and that some columns exist."""
    schema, names = rows.schema, rows.schema.names
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name if rows.case_sensitive else name.lower(), name)
        if names.count(name) > 1:
            raise InvalidRowError(f"there are several columns {name!r}; drop or rename all but one")
        if first != name:
            raise InvalidRowError(
                f"the columns {first!r} and {name!r} differ in case only, which Spark ignores ({_CASE} is false); rename one"
            )
    require(names, columns)
    return schema


def spelled_alike(names: Sequence[str], expected: Collection[str]) -> list[str]:
    """Return names of columns in the expected spelling, if they differ from it in case only and no column has this spelling."""
    spellings = {name.lower(): name for name in expected if name not in names}
    return [name if name in expected else spellings.get(name.lower(), name) for name in names]


def require(names: Collection[str], columns: Collection[str]) -> None:
    """Refuse rows that lack columns."""
    missing = [c for c in columns if c not in names]
    if missing:
        listed = " and ".join(map(repr, missing))
        near = _nearest(missing[0], [n for n in names if n not in {*columns}]) or " Rename a column."
        raise InvalidRowError(f"there is no column {listed}; the rows have {', '.join(names) or 'no columns'}.{near}")


def refuse_others(names: Collection[str], expected: Collection[str], hint: str = "") -> None:
    """Refuse rows with columns that would be ignored, except the columns of :data:`METADATA`.

    ``expected``: the columns that rows of this shape may have. ``hint``: what to do, where it is more than to drop or rename the
    column.
    """
    ignored = [n for n in names if n not in expected and n not in METADATA]
    if ignored:
        listed = " and ".join(map(repr, ignored))
        advice = hint or "drop or rename it"
        raise InvalidRowError(
            f"column {listed} would be ignored; expected are {', '.join(expected)}: {advice}.{_nearest(ignored[0], expected)}"
        )


def check_columns(rows: OperatorRows, required: Collection[str], allowed: Collection[str] | None = None) -> pa.Schema:
    """Return the columns of rows, which have to be the required ones. ``allowed``: all columns that rows may have, if more."""
    schema = checked_schema(rows, required)
    refuse_others(schema.names, required if allowed is None else allowed)
    return schema


def check_exact(column: pa.Field, target: pa.DataType, expected: str) -> None:
    """Refuse a column without fields or elements, unless a type holds all of its values. ``expected``: the type, for messages."""
    if pa.types.is_nested(column.type) or conversion(column.type, target) != EXACT:
        castable = is_castable(column.type, target)
        hint = f"; cast it: CAST({escape(column.name)} AS {spark_name(target)})" if castable else ""
        raise InvalidRowError(f"column {column.name!r} is {spark_name(column.type)}, {expected}{hint}")


def _nearest(name: str, names: Collection[str]) -> str:
    by_lower = {n.lower(): n for n in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


@dataclass(frozen=True)
class KeyedRows:
    """Rows that a user gives for keyed states, and the column of their key."""

    rows: Rows
    key: str = KEY

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.rows.schema

    @property
    def has_bytes(self) -> bool:
        """True if a column has the field with bytes of values of undescribed classes."""
        return any(pa.types.is_struct(f.type) and f.type.get_field_index(BYTES_FIELD) >= 0 for f in self.schema)

    @property
    def of_python(self) -> bool:
        """True if a column was read from a state of PyFlink."""
        return any((read := read_type(f)) is not None and is_python_state(read.state) for f in self.schema)

    def check_byte_arrays(self, state: KeyedDescription, *, typed: bool) -> None:
        """Refuse bytes of a state of PyFlink that may be values of the job, or values as the job's coder wrote them.

        ``typed``: whether the type of the job is given.
        """
        names = [MAP_KEY, LIST_VALUE, MAP_VALUE, VALUE, shown_name(state.name)]
        if is_python_state(state.name):
            for name in names:
                if name in self.schema.names and name != self.key:
                    check_byte_arrays(self.schema.field(name), typed=typed, typing=spelled("python_type"))

    def context_columns(self, state: KeyedDescription) -> dict[str, str]:
        """Return the columns that qualify an entry in addition to its key: namespace, time of last access."""
        names: list[str] = []
        if not state.in_void_namespace:
            names += [n for n in NAMESPACES if n in self.schema.names]
        if LAST_ACCESS in self.schema.names:  # of a state without time-to-live it has to be null
            names.append(LAST_ACCESS)
        return unrenamed(names)

    def key_type(self) -> TypeSerializer:
        """Return the type that the column of the key was read with, or suggests.

        Structs of one field are refused: they are rows for Flink, and most jobs are keyed by the field.
        """
        column = self.schema.field(self.key)
        key = field_type(column, f"column {self.key!r}")
        if read_type(column) is None and pa.types.is_struct(column.type) and column.type.num_fields == 1:
            raise InvalidRowError(
                f"column {self.key!r} is a struct of the field {column.type.field(0).name!r} alone, and Flink's type of such "
                f"keys is {key}: select the field for a job that is keyed by it, or name the type by {spelled('key_type')}"
            )
        return key

    def value_types(self) -> dict[str, tuple[str, StateSpec]]:
        """Return the states that all columns but the key suggest, by column, if states are not named.

        A column that was read from a snapshot has the kind and type that it was read with.
        """
        stored: dict[str, ReadType] = {}
        value_columns: dict[str, pa.Field] = {}
        for column in self.schema:
            if column.name == self.key:
                continue
            read = read_type(column)
            if read is not None and read.kind:
                stored[column.name] = read
            else:
                value_columns[column.name] = column
        for name, read in stored.items():
            if read.elements:
                raise InvalidRowError(
                    f"column {name!r}: each row has an element of the state {read.state!r} of kind {read.kind}, and one row per "
                    f"key is expected: read it with {spelled('flatten', False)}"
                )
        reserved = [n for n in value_columns if n in (*METADATA, *NAMESPACES)]
        if reserved and not stored:
            listed = " and ".join(map(repr, reserved))
            raise InvalidRowError(f"column {listed} is reserved for metadata: name the states by states=, or drop the column")
        self._warn_of_losses(stored)
        namespace = self.namespace_type()
        states: dict[str, tuple[str, StateSpec]] = {}
        for name, read in stored.items():
            spec = spec_of(name, read.kind, read.type, namespace, has_ttl=read.has_ttl)
            states[name] = (shown_name(read.state) if name == VALUE else name, spec)
        for name, column in value_columns.items():
            if name not in reserved:
                states[name] = (name, ValueState(type_of_column(column.type, f"state {name!r}: column {name!r}")))
        return {name: states[name] for name in self.schema.names if name in states}

    def namespace_type(self) -> TypeSerializer | None:
        """Return the type that a column of windows or namespaces was read with, unless the state has no namespaces."""
        types = [read.type for f in self.schema if f.name in NAMESPACES and (read := read_type(f)) is not None]
        return None if not types or isinstance(types[0], VoidNamespaceSerializer) else types[0]

    def _warn_of_losses(self, states: Mapping[str, ReadType]) -> None:
        """Name in the log what rows that were read from a snapshot do not have, although the snapshot has it."""
        key = read_type(self.schema.field(self.key))
        if key is not None and key.left_out:
            _LOG.warning(
                "these rows do not have %s of the operator that they were read from; copy_operator copies an operator with all "
                "of its states and timers",
                ", ".join(map(repr, map(shown_name, key.left_out))),
            )
        aged = [read.state for read in states.values() if read.has_ttl]
        if aged and LAST_ACCESS not in self.schema.names:
            _LOG.warning(
                "rows of %s do not have times of last access, so that these become the time of writing; read them with %s",
                ", ".join(map(repr, aged)),
                spelled("metadata", True),
            )

    def new_state_columns(self, state: KeyedDescription, column: str, *, uses_times: bool) -> dict[str, str]:
        """Return the columns that a new state is written from.

        ``state`` and ``column``: the state, and the column of its value. ``uses_times``: whether the times of last access are for
        another state, if this one does not have time-to-live.
        """
        context = self.context_columns(state)
        clashing = context.keys() & {self.key, column}
        if clashing:
            listed = " and ".join(map(repr, sorted(clashing)))
            name = shown_name(state.name)
            raise InvalidRowError(f"state {name!r}: column {listed} is reserved for metadata; rename the key's or value's column")
        if not state.has_ttl and uses_times:
            context.pop(LAST_ACCESS, None)
        return context | {KEY: self.key, VALUE: column}

    def check_windows(self, states: Iterable[ColumnNames]) -> None:
        """Refuse a column of windows that no state is written from."""
        if WINDOW in self.schema.names and self.key != WINDOW and not any(WINDOW in columns.values() for columns in states):
            raise InvalidRowError(
                f"column {WINDOW!r} would be ignored: no state has windows; name namespace=Types.TIME_WINDOW(), or drop it"
            )

    def shaped(self, state: KeyedDescription) -> tuple[Rows, dict[str, str], Replaced]:
        """Return the rows in the shape of the encoder, their columns by the encoder's names, and the scope of a replacement."""
        columns = {KEY: self.key} | self.context_columns(state)
        names = self.schema.names
        parts = _parts(columns, state, names)
        require(names, [*columns.values(), *parts.values()])
        refuse_others(names, [*columns.values(), *parts.values()])
        if LIST_INDEX in parts:
            index = self.schema.field(LIST_INDEX).type
            if not pa.types.is_integer(index):
                raise InvalidRowError(f"column {LIST_INDEX!r} is of type {index}; expected an int, from 0 on")
            return collect_lists(self.rows, columns), {**columns, LIST_INDEX: LIST_INDEX, VALUE: VALUE}, "keys"
        return self.rows, columns | parts, "entries" if MAP_KEY in parts else "keys"

    def entry_columns(self, state: KeyedDescription) -> dict[str, str]:
        """Return the columns that identify entries of a map state."""
        if state.kind != MAP:
            raise InvalidRowError(f"state {state.name!r} is of kind {state.kind}: only a map state (MAP) has entries to delete")
        columns = {KEY: self.key} | self.context_columns(state) | {MAP_KEY: MAP_KEY}
        columns.pop(LAST_ACCESS, None)
        if not state.in_void_namespace and not set(NAMESPACES) & set(columns):
            raise InvalidRowError(f"state {state.name!r} is in {state.namespace}: one column 'namespace' or 'window' is needed")
        require(self.schema.names, columns.values())
        return columns

    def key_columns(self, state: KeyedDescription | None, states: Sequence[str]) -> dict[str, str]:
        """Return the columns that identify keys to delete.

        ``state``: the state that the keys are deleted from; ``None`` for all. ``states``: the names of all keyed states of the
        operator.
        """
        names, columns = self.schema.names, {KEY: self.key}
        if state is None:
            require(names, columns.values())
            refuse_others(names, (self.key, *states), "name the state whose windows are meant, or drop the column")
            return columns
        columns |= without_keys(self.context_columns(state), (LAST_ACCESS,))
        require(names, columns.values())
        content = (TIMESTAMP, FIRES_AT, "domain", "service", *NAMESPACES) if state.is_timer else (VALUE, shown_name(state.name))
        whole = state.kind in _ELEMENTS and any(n in names for n in _ELEMENTS[state.kind])
        hint = "whole keys are deleted, not elements: select the key's column, or use delete_map_entries" if whole else ""
        refuse_others(names, [*columns.values(), *content], hint)
        return columns


def _parts(columns: dict[str, str], state: KeyedDescription, names: Sequence[str]) -> dict[str, str]:
    """Return the columns of the value: one column, or the columns of its elements."""
    if state.is_timer:
        return {TIMESTAMP: TIMESTAMP}
    elements = [n for n in _ELEMENTS.get(state.kind, ()) if n in names]
    used = (*columns.values(), *elements)
    whole = [n for n in dict.fromkeys((VALUE, shown_name(state.name))) if n in names and n not in used]
    if len(whole) + bool(elements) > 1:
        listed = " and ".join(map(repr, (*whole, *elements)))
        raise InvalidRowError(f"the columns {listed} all have the content of the state; drop all but one")
    if elements:
        return unrenamed(_ELEMENTS[state.kind])
    return {VALUE: whole[0] if whole else VALUE}


def check_key_types(state: KeyedDescription, schema: pa.Schema, columns: Mapping[str, str]) -> None:
    """Refuse columns whose types do not fit, of rows that identify entries: keys, namespaces and keys of maps."""
    roles = state.serializers | dict.fromkeys(NAMESPACES, state.namespace)
    label = f"state {state.name!r}"
    with naming(label), third_party_errors(label, parts=state.serializers.values()):
        for role, column in columns.items():
            bind(roles[role], schema.field(column).type, column, as_key=True)
