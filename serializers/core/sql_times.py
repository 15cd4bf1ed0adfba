"""Serializers of ``java.util.Date`` and of dates and times of ``java.sql``.

``java.sql.Date`` and ``Time`` are local to the zone of the job's JVM, and ``java.sql`` follows the Julian calendar before
1582-10-15: :mod:`state_processor.serializers.core.calendars`. A ``java.util.Date`` is a point in time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from state_processor.serializers.core.calendars import (
    UTC_ZONE,
    JavaZone,
    from_gregorian_millis,
    java_date,
    to_gregorian,
    to_gregorian_millis,
)
from state_processor.serializers.core.scalar_type import PythonCoder, ScalarType, register_scalars
from state_processor.serializers.core.temporal import (
    NULL_LONG,
    PackedSerializer,
    TemporalSerializer,
    date_type,
    instant_type,
    present_date,
    present_instant,
    snapshot_class,
)
from state_processor.serializers.core.time_values import (
    MILLIS_OF_DAY,
    NANOS_OF_SECOND,
    Instant,
    LocalDate,
    SqlTimestamp,
    exact_millis,
    to_instant,
    to_local_date,
    to_local_time,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.traversal import outermost_of, transform
from state_processor.support.errors import UndecodableValueError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


P = TypeVar("P")


def _text_type(options: DecodeOptions) -> pa.DataType:
    return pa.string()


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


_MILLIS: Final = {
    m.name: m
    for m in (
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
            _text_type,
            lambda v, zone, o: _clock(zone.local(v)),
            lambda v, zone: zone.utc(exact_millis(Instant(*divmod(to_local_time(v).nano_of_day, NANOS_OF_SECOND)))),
        ),
    )
}


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
        return None if value == NULL_LONG else value

    def write(self, value: int | None, target: DataOutput) -> None:
        target.write_long(NULL_LONG if value is None else value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._kind.arrow_type(options)

    def _shown(self, value: int, options: DecodeOptions) -> Any:
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
    null = (NULL_LONG,)
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

    def _shown(self, value: SqlTimestamp, options: DecodeOptions) -> datetime | str:
        return present_instant(_instant_of(value, self.zone), options)

    def _parsed(self, value: Any) -> SqlTimestamp:
        return value if isinstance(value, SqlTimestamp) else _sql_timestamp(to_instant(value), self.zone)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        return fold_long(signed(values, 0, 8) // 1000 * 1000 + signed(values, 8, 12) // 1_000_000)


_ZONED: Final[tuple[type[MillisSerializer | SqlTimestampSerializer], ...]] = (MillisSerializer, SqlTimestampSerializer)

SCALARS: Final = (
    ScalarType(MillisSerializer("DATE"), "java.util.Date", PythonCoder.DATE),
    ScalarType(MillisSerializer("SQL_DATE"), "java.sql.Date", PythonCoder.DATE),
    ScalarType(MillisSerializer("SQL_TIME"), "java.sql.Time", PythonCoder.TIME),
    ScalarType(SqlTimestampSerializer(), "java.sql.Timestamp", PythonCoder.TIMESTAMP),
)

register_scalars(SCALARS)


def in_time_zone(part: P, zone: JavaZone) -> P:
    """Return a serializer, or a dataclass of serializers, that handles ``java.sql`` like a JVM in a zone."""
    return (
        part
        if zone.is_utc
        else transform(part, lambda serializer: serializer.in_zone(zone) if isinstance(serializer, _ZONED) else serializer)
    )


def zoned_types(*parts: Any) -> list[tuple[str, str]]:
    """Return the types that are read in the time zone of the job's JVM, each with the name of the zone."""
    types = {f"{s}{s.zoned_period}": s.zone.name for s in outermost_of(_ZONED, *parts) if s.zoned_period is not None}
    return sorted(types.items())


def depends_on_zone(*parts: Any) -> bool:
    """Check if values of serializers, or of dataclasses of them, are stored in the time zone of the job's JVM."""
    return any(str(serializer) in ("SQL_DATE", "SQL_TIME") for serializer in outermost_of(MillisSerializer, *parts))
