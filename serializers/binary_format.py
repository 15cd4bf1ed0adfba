"""Flink's binary rows, arrays and maps: the form that SQL keeps its state in (Flink: ``org.apache.flink.table.data.binary``).

Each logical type has a *slot*, which knows how a value of the type lies in a row or an array: how it is read, written, and
read by the kernel. Numbers are little-endian; longer values lie behind all slots, and their slot holds where.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers import hashing
from state_processor.serializers.composite import ROW_KIND_FIELD, ROW_KINDS
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from state_processor.serializers.kernel import encode_ops, ops
from state_processor.serializers.logical_types import (
    ArrayType,
    AtomicType,
    BytesType,
    DateType,
    DecimalType,
    IntervalType,
    LogicalType,
    MapType,
    RawType,
    RowType,
    StructuredType,
    TextType,
    TimestampType,
    TimeType,
    without_name_and_alias,
)
from state_processor.serializers.options import DecodeOptions
from state_processor.serializers.temporal import (
    Instant,
    LocalDate,
    LocalDateTime,
    LocalTime,
    present_date,
    present_time,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.encode_program import EncodeBuilder
    from state_processor.serializers.kernel.program import DecodeBuilder

_INT: Final = struct.Struct("<i")
_UINT: Final = struct.Struct("<I")
_LONG: Final = struct.Struct("<q")
_HEADER_BITS: Final = 8
_INLINE: Final = 7
_DAY_MS: Final = 86_400_000


class TimestampData(NamedTuple):
    """Milliseconds since 1970-01-01T00:00:00 and nanoseconds of the millisecond (Flink: ``TimestampData``)."""

    millis: int
    nano_of_milli: int = 0

    @property
    def instant(self) -> Instant:
        """The same as seconds and nanoseconds of the second."""
        return Instant(self.millis // 1000, self.millis % 1000 * 1_000_000 + self.nano_of_milli)


class Variant(NamedTuple):
    """A value of any type, and the dictionary of its field names (Flink: ``BinaryVariant``)."""

    value: bytes
    metadata: bytes


# Values that are kept as their bytes


@dataclass(frozen=True, slots=True, eq=False)
class BinaryValue:
    """A row, an array or a map as its bytes, together with what they mean. Equal are those of equal bytes."""

    data: bytes
    slot: ContainerSlot

    def content(self) -> Any:
        """The Python form: a tuple of fields, a list of elements, or a list of pairs."""
        return self.slot.content(self.data)

    @property
    def row_kind(self) -> str:
        """A row's kind: one of ``+I``, ``-U``, ``+U`` and ``-D``."""
        return _row_kind(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryValue) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"<{self.slot.type} {self.content()!r}>"


def _row_kind(data: bytes) -> str:
    if data[0] >= len(ROW_KINDS):
        raise CorruptSnapshotError(f"{data[0]} is no kind of row")
    return ROW_KINDS[data[0]]


# Murmur hashes (Flink: ``MurmurHashUtils``)

_SEED: Final = 42


def _mix(hash_: int, word: int) -> int:
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    word = (word << 15 | word >> 17) & 0xFFFFFFFF
    hash_ ^= word * 0x1B873593 & 0xFFFFFFFF
    hash_ = (hash_ << 13 | hash_ >> 19) & 0xFFFFFFFF
    return hash_ * 5 + 0xE6546B64 & 0xFFFFFFFF


def _finish(hash_: int, size: int) -> int:
    hash_ ^= size
    hash_ ^= hash_ >> 16
    hash_ = hash_ * 0x85EBCA6B & 0xFFFFFFFF
    hash_ ^= hash_ >> 13
    hash_ = hash_ * 0xC2B2AE35 & 0xFFFFFFFF
    return hashing.wrap(hash_ ^ hash_ >> 16)


def hash_words(data: bytes) -> int:
    """``hashCode`` of a binary row, array or map: over its words of four bytes."""
    hash_ = _SEED
    for (word,) in _UINT.iter_unpack(data):
        hash_ = _mix(hash_, word)
    return _finish(hash_, len(data))


def hash_bytes(data: bytes) -> int:
    """``hashCode`` of ``StringData``: over words, then over each byte left, as a signed number."""
    whole = len(data) // 4 * 4
    hash_ = _SEED
    for (word,) in _UINT.iter_unpack(data[:whole]):
        hash_ = _mix(hash_, word)
    for byte in data[whole:]:
        hash_ = _mix(hash_, byte if byte < 0x80 else byte | 0xFFFFFF00)
    return _finish(hash_, len(data))


