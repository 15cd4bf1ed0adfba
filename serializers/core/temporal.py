"""Serializers of dates and times of ``java.time``, and code that they share with the serializers of ``java.sql``."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer
from state_processor.serializers.core.scalar_type import PythonCoder, ScalarType, register_scalars
from state_processor.serializers.core.time_values import (
    EPOCH,
    NANOS_OF_SECOND,
    Instant,
    LocalDate,
    LocalDateTime,
    LocalTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import BASE
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.opcodes import Op
from state_processor.support.errors import UndecodableValueError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

NULL_LONG: Final = -(1 << 63)
_NULL_INT: Final = -(1 << 31)
_NULL_BYTE: Final = -(1 << 7)
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
_UTC_TYPE: Final = pa.timestamp("us", tz="UTC")
_LOCAL_TYPE: Final = pa.timestamp("us")


def present_time(seconds: int, nano: int, options: DecodeOptions, zone: tzinfo | None) -> datetime:
    """Return a point in time for a timestamp column."""
    if options.nanos in ("error", "check") and nano % 1000:
        raise UndecodableValueError(f"{Instant(seconds, nano)}: {outcomes.decoding_problem(outcomes.LOST_NANOS)}")
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise UndecodableValueError(f"{Instant(seconds, nano)}: {outcomes.decoding_problem(outcomes.OUT_OF_RANGE)}")
    return (EPOCH + timedelta(seconds=seconds, microseconds=nano // 1000)).replace(tzinfo=zone)


def present_date(value: LocalDate, options: DecodeOptions) -> date | str:
    """Return a day for a date column, or its text."""
    if options.as_text:
        return str(value)
    if not (1 <= value.year <= 9999 and value.is_valid):
        raise UndecodableValueError(f"{value}: {outcomes.decoding_problem(outcomes.OUT_OF_RANGE)}")
    return date(*value)


def present_instant(value: Instant, options: DecodeOptions) -> datetime | str:
    """Return an instant for a timestamp column, or its text."""
    return str(value) if options.as_text else present_time(*value, options, UTC)


def instant_type(options: DecodeOptions) -> pa.DataType:
    """Return the type of a column of instants."""
    return pa.string() if options.as_text else _UTC_TYPE


def date_type(options: DecodeOptions) -> pa.DataType:
    """Return the type of a column of days."""
    return pa.string() if options.as_text else pa.date32()


def snapshot_class(java_name: str) -> str:
    """Return the snapshot class of a serializer in Flink's ``typeutils.base``."""
    return f"{BASE}{java_name}Serializer${java_name}SerializerSnapshot"


