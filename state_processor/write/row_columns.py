"""Columns of rows in the shapes that reading gives, by the names that the encoder has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.row_shapes import FIRES_AT, LAST_ACCESS, LIST_INDEX, LIST_VALUE
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.backends.state.python_states import shown_name
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES, TIMESTAMP, VALUE
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.runtime.undescribed import BYTES_FIELD
from state_processor.write.column_checks import refuse_others, require
from state_processor.write.row_protocol import Replaced, Rows

_ELEMENTS: Final = {LIST: (LIST_INDEX, LIST_VALUE), MAP: (MAP_KEY, MAP_VALUE)}
"""The columns of rows with an element each, by kind of state."""


def context_columns(state: KeyedDescription, schema: pa.Schema) -> dict[str, str]:
    """Return the columns that qualify an entry in addition to its key: namespace, time of last access."""
    names: list[str] = []
    if not state.in_void_namespace:
        names += [n for n in NAMESPACES if n in schema.names]
    if LAST_ACCESS in schema.names:  # of a state without time-to-live it has to be null
        names.append(LAST_ACCESS)
    return {n: n for n in names}


def has_bytes(schema: pa.Schema) -> bool:
    """Return whether a column has the field with bytes of values of undescribed classes."""
    return any(pa.types.is_struct(f.type) and f.type.get_field_index(BYTES_FIELD) >= 0 for f in schema)


def shaped_rows(rows: Rows, state: KeyedDescription, key: str) -> tuple[Rows, dict[str, str], Replaced]:
    """Return the rows in the shape of the encoder, their columns by the encoder's names, and the scope of a replacement.

    Parameters
    ----------
    rows
        The rows, with columns as reading gives them.
    state
        The state.
    key
        The column of the key.

    Raises
    ------
    InvalidRowError
        If a column is missing or unrelated to the state, or columns have two shapes.
    """
    columns = {KEY: key} | context_columns(state, rows.schema)
    names = rows.schema.names
    parts = _parts(columns, state, names)
    require(names, [*columns.values(), *parts.values()])
    refuse_others(names, [*columns.values(), *parts.values()])
    if LIST_INDEX in parts:
        index = rows.schema.field(LIST_INDEX).type
        if not pa.types.is_integer(index):
            raise InvalidRowError(f"column {LIST_INDEX!r} is of type {index}; expected an int, from 0 on")
        return rows.collect_lists(columns), {**columns, LIST_INDEX: LIST_INDEX, VALUE: VALUE}, "keys"
    return rows, columns | parts, "entries" if MAP_KEY in parts else "keys"


def _parts(columns: dict[str, str], state: KeyedDescription, names: Sequence[str]) -> dict[str, str]:
    """Return the columns of the value: one column, or the columns of its elements."""
    if state.is_timer:
        return {TIMESTAMP: TIMESTAMP}
    elements = [n for n in _ELEMENTS.get(state.kind, ()) if n in names]
    taken = (*columns.values(), *elements)
    whole = [n for n in dict.fromkeys((VALUE, shown_name(state.name))) if n in names and n not in taken]
    if len(whole) + bool(elements) > 1:
        listed = " and ".join(map(repr, (*whole, *elements)))
        raise InvalidRowError(f"the columns {listed} all have the content of the state; drop all but one")
    if elements:
        return {n: n for n in _ELEMENTS[state.kind]}
    return {VALUE: whole[0] if whole else VALUE}


def entry_columns(schema: pa.Schema, state: KeyedDescription, key: str) -> dict[str, str]:
    """Return the columns that identify entries of a map state.

    Raises
    ------
    InvalidRowError
        If the state is not a map, or a column is missing.
    """
    if state.kind != MAP:
        raise InvalidRowError(f"state {state.name!r} is of kind {state.kind}: only a map state (MAP) has entries to delete")
    columns = {KEY: key} | context_columns(state, schema) | {MAP_KEY: MAP_KEY}
    columns.pop(LAST_ACCESS, None)
    if not state.in_void_namespace and not set(NAMESPACES) & set(columns):
        raise InvalidRowError(f"state {state.name!r} is in {state.namespace}: one column 'namespace' or 'window' is needed")
    require(schema.names, columns.values())
    return columns


def key_columns(schema: pa.Schema, key: str, state: KeyedDescription | None, states: Sequence[str]) -> dict[str, str]:
    """Return the columns that identify keys to delete.

    Parameters
    ----------
    schema
        The columns of the rows, in the shape of reading or fewer.
    key
        The column of the key.
    state
        The state that the keys are deleted from; ``None`` for all.
    states
        The names of all keyed states of the operator.

    Raises
    ------
    InvalidRowError
        If a column is missing, or unrelated to the state.
    """
    columns = {KEY: key}
    if state is None:
        require(schema.names, columns.values())
        refuse_others(schema.names, (key, *states), "name the state whose windows are meant, or drop the column")
        return columns
    columns |= {n: c for n, c in context_columns(state, schema).items() if n != LAST_ACCESS}
    require(schema.names, columns.values())
    content = (TIMESTAMP, FIRES_AT, "domain", "service", *NAMESPACES) if state.is_timer else (VALUE, shown_name(state.name))
    whole = state.kind in _ELEMENTS and any(n in schema.names for n in _ELEMENTS[state.kind])
    hint = "whole keys are deleted, not elements: select the key's column, or use delete_map_entries" if whole else ""
    refuse_others(schema.names, [*columns.values(), *content], hint)
    return columns
