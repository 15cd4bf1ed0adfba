"""Values of Flink SQL's types in Python, and their conversion from and to the values of columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import pyarrow as pa

from state_processor.serializers.big_numbers import EXACT
from state_processor.serializers.core.temporal import present_time
from state_processor.serializers.core.time_values import (
    MILLIS_OF_DAY,
    Instant,
    LocalTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.columns import Column
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.table.logical_types import DecimalType, LogicalType, TimestampType
from state_processor.serializers.text_grammar import shown, to_number
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, UndecodableValueError


class OfSqlType:
    """A part of serializers and slots: their name and their columns follow from the type of their values."""

    type: LogicalType

    def __str__(self) -> str:
        return self.type.summary

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the Arrow type of a column."""
        return self.type.arrow_type(options)


class TimestampData(NamedTuple):
    """Milliseconds since 1970-01-01T00:00:00 and nanoseconds of the millisecond (Flink: ``TimestampData``)."""

    millis: int
    nano_of_milli: int = 0

    @property
    def instant(self) -> Instant:
        """The same as seconds and nanoseconds of the second."""
        return Instant.of_millis(self.millis, self.nano_of_milli)


class Variant(NamedTuple):
    """A value of any type, and the dictionary of its field names (Flink: ``BinaryVariant``)."""

    value: bytes
    metadata: bytes


def to_epoch_day(value: Any) -> int:
    """Return the days since 1970, from their number or from a value that ``to_local_date`` accepts."""
    return value if isinstance(value, int) else to_local_date(value).epoch_day


def to_millis_of_day(value: Any) -> int:
    """Return the milliseconds of the day, from their number or from a value that ``to_local_time`` accepts."""
    millis, rest = (value, 0) if isinstance(value, int) else divmod(to_local_time(value).nano_of_day, 1_000_000)
    if rest or not 0 <= millis < MILLIS_OF_DAY:
        raise InvalidRowError(f"{value} is not a time of day in milliseconds")
    return millis


def time_text(millis: int) -> str:
    """Return the milliseconds of the day as ``LocalTime`` prints them."""
    if not 0 <= millis < MILLIS_OF_DAY:
        raise CorruptSnapshotError(f"{millis} milliseconds: {outcomes.decoding_problem(outcomes.BAD_TIME)}")
    return str(LocalTime.of_second(*Instant.of_millis(millis)))


def decode_text(data: bytes) -> str:
    """Return UTF-8 as text. Invalid bytes become lone surrogates, so that they can be written again."""
    return data.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Invert :func:`decode_text`; other lone surrogates become ``?``, as in Java."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


def present_text(text: str) -> str:
    """Return text for a column, with U+FFFD for invalid UTF-8."""
    return text if text.isascii() else encode_text(text).decode("utf-8", "replace")


def to_bytes(value: Any) -> bytes:
    """Return bytes; text is decoded as the hexadecimal digits of JSON."""
    return bytes.fromhex(value) if isinstance(value, str) else bytes(memoryview(value))


def to_variant(value: Any) -> Variant:
    """Return a variant from its two parts, in a mapping or in order."""
    content, metadata = (value["value"], value["metadata"]) if isinstance(value, Mapping) else value
    return Variant(to_bytes(content), to_bytes(metadata))


def decimal_limit(precision: int) -> tuple[int, int]:
    """Return ten to the precision for the kernel's instructions: the high and the low half of 128 bits, each signed."""
    high, low = divmod(10**precision, 1 << 64)
    return high, low - (low >> 63 << 64)


def to_unscaled(value: Any, type_: DecimalType) -> int:
    """Return the unscaled number of a value."""
    with localcontext(EXACT):
        scaled = to_number(value).scaleb(type_.scale)
        if not scaled.is_finite() or scaled != scaled.to_integral_value() or abs(scaled) >= 10**type_.precision:
            raise InvalidRowError(f"{shown(value)} is not a value of type {type_.summary}")
        return int(scaled)


def present_decimal(value: Decimal, type_: DecimalType) -> Decimal:
    """Check that a decimal fits a column of its type; decimals of older rows may not."""
    if value.copy_abs() >= 10 ** (type_.precision - type_.scale):  # abs() would round it to 28 digits
        raise UndecodableValueError(f"{value} is out of the range of {type_.summary}")
    return value


def emit_timestamp(
    builder: DecodeBuilder, type_: TimestampType, column: Column, op: Op, textual: Op, **operands: tuple[int, int, int]
) -> None:
    """Emit one of two instructions that read a timestamp, as microseconds or as text."""
    compact = int(type_.is_compact)
    if builder.options.as_text:
        builder.op(textual, column, compact=compact, zone=int(type_.local_zoned), **operands)
    else:
        builder.op(op, column, compact=compact, mode=builder.options.time_mode, **operands)


def checked_timestamp(millis: int, nano: int) -> TimestampData:
    """Return a timestamp after a check that its nanoseconds are less than a millisecond."""
    if not 0 <= nano < 1_000_000:
        raise CorruptSnapshotError(f"{nano} nanoseconds of a millisecond: {outcomes.decoding_problem(outcomes.BAD_TIME)}")
    return TimestampData(millis, nano)


def to_timestamp(value: Any, type_: TimestampType) -> TimestampData:
    """Return a timestamp from milliseconds and nanoseconds, a ``datetime``, or ISO text; without a zone, UTC is assumed."""
    if isinstance(value, str | datetime):
        zoned = value.endswith("Z") if isinstance(value, str) else value.tzinfo is not None
        seconds, nano = to_instant(value) if zoned else to_local_date_time(value).in_utc
        value = TimestampData(seconds * 1000 + nano // 1_000_000, nano % 1_000_000)
    millis, nano = value
    if type_.is_compact and nano:
        raise InvalidRowError(f"{nano} nanoseconds after milliseconds are not a value of type {type_.summary}")
    return TimestampData(millis, nano)


def present_timestamp(value: TimestampData, type_: TimestampType, options: DecodeOptions) -> datetime | str:
    """Return a timestamp as a column has it."""
    instant = value.instant
    if not options.as_text:
        return present_time(*instant, options, UTC if type_.local_zoned else None)
    return str(instant if type_.local_zoned else instant.utc)