class TemporalSerializer(SimpleSerializer):
    """Base of all dates and times: a fixed number of bytes, and one kernel instruction."""

    name: str
    operation: Op
    """The kernel instruction that reads and writes a value."""

    def __str__(self) -> str:
        return self.name

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return None if value is None else self._shown(value, options)

    def _shown(self, value: Any, options: DecodeOptions) -> Any:
        """Return a value that is not null for a column."""
        return str(value)

    def from_column(self, value: Any) -> Any:
        return None if value is None else self._parsed(value)

    @abstractmethod
    def _parsed(self, value: Any) -> Any:
        """Return the value of a column's value that is not null."""

    def hash_code(self, value: Any) -> int:
        return 0 if value is None else super().hash_code(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.time(self.operation, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.time(self.operation, column)


class PackedSerializer(TemporalSerializer):
    """A value of a few numbers, one after the other.

    Subclasses set :attr:`value_class`, the named tuple of the numbers, and their :attr:`layout`.
    """

    value_class: Callable[..., Any]
    layout: struct.Struct
    null: tuple[int, ...]
    """The numbers that are written for null."""
    null_shown_by: int = 1
    """How many of them show, first ones first, that a value is null."""
    expected: str
    """What a value has to be, and the numbers that were found, for errors."""

    def read(self, source: DataInput) -> Any:
        start = source.position
        value = self.value_class(*self.layout.unpack(source.read_bytes(self.length, self.name)))
        if value[: self.null_shown_by] == self.null[: self.null_shown_by]:
            return None
        if not value.is_valid:
            raise source.corrupt(f"expected {self.expected.format(*value)}", start)
        return value

    def write(self, value: tuple[int, ...] | None, target: DataOutput) -> None:
        target.write_bytes(self.layout.pack(*(self.null if value is None else value)))


class InstantSerializer(PackedSerializer):
    """``java.time.Instant``: seconds as a long, nanoseconds as an int; both are minimal for null."""

    snapshot_class = snapshot_class("Instant")
    length = min_size = 12
    name = "INSTANT"
    operation = Op.INSTANT
    value_class = Instant
    layout = struct.Struct(">qi")
    null = (NULL_LONG, _NULL_INT)
    null_shown_by = 2
    expected = "an instant, found {} seconds and {} nanoseconds"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return options.column_type(instant_type(options), can_have_nanos=not options.as_text)

    def _shown(self, value: Instant, options: DecodeOptions) -> datetime | str:
        return present_instant(value, options)

    def _parsed(self, value: Any) -> Instant:
        return to_instant(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        return (fold_long(signed(values, 0, 8)).astype(np.int64) + 51 * signed(values, 8, 12)).astype(np.int32)


class LocalDateSerializer(PackedSerializer):
    """``java.time.LocalDate``: year as an int, its minimum for null, month and day as bytes."""

    snapshot_class = snapshot_class("LocalDate")
    length = min_size = 6
    name = "LOCAL_DATE"
    operation = Op.LOCAL_DATE
    value_class = LocalDate
    layout = struct.Struct(">ibb")
    null = (_NULL_INT, _NULL_BYTE, 0)
    expected = "a date, found year {}, month {}, day {}"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return date_type(options)

    def _shown(self, value: LocalDate, options: DecodeOptions) -> date | str:
        return present_date(value, options)

    def _parsed(self, value: Any) -> LocalDate:
        return to_local_date(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        year, month, day = signed(values, 0, 4), signed(values, 4, 5), signed(values, 5, 6)
        return ((year & 0xFFFFF800) ^ ((year << 11) + (month << 6) + day)).astype(np.int32)


class LocalTimeSerializer(PackedSerializer):
    """``java.time.LocalTime``: hour, minute and second as bytes, nanoseconds as an int; the hour is minimal for null."""

    snapshot_class = snapshot_class("LocalTime")
    length = min_size = 7
    name = "LOCAL_TIME"
    operation = Op.LOCAL_TIME
    value_class = LocalTime
    layout = struct.Struct(">bbbi")
    null = (_NULL_BYTE, _NULL_BYTE, 0, _NULL_INT)
    expected = "a time of day, found hour {}, minute {}, second {}, nano {}"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def _parsed(self, value: Any) -> LocalTime:
        return to_local_time(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        hour, minute, second, nano = signed(values, 0, 1), signed(values, 1, 2), signed(values, 2, 3), signed(values, 3, 7)
        return fold_long((hour * 3600 + minute * 60 + second) * NANOS_OF_SECOND + nano)


class LocalDateTimeSerializer(TemporalSerializer):
    """``java.time.LocalDateTime``: a local date and a local time, both null for null."""

    snapshot_class = snapshot_class("LocalDateTime")
    length = min_size = 13
    name = "LOCAL_DATE_TIME"
    operation = Op.LOCAL_DATE_TIME
    _date = LocalDateSerializer()
    _time = LocalTimeSerializer()

    def read(self, source: DataInput) -> LocalDateTime | None:
        start = source.position
        day, time = self._date.read(source), self._time.read(source)
        if day is None and time is None:
            return None
        if day is None or time is None:
            raise source.corrupt("half a date and time: one of the two is null", start)
        return LocalDateTime(day, time)

    def write(self, value: LocalDateTime | None, target: DataOutput) -> None:
        day, time = value or (None, None)
        self._date.write(day, target)
        self._time.write(time, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if options.as_text else options.column_type(_LOCAL_TYPE, can_have_nanos=True)

    def _shown(self, value: LocalDateTime, options: DecodeOptions) -> datetime | str:
        return str(value) if options.as_text else present_time(*value.in_utc, options, None)

    def _parsed(self, value: Any) -> LocalDateTime:
        return to_local_date_time(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values, size = encode(), self._date.length
        return self._date.hash_encoded(lambda: values[:, :size]) ^ self._time.hash_encoded(lambda: values[:, size:])


_OF_FLINK_1_9: Final[Any] = {"since": "1.9", "extracted": False}

SCALARS: Final = (
    ScalarType(InstantSerializer(), "java.time.Instant", PythonCoder.SAME, (_UTC_TYPE,)),
    ScalarType(LocalDateSerializer(), "java.time.LocalDate", PythonCoder.DATE, (pa.date32(),), **_OF_FLINK_1_9),
    ScalarType(LocalTimeSerializer(), "java.time.LocalTime", PythonCoder.TIME, **_OF_FLINK_1_9),
    ScalarType(
        LocalDateTimeSerializer(), "java.time.LocalDateTime", PythonCoder.TIMESTAMP, (_LOCAL_TYPE,), since="1.9", extracted=False
    ),
)

register_scalars(SCALARS)
