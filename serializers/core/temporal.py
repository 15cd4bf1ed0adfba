"""Serializers of dates and times of ``java.time``, ``java.util.Date`` and ``java.sql``.

``java.sql.Date`` and ``Time`` are local to the zone of the job's JVM, and ``java.sql`` follows the Julian calendar before
1582-10-15 (:mod:`~state_processor.serializers.core.time_values`). All others are points in time, or have no zone.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer
from state_processor.serializers.core.basic import PythonCoder, ScalarType, register_scalars
from state_processor.serializers.core.time_values import (
    EPOCH,
    MILLIS_OF_DAY,
    NANOS_OF_SECOND,
    UTC_ZONE,
    Instant,
    JavaZone,
    LocalDate,
    LocalDateTime,
    LocalTime,
    SqlTimestamp,
    exact_millis,
    from_gregorian_millis,
    java_date,
    to_gregorian,
    to_gregorian_millis,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import BASE
from state_processor.serializers.traversal import outermost_of, transform
from state_processor.support.errors import UndecodableValueError
from state_processor.support.mappings import index_by_name

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_NULL_LONG: Final = -(1 << 63)
_NULL_INT: Final = -(1 << 31)
_NULL_BYTE: Final = -(1 << 7)
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
_UTC_TYPE: Final = pa.timestamp("us", tz="UTC")
_LOCAL_TYPE: Final = pa.timestamp("us")

P = TypeVar("P")


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
        return None if value is None else self._column_value(value, options)

    def _column_value(self, value: Any, options: DecodeOptions) -> Any:
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
    null = (_NULL_LONG, _NULL_INT)
    null_shown_by = 2
    expected = "an instant, found {} seconds and {} nanoseconds"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return options.column_type(instant_type(options), can_have_nanos=not options.as_text)

    def _column_value(self, value: Instant, options: DecodeOptions) -> datetime | str:
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

    def _column_value(self, value: LocalDate, options: DecodeOptions) -> date | str:
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

    def _column_value(self, value: LocalDateTime, options: DecodeOptions) -> datetime | str:
        return str(value) if options.as_text else present_time(*value.in_utc, options, None)

    def _parsed(self, value: Any) -> LocalDateTime:
        return to_local_date_time(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values, size = encode(), self._date.length
        return self._date.hash_encoded(lambda: values[:, :size]) ^ self._time.hash_encoded(lambda: values[:, size:])


# java.util.Date and java.sql


def _present_day(millis: int, zone: JavaZone, options: DecodeOptions) -> Any:
    day = zone.local(millis) // MILLIS_OF_DAY
    if options.as_text:
        return str(java_date(day))
    gregorian_day = to_gregorian(day)
    if gregorian_day is None:
        raise UndecodableValueError(f"{java_date(day)}: {outcomes.decoding_problem(outcomes.OUT_OF_RANGE)}")
    return present_date(LocalDate.of_epoch_day(gregorian_day), options)


def _clock(millis: int) -> str:
    """Return ``java.sql.Time`` as text: with seconds, and with milliseconds unless they are 0."""
    text = str(Instant.of_millis(millis % MILLIS_OF_DAY))
    return text[text.index("T") + 1 : -1]


@dataclass(frozen=True, slots=True)
class _Millis:
    """Properties of a type of milliseconds."""

    name: str
    java_name: str
    operation: Op
    arrow_type: Callable[[DecodeOptions], pa.DataType]
    to_column: Callable[[int, JavaZone, DecodeOptions], Any]
    from_column: Callable[[Any, JavaZone], int]
    is_zoned: bool = True


_MILLIS: Final = index_by_name(
    (
        _Millis(
            "DATE",
            "Date",
            Op.DATE_MS,
            instant_type,
            lambda v, zone, o: present_instant(Instant.of_millis(v), o),
            lambda v, zone: exact_millis(to_instant(v)),
            is_zoned=False,
        ),
        _Millis(
            "SQL_DATE",
            "SqlDate",
            Op.SQL_DATE,
            date_type,
            _present_day,
            lambda v, zone: zone.start_of(to_local_date(v)),
        ),
        _Millis(
            "SQL_TIME",
            "SqlTime",
            Op.SQL_TIME,
            lambda o: pa.string(),
            lambda v, zone, o: _clock(zone.local(v)),
            lambda v, zone: zone.utc(exact_millis(Instant(*divmod(to_local_time(v).nano_of_day, NANOS_OF_SECOND)))),
        ),
    )
)


class MillisSerializer(TemporalSerializer):
    """``java.util.Date``, ``java.sql.Date`` and ``java.sql.Time``: milliseconds since 1970 as a long, its minimum for null.

    Python holds the milliseconds.

    ``zone``: the zone of the job's JVM.
    """

    length = min_size = 8

    def __init__(self, name: str, zone: JavaZone = UTC_ZONE) -> None:
        self._kind = _MILLIS[name]
        self.zone = zone
        super().__init__(snapshot_class(self._kind.java_name))
        self.name = name
        self.operation = self._kind.operation
        self.zoned_period = "" if self._kind.is_zoned else None

    def in_zone(self, zone: JavaZone) -> MillisSerializer:
        """Return the serializer for a JVM in another zone."""
        return MillisSerializer(self.name, zone) if self._kind.is_zoned else self

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if self._kind.is_zoned:
            builder.zoned_time(self.operation, column, self.zone)
        else:
            super().emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        if self._kind.is_zoned:
            builder.zoned_time(self.operation, column, self.zone)
        else:
            super().emit_encode(builder, column)

    def read(self, source: DataInput) -> int | None:
        value = source.read_long()
        return None if value == _NULL_LONG else value

    def write(self, value: int | None, target: DataOutput) -> None:
        target.write_long(_NULL_LONG if value is None else value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._kind.arrow_type(options)

    def _column_value(self, value: int, options: DecodeOptions) -> Any:
        return self._kind.to_column(value, self.zone, options)

    def _parsed(self, value: Any) -> int:
        return value if type(value) is int else self._kind.from_column(value, self.zone)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        return fold_long(signed(encode(), 0, 8))


def _sql_timestamp(value: Instant, zone: JavaZone) -> SqlTimestamp:
    millis = from_gregorian_millis(value.seconds * 1000, zone)
    return SqlTimestamp(millis + value.nano // 1_000_000, value.nano)


def _instant_of(value: SqlTimestamp, zone: JavaZone) -> Instant:
    """Return the Gregorian point in time with the date and time that Java shows for a timestamp."""
    millis = to_gregorian_millis(value.millis, zone)
    if millis is None:
        date_shown = java_date(zone.local(value.millis) // MILLIS_OF_DAY)
        raise UndecodableValueError(f"{date_shown}: {outcomes.decoding_problem(outcomes.OUT_OF_RANGE)}")
    return Instant(millis // 1000, value.nano)


class SqlTimestampSerializer(PackedSerializer):
    """``java.sql.Timestamp``: milliseconds as a long, its minimum for null, then nanoseconds of the second as an int.

    Before 1582-10-15 a column has the point in time whose Gregorian date equals the date that Java shows.

    A null can be read but not written: Flink's serializer writes 12 bytes for it and reads 8, so that all later bytes are lost.
    """

    snapshot_class = snapshot_class("SqlTimestamp")
    length = min_size = 12
    name = "SQL_TIMESTAMP"
    operation = Op.SQL_TIMESTAMP
    value_class = SqlTimestamp
    layout = struct.Struct(">qi")
    null = (_NULL_LONG,)
    expected = "nanoseconds of a second, found {1}"
    zoned_period = " before 1582-10-15"

    def __init__(self, zone: JavaZone = UTC_ZONE) -> None:
        super().__init__()
        self.zone = zone

    def in_zone(self, zone: JavaZone) -> SqlTimestampSerializer:
        """Return the serializer for a JVM in another zone."""
        return SqlTimestampSerializer(zone)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.zoned_time(self.operation, column, self.zone)

    def write(self, value: tuple[int, ...] | None, target: DataOutput) -> None:
        if value is None:
            raise ValueError("null; Flink's SqlTimestampSerializer writes 12 bytes for null and reads only 8")
        super().write(value, target)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        builder.zoned_time(self.operation, column, self.zone)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return options.column_type(instant_type(options), can_have_nanos=not options.as_text)

    def _column_value(self, value: SqlTimestamp, options: DecodeOptions) -> datetime | str:
        return present_instant(_instant_of(value, self.zone), options)

    def _parsed(self, value: Any) -> SqlTimestamp:
        return value if isinstance(value, SqlTimestamp) else _sql_timestamp(to_instant(value), self.zone)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        return fold_long(signed(values, 0, 8) // 1000 * 1000 + signed(values, 8, 12) // 1_000_000)


_ZONED: Final[tuple[type[MillisSerializer | SqlTimestampSerializer], ...]] = (MillisSerializer, SqlTimestampSerializer)

_OF_FLINK_1_9: Final[Any] = {"since": "1.9", "extracted": False}

SCALARS: Final = (
    ScalarType(MillisSerializer("DATE"), "java.util.Date", PythonCoder.DATE),
    ScalarType(MillisSerializer("SQL_DATE"), "java.sql.Date", PythonCoder.DATE),
    ScalarType(MillisSerializer("SQL_TIME"), "java.sql.Time", PythonCoder.TIME),
    ScalarType(SqlTimestampSerializer(), "java.sql.Timestamp", PythonCoder.TIMESTAMP),
    ScalarType(InstantSerializer(), "java.time.Instant", PythonCoder.SAME, (_UTC_TYPE,)),
    ScalarType(LocalDateSerializer(), "java.time.LocalDate", PythonCoder.DATE, (pa.date32(),), **_OF_FLINK_1_9),
    ScalarType(LocalTimeSerializer(), "java.time.LocalTime", PythonCoder.TIME, **_OF_FLINK_1_9),
    ScalarType(LocalDateTimeSerializer(), "java.time.LocalDateTime", PythonCoder.TIMESTAMP, (_LOCAL_TYPE,), **_OF_FLINK_1_9),
)

register_scalars(SCALARS)


def in_time_zone(part: P, zone: JavaZone) -> P:
    """Return a serializer, or a dataclass of serializers, that handles ``java.sql`` like a JVM in a zone."""
    if zone.is_utc:
        return part
    return transform(part, lambda serializer: serializer.in_zone(zone) if isinstance(serializer, _ZONED) else serializer)


def zoned_types(*parts: Any) -> list[tuple[str, str]]:
    """Return the types that are read in the time zone of the job's JVM, each with the name of the zone."""
    types = {f"{s}{s.zoned_period}": s.zone.name for s in outermost_of(_ZONED, *parts) if s.zoned_period is not None}
    return sorted(types.items())


def depends_on_zone(*parts: Any) -> bool:
    """Check if values of serializers, or of dataclasses of them, are stored in the time zone of the job's JVM."""
    return any(str(serializer) in ("SQL_DATE", "SQL_TIME") for serializer in outermost_of(MillisSerializer, *parts))
