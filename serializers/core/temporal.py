"""Serializers of dates and times of ``java.time``, and code that they share with the serializers of ``java.sql``."""

from __future__ import annotations

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
    INSTANT_MAX,
    INSTANT_MIN,
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
from state_processor.serializers.errors import UndecodableValueError
from state_processor.serializers.flink_packages import BASE
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.column_hashes import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

NULL_LONG: Final = -(1 << 63)
_NULL_INT: Final = -(1 << 31)
_NULL_SHORT: Final = -(1 << 15)
_NULL_BYTE: Final = -(1 << 7)
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
_UTC_TYPE: Final = pa.timestamp("us", tz="UTC")
_LOCAL_TYPE: Final = pa.timestamp("us")


def present_time(seconds: int, nano: int, options: DecodeOptions, zone: tzinfo | None) -> datetime:
    """Return a point in time for a timestamp column.

    Raises
    ------
    UndecodableValueError
        If its year is not in 1 to 9999, or if microseconds can't hold it and ``options.nanos`` forbids truncation.
    """
    if options.nanos in ("error", "check") and nano % 1000:
        raise UndecodableValueError(f"{Instant(seconds, nano)}: {outcomes.decoding_problem(outcomes.LOST_NANOS)}")
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise UndecodableValueError(f"{Instant(seconds, nano)}: {outcomes.decoding_problem(outcomes.OUT_OF_RANGE)}")
    return (EPOCH + timedelta(seconds=seconds, microseconds=nano // 1000)).replace(tzinfo=zone)


def present_date(value: LocalDate, options: DecodeOptions) -> date | str:
    """Return a day for a date column, or its text.

    Raises
    ------
    UndecodableValueError
        If its year is not in 1 to 9999.
    """
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


class InstantSerializer(TemporalSerializer):
    """``java.time.Instant``: seconds as a long, nanoseconds as an int; both are minimal for null."""

    snapshot_class = snapshot_class("Instant")
    length = min_size = 12
    name = "INSTANT"
    operation = Op.INSTANT

    def read(self, source: DataInput) -> Instant | None:
        start = source.position
        value = Instant(source.read_long(), source.read_int())
        if value == (NULL_LONG, _NULL_INT):
            return None
        if not (0 <= value.nano < NANOS_OF_SECOND and INSTANT_MIN <= value.seconds <= INSTANT_MAX):
            raise source.corrupt(f"expected an instant, found {value.seconds} seconds and {value.nano} nanoseconds", start)
        return value

    def write(self, value: Instant | None, target: DataOutput) -> None:
        seconds, nano = value or (NULL_LONG, _NULL_INT)
        target.write_long(seconds)
        target.write_int(nano)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return instant_type(options)

    def _shown(self, value: Instant, options: DecodeOptions) -> datetime | str:
        return present_instant(value, options)

    def _parsed(self, value: Any) -> Instant:
        return to_instant(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        return (fold_long(signed(values, 0, 8)).astype(np.int64) + 51 * signed(values, 8, 12)).astype(np.int32)


class LocalDateSerializer(TemporalSerializer):
    """``java.time.LocalDate``: year as an int, its minimum for null, month and day as bytes."""

    snapshot_class = snapshot_class("LocalDate")
    length = min_size = 6
    name = "LOCAL_DATE"
    operation = Op.LOCAL_DATE

    def read(self, source: DataInput) -> LocalDate | None:
        start = source.position
        value = LocalDate(source.read_int(), source.read_byte(), source.read_byte())
        if value.year == _NULL_INT:
            return None
        if not value.is_valid:
            raise source.corrupt(f"expected a date, found year {value.year}, month {value.month}, day {value.day}", start)
        return value

    def write(self, value: LocalDate | None, target: DataOutput) -> None:
        if value is None:
            target.write_int(_NULL_INT)
            target.write_short(_NULL_SHORT)
            return
        target.write_int(value.year)
        target.write_byte(value.month)
        target.write_byte(value.day)

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


class LocalTimeSerializer(TemporalSerializer):
    """``java.time.LocalTime``: hour, minute and second as bytes, nanoseconds as an int; the hour is minimal for null."""

    snapshot_class = snapshot_class("LocalTime")
    length = min_size = 7
    name = "LOCAL_TIME"
    operation = Op.LOCAL_TIME

    def read(self, source: DataInput) -> LocalTime | None:
        start = source.position
        value = LocalTime(source.read_byte(), source.read_byte(), source.read_byte(), source.read_int())
        if value.hour == _NULL_BYTE:
            return None
        if not value.is_valid:
            raise source.corrupt("expected a time of day, found hour {}, minute {}, second {}, nano {}".format(*value), start)
        return value

    def write(self, value: LocalTime | None, target: DataOutput) -> None:
        if value is None:
            target.write_byte(_NULL_BYTE)
            target.write_short(_NULL_SHORT)
            target.write_int(_NULL_INT)
            return
        target.write_byte(value.hour)
        target.write_byte(value.minute)
        target.write_byte(value.second)
        target.write_int(value.nano)

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
        return pa.string() if options.as_text else _LOCAL_TYPE

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