# Slots


class Place(NamedTuple):
    """Where the kernel finds a slot: the registers of the region around it and of its position, and an offset to that."""

    region: int
    register: int
    offset: int = 0


class BinaryWriter:
    """A row or an array that is being written: its slots, and behind them what does not fit in one."""

    def __init__(self, fixed_size: int) -> None:
        self.data = bytearray(_rounded(fixed_size))

    def put(self, layout: struct.Struct, at: int, value: Any) -> None:
        """Put a number in a slot."""
        layout.pack_into(self.data, at, value)

    def append(self, at: int, value: bytes) -> None:
        """Put bytes behind everything, and in the slot where they are and how many."""
        self.put(_LONG, at, len(self.data) << 32 | len(value))
        self.data += value + bytes(_rounded(len(value)) - len(value))

    def append_or_inline(self, at: int, value: bytes) -> None:
        """The same, but up to seven bytes go in the slot itself."""
        if len(value) > _INLINE:
            self.append(at, value)
        else:
            self.data[at : at + 8] = value.ljust(_INLINE, b"\0") + bytes([0x80 | len(value)])


def _rounded(size: int) -> int:
    return (size + 7) // 8 * 8


class Slot(ABC):
    """How values of a type lie in rows and arrays.

    ``width`` is the number of bytes of an array's element; in rows all slots have eight.
    """

    width: int = 8
    reserved: int = 0
    """Bytes behind the slots that some writers keep for a value that is null."""

    def __init__(self, type_: LogicalType) -> None:
        self.type = type_

    @abstractmethod
    def get(self, data: bytes, at: int) -> Any:
        """The value whose slot is at ``at`` in a row or array."""

    @abstractmethod
    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        """The inverse of :meth:`get`; takes what :meth:`present` gives, too."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """The Arrow type of a column."""
        return self.type.arrow_type(options)

    def present(self, value: Any, options: DecodeOptions) -> Any:
        """A value as the column shows it."""
        return value

    @abstractmethod
    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        """Instructions that read the value; none where the column is discarded, since nothing has to be stepped over."""

    @abstractmethod
    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        """Instructions that write a value that is not null."""


@dataclass(frozen=True, slots=True)
class _Number:
    layout: struct.Struct
    width: int


_NUMBERS: Final = {
    "BOOLEAN": _Number(struct.Struct("<?"), 1),
    "TINYINT": _Number(struct.Struct("<b"), 1),
    "SMALLINT": _Number(struct.Struct("<h"), 2),
    "INT": _Number(_INT, 4),
    "BIGINT": _Number(_LONG, 8),
    "FLOAT": _Number(struct.Struct("<f"), 4),
    "DOUBLE": _Number(struct.Struct("<d"), 8),
}


class NumberSlot(Slot):
    """A number or boolean, in the first bytes of its slot."""

    def __init__(self, type_: LogicalType, number: str) -> None:
        super().__init__(type_)
        self._layout = _NUMBERS[number].layout
        self.width = _NUMBERS[number].width
        self._is_float = number in ("FLOAT", "DOUBLE")

    def get(self, data: bytes, at: int) -> Any:
        return self._layout.unpack_from(data, at)[0]

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.put(self._layout, at, float(value) if isinstance(value, str) and self._is_float else value)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_INT, column, *place, self.width)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        builder.op(encode_ops.SLOT_INT, column, *place, self.width)


class NullSlot(Slot):
    """The type of nothing but null."""

    def get(self, data: bytes, at: int) -> None:
        return None

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        raise InvalidRowError("a value of type NULL can only be null")

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        """Nothing: there is no such value."""


class DateSlot(Slot):
    """Days since 1970."""

    width = 4

    def get(self, data: bytes, at: int) -> int:
        return int(_INT.unpack_from(data, at)[0])

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.put(_INT, at, to_epoch_day(value))

    def present(self, value: int, options: DecodeOptions) -> date | str:
        return present_date(LocalDate.of_epoch_day(value), options)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_DATE, column, *place, 0, builder.options.time_mode)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        builder.op(encode_ops.SLOT_DATE, column, *place, 0, int(pa.types.is_string(column.type)))


class TimeSlot(Slot):
    """Milliseconds of the day."""

    width = 4

    def get(self, data: bytes, at: int) -> int:
        return int(_INT.unpack_from(data, at)[0])

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.put(_INT, at, to_millis_of_day(value))

    def present(self, value: int, options: DecodeOptions) -> str:
        return time_text(value)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_TIME, column, *place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        builder.op(encode_ops.SLOT_TIME, column, *place, 0, 1)


def to_epoch_day(value: Any) -> int:
    """Days since 1970: a number as it is, or what :func:`~state_processor.serializers.temporal.to_local_date` takes."""
    return value if isinstance(value, int) else to_local_date(value).epoch_day


def to_millis_of_day(value: Any) -> int:
    """Milliseconds of the day: a number as it is, or what :func:`~state_processor.serializers.temporal.to_local_time` takes.

    Raises
    ------
    InvalidRowError
        If it is none of a day, or smaller than milliseconds.
    """
    millis, rest = (value, 0) if isinstance(value, int) else divmod(to_local_time(value).nano_of_day, 1_000_000)
    if rest or not 0 <= millis < _DAY_MS:
        raise InvalidRowError(f"{value} is no time of day in milliseconds")
    return millis


def time_text(millis: int) -> str:
    """Milliseconds of the day as ``LocalTime`` prints them."""
    if not 0 <= millis < _DAY_MS:
        raise CorruptSnapshotError(f"{millis} milliseconds: {ops.MESSAGES[ops.BAD_TIME]}")
    seconds = millis // 1000
    return str(LocalTime(seconds // 3600, seconds // 60 % 60, seconds % 60, millis % 1000 * 1_000_000))


def _pointed(data: bytes, at: int) -> bytes:
    """The bytes that a slot points to."""
    size, offset = struct.unpack_from("<ii", data, at)
    if size < 0 or offset < 0 or offset + size > len(data):
        raise CorruptSnapshotError(f"bytes {offset} to {offset + size} of {len(data)}: {ops.MESSAGES[ops.OUT_OF_BOUNDS]}")
    return data[offset : offset + size]


def _pointed_or_inline(data: bytes, at: int) -> bytes:
    mark = data[at + _INLINE]
    if not mark & 0x80:
        return _pointed(data, at)
    if mark & 0x7F > _INLINE:
        raise CorruptSnapshotError(f"{mark & 0x7F} bytes in a slot of eight: {ops.MESSAGES[ops.OUT_OF_BOUNDS]}")
    return data[at : at + (mark & 0x7F)]


class TextSlot(Slot):
    """Text in UTF-8. Bytes that are none come back as they were; columns show U+FFFD for them, as Java does."""

    def get(self, data: bytes, at: int) -> str:
        return decode_text(_pointed_or_inline(data, at))

    def put(self, writer: BinaryWriter, at: int, value: str) -> None:
        writer.append_or_inline(at, encode_text(value))

    def present(self, value: str, options: DecodeOptions) -> str:
        return present_text(value)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_TEXT, column, *place)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        builder.op(encode_ops.SLOT_BYTES, column, *place, 1)


def decode_text(data: bytes) -> str:
    """UTF-8 as text; each byte that belongs to no character as a lone surrogate, so that it can be written again."""
    return data.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """The inverse of :func:`decode_text`; other lone surrogates become ``?``, as in Java."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


