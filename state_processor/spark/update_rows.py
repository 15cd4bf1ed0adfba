"""From rows in the shapes that reading gives to the columns that the encoder takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f

from state_processor.backends.formats.row_shapes import LAST_ACCESS, LIST_INDEX, LIST_VALUE
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES, TIMESTAMP, VALUE
from state_processor.same_keys import identity, quoted
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.runtime.undescribed import BYTES_FIELD
from state_processor.write.column_checks import refuse_others, require

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from state_processor.write.task_data import Replaced

Columns = dict[str, str]

_ELEMENTS: Final = {LIST: (LIST_INDEX, LIST_VALUE), MAP: (MAP_KEY, MAP_VALUE)}
"""The columns of rows with an element each, by kind of state."""


def context_columns(state: KeyedDescription, schema: pa.Schema) -> Columns:
    """The columns of rows that say more than key and value: the namespace, the time of last access."""
    names: list[str] = []
    if not state.in_void_namespace:
        names += [n for n in NAMESPACES if n in schema.names]
    if state.has_ttl and LAST_ACCESS in schema.names:
        names.append(LAST_ACCESS)
    return {n: n for n in names}


def has_bytes(schema: pa.Schema) -> bool:
    """Whether values may be of classes that nothing describes: a column has the field that holds their bytes."""
    return any(pa.types.is_struct(f.type) and f.type.get_field_index(BYTES_FIELD) >= 0 for f in schema)


def shaped_rows(df: DataFrame, schema: pa.Schema, state: KeyedDescription, key: str) -> tuple[DataFrame, Columns, Replaced]:
    """Rows that update a state: the frame to encode, its columns by the encoder's names, and which entries give way.

    Parameters
    ----------
    df, schema
        The rows and their columns.
    state
        The state.
    key
        The column of the key.

    Raises
    ------
    InvalidRowError
        If a column is missing, has nothing to do with the state, or there are columns of two shapes.
    """
    columns = {KEY: key} | context_columns(state, schema)
    names = schema.names
    parts = _parts(columns, state, names)
    require(names, [*columns.values(), *parts.values()])
    refuse_others(names, [*columns.values(), *parts.values()])
    if LIST_INDEX in parts:
        index = schema.field(LIST_INDEX).type
        if not pa.types.is_integer(index):
            raise InvalidRowError(f"column {LIST_INDEX!r} is of type {index}; expected an int, from 0 on")
        return _gathered(df, columns), {**columns, LIST_INDEX: LIST_INDEX, VALUE: VALUE}, "keys"
    return df, columns | parts, "entries" if MAP_KEY in parts else "keys"


def _parts(columns: Columns, state: KeyedDescription, names: Sequence[str]) -> Columns:
    """The columns of the value: whole, or of its elements."""
    if state.is_timer:
        return {TIMESTAMP: TIMESTAMP}
    elements = [n for n in _ELEMENTS.get(state.kind, ()) if n in names]
    taken = (*columns.values(), *elements)
    whole = [n for n in dict.fromkeys((VALUE, state.name)) if n in names and n not in taken]
    if len(whole) + bool(elements) > 1:
        listed = " and ".join(map(repr, (*whole, *elements)))
        raise InvalidRowError(f"the columns {listed} all say what the state holds; drop all but the one that is meant")
    if elements:
        return {n: n for n in _ELEMENTS[state.kind]}
    return {VALUE: whole[0] if whole else VALUE}


def entry_columns(schema: pa.Schema, state: KeyedDescription, key: str) -> Columns:
    """The columns that name entries of a map state.

    Raises
    ------
    InvalidRowError
        If the state is no map, or a column is missing.
    """
    if state.kind != MAP:
        raise InvalidRowError(f"state {state.name!r} is of kind {state.kind}: only a map state (MAP) has entries to delete")
    columns = {KEY: key} | context_columns(state, schema) | {MAP_KEY: MAP_KEY}
    columns.pop(LAST_ACCESS, None)
    if not state.in_void_namespace and not set(NAMESPACES) & set(columns):
        raise InvalidRowError(f"state {state.name!r} is in {state.namespace}: one column 'namespace' or 'window' is needed")
    require(schema.names, columns.values())
    return columns


def key_columns(schema: pa.Schema, key: str, state: KeyedDescription | None, states: Sequence[str]) -> Columns:
    """The columns that name keys to delete.

    Parameters
    ----------
    schema
        The columns of the rows, which may be those that reading gives.
    key
        The column of the key.
    state
        The state that the keys are deleted from; ``None`` for all.
    states
        The names of all keyed states of the operator.

    Raises
    ------
    InvalidRowError
        If a column is missing, or has nothing to do with the state.
    """
    columns = {KEY: key}
    if state is None:
        require(schema.names, columns.values())
        refuse_others(schema.names, (key, *states), "name the state whose windows are meant, or drop the column")
        return columns
    columns |= {n: c for n, c in context_columns(state, schema).items() if n != LAST_ACCESS}
    require(schema.names, columns.values())
    content = (TIMESTAMP, "domain", "service", *NAMESPACES) if state.is_timer else (VALUE, state.name)
    whole = state.kind in _ELEMENTS and any(n in schema.names for n in _ELEMENTS[state.kind])
    hint = "whole keys are deleted, not elements: select the key's column, or use delete_map_entries" if whole else ""
    refuse_others(schema.names, [*columns.values(), *content], hint)
    return columns


def map_entries(df: DataFrame, columns: Mapping[str, str]) -> tuple[DataFrame, Columns]:
    """Rows with whole maps as rows with an entry each."""
    context = {n: c for n, c in columns.items() if n not in (VALUE, LAST_ACCESS)}
    times = [f.col(LAST_ACCESS)] if LAST_ACCESS in columns else []
    entry = f.posexplode(quoted(columns[VALUE])).alias("_place", MAP_KEY, MAP_VALUE)
    rows = df.select(*(f.col(quoted(c)) for c in context.values()), *times, entry)
    if times and df.schema[LAST_ACCESS].dataType.typeName() == "array":
        rows = rows.withColumn(LAST_ACCESS, f.get(LAST_ACCESS, "_place"))
    return rows, context | {n: n for n in (MAP_KEY, MAP_VALUE, *([LAST_ACCESS] if times else []))}


def _gathered(df: DataFrame, columns: Columns) -> DataFrame:
    """One row per key from one row per element of its list; the places of the elements are checked when they are encoded."""
    element = [LIST_INDEX, LIST_VALUE, *([LAST_ACCESS] if LAST_ACCESS in columns else [])]
    by = {c: identity(df, c) for n, c in columns.items() if n != LAST_ACCESS}
    lists = _sorted(f.collect_list(f.struct(*element)), df.schema[LIST_VALUE].dataType).alias("_elements")
    taken = [f.col("_elements").getField(n).alias(as_) for n, as_ in ((LIST_INDEX, LIST_INDEX), (LIST_VALUE, VALUE))]
    if LAST_ACCESS in columns:
        taken.append(f.col("_elements").getField(LAST_ACCESS).alias(LAST_ACCESS))
    groups = df.groupBy(*(same.alias(f"_same_{i}") for i, same in enumerate(by.values())))
    firsts = [f.first(quoted(c)).alias(c) for c in by]
    return groups.agg(*firsts, lists).select(*map(quoted, by), *taken)


def _sorted(elements: Column, type_: DataType) -> Column:
    """Elements by their places. Spark sorts structs only where it can compare all of a struct, which maps rule out."""
    if "map<" not in type_.simpleString():
        return f.array_sort(elements)
    return f.array_sort(elements, lambda one, other: f.signum(_place(one) - _place(other)).cast("int"))


def _place(element: Column) -> Column:
    return f.coalesce(element.getField(LIST_INDEX).cast("bigint"), f.lit(-1))
