"""Comparison of keys in Spark as in Java: some values that are equal in Spark are different keys in Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def quoted(column: str) -> str:
    """Quote the name of a column for Spark."""
    return "`" + column.replace("`", "``") + "`"


def identity(df: DataFrame, column: str) -> Column:
    """Return an expression that is equal for two rows only if the values of a column are the same key.

    In Spark ``-0.0`` equals ``0.0``, the decimal ``1.0`` equals ``1.00``, and a collation may ignore case. Spark does not compare
    maps; here they are equal if they have the same entries in the same order, since Flink SQL compares the bytes of rows.
    """
    return _identity(f.col(quoted(column)), df.schema[column].dataType)


def _identity(value: Column, type_: DataType) -> Column:
    if isinstance(type_, DoubleType | FloatType):
        return value.cast("double").cast("string")
    if isinstance(type_, DecimalType):
        return value.cast("string")
    if isinstance(type_, StringType):
        return f.collate(value, "UTF8_BINARY")
    if isinstance(type_, StructType) and type_.fields:
        fields = [_identity(value.getField(n.name), n.dataType).alias(f"_{i}") for i, n in enumerate(type_.fields)]
        return f.when(value.isNotNull(), f.struct(*fields))
    if isinstance(type_, ArrayType):
        return f.transform(value, lambda element: _identity(element, type_.elementType))
    if isinstance(type_, MapType):
        return f.transform(f.map_entries(value), lambda entry: _identity(entry, _entry(type_)))
    return value


def _entry(type_: MapType) -> StructType:
    return StructType().add("key", type_.keyType).add("value", type_.valueType)
