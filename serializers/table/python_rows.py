"""Serializers of the rows that PyFlink's table runtime exchanges with Python (Flink: ``…typeutils.serializers.python``).

They write values one after the other; the table runtime itself uses binary rows. Snapshots of arrays and maps contain only Java
objects. Flink's ``PythonTypeUtils`` determines the encoding of their elements by the type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, register_simple
from state_processor.serializers.big_numbers import to_decimal
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListCodec, MapSerializer, NullFlagged
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.table.atomic_types import ATOMIC
from state_processor.serializers.table.binary_values import (
    decode_text,
    encode_text,
    present_decimal,
    to_unscaled,
)
from state_processor.serializers.table.days_and_times import DateDataSerializer, TimeDataSerializer
from state_processor.serializers.table.logical_types import (
    ArrayType,
    AtomicType,
    BytesType,
    DateType,
    DecimalType,
    LogicalType,
    MapType,
    RowType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.rowdata import JavaObjectsSnapshot, RowDataSerializerSnapshot
from state_processor.serializers.table.single_values import NumbersSnapshot, StringDataSerializer, TimestampDataSerializer

PYTHON: Final = "org.apache.flink.table.runtime.typeutils.serializers.python."


class ByteArrayWrapperSerializer(BytesSerializer):
    """``ByteArrayWrapper``: a count and the bytes. PyFlink wraps arrays because Java does not compare arrays by content."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot_class = "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot"


class PythonDateSerializer(DateDataSerializer):
    """A day: days since 1970 (Flink: ``DateSerializer`` of the Python package)."""

    snapshot_class = f"{PYTHON}DateSerializer$DateSerializerSnapshot"


class PythonTimeSerializer(TimeDataSerializer):
    """A time of day: its milliseconds (Flink: ``TimeSerializer`` of the Python package)."""

    snapshot_class = f"{PYTHON}TimeSerializer$TimeSerializerSnapshot"


class PythonBigDecimalSerializer(StringDataSerializer):
    """A decimal of any size as its text (Flink: ``BigDecSerializer`` of the Python package)."""

    snapshot_class = f"{PYTHON}BigDecSerializer$BigDecSerializerSnapshot"

    def __str__(self) -> str:
        return "BIG_DEC"


DECIMAL_SNAPSHOT: Final = f"{PYTHON}DecimalDataSerializer$DecimalSerializerSnapshot"


class PythonDecimalSerializer(TypeSerializer):
    """A decimal as its text (Flink: ``DecimalDataSerializer`` of the Python package)."""

    min_size = 5

    def __init__(self, precision: int, scale: int, snapshot_class: str = DECIMAL_SNAPSHOT) -> None:
        self.type = DecimalType(precision, scale)
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return self.type.summary

    def read(self, source: DataInput) -> Decimal:
        start = source.position
        text = decode_text(source.read_bytes(source.read_int(), "decimal"))
        try:
            return Decimal(text)
        except InvalidOperation:
            raise source.corrupt(f"expected a decimal, found {text!r}", start) from None

    def write(self, value: Decimal, target: DataOutput) -> None:
        to_unscaled(value, self.type)
        data = encode_text(str(value))
        target.write_int(len(data))
        target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.type.arrow_type(options)

    def from_column(self, value: Any) -> Decimal:
        return to_decimal(to_unscaled(value, self.type), self.type.scale)

    def to_column(self, value: Decimal, options: DecodeOptions) -> Decimal:
        return present_decimal(value, self.type)

    def snapshot(self) -> TypeSerializerSnapshot:
        return PythonDecimalSerializerSnapshot(self._snapshot_class, [self.type.precision, self.type.scale])


class PythonDecimalSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`PythonDecimalSerializer`."""

    current_version = 1
    names = ("precision", "scale")
    serializer = PythonDecimalSerializer


TIMESTAMP_SNAPSHOT: Final = f"{PYTHON}TimestampSerializer$TimestampSerializerSnapshot"


class PythonTimestampSerializer(TimestampDataSerializer):
    """``java.sql.Timestamp`` as the table runtime writes timestamps (Flink: ``TimestampSerializer`` of the Python package)."""

    def __init__(self, precision: int, snapshot_class: str = TIMESTAMP_SNAPSHOT) -> None:
        super().__init__(precision, snapshot_class)

    def snapshot(self) -> TypeSerializerSnapshot:
        return PythonTimestampSerializerSnapshot(self._snapshot_class, [self.type.precision])


class PythonTimestampSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`PythonTimestampSerializer`."""

    current_version = 1
    names = ("precision",)
    serializer = PythonTimestampSerializer


class PythonRowDataSerializer(RowSerializer):
    """``RowData`` encoded like ``Row``: bit mask, then fields (Flink: ``RowDataSerializer`` of the Python package)."""

    def __init__(
        self, fields: Sequence[TypeSerializer], names: Sequence[str], written: TypeSerializerSnapshot | None = None
    ) -> None:
        super().__init__(fields, names)
        self._written = written

    def snapshot(self) -> TypeSerializerSnapshot:
        return _kept(self, self._written)