def present_text(text: str) -> str:
    """Text for a column: U+FFFD for what was no UTF-8."""
    return text if text.isascii() else encode_text(text).decode("utf-8", "replace")


class BytesSlot(Slot):
    """Bytes; those of a binary type may lie in the slot, those of other types (``RAW``, ``BITMAP``) never do."""

    def __init__(self, type_: LogicalType) -> None:
        super().__init__(type_)
        self._inline = isinstance(type_, BytesType)

    def get(self, data: bytes, at: int) -> bytes:
        return _pointed_or_inline(data, at) if self._inline else _pointed(data, at)

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        (writer.append_or_inline if self._inline else writer.append)(at, to_bytes(value))

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_BYTES, column, *place, int(self._inline))

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        builder.op(encode_ops.SLOT_BYTES, column, *place, int(self._inline))


def to_bytes(value: Any) -> bytes:
    """Bytes, or the hexadecimal digits of JSON."""
    return bytes.fromhex(value) if isinstance(value, str) else bytes(memoryview(value))


def to_variant(value: Any) -> Variant:
    """A variant from its two parts, in a mapping or in order."""
    content, metadata = (value["value"], value["metadata"]) if isinstance(value, Mapping) else value
    return Variant(to_bytes(content), to_bytes(metadata))


class VariantSlot(Slot):
    """A variant: the size of its dictionary (big-endian, unlike all else), the dictionary, the value."""

    def get(self, data: bytes, at: int) -> Variant:
        content = _pointed(data, at)
        size = int.from_bytes(content[:4], "big", signed=True)
        if len(content) < 4 or not 0 <= size <= len(content) - 4:
            raise CorruptSnapshotError(f"a variant of {len(content)} bytes announces a dictionary of {size}")
        return Variant(content[4 + size :], content[4 : 4 + size])

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        content, metadata = to_variant(value)
        writer.append(at, len(metadata).to_bytes(4, "big") + metadata + content)

    def present(self, value: Variant, options: DecodeOptions) -> dict[str, bytes]:
        return value._asdict()

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.VALID, column)
            builder.op(ops.SLOT_VARIANT, column.child(0), *place, column.child(1).index)

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        parts = (column.named(n).index for n in Variant._fields)
        builder.op(encode_ops.SLOT_VARIANT, column, *place, *parts)


