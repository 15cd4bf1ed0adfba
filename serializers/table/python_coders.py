"""The bytes that PyFlink's workers make of values, by the type that a job declares (PyFlink: ``pyflink.fn_execution.coders``).

A state of a PyFlink job holds nothing but byte arrays in the eyes of Java, so that no snapshot tells what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import (
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    SimpleArraySerializer,
)
from state_processor.serializers.core.basic import (
    BigDecimalSerializer,
    BigIntegerSerializer,
    CharSerializer,
    NumberSerializer,
    StringSerializer,
)
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, NullFlagged
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    MillisSerializer,
    SqlTimestampSerializer,
)
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.table.python_rows import PythonBigDecimalSerializer, PythonDateSerializer, PythonTimeSerializer
from state_processor.serializers.table.single_values import StringDataSerializer, TimestampDataSerializer

_MILLISECONDS: Final = 3
_OF_MILLIS: Final[dict[str, Callable[[], TypeSerializer]]] = {
    "DATE": PythonDateSerializer,
    "SQL_DATE": PythonDateSerializer,
    "SQL_TIME": PythonTimeSerializer,
}


class _DecimalTextSerializer(PythonBigDecimalSerializer):
    """A decimal of any size as Python's text for it."""

    def accept(self, value: Any) -> str:
        return str(value)


def _elements(element: TypeSerializer) -> TypeSerializer:
    return ListSerializer(NullFlagged(python_coder(element), null_when=False))


_CODERS: Final[dict[type[TypeSerializer], Callable[[Any], TypeSerializer]]] = {
    NumberSerializer: lambda t: t,
    BytesSerializer: lambda t: t,
    InstantSerializer: lambda t: t,
    StringSerializer: lambda t: StringDataSerializer(),
    CharSerializer: lambda t: StringDataSerializer(),
    BigIntegerSerializer: lambda t: NumberSerializer("LONG"),
    BigDecimalSerializer: lambda t: _DecimalTextSerializer(),
    MillisSerializer: lambda t: _OF_MILLIS[str(t)](),
    SqlTimestampSerializer: lambda t: TimestampDataSerializer(_MILLISECONDS),
    LocalDateSerializer: lambda t: PythonDateSerializer(),
    LocalTimeSerializer: lambda t: PythonTimeSerializer(),
    LocalDateTimeSerializer: lambda t: TimestampDataSerializer(_MILLISECONDS),
    PrimitiveArraySerializer: lambda t: ListSerializer(python_coder(t.element)),
    SimpleArraySerializer: lambda t: _elements(t.element),
    GenericArraySerializer: lambda t: _elements(t.element),
    ListSerializer: lambda t: _elements(t.element),
    MapSerializer: lambda t: MapSerializer(python_coder(t.key), python_coder(t.value.inner)),
    TupleSerializer: lambda t: TupleSerializer([python_coder(f) for f in t.fields]),
    RowSerializer: lambda t: RowSerializer([python_coder(f) for f in t.fields], t.names),
}
"""What ``from_type_info`` makes of a type."""


def python_coder(type_: TypeSerializer) -> TypeSerializer:
    """What reads and writes values of a type as PyFlink's workers do.

    Raises
    ------
    UnsupportedFormatError
        If PyFlink has no coder for the type.
    """
    maker = _CODERS.get(type(type_))
    if maker is None:
        raise UnsupportedFormatError(f"PyFlink has no coder for values of type {type_}")
    return maker(type_)
