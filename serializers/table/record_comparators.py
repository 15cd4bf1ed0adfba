"""Comparators of rows as Java objects: the order of sorted maps in state (Flink: ``ComparableRecordComparator``).

Flink compares the columns of two comparators, not their code. It runs the code of the snapshot while it restores the map into a
heap. The code is Java text; Flink compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaInstance, JavaObject, read_java_object
from state_processor.serializers.java.object_output import JavaArray, JavaClassDescription, JavaText, write_java_object
from state_processor.serializers.table.logical_type_objects import CLASSES, type_instance
from state_processor.serializers.table.logical_types import (
    PACKAGE,
    AtomicType,
    DateType,
    DecimalType,
    LogicalType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.type_descriptors import codecs_of
from state_processor.support.errors import UnsupportedFormatError

_RUNTIME: Final = "org.apache.flink.table.runtime."
_COMPARATOR: Final = f"{_RUNTIME}operators.rank.ComparableRecordComparator"
_GENERATED: Final = f"{_RUNTIME}generated.GeneratedRecordComparator"
_TEXT: Final = "Ljava/lang/String;"
_CLASS_NAME: Final = "RowOrder"
_DESCRIPTIONS: Final = (
    JavaClassDescription(
        _COMPARATOR,
        4386377835781068140,
        (
            ("[I", "compareKeyPositions"),
            (f"[L{PACKAGE.replace('.', '/')}LogicalType;", "compareKeyTypes"),
            ("[Z", "compareOrders"),
            (f"L{_GENERATED.replace('.', '/')};", "generatedRecordComparator"),
            ("[Z", "nullsIsLast"),
        ),
    ),
    JavaClassDescription(
        f"{_RUNTIME}generated.GeneratedClass",
        7897406074992879593,
        ((_TEXT, "className"), (_TEXT, "code"), ("[Ljava/lang/Object;", "references"), (_TEXT, "splitCode")),
    ),
    JavaClassDescription(_GENERATED, 2, parent=f"{_RUNTIME}generated.GeneratedClass"),
)
_KNOWN: Final = {**CLASSES, **{d.name: d for d in _DESCRIPTIONS}}


@dataclass(frozen=True, slots=True)
class OrderedField:
    """A field that orders rows; ``nulls_last`` holds in both directions."""

    type: LogicalType
    ascending: bool
    nulls_last: bool


def comparator_object(fields: Sequence[OrderedField]) -> JavaObject:
    """Return a comparator of rows with these fields."""
    code = JavaText(_code(fields))
    generated = JavaInstance(
        _GENERATED,
        {
            "className": JavaText(_CLASS_NAME),
            "code": code,
            "references": JavaArray("[Ljava.lang.Object;", []),
            "splitCode": code,
        },
    )
    content = JavaInstance(
        _COMPARATOR,
        {
            "compareKeyPositions": JavaArray("[I", range(len(fields))),
            "compareKeyTypes": JavaArray(f"[L{PACKAGE}LogicalType;", [type_instance(f.type) for f in fields]),
            "compareOrders": JavaArray("[Z", [f.ascending for f in fields]),
            "generatedRecordComparator": generated,
            "nullsIsLast": JavaArray("[Z", [f.nulls_last for f in fields]),
        },
    )
    return read_java_object(DataInput(write_java_object(content, _KNOWN)))


def is_ordered(type_: LogicalType) -> bool:
    """Return whether values of a type have an order that is known here."""
    return _access(type_, "row", 0) is not None


def _code(fields: Sequence[OrderedField]) -> str:
    row = "org.apache.flink.table.data.RowData"
    steps = "\n".join(_step(i, field) for i, field in enumerate(fields))
    return (
        f"public class {_CLASS_NAME} implements {_RUNTIME}generated.RecordComparator {{\n"
        f"  public {_CLASS_NAME}(Object[] references) {{}}\n"
        f"  @Override\n  public int compare({row} a, {row} b) {{\n{steps}\n    return 0;\n  }}\n}}\n"
    )


def _step(at: int, field: OrderedField) -> str:
    """Return the comparison of one field."""
    left_access, right_access = _access(field.type, "a", at), _access(field.type, "b", at)
    if left_access is None or right_access is None:
        raise UnsupportedFormatError(f"the order of {field.type} is not known; expected numbers, text, or times")
    java, is_object = left_access[0], left_access[2]
    compared = "x.compareTo(y)" if is_object else "(x > y ? 1 : x < y ? -1 : 0)"
    sign, null = "" if field.ascending else "-", 1 if field.nulls_last else -1
    return (
        f"    if (a.isNullAt({at}) != b.isNullAt({at})) {{ return a.isNullAt({at}) ? {null} : {-null}; }}\n"
        f"    if (!a.isNullAt({at})) {{\n"
        f"      {java} x = {left_access[1]};\n      {java} y = {right_access[1]};\n"
        f"      int c = {compared};\n      if (c != 0) {{ return {sign}c; }}\n    }}"
    )


def _access(type_: LogicalType, row: str, at: int) -> tuple[str, str, bool] | None:
    """Return the Java type of a field, the expression that reads it, and whether it is an object."""
    match type_:
        case AtomicType(name="BOOLEAN"):
            return "int", f"({row}.getBoolean({at}) ? 1 : 0)", False
        case AtomicType() if number := codecs_of(type_).number:
            return number.lower(), f"{row}.get{number.capitalize()}({at})", False
        case DateType() | TimeType():
            return "int", f"{row}.getInt({at})", False
        case TextType():
            return "org.apache.flink.table.data.StringData", f"{row}.getString({at})", True
        case DecimalType(precision=precision, scale=scale):
            return "org.apache.flink.table.data.DecimalData", f"{row}.getDecimal({at}, {precision}, {scale})", True
        case TimestampType(precision=precision):
            return "org.apache.flink.table.data.TimestampData", f"{row}.getTimestamp({at}, {precision})", True
    return None