class DecimalSlot(Slot):
    """A decimal: its unscaled number in the slot up to 18 digits, else as big-endian bytes in an area of 16."""

    type: DecimalType

    def __init__(self, type_: DecimalType) -> None:
        super().__init__(type_)
        self.reserved = 0 if type_.is_compact else 16

    def get(self, data: bytes, at: int) -> Decimal:
        if self.type.is_compact:
            return to_decimal(_LONG.unpack_from(data, at)[0], self.type.scale)
        return to_decimal(int.from_bytes(_pointed(data, at), "big", signed=True), self.type.scale)

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        unscaled = to_unscaled(value, self.type)
        if self.type.is_compact:
            writer.put(_LONG, at, unscaled)
        else:
            content = to_java_bytes(unscaled)
            writer.append(at, content.ljust(16, b"\0"))
            writer.put(_INT, at, len(content))

    def present(self, value: Decimal, options: DecodeOptions) -> Decimal:
        return present_decimal(value, self.type)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_DECIMAL, column, *place, *decimal_operands(self.type))

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        builder.op(encode_ops.SLOT_DECIMAL, column, *place, *decimal_operands(self.type))


def decimal_operands(type_: DecimalType) -> tuple[int, int, int]:
    """Operands d, e and f of the kernel's instructions for decimals."""
    high, low = divmod(10**type_.precision, 1 << 64)
    return int(type_.is_compact), high, low - (low >> 63 << 64)


def to_decimal(unscaled: int, scale: int) -> Decimal:
    """``unscaled`` · 10^-``scale``, exactly."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def to_unscaled(value: Any, type_: DecimalType) -> int:
    """The unscaled number of a value.

    Raises
    ------
    InvalidRowError
        If the type can't hold it.
    """
    with localcontext(prec=100):
        scaled = Decimal(value).scaleb(type_.scale)
        if not scaled.is_finite() or scaled != scaled.to_integral_value() or abs(scaled) >= 10**type_.precision:
            raise InvalidRowError(f"{value} is no value of type {type_.summary}")
        return int(scaled)


def present_decimal(value: Decimal, type_: DecimalType) -> Decimal:
    """A decimal for a column of its type, which older rows may not fit."""
    if value.copy_abs() >= 10 ** (type_.precision - type_.scale):  # abs() would round it to 28 digits
        raise UndecodableValueError(f"{value} is out of the range of {type_.summary}")
    return value


def to_java_bytes(number: int) -> bytes:
    """``BigInteger.toByteArray``: the shortest two's complement."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


