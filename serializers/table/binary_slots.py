"""Slots: the layout of Flink SQL's values in binary rows and arrays.

Numbers are little-endian. Longer values follow all slots; their slot holds offset and size.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.big_numbers import to_decimal, to_java_bytes
from state_processor.serializers.core.basic import number_layout
from state_processor.serializers.core.temporal import present_date
from state_processor.serializers.core.time_values import LocalDate
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.kernel.outcomes import OUT_OF_BOUNDS, decoding_problem
from state_processor.serializers.table.binary_values import (
    OfSqlType,
    TimestampData,
    Variant,
    checked_timestamp,
    decimal_limit,
    decode_text,
    emit_timestamp,
    encode_text,
    present_decimal,
    present_text,
    present_timestamp,
    time_text,
    to_bytes,
    to_epoch_day,
    to_millis_of_day,
    to_timestamp,
    to_unscaled,
    to_variant,
)
from state_processor.serializers.table.logical_types import BytesType, DecimalType, LogicalType, TimestampType
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError

if TYPE_CHECKING:
    from state_processor.serializers.base import TypeSerializer
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

INT: Final = struct.Struct("<i")
LONG: Final = struct.Struct("<q")
HEADER_BITS: Final = 8
"""Bits of the kind of a row, before its null bits."""
_INLINE: Final = 7


class SlotAddress(NamedTuple):
    """The address of a slot for the kernel: registers of its region and of its position, and an offset to the position."""

    region: int
    register: int
    offset: int = 0


class BinaryWriter:
    """A row or an array that is being written: its slots, followed by values that do not fit in a slot."""

    def __init__(self, fixed_size: int) -> None:
        self.data = bytearray(rounded(fixed_size))

    def put(self, layout: struct.Struct, at: int, value: Any) -> None:
        """Put a number in a slot."""
        layout.pack_into(self.data, at, value)

    def append(self, at: int, value: bytes) -> None:
        """Append bytes, and put their offset and size in the slot."""
        self.put(LONG, at, len(self.data) << 32 | len(value))
        self.data += value + bytes(rounded(len(value)) - len(value))

    def append_or_inline(self, at: int, value: bytes) -> None:
        """Append bytes; up to seven are stored in the slot itself."""
        if len(value) > _INLINE:
            self.append(at, value)
        else:
            self.data[at : at + 8] = value.ljust(_INLINE, b"\0") + bytes([0x80 | len(value)])


def rounded(size: int) -> int:
    """Round a size up to a multiple of eight."""
    return (size + 7) // 8 * 8


def null_bytes(arity: int) -> int:
    """Return the size of a row's kind and null bits together."""
    return (arity + 63 + HEADER_BITS) // 64 * 8


class Slot(OfSqlType, ABC):
    """Layout of a type's values in rows and arrays.

    ``width`` is the size of an array's element; every slot of a row has eight bytes.
    """

    width: int = 8
    reserved: int = 0
    """Bytes after the slots that some writers reserve for a null value."""

    def __init__(self, type_: LogicalType) -> None:
        self.type = type_

    @abstractmethod
    def get(self, data: bytes, at: int) -> Any:
        """Return the value with the slot at ``at`` in a row or array."""

    @abstractmethod
    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        """Write a value of :meth:`get` or :meth:`to_column`."""

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        """Return a value as a column has it."""
        return value

    @abstractmethod
    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        """Append the instructions that read the value. A discarded column needs none, since slots are not read in sequence."""

    @abstractmethod
    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        """Append the instructions that write a value that is not null."""


class NumberSlot(Slot):
    """A number or boolean of a Java type (``INT``), in the first bytes of its slot."""

    def __init__(self, type_: LogicalType, number: str) -> None:
        super().__init__(type_)
        self._layout = number_layout(number, "<")
        self.width = self._layout.size
        self._is_float = number in ("FLOAT", "DOUBLE")

    def get(self, data: bytes, at: int) -> Any:
        return self._layout.unpack_from(data, at)[0]

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.put(self._layout, at, float(value) if isinstance(value, str) and self._is_float else value)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            builder.op(Op.SLOT_INT, column, place=place, width=self.width)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        builder.op(Op.SLOT_INT, column, place=place, width=self.width)


