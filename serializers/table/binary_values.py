"""Values of Flink SQL's types in Python, their conversion from and to the values of columns, and limits of the types.

Bytes do not show nullability, lengths and digits of seconds. The bytes of a ``VARCHAR(3)`` are ordinary text; only a
:class:`Limit` enforces the type. Flink counts the length of text in code points, and pads the values of ``CHAR(n)`` and
``BINARY(n)``. The checks never change values; they refuse values that do not fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
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
from state_processor.serializers.table.logical_types import (
    MAX_LENGTH,
    BytesType,
    DecimalType,
    LogicalType,
    TextType,
    TimestampType,
    without_name_and_alias,
)
from state_processor.serializers.text_grammar import message_text, to_number
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, UndecodableValueError
from state_processor.support.late import pc


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
            raise InvalidRowError(f"{message_text(value)} is not a value of type {type_.summary}")
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


# Limits

Mask = npt.NDArray[np.bool_]
_NANOS: Final = 9
_MICROS: Final = 6


@dataclass(frozen=True)
class Limit(ABC):
    """A rule of a type for its values."""

    type: LogicalType

    @property
    @abstractmethod
    def rule(self) -> str:
        """The rule, and the remedy for values that break it."""

    @abstractmethod
    def broken(self, array: pa.Array) -> Mask:
        """Return a mask of the values of a column that break the rule."""

    @abstractmethod
    def is_broken(self, value: Any) -> bool:
        """Return True if a single value breaks the rule."""

    def check(self, value: Any) -> None:
        """Refuse a value that breaks the rule."""
        if self.is_broken(value):
            raise InvalidRowError(f"{value!r} does not fit: {self.rule}")


class NotNull(Limit):
    """The rule of a type that is NOT NULL."""

    @property
    def rule(self) -> str:
        return f"the type is {self.type}"

    def broken(self, array: pa.Array) -> Mask:
        return _mask(pc.is_null(array))

    def is_broken(self, value: Any) -> bool:
        return value is None


class Length(Limit):
    """The exact or the maximum number of code points of text, or of bytes."""

    type: TextType | BytesType

    @property
    def rule(self) -> str:
        unit = "code points" if isinstance(self.type, TextType) else "bytes"
        if not self._is_exact:
            return f"a {self.type.summary} has at most {self.type.length} {unit}"
        pad = " (Flink pads shorter text with spaces: rpad(…, n, ' '))" if isinstance(self.type, TextType) else ""
        return f"a {self.type.summary} has exactly {self.type.length} {unit}{pad}"

    @property
    def _is_exact(self) -> bool:
        return self.type.name in ("CHAR", "BINARY")

    def broken(self, array: pa.Array) -> Mask:
        lengths = pc.utf8_length(array) if pa.types.is_string(array.type) else pc.binary_length(array)
        compare = pc.not_equal if self._is_exact else pc.greater
        return _mask(compare(lengths, self.type.length).fill_null(False))

    def is_broken(self, value: Any) -> bool:
        if value is None:
            return False
        length = len(value if isinstance(self.type, TextType) else to_bytes(value))
        return length != self.type.length if self._is_exact else length > self.type.length


class Fraction(Limit):
    """The number of digits of a fraction of a second.

    Times of day have milliseconds with any precision: before 2.3, Flink keeps the extremes of ``TIME(3)`` as ``TIME(0)``.
    """

    type: TimestampType

    @property
    def rule(self) -> str:
        digits = self.type.precision
        return f"a {self.type.summary} has at most {digits} digits of a fraction of a second; truncate with date_trunc first"

    def broken(self, array: pa.Array) -> Mask:
        digits = self.type.precision
        if pa.types.is_string(array.type):
            return _mask(pc.match_substring_regex(array, rf"\.[0-9]{{{digits}}}[0-9]*[1-9]").fill_null(False))
        if digits >= _MICROS:
            return np.zeros(len(array), dtype=np.bool_)
        micros = np.asarray(array.cast(pa.int64()).fill_null(0), dtype=np.int64)
        return np.asarray(micros % 10 ** (_MICROS - digits) != 0, dtype=np.bool_)

    def is_broken(self, value: Any) -> bool:
        if not isinstance(value, str | datetime):  # internal form
            return False
        millis, nano = to_timestamp(value, TimestampType(_NANOS))
        nanos = millis * 1_000_000 + nano
        return bool(nanos % 10 ** (_NANOS - self.type.precision))


def limits_of(type_: LogicalType) -> tuple[Limit, ...]:
    """Return the limits of a type's values; types of fields and elements have limits of their own.

    A processing time attribute is ``NOT NULL`` and always null in state: Flink reads the clock when the attribute is read.
    """
    held = without_name_and_alias(type_)
    is_processing_time = isinstance(held, TimestampType) and held.kind == "PROCTIME"
    limits: list[Limit] = [] if type_.nullable or is_processing_time else [NotNull(type_)]
    if isinstance(held, TextType | BytesType) and (held.length < MAX_LENGTH or held.name in ("CHAR", "BINARY")):
        limits.append(Length(held))
    elif isinstance(held, TimestampType) and held.precision < _NANOS:
        limits.append(Fraction(held))
    return tuple(limits)


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