class TimestampSlot(Slot):
    """A timestamp: milliseconds in the slot up to precision 3, else in an area of eight bytes, and nanoseconds in the slot."""

    type: TimestampType

    def __init__(self, type_: TimestampType) -> None:
        super().__init__(type_)
        self.reserved = 0 if type_.is_compact else 8

    def get(self, data: bytes, at: int) -> TimestampData:
        if self.type.is_compact:
            return TimestampData(_LONG.unpack_from(data, at)[0])
        nano, offset = struct.unpack_from("<ii", data, at)
        if not 0 <= offset <= len(data) - 8:
            raise CorruptSnapshotError(f"byte {offset} of {len(data)}: {ops.MESSAGES[ops.OUT_OF_BOUNDS]}")
        return checked_timestamp(_LONG.unpack_from(data, offset)[0], nano)

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        millis, nano = to_timestamp(value, self.type)
        if self.type.is_compact:
            writer.put(_LONG, at, millis)
        else:
            writer.append(at, _LONG.pack(millis))
            writer.put(_INT, at, nano)

    def present(self, value: TimestampData, options: DecodeOptions) -> datetime | str:
        return present_timestamp(value, self.type, options)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            builder.op(ops.SLOT_TIMESTAMP, column, *place, *timestamp_operands(self.type, builder.options))

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        is_text = int(pa.types.is_string(column.type))
        builder.op(encode_ops.SLOT_TIMESTAMP, column, *place, int(self.type.is_compact), is_text)


def timestamp_operands(type_: TimestampType, options: DecodeOptions) -> tuple[int, int, int]:
    """Operands d, e and f of the kernel's instructions for timestamps."""
    return int(type_.is_compact), options.time_mode, int(type_.local_zoned)


def checked_timestamp(millis: int, nano: int) -> TimestampData:
    """A timestamp as it was read; its nanoseconds must be fewer than a millisecond."""
    if not 0 <= nano < 1_000_000:
        raise CorruptSnapshotError(f"{nano} nanoseconds of a millisecond: {ops.MESSAGES[ops.BAD_TIME]}")
    return TimestampData(millis, nano)


def to_timestamp(value: Any, type_: TimestampType) -> TimestampData:
    """A timestamp from milliseconds and nanoseconds, from a ``datetime``, or from ISO text; UTC is assumed where it has no zone.

    Raises
    ------
    InvalidRowError
        If milliseconds can't hold a value of a type of precision 3 or less.
    """
    if isinstance(value, str | datetime):
        zoned = value.endswith("Z") if isinstance(value, str) else value.tzinfo is not None
        if zoned:
            seconds, nano = to_instant(value)
        else:
            local = to_local_date_time(value)
            second, nano = divmod(local.time.nano_of_day, 1_000_000_000)
            seconds = local.date.epoch_day * 86_400 + second
        value = TimestampData(seconds * 1000 + nano // 1_000_000, nano % 1_000_000)
    millis, nano = value
    if type_.is_compact and nano:
        raise InvalidRowError(f"{nano} nanoseconds beside milliseconds are no value of type {type_.summary}")
    return TimestampData(millis, nano)


def present_timestamp(value: TimestampData, type_: TimestampType, options: DecodeOptions) -> datetime | str:
    """A timestamp as a column shows it."""
    instant = value.instant
    if not options.as_text:
        return present_time(*instant, options, UTC if type_.local_zoned else None)
    if type_.local_zoned:
        return str(instant)
    day, second = divmod(instant.seconds, 86_400)
    clock = LocalTime(second // 3600, second // 60 % 60, second % 60, instant.nano)
    return str(LocalDateTime(LocalDate.of_epoch_day(day), clock))


class ContainerSlot(Slot):
    """A row, array or map: bytes that the slot points to, or that follow their size in a file."""

    registers: int = 2
    encode_registers: int = 1
    smallest: int
    """Least number of bytes."""

    def get(self, data: bytes, at: int) -> BinaryValue:
        return self.wrap(_pointed(data, at))

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.append(at, self.encode(value))

    def wrap(self, data: bytes) -> BinaryValue:
        """The value that bytes are.

        Raises
        ------
        CorruptSnapshotError
            If they are too few.
        """
        if len(data) < self.smallest:
            raise CorruptSnapshotError(f"{len(data)} bytes are too few for {self.type}, which needs {self.smallest}")
        return BinaryValue(data, self)

    @abstractmethod
    def content(self, data: bytes) -> Any:
        """What the bytes hold."""

    @abstractmethod
    def build(self, value: Any) -> bytes:
        """The bytes of a value of :meth:`content` or :meth:`present`."""

    def encode(self, value: Any) -> bytes:
        """The bytes of a value; those of a :class:`BinaryValue` as they are."""
        return value.data if isinstance(value, BinaryValue) else self.build(value)

    def emit(self, builder: DecodeBuilder, column: Column, place: Place) -> None:
        if column.index >= 0:
            region = _registers(builder, self.registers)
            builder.op(ops.SUBREGION, column, *place, region, self.smallest)
            self.emit_content(builder, column, region)

    def emit_framed(self, builder: DecodeBuilder, column: Column) -> None:
        """Instructions that read an int size and that many bytes."""
        region = _registers(builder, self.registers)
        builder.op(ops.REGION, column, region, 0, 0, self.smallest)
        if column.index >= 0:
            self.emit_content(builder, column, region)

    @abstractmethod
    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        """Instructions that read the content of a region into a column that is not discarded."""

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: Place) -> None:
        region = _registers(builder, self.encode_registers)
        self.emit_encode_content(builder, column, region)
        builder.op(encode_ops.CLOSE, None, region, place.register, place.offset, place.region)

    def emit_encode_framed(self, builder: EncodeBuilder, column: Column) -> None:
        """Instructions that write an int size and the bytes."""
        builder.op(encode_ops.REQUIRE, column)
        with builder.frame():
            self.emit_encode_content(builder, column, _registers(builder, self.encode_registers))

    @abstractmethod
    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int) -> None:
        """Instructions that write a region from its begin to its end."""


