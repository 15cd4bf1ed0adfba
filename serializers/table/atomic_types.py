"""Types of Flink SQL without parameters: one descriptor for each. Names, columns, serializers and slots follow from it."""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.flink_packages import BASE
from state_processor.serializers.records import dataclass


@dataclass(frozen=True, slots=True)
class Atomic:
    """A type without parameters.

    Parameters
    ----------
    name
        Its name in SQL.
    arrow
        The type of a column.
    type_class, root
        The Java class of the type, and the constant of ``LogicalTypeRoot``.
    number
        The name of the serializer of numbers that writes values (:class:`~..core.basic.NumberSerializer`); empty for others.
    packed
        The form of a number in the slot of a binary row.
    serializer_class
        The Java class of the serializer; for numbers it follows from ``number``.
    serializer_uid, type_uid
        The ``serialVersionUID`` of serializer and type, for Java objects in snapshots.
    words
        The texts of the type that are one word.
    """

    name: str
    arrow: pa.DataType
    type_class: str
    root: str
    number: str = ""
    packed: struct.Struct | None = None
    serializer_class: str = ""
    serializer_uid: int = 1
    type_uid: int = 1
    words: tuple[str, ...] = ()


def _number(name: str, arrow: pa.DataType, type_class: str, number: str, packed: str, **more: Any) -> Atomic:
    named = {"root": name, "words": (name,), "serializer_class": f"{BASE}{number.capitalize()}Serializer"} | more
    return Atomic(name, arrow, type_class, number=number, packed=struct.Struct(packed), **named)


ATOMIC: Final = {
    atomic.name: atomic
    for atomic in (
        _number("BOOLEAN", pa.bool_(), "BooleanType", "BOOLEAN", "<?"),
        _number("TINYINT", pa.int8(), "TinyIntType", "BYTE", "<b"),
        _number("SMALLINT", pa.int16(), "SmallIntType", "SHORT", "<h"),
        _number("INT", pa.int32(), "IntType", "INT", "<i", root="INTEGER", words=("INT", "INTEGER")),
        _number("BIGINT", pa.int64(), "BigIntType", "LONG", "<q"),
        _number("FLOAT", pa.float32(), "FloatType", "FLOAT", "<f"),
        _number("DOUBLE", pa.float64(), "DoubleType", "DOUBLE", "<d", words=()),  # also DOUBLE PRECISION
        Atomic(
            "NULL",
            pa.null(),
            "NullType",
            "NULL",
            serializer_class="org.apache.flink.table.dataview.NullSerializer",
            serializer_uid=-5381596724707742625,
            words=("NULL",),
        ),
        Atomic(
            "VARIANT",
            pa.struct([("value", pa.binary()), ("metadata", pa.binary())]),
            "VariantType",
            "VARIANT",
            serializer_class=f"{BASE}VariantSerializer",
            serializer_uid=5163454885762653491,
            type_uid=-7525210688776332292,
            words=("VARIANT",),
        ),
        Atomic(
            "BITMAP",
            pa.binary(),
            "BitmapType",
            "BITMAP",
            serializer_class=f"{BASE}BitmapSerializer",
            serializer_uid=7562101549559034581,
            words=("BITMAP",),
        ),
    )
}
"""The types by name."""
