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
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from state_processor.serializers.errors import InvalidRowError

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


def check_comparable(earlier: DataFrame, given: str, later: DataFrame, column: str) -> None:
    """Refuse columns of keys that can't be compared: Spark would convert one of them, or compare structs by position.

    Parameters
    ----------
    earlier, given
        Rows that were given before, and their column.
    later, column
        Rows that may replace them, and their column.

    Raises
    ------
    InvalidRowError
        If one is of another type than the other, or structs have other fields, or in another order.
    """
    types = earlier.schema[given].dataType, later.schema[column].dataType
    lists = [_field_names(type_) for type_ in types]
    if lists[0] != lists[1]:
        raise InvalidRowError(
            f"column {column!r}: the fields are ({', '.join(lists[1])}), in rows that were given before "
            f"({', '.join(lists[0])}); give both in the same order"
        )
    if _family(types[0]) != _family(types[1]):
        raise InvalidRowError(
            f"column {column!r} is {types[1].simpleString()}, in rows that were given before {types[0].simpleString()}: "
            "keys of different types can't be compared; give both in one type"
        )


def _field_names(type_: DataType) -> list[str]:
    if isinstance(type_, StructType):
        return [name for n in type_.fields for name in (n.name, *_field_names(n.dataType))]
    if isinstance(type_, MapType):
        return _field_names(_entry(type_))
    return _field_names(type_.elementType) if isinstance(type_, ArrayType) else []


def _family(type_: DataType) -> object:
    """Return a value that is the same for types whose identities can be compared."""
    if isinstance(type_, StructType):
        return tuple(_family(n.dataType) for n in type_.fields)
    if isinstance(type_, ArrayType):
        return "array", _family(type_.elementType)
    if isinstance(type_, MapType):
        return "map", _family(_entry(type_))
    families = {"whole": IntegralType, "text": StringType, "fraction": DoubleType | FloatType, "decimal": DecimalType}
    return next((name for name, types in families.items() if isinstance(type_, types)), type_.typeName())