def _registers(builder: DecodeBuilder | EncodeBuilder, count: int) -> int:
    first, *_ = [builder.register() for _ in range(count)]
    return first


def null_bytes(arity: int) -> int:
    """Size of a row's kind and null bits together."""
    return (arity + 63 + _HEADER_BITS) // 64 * 8


class RowSlot(ContainerSlot):
    """A row: a byte of kind, a null bit for each field, a slot for each field."""

    type: RowType

    def __init__(self, type_: RowType) -> None:
        super().__init__(type_)
        self.fields = tuple(slot_of(t) for t in type_.types)
        self._first = null_bytes(len(self.fields))
        self.smallest = self._first + 8 * len(self.fields)

    def content(self, data: bytes) -> tuple[Any, ...]:
        return tuple(
            None if self._is_null(data, i) else _in_field(n, f.get, data, self._first + 8 * i)
            for i, (n, f) in enumerate(zip(self.type.names, self.fields, strict=True))
        )

    @staticmethod
    def _is_null(data: bytes, field: int) -> bool:
        bit = field + _HEADER_BITS
        return bool(data[bit >> 3] & 1 << (bit & 7))

    def build(self, value: Any, kind: str = ROW_KINDS[0], *, reserve_nulls: bool = False) -> bytes:
        """The bytes of a row.

        Parameters
        ----------
        value
            The fields in order, or a mapping by name.
        kind
            The row's kind; a mapping may name it as ``row_kind``.
        reserve_nulls
            Keep the room that a null decimal or timestamp of high precision would need, as Flink's generated projections do:
            keys of SQL operators are rows of that form, and their hash is over all bytes.
        """
        if isinstance(value, Mapping):
            kind = value.get(ROW_KIND_FIELD, kind)
            value = [value.get(n) for n in self.type.names]
        if len(value) != len(self.fields):
            raise InvalidRowError(f"{len(value)} fields for {self.type}")
        writer = BinaryWriter(self.smallest)
        writer.data[0] = ROW_KINDS.index(kind)
        for i, (name, slot, field) in enumerate(zip(self.type.names, self.fields, value, strict=True)):
            at = self._first + 8 * i
            if field is not None:
                _put_field(name, slot, writer, at, field)
                continue
            bit = i + _HEADER_BITS
            writer.data[bit >> 3] |= 1 << (bit & 7)
            if reserve_nulls and slot.reserved:
                writer.append(at, bytes(slot.reserved))
                writer.put(_INT, at, 0)
        return bytes(writer.data)

    def present(self, value: BinaryValue, options: DecodeOptions) -> dict[str, Any]:
        shown: dict[str, Any] = {ROW_KIND_FIELD: value.row_kind} if options.row_kind else {}
        for name, slot, field in zip(self.type.names, self.fields, value.content(), strict=True):
            shown[name] = None if field is None else _in_field(name, slot.present, field, options)
        return shown

    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        builder.op(ops.VALID, column)
        first = int(builder.options.row_kind)
        if first:
            builder.op(ops.BINARY_KIND, column.child(0), region, builder.constant("".join(ROW_KINDS).encode()))
        for i, (name, slot) in enumerate(zip(self.type.names, self.fields, strict=True)):
            child = column.child(first + i)
            with builder.field(name):
                test = builder.op(ops.BIT_NULL, child, region, *builder.null_range(child), 0, i + _HEADER_BITS)
                slot.emit(builder, child, Place(region, region, self._first + 8 * i))
                builder.patch(test, 3, builder.here)

    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int, *, reserve_nulls: bool = False) -> None:
        """Instructions that write a row; for ``reserve_nulls`` see :meth:`build`."""
        builder.op(encode_ops.OPEN, None, region, self.smallest)
        kind = column.find(ROW_KIND_FIELD)
        if kind is not None:
            builder.op(encode_ops.BINARY_KIND, kind, region, builder.constant("".join(ROW_KINDS).encode()))
        for i, (name, slot) in enumerate(zip(self.type.names, self.fields, strict=True)):
            child, at = column.named(name), self._first + 8 * i
            kept = slot.reserved if reserve_nulls else 0
            with builder.field(name), builder.unless(encode_ops.BIT_NULL, child, region, kept, at, 0, i + _HEADER_BITS):
                slot.emit_encode(builder, child, Place(region, region, at))

    def emit_encode_key(self, builder: EncodeBuilder, column: Column) -> None:
        """Instructions that write an int size and a row that is a key: room is kept for what is null."""
        builder.op(encode_ops.REQUIRE, column)
        with builder.frame():
            self.emit_encode_content(builder, column, _registers(builder, self.encode_registers), reserve_nulls=True)


