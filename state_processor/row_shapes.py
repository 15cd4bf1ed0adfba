"""From rows in the shapes that reading gives to the columns that the encoder takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from state_processor.backends.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES, TIMESTAMP, VALUE
from state_processor.backends.shapes import LAST_ACCESS, LIST_INDEX, LIST_VALUE
from state_processor.backends.states import LIST, MAP, StateDescription
from state_processor.serializers.errors import InvalidRowError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from state_processor.write_tasks import Marks

Columns = dict[str, str]


def context_columns(state: StateDescription, schema: pa.Schema) -> Columns:
    """The columns of rows that say more than key and value: the namespace, the time of last access."""
    names: list[str] = []
    if not state.in_void_namespace:
        names += [n for n in NAMESPACES if n in schema.names]
    if state.has_ttl and LAST_ACCESS in schema.names:
        names.append(LAST_ACCESS)
    return {n: n for n in names}


def quoted(column: str) -> str:
    """The name of a column as Spark takes it, whatever is in it."""
    return "`" + column.replace("`", "``") + "`"


def shaped_rows(df: DataFrame, schema: pa.Schema, state: StateDescription, key: str) -> tuple[DataFrame, Columns, Marks]:
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
        If a column is missing.
    """
    columns = {KEY: key} | context_columns(state, schema)
    names = schema.names
    if state.is_timer:
        return df, _checked({**columns, TIMESTAMP: TIMESTAMP}, state, names), "keys"
    if state.kind == MAP and MAP_KEY in names and VALUE not in names:
        return df, _checked({**columns, MAP_KEY: MAP_KEY, MAP_VALUE: MAP_VALUE}, state, names), "entries"
    if state.kind == LIST and LIST_INDEX in names and VALUE not in names:
        _checked({**columns, LIST_VALUE: LIST_VALUE}, state, names)
        return _gathered(df, columns), {**columns, VALUE: VALUE}, "keys"
    value = VALUE if VALUE in names else state.name
    return df, _checked({**columns, VALUE: value}, state, names), "keys"


def entry_columns(schema: pa.Schema, state: StateDescription, key: str) -> Columns:
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
    return _checked(columns, state, schema.names)


def map_entries(df: DataFrame, columns: Mapping[str, str]) -> tuple[DataFrame, Columns]:
    """Rows with whole maps as rows with an entry each."""
    context = {n: c for n, c in columns.items() if n not in (VALUE, LAST_ACCESS)}
    times = [f.col(LAST_ACCESS)] if LAST_ACCESS in columns else []
    entry = f.posexplode(quoted(columns[VALUE])).alias("_place", MAP_KEY, MAP_VALUE)
    rows = df.select(*(f.col(quoted(c)) for c in context.values()), *times, entry)
    if times and df.schema[LAST_ACCESS].dataType.typeName() == "array":
        rows = rows.withColumn(LAST_ACCESS, f.get(LAST_ACCESS, "_place"))
    return rows, context | {n: n for n in (MAP_KEY, MAP_VALUE, *([LAST_ACCESS] if times else []))}


def _checked(columns: Columns, state: StateDescription, names: list[str]) -> Columns:
    missing = [c for c in columns.values() if c not in names]
    if missing:
        wanted = ", ".join(repr(c) for c in missing)
        raise InvalidRowError(f"state {state.name!r} ({state.kind}): column {wanted} is missing; there are {', '.join(names)}")
    return columns


def _gathered(df: DataFrame, columns: Columns) -> DataFrame:
    """One row per key from one row per element of its list."""
    element = [LIST_INDEX, LIST_VALUE, *([LAST_ACCESS] if LAST_ACCESS in columns else [])]
    by = [f.col(quoted(c)) for n, c in columns.items() if n != LAST_ACCESS]
    lists = f.array_sort(f.collect_list(f.struct(*element))).alias("_elements")
    taken = [f.col("_elements").getField(LIST_VALUE).alias(VALUE)]
    if LAST_ACCESS in columns:
        taken.append(f.col("_elements").getField(LAST_ACCESS).alias(LAST_ACCESS))
    return df.groupBy(*by).agg(lists).select(*(c for n, c in columns.items() if n != LAST_ACCESS), *taken)
