"""Serializers of single values that PyFlink exchanges with Python (Flink: ``…typeutils.serializers.python``)."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, register_simple
from state_processor.serializers.big_numbers import to_decimal
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.table.binary_values import OfSqlType, decode_text, encode_text, present_decimal, to_unscaled
from state_processor.serializers.table.logical_types import DecimalType
from state_processor.serializers.table.single_values import (
    DateDataSerializer,
    NumbersSnapshot,
    StringDataSerializer,
    TimeDataSerializer,
    TimestampDataSerializer,
)

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


class PythonDecimalSerializer(OfSqlType, TypeSerializer):
    """A decimal as its text (Flink: ``DecimalDataSerializer`` of the Python package)."""

    type: DecimalType
    min_size = 5

    def __init__(self, precision: int, scale: int, snapshot_class: str = DECIMAL_SNAPSHOT) -> None:
        self.type = DecimalType(precision, scale)
        self._snapshot_class = snapshot_class

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


register_simple(StringDataSerializer(f"{PYTHON}StringSerializer$StringSerializerSnapshot"))
register_simple(PythonBigDecimalSerializer())
register_simple(PythonDateSerializer())
register_simple(PythonTimeSerializer())
provide_snapshots((DECIMAL_SNAPSHOT, f"{PYTHON}DecimalSerializer$DecimalSerializerSnapshot"), PythonDecimalSerializerSnapshot)
provide_snapshots((TIMESTAMP_SNAPSHOT,), PythonTimestampSerializerSnapshot)
register_simple(ByteArrayWrapperSerializer())