def _in_field(name: str, action: Callable[[Any, Any], Any], *arguments: Any) -> Any:
    """Run a step, and name the field in its errors."""
    try:
        return action(*arguments)
    except StateProcessorError as e:
        raise type(e)(f"field {name!r}: {e}") from None


def _put_field(name: str, slot: Slot, writer: BinaryWriter, at: int, value: Any) -> None:
    try:
        slot.put(writer, at, value)
    except InvalidRowError as e:
        raise InvalidRowError(f"field {name!r}: {e}") from None
    except (ArithmeticError, AttributeError, TypeError, ValueError, struct.error) as e:
        raise InvalidRowError(f"field {name!r}: {value!r} is no value of type {slot.type}: {e}") from e


class ArraySlot(ContainerSlot):
    """An array: an int count, a null bit for each element, the elements' slots."""

    registers = 5
    encode_registers = 3
    smallest = 4

    def __init__(self, type_: ArrayType) -> None:
        super().__init__(type_)
        self.element = slot_of(type_.element)
        if isinstance(self.element, NullSlot):
            raise UnsupportedFormatError(f"{type_} has no binary form in Flink")

    def content(self, data: bytes) -> list[Any]:
        count = _INT.unpack_from(data)[0]
        first = 4 + (count + 31) // 32 * 4
        if count < 0 or first + count * self.element.width > len(data):
            raise CorruptSnapshotError(f"{count} elements in {len(data)} bytes: {ops.MESSAGES[ops.OUT_OF_BOUNDS]}")
        return [
            None if data[4 + (i >> 3)] & 1 << (i & 7) else self.element.get(data, first + i * self.element.width)
            for i in range(count)
        ]

    def build(self, value: Sequence[Any]) -> bytes:
        first = 4 + (len(value) + 31) // 32 * 4
        writer = BinaryWriter(first + len(value) * self.element.width)
        writer.put(_INT, 0, len(value))
        for i, element in enumerate(value):
            if element is None:
                writer.data[4 + (i >> 3)] |= 1 << (i & 7)
            else:
                _put_field("element", self.element, writer, first + i * self.element.width, element)
        return bytes(writer.data)

    def present(self, value: BinaryValue, options: DecodeOptions) -> list[Any]:
        return self.present_all(value.content(), options)

    def present_all(self, elements: Iterable[Any], options: DecodeOptions) -> list[Any]:
        """Elements as a column shows them."""
        return [None if e is None else self.element.present(e, options) for e in elements]

    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        child = column.child(0)
        head = builder.op(ops.ELEMENTS, column, region, child.index, self.element.width)
        self.emit_element(builder, child, region)
        builder.op(ops.ELEMENTS_NEXT, column, region, child.index, self.element.width, head + 1)
        builder.patch(head, 3, builder.here)

    def emit_element(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        """Instructions that read the element that the array's registers stand at."""
        test = builder.op(ops.ELEMENT_NULL, column, region, *builder.null_range(column))
        self.element.emit(builder, column, Place(region, region + 4))
        builder.patch(test, 3, builder.here)

    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int) -> None:
        self.emit_encode_elements(builder, column, column.child(0), region)

    def emit_encode_elements(self, builder: EncodeBuilder, column: Column, child: Column, region: int) -> None:
        """Instructions that write an array of what ``child`` holds for a list, or one side of a map."""
        width = self.element.width
        with builder.unless(encode_ops.ELEMENTS, column, region, width), builder.field("element"):
            first = builder.here
            with builder.unless(encode_ops.ELEMENT_NULL, child, region):
                self.element.emit_encode(builder, child, Place(region, region + 2))
            builder.op(encode_ops.ELEMENTS_NEXT, column, region, width, 0, first)


