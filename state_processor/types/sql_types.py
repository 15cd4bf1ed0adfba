"""Types of Flink SQL from SQL text, names and types, or a schema of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.logical_type_text import parse_logical_type
from state_processor.serializers.table.logical_types import (
    ArrayType,
    AtomicType,
    BytesType,
    DateType,
    DecimalType,
    IntervalType,
    LogicalType,
    MapType,
    RowField,
    RowType,
    TextType,
    TimestampType,
)

_MICROS: Final = 6

_SPARK: Final[dict[str, Callable[[Any], LogicalType]]] = {
    "BooleanType": lambda t: AtomicType("BOOLEAN"),
    "ByteType": lambda t: AtomicType("TINYINT"),
    "ShortType": lambda t: AtomicType("SMALLINT"),
    "IntegerType": lambda t: AtomicType("INT"),
    "LongType": lambda t: AtomicType("BIGINT"),
    "FloatType": lambda t: AtomicType("FLOAT"),
    "DoubleType": lambda t: AtomicType("DOUBLE"),
    "NullType": lambda t: AtomicType("NULL"),
    "StringType": lambda t: TextType(),
    "CharType": lambda t: TextType("CHAR", t.length),
    "VarcharType": lambda t: TextType("VARCHAR", t.length),
    "BinaryType": lambda t: BytesType(),
    "DateType": lambda t: DateType(),
    "TimestampType": lambda t: TimestampType(_MICROS, True),
    "TimestampNTZType": lambda t: TimestampType(_MICROS),
    "DecimalType": lambda t: DecimalType(t.precision, t.scale),
    "YearMonthIntervalType": lambda t: IntervalType("YEAR_TO_MONTH"),
    "DayTimeIntervalType": lambda t: IntervalType("DAY_TO_SECOND"),
    "ArrayType": lambda t: ArrayType(_nullable(t.elementType, t.containsNull)),
    "MapType": lambda t: MapType(_nullable(t.keyType, False), _nullable(t.valueType, t.valueContainsNull)),
    "StructType": lambda t: RowType(tuple(RowField(f.name, _nullable(f.dataType, f.nullable)) for f in t.fields)),
}
"""From the names of Spark's types."""


def sql_type(type_: Any) -> LogicalType:
    """Return a type of Flink SQL.

    ``type_``: SQL text such as ``DECIMAL(10, 2) NOT NULL``, a type of Spark's, or a type as it is.
    """
    if isinstance(type_, LogicalType):
        return type_
    if isinstance(type_, str):
        return parse_logical_type(type_)
    maker = _SPARK.get(type(type_).__name__) if type(type_).__module__.startswith("pyspark.") else None
    if maker is None:
        raise OptionError(f"{type_!r} is not a type of Flink SQL; give SQL text such as 'BIGINT NOT NULL', or a type of Spark")
    return maker(type_)


def row_type(fields: Any) -> RowType:
    """Return a row of Flink SQL.

    ``fields``: SQL text, ``ROW<id BIGINT NOT NULL, name STRING>`` or the text inside the brackets; a mapping from names to
    arguments of :func:`sql_type`; a list of such arguments, for fields ``f0``, ``f1``, …; or a ``StructType`` of Spark's.
    """
    if isinstance(fields, str):
        text = fields.strip()
        fields = parse_logical_type(text if text[:3].upper() == "ROW" and text[3:].lstrip()[:1] in ("<", "(") else f"ROW<{text}>")
    elif isinstance(fields, Mapping):
        fields = RowType(tuple(RowField(name, sql_type(type_)) for name, type_ in fields.items()))
    elif isinstance(fields, Sequence):
        fields = RowType.of(*map(sql_type, fields))
    parsed = sql_type(fields)
    if not isinstance(parsed, RowType):
        raise OptionError(f"{parsed} is not a row; name its fields, as in ROW<id BIGINT, name STRING>")
    return parsed


def _nullable(type_: Any, nullable: bool) -> LogicalType:
    return replace(sql_type(type_), nullable=nullable)