class NullSlot(Slot):
    """The type that contains only null."""

    def get(self, data: bytes, at: int) -> None:
        return None

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        raise InvalidRowError("a value of type NULL can only be null")

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        """Append nothing: all values are null."""


class _CountSlot(Slot):
    """An int that counts days, or milliseconds."""

    width = 4

    def get(self, data: bytes, at: int) -> int:
        return int(INT.unpack_from(data, at)[0])


class DateSlot(_CountSlot):
    """Days since 1970."""

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.put(INT, at, to_epoch_day(value))

    def to_column(self, value: int, options: DecodeOptions) -> date | str:
        return present_date(LocalDate.of_epoch_day(value), options)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            builder.op(Op.SLOT_DATE_TEXT if builder.options.as_text else Op.SLOT_DATE, column, place=place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        builder.op(Op.SLOT_DATE, column, place=place, text=int(pa.types.is_string(column.type)))


class TimeSlot(_CountSlot):
    """Milliseconds of the day."""

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.put(INT, at, to_millis_of_day(value))

    def to_column(self, value: int, options: DecodeOptions) -> str:
        return time_text(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            builder.op(Op.SLOT_TIME, column, place=place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        builder.op(Op.SLOT_TIME, column, place=place, text=1)


def pointed(data: bytes, at: int) -> bytes:
    """Return the bytes that a slot points to."""
    size, offset = struct.unpack_from("<ii", data, at)
    if size < 0 or offset < 0 or offset + size > len(data):
        raise CorruptSnapshotError(f"bytes {offset} to {offset + size} of {len(data)}: {decoding_problem(OUT_OF_BOUNDS)}")
    return data[offset : offset + size]


def pointed_or_inline(data: bytes, at: int) -> bytes:
    """Return the bytes in a slot, or the bytes that the slot points to."""
    mark = data[at + _INLINE]
    if not mark & 0x80:
        return pointed(data, at)
    if mark & 0x7F > _INLINE:
        raise CorruptSnapshotError(f"{mark & 0x7F} bytes in a slot of eight: {decoding_problem(OUT_OF_BOUNDS)}")
    return data[at : at + (mark & 0x7F)]


class TextSlot(Slot):
    """Text in UTF-8. Invalid UTF-8 is written again unchanged; columns show U+FFFD for it, as Java does."""

    def get(self, data: bytes, at: int) -> str:
        return decode_text(pointed_or_inline(data, at))

    def put(self, writer: BinaryWriter, at: int, value: str) -> None:
        writer.append_or_inline(at, encode_text(value))

    def to_column(self, value: str, options: DecodeOptions) -> str:
        return present_text(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            builder.op(Op.SLOT_TEXT, column, place=place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        builder.op(Op.SLOT_BYTES, column, place=place, inline=1)


class BytesSlot(Slot):
    """Bytes. A binary type may store them in the slot; other types (``RAW``, ``BITMAP``) never do."""

    def __init__(self, type_: LogicalType) -> None:
        super().__init__(type_)
        self._inline = isinstance(type_, BytesType)

    def get(self, data: bytes, at: int) -> bytes:
        return pointed_or_inline(data, at) if self._inline else pointed(data, at)

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        (writer.append_or_inline if self._inline else writer.append)(at, to_bytes(value))

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            builder.op(Op.SLOT_BYTES, column, place=place, inline=int(self._inline))

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        builder.op(Op.SLOT_BYTES, column, place=place, inline=int(self._inline))


class SerializedSlot(Slot):
    """Bytes that a serializer reads and writes; the slot points to them."""

    def __init__(self, type_: LogicalType, serializer: TypeSerializer) -> None:
        super().__init__(type_)
        self._serializer = serializer

    def get(self, data: bytes, at: int) -> Any:
        return self._serializer.deserialize(pointed(data, at))

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.append(at, self._serializer.serialize(self._serializer.from_column(value)))

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return self._serializer.to_column(value, options)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            region = builder.registers(2)
            builder.op(Op.SUBREGION, column, place=place, inner=region, min_size=self._serializer.min_size)
            with builder.inside(region):
                self._serializer.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        region = builder.register()
        builder.op(Op.OPEN, region=region, size=0)
        self._serializer.emit_encode(builder, column)
        builder.op(Op.CLOSE, region=region, slot=(place.register, place.offset), outer=place.region)


class VariantSlot(Slot):
    """A variant: the size of its dictionary (big-endian, unlike all other numbers), the dictionary, the value."""

    def get(self, data: bytes, at: int) -> Variant:
        content = pointed(data, at)
        size = int.from_bytes(content[:4], "big", signed=True)
        if len(content) < 4 or not 0 <= size <= len(content) - 4:
            raise CorruptSnapshotError(f"a variant of {len(content)} bytes announces a dictionary of {size}")
        return Variant(content[4 + size :], content[4 : 4 + size])

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        content, metadata = to_variant(value)
        writer.append(at, len(metadata).to_bytes(4, "big") + metadata + content)

    def to_column(self, value: Variant, options: DecodeOptions) -> dict[str, bytes]:
        return value._asdict()

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            builder.op(Op.VALID, column)
            builder.op(Op.SLOT_VARIANT, column.child(0), place=place, dictionary=column.child(1))

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        value, dictionary = map(column.named, Variant._fields)
        builder.op(Op.SLOT_VARIANT, column, place=place, value=value, dictionary=dictionary)


class DecimalSlot(Slot):
    """A decimal: its unscaled number in the slot up to 18 digits, else as big-endian bytes in an area of 16."""

    type: DecimalType

    def __init__(self, type_: DecimalType) -> None:
        super().__init__(type_)
        self.reserved = 0 if type_.is_compact else 16

    def get(self, data: bytes, at: int) -> Decimal:
        if self.type.is_compact:
            return to_decimal(LONG.unpack_from(data, at)[0], self.type.scale)
        return to_decimal(int.from_bytes(pointed(data, at), "big", signed=True), self.type.scale)

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        unscaled = to_unscaled(value, self.type)
        if self.type.is_compact:
            writer.put(LONG, at, unscaled)
        else:
            content = to_java_bytes(unscaled)
            writer.append(at, content.ljust(16, b"\0"))
            writer.put(INT, at, len(content))

    def to_column(self, value: Decimal, options: DecodeOptions) -> Decimal:
        return present_decimal(value, self.type)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            self._emit_decimal(builder, column, place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        self._emit_decimal(builder, column, place)

    def _emit_decimal(self, builder: DecodeBuilder | EncodeBuilder, column: Column, place: SlotAddress) -> None:
        compact, limit = int(self.type.is_compact), decimal_limit(self.type.precision)
        builder.op(Op.SLOT_DECIMAL, column, place=place, compact=compact, limit=limit)


class TimestampSlot(Slot):
    """A timestamp: milliseconds in the slot up to precision 3, else in an area of eight bytes, and nanoseconds in the slot."""

    type: TimestampType

    def __init__(self, type_: TimestampType) -> None:
        super().__init__(type_)
        self.reserved = 0 if type_.is_compact else 8

    def get(self, data: bytes, at: int) -> TimestampData:
        if self.type.is_compact:
            return TimestampData(LONG.unpack_from(data, at)[0])
        nano, offset = struct.unpack_from("<ii", data, at)
        if not 0 <= offset <= len(data) - 8:
            raise CorruptSnapshotError(f"byte {offset} of {len(data)}: {decoding_problem(OUT_OF_BOUNDS)}")
        return checked_timestamp(LONG.unpack_from(data, offset)[0], nano)

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        millis, nano = to_timestamp(value, self.type)
        if self.type.is_compact:
            writer.put(LONG, at, millis)
        else:
            writer.append(at, LONG.pack(millis))
            writer.put(INT, at, nano)

    def to_column(self, value: TimestampData, options: DecodeOptions) -> datetime | str:
        return present_timestamp(value, self.type, options)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            emit_timestamp(builder, self.type, column, Op.SLOT_TIMESTAMP, Op.SLOT_TIMESTAMP_TEXT, place=place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        is_text = int(pa.types.is_string(column.type))
        builder.op(Op.SLOT_TIMESTAMP, column, place=place, compact=int(self.type.is_compact), text=is_text)