class MapSlot(ContainerSlot):
    """A map: the size of the key array as an int, the key array, the value array. Python holds a list of pairs."""

    registers = 2 + 2 * ArraySlot.registers
    encode_registers = 1 + 2 * ArraySlot.encode_registers
    smallest = 12

    def __init__(self, type_: MapType) -> None:
        super().__init__(type_)
        self.keys = ArraySlot(ArrayType(type_.key))
        self.values = ArraySlot(ArrayType(type_.value))

    def content(self, data: bytes) -> list[tuple[Any, Any]]:
        size = _INT.unpack_from(data)[0]
        if not ArraySlot.smallest <= size <= len(data) - 4 - ArraySlot.smallest:
            raise CorruptSnapshotError(f"{size} bytes of keys in a map of {len(data)}: {ops.MESSAGES[ops.OUT_OF_BOUNDS]}")
        keys, values = self.keys.content(data[4 : 4 + size]), self.values.content(data[4 + size :])
        if len(keys) != len(values):
            raise CorruptSnapshotError(f"a map of {len(keys)} keys and {len(values)} values")
        return list(zip(keys, values, strict=True))

    def build(self, value: Any) -> bytes:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        keys = self.keys.build([k for k, _ in pairs])
        return _INT.pack(len(keys)) + keys + self.values.build([v for _, v in pairs])

    def present(self, value: BinaryValue, options: DecodeOptions) -> list[tuple[Any, Any]]:
        pairs = value.content()
        if any(k is None for k, _ in pairs):
            raise UndecodableValueError(f"a value of type {self.type} has a null key, which Spark's map type can't hold")
        keys = self.keys.present_all((k for k, _ in pairs), options)
        return list(zip(keys, self.values.present_all((v for _, v in pairs), options), strict=True))

    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        keys, values = region + 2, region + 2 + ArraySlot.registers
        widths = self.keys.element.width, self.values.element.width
        child = column.child(0)
        head = builder.op(ops.PAIRS, column, region, child.index, widths[0], 0, widths[1])
        self.keys.emit_element(builder, child, keys)
        self.values.emit_element(builder, column.child(1), values)
        builder.op(ops.PAIRS_NEXT, column, region, child.index, widths[0], head + 1, widths[1])
        builder.patch(head, 3, builder.here)

    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int) -> None:
        keys, values = region + 1, region + 1 + ArraySlot.encode_registers
        builder.op(encode_ops.KEYS, None, region)
        self.keys.emit_encode_elements(builder, column, column.child(0), keys)
        builder.op(encode_ops.END_KEYS, None, region)
        self.values.emit_encode_elements(builder, column, column.child(1), values)


def _atomic(type_: AtomicType) -> Slot:
    special: dict[str, Callable[[LogicalType], Slot]] = {"NULL": NullSlot, "VARIANT": VariantSlot, "BITMAP": BytesSlot}
    return special[type_.name](type_) if type_.name in special else NumberSlot(type_, type_.name)


_SLOTS: Final[dict[type, Callable[[Any], Slot]]] = {
    AtomicType: _atomic,
    DateType: DateSlot,
    TimeType: TimeSlot,
    TextType: TextSlot,
    BytesType: BytesSlot,
    RawType: BytesSlot,
    DecimalType: DecimalSlot,
    TimestampType: TimestampSlot,
    IntervalType: lambda t: NumberSlot(t, "INT" if t.in_months else "BIGINT"),
    ArrayType: ArraySlot,
    MapType: MapSlot,
    RowType: RowSlot,
    StructuredType: RowSlot,
}


def slot_of(type_: LogicalType) -> Slot:
    """How values of a type lie in a row or an array."""
    held = without_name_and_alias(type_)
    return _SLOTS[type(held)](held)