class PythonRowDataSerializerSnapshot(RowDataSerializerSnapshot):
    """Snapshot of :class:`PythonRowDataSerializer`, with the same bytes as the table runtime's snapshot."""

    def restore_serializer(self) -> TypeSerializer:
        type_ = RowType.of(*self.logical_types)
        return PythonRowDataSerializer([python_serializer(t) for t in type_.types], type_.names, self)


class PythonArrayDataSerializer(ListCodec, TypeSerializer):
    """An array: a count, then a byte 1 and the element, or 0 for null (Flink: ``ArrayDataSerializer`` of the Python package)."""

    def __init__(self, type_: ArrayType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(NullFlagged(python_serializer(type_.element), null_when=False))
        self._written = written

    def snapshot(self) -> TypeSerializerSnapshot:
        return _kept(self, self._written)


class PythonArrayDataSerializerSnapshot(JavaObjectsSnapshot):
    """Snapshot of :class:`PythonArrayDataSerializer`."""

    current_version = 1

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return PythonArrayDataSerializer(ArrayType(*types), self)


class PythonMapDataSerializer(MapSerializer):
    """A map, as ``MapSerializer`` writes it (Flink: ``MapDataSerializer`` of the Python package)."""

    def __init__(self, type_: MapType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(python_serializer(type_.key), python_serializer(type_.value))
        self._written = written

    def snapshot(self) -> TypeSerializerSnapshot:
        return _kept(self, self._written)


class PythonMapDataSerializerSnapshot(JavaObjectsSnapshot):
    """Snapshot of :class:`PythonMapDataSerializer`."""

    current_version = 1
    type_count = 2

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return PythonMapDataSerializer(MapType(*types), self)


def _kept(serializer: TypeSerializer, written: TypeSerializerSnapshot | None) -> TypeSerializerSnapshot:
    if written is None:
        raise UnsupportedFormatError(f"the snapshot of {serializer} contains Java objects and must come from a savepoint")
    return written


_SERIALIZERS: Final[dict[type[LogicalType], Callable[[Any], TypeSerializer]]] = {
    AtomicType: lambda t: NumberSerializer(ATOMIC[t.name].number),
    TextType: lambda t: StringDataSerializer(),
    BytesType: lambda t: BytesSerializer(),
    DateType: lambda t: PythonDateSerializer(),
    TimeType: lambda t: PythonTimeSerializer(),
    TimestampType: lambda t: TimestampDataSerializer(t.precision).shown_as(t),
    DecimalType: lambda t: PythonDecimalSerializer(t.precision, t.scale),
    ArrayType: PythonArrayDataSerializer,
    MapType: PythonMapDataSerializer,
    RowType: lambda t: PythonRowDataSerializer([python_serializer(f) for f in t.types], t.names),
}
"""The result of ``PythonTypeUtils.toInternalSerializer`` for a type."""


def python_serializer(type_: LogicalType) -> TypeSerializer:
    """Return the serializer of a field or element of this type.

    Raises
    ------
    UnsupportedFormatError
        If PyFlink lacks a serializer for it.
    """
    maker = _SERIALIZERS.get(type(type_))
    if maker is None or (isinstance(type_, AtomicType) and not ATOMIC[type_.name].number):
        raise UnsupportedFormatError(f"PyFlink's table runtime lacks a serializer for values of type {type_}")
    return maker(type_)


register_simple(StringDataSerializer(f"{PYTHON}StringSerializer$StringSerializerSnapshot"))
register_simple(PythonBigDecimalSerializer())
register_simple(PythonDateSerializer())
register_simple(PythonTimeSerializer())
provide_snapshots((DECIMAL_SNAPSHOT, f"{PYTHON}DecimalSerializer$DecimalSerializerSnapshot"), PythonDecimalSerializerSnapshot)
provide_snapshots((TIMESTAMP_SNAPSHOT,), PythonTimestampSerializerSnapshot)
provide_snapshots(
    (f"{PYTHON}RowDataSerializer$RowDataSerializerSnapshot", f"{PYTHON}BaseRowSerializer$BaseRowSerializerSnapshot"),
    PythonRowDataSerializerSnapshot,
)
provide_snapshots(
    (f"{PYTHON}ArrayDataSerializer$ArrayDataSerializerSnapshot", f"{PYTHON}BaseArraySerializer$BaseArraySerializerSnapshot"),
    PythonArrayDataSerializerSnapshot,
)
provide_snapshots(
    (f"{PYTHON}MapDataSerializer$BaseMapSerializerSnapshot", f"{PYTHON}BaseMapSerializer$BaseMapSerializerSnapshot"),
    PythonMapDataSerializerSnapshot,
)
register_simple(ByteArrayWrapperSerializer())
