"""Entries of a state of a query, converted for another query: rows with other fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.row_changes import NewField, RowChange, ViewChange
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.rows import ROW_KIND_FIELD
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.table.operator_records import NodeSerializer
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.spark.same_keys import identity
from state_processor.spark.schemas import spark_type
from state_processor.write.migrated_rows import OPTIONS, PARTS, value_column, without_ttl
from state_processor.write.query_migration import MigratedState


def migrated_entries(state: MigratedState, rows: DataFrame) -> DataFrame:
    """Return the entries of a state, as reading gives them, in its new form.

    Parameters
    ----------
    state
        What changes.
    rows
        The entries, one in each row.
    """
    if state.change.successor is not None:
        return _succeeding(rows, state.change.successor.columns)
    columns = []
    kept = (KEY, *NAMESPACES, *PARTS, *(() if state.change.ttl is False else (LAST_ACCESS,)))
    for name in (name for name in rows.columns if name in kept):
        part = PARTS.get(name, "")
        change = state.change.rows.get(part)
        if change is None:
            columns.append(f.col(name))
        else:
            old, new = without_ttl(state.old.serializers[part]), without_ttl(state.new.serializers[part])
            columns.append(_changed(f.col(name), old, change, new).alias(name))
    found = rows.select(*columns)
    if state.change.counted is not None:
        value = value_column(found.columns)
        found = found.withColumn(value, _counted(f.col(value), state.change.counted))
        found = found.where(_is_counted(found, value))
    return _merged(found) if state.change.merges else found


def _succeeding(rows: DataFrame, columns: Mapping[str, str | bool]) -> DataFrame:
    """Return the entries of a new state, made from the entries of an old one."""
    given = ((f.col(of) if isinstance(of, str) else f.lit(of)).alias(name) for name, of in columns.items())
    return rows.select(KEY, *given, *(name for name in (LAST_ACCESS,) if name in rows.columns))


def _counted(number: Column, change: ViewChange) -> Column:
    """Return the numbers that the calls in the new plan have for a value."""
    if not change.as_bits:
        kept = [number.getItem(source) for source in change.calls if source is not None]
        return number if change.size == 1 else kept[0] if len(kept) == 1 else f.array(*kept)
    bits = [
        f.shiftleft(f.shiftright(number, source).bitwiseAND(f.lit(1)), bit)
        for bit, source in enumerate(change.calls)
        if source is not None
    ]
    return reduce(lambda one, other: one.bitwiseOR(other), bits)


def _is_counted(rows: DataFrame, column: str) -> Column:
    """Return whether a call has counted a value."""
    number = f.col(column)
    return f.exists(number, lambda one: one != 0) if rows.schema[column].dataType.typeName() == "array" else number != 0


def _changed(value: Column, old: TypeSerializer, change: RowChange, new: TypeSerializer) -> Column:
    """Return a value with another row."""
    match old, new:
        case RowDataSerializer(), RowDataSerializer():
            names = old.slot.type.names
            fields = [
                _field(value, field, names, own.type.arrow_type(OPTIONS)).alias(own.name)
                for field, own in zip(change.fields, new.slot.type.fields, strict=True)
            ]
            row = f.struct(value.getField(ROW_KIND_FIELD).alias(ROW_KIND_FIELD), *fields)
        case TupleSerializer(), TupleSerializer():
            parts = zip(old.fields, new.fields, strict=True)
            row = f.struct(*(_changed(value.getField(f"f{i}"), a, change, b).alias(f"f{i}") for i, (a, b) in enumerate(parts)))
        case NodeSerializer(), NodeSerializer():
            row = value.withField("row", _changed(value.getField("row"), old.nested[0], change, new.nested[0]))
        case ListSerializer(), ListSerializer():
            return f.transform(value, lambda element: _changed(element, old.element, change, new.element))
        case _:
            return value
    return f.when(value.isNotNull(), row)


def _field(value: Column, field: NewField, names: tuple[str, ...], type_: pa.DataType) -> Column:
    if field.source is None:
        return f.lit(field.start).cast(spark_type(type_))
    return value.getField(names[field.source])


def _merged(rows: DataFrame) -> DataFrame:
    """Return rows that have become the same as one, with the number of all copies; each belongs to as many rows as before."""
    copies = f.col(MAP_VALUE)
    if rows.schema[MAP_VALUE].dataType.typeName() == "struct":
        counts = [f.sum(copies.getField("f0")).cast("int").alias("f0"), f.max(copies.getField("f1")).alias("f1")]
        value = f.struct(*counts)
    else:
        value = f.sum(copies).cast("int")
    last = [f.max(LAST_ACCESS).alias(LAST_ACCESS)] if LAST_ACCESS in rows.columns else []
    same = [identity(rows, column).alias(f"_{column}") for column in (KEY, MAP_KEY)]
    firsts = [f.first(column).alias(column) for column in (KEY, MAP_KEY)]
    groups = rows.groupBy(*same).agg(*firsts, value.alias(MAP_VALUE), *last)
    return groups.select(*rows.columns)
