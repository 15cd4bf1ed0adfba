"""The bytes of PyFlink's workers for values, by the type that a job declares (PyFlink: ``pyflink.fn_execution.coders``).

In Java, a state of a PyFlink job contains byte arrays; snapshots do not describe their content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.arrays import GenericArraySerializer, PrimitiveArraySerializer, SimpleArraySerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListCodec, ListSerializer, MapSerializer, NullFlagged
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.scalar_type import PythonCoder
from state_processor.serializers.core.scalars import scalar_type_of
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.table.python_values import PythonBigDecimalSerializer, PythonDateSerializer, PythonTimeSerializer
from state_processor.serializers.table.single_values import StringDataSerializer, TimestampDataSerializer

_MILLISECONDS: Final = 3


class _DecimalTextSerializer(PythonBigDecimalSerializer):
    """A decimal of any size, encoded as its text in Python."""

    def from_column(self, value: Any) -> str:
        return str(value)


class _PythonListSerializer(ListCodec, TypeSerializer):
    """A list: a count, then for each element a byte 1 and the element, or a byte 0 for null."""

    element: NullFlagged[TypeSerializer]

    def __init__(self, element: TypeSerializer) -> None:
        super().__init__(NullFlagged(element, null_when=False))

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.element.inner,)

    def with_children(self, children: Sequence[Any]) -> Self:
        (element,) = children
        return type(self)(element)

    def snapshot(self) -> TypeSerializerSnapshot:
        return ListSerializer(self.element.inner).snapshot()


_SCALARS: Final[dict[PythonCoder, Callable[[TypeSerializer], TypeSerializer]]] = {
    PythonCoder.SAME: lambda t: t,
    PythonCoder.TEXT: lambda t: StringDataSerializer(),
    PythonCoder.LONG: lambda t: NumberSerializer("LONG"),
    PythonCoder.DECIMAL_TEXT: lambda t: _DecimalTextSerializer(),
    PythonCoder.DATE: lambda t: PythonDateSerializer(),
    PythonCoder.TIME: lambda t: PythonTimeSerializer(),
    PythonCoder.TIMESTAMP: lambda t: TimestampDataSerializer(_MILLISECONDS),
}

_NESTED: Final[dict[type[TypeSerializer], Callable[[Any], TypeSerializer]]] = {
    PrimitiveArraySerializer: lambda t: ListSerializer(python_coder(t.element)),
    SimpleArraySerializer: lambda t: _PythonListSerializer(python_coder(t.element)),
    GenericArraySerializer: lambda t: _PythonListSerializer(python_coder(t.element)),
    ListSerializer: lambda t: _PythonListSerializer(python_coder(t.element)),
    MapSerializer: lambda t: MapSerializer(python_coder(t.key), python_coder(t.value.inner)),
    TupleSerializer: lambda t: TupleSerializer([python_coder(f) for f in t.fields]),
    RowSerializer: lambda t: RowSerializer([python_coder(f) for f in t.fields], t.names),
}
"""Coders of types with nested types, as in PyFlink's ``from_type_info``."""


def python_coder(type_: TypeSerializer) -> TypeSerializer:
    """Return the serializer that reads and writes values of a type like PyFlink's workers.

    Raises
    ------
    UnsupportedFormatError
        If PyFlink lacks a coder for the type.
    """
    scalar = scalar_type_of(type_)
    maker = _NESTED.get(type(type_)) if scalar is None else _SCALARS.get(scalar.python_coder)
    if maker is None:
        raise UnsupportedFormatError(f"PyFlink lacks a coder for values of type {type_}")
    return maker(type_)
