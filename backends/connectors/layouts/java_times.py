"""Dates and times of ``java.time`` in Java object streams.

Java replaces such an object by one of the class ``java.time.Ser``: a number for the class, and the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from state_processor.serializers.core.time_values import (
    Instant,
    LocalDate,
    LocalDateTime,
    LocalTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo.java_time import (
    Duration,
    MonthDay,
    Offset,
    OffsetDateTime,
    OffsetTime,
    Period,
    Region,
    Year,
    YearMonth,
    ZonedDateTime,
)

REPLACEMENT: Final = "java.time.Ser"


def _read_date(source: DataInput) -> LocalDate:
    return LocalDate(source.read_int(), source.read_byte(), source.read_byte())


def _write_date(value: LocalDate, target: DataOutput) -> None:
    target.write_int(value.year)
    target.write_byte(value.month)
    target.write_byte(value.day)


def _read_time(source: DataInput) -> LocalTime:
    """Read hour, minute, second and nanosecond. The complement of a part says that the parts after it are 0."""
    parts: list[int] = []
    while len(parts) < 3:
        part = source.read_byte()
        if part < 0:
            hour, minute, second = (*parts, ~part, 0, 0)[:3]
            return LocalTime(hour, minute, second, 0)
        parts.append(part)
    hour, minute, second = parts
    return LocalTime(hour, minute, second, source.read_int())


def _write_time(value: LocalTime, target: DataOutput) -> None:
    *parts, nano = value
    if not nano:
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        parts[-1] = ~parts[-1]
    for part in parts:
        target.write_byte(part)
    if nano:
        target.write_int(nano)


def _read_date_time(source: DataInput) -> LocalDateTime:
    return LocalDateTime(_read_date(source), _read_time(source))


def _write_date_time(value: LocalDateTime, target: DataOutput) -> None:
    _write_date(value.date, target)
    _write_time(value.time, target)


def _read_seconds(source: DataInput) -> tuple[int, int]:
    return source.read_long(), source.read_int()


def _write_seconds(value: Instant | Duration, target: DataOutput) -> None:
    seconds, nano = value
    target.write_long(seconds)
    target.write_int(nano)


_QUARTER: Final = 900
_NO_QUARTER: Final = 127
"""An offset is a number of quarters of an hour in a byte. This byte says that its seconds follow."""


def _read_offset(source: DataInput) -> Offset:
    quarters = source.read_byte()
    return Offset(source.read_int() if quarters == _NO_QUARTER else quarters * _QUARTER)


def _write_offset(value: Offset, target: DataOutput) -> None:
    quarters, rest = divmod(value.seconds, _QUARTER)
    target.write_byte(_NO_QUARTER if rest else quarters)
    if rest:
        target.write_int(value.seconds)


def _read_offset_date_time(source: DataInput) -> OffsetDateTime:
    return OffsetDateTime(_read_date_time(source), _read_offset(source))


def _write_offset_date_time(value: OffsetDateTime, target: DataOutput) -> None:
    _write_date_time(value.date_time, target)
    _write_offset(value.offset, target)


def _read_offset_time(source: DataInput) -> OffsetTime:
    return OffsetTime(_read_time(source), _read_offset(source))


def _write_offset_time(value: OffsetTime, target: DataOutput) -> None:
    _write_time(value.time, target)
    _write_offset(value.offset, target)


def _read_zone(source: DataInput) -> Offset | Region:
    start, kind = source.position, source.read_byte()
    if kind not in (_REGION, _OFFSET):
        raise source.corrupt(f"a time zone of kind {kind}; expected {_REGION} or {_OFFSET}", start)
    return _read_region(source) if kind == _REGION else _read_offset(source)


def _read_region(source: DataInput) -> Region:
    return Region(source.read_utf())


def _write_region(value: Region, target: DataOutput) -> None:
    target.write_utf(value.id)


def _write_zone(value: Offset | Region, target: DataOutput) -> None:
    if isinstance(value, Region):
        target.write_byte(_REGION)
        _write_region(value, target)
    else:
        target.write_byte(_OFFSET)
        _write_offset(value, target)


def _read_zoned(source: DataInput) -> ZonedDateTime:
    return ZonedDateTime(_read_date_time(source), _read_offset(source), _read_zone(source))


def _write_zoned(value: ZonedDateTime, target: DataOutput) -> None:
    _write_date_time(value.date_time, target)
    _write_offset(value.known_offset, target)
    _write_zone(value.zone, target)


_REGION: Final = 7
_OFFSET: Final = 8


class _TimeClass(NamedTuple):
    number: int
    read: Callable[[DataInput], Any]
    write: Callable[[Any, DataOutput], None]
    of_text: Callable[[str], Any]


def _numbers(number: int, kind: Callable[..., Any], layout: str, of_text: Callable[[str], Any]) -> _TimeClass:
    """Return a class that is a tuple of numbers, by their format of ``struct``."""
    form = Struct(f">{layout}")
    return _TimeClass(
        number,
        lambda source: kind(*form.unpack(source.read_bytes(form.size, "numbers"))),
        lambda value, target: target.write_bytes(form.pack(*value)),
        of_text,
    )


TIMES: Final[Mapping[str, _TimeClass]] = {
    "java.time.Duration": _TimeClass(1, lambda source: Duration(*_read_seconds(source)), _write_seconds, Duration.of),
    "java.time.Instant": _TimeClass(2, lambda source: Instant(*_read_seconds(source)), _write_seconds, to_instant),
    "java.time.LocalDate": _TimeClass(3, _read_date, _write_date, to_local_date),
    "java.time.LocalTime": _TimeClass(4, _read_time, _write_time, to_local_time),
    "java.time.LocalDateTime": _TimeClass(5, _read_date_time, _write_date_time, to_local_date_time),
    "java.time.ZonedDateTime": _TimeClass(6, _read_zoned, _write_zoned, ZonedDateTime.of),
    "java.time.ZoneRegion": _TimeClass(_REGION, _read_region, _write_region, Region.of),
    "java.time.ZoneOffset": _TimeClass(_OFFSET, _read_offset, _write_offset, Offset.of),
    "java.time.OffsetTime": _TimeClass(9, _read_offset_time, _write_offset_time, OffsetTime.of),
    "java.time.OffsetDateTime": _TimeClass(10, _read_offset_date_time, _write_offset_date_time, OffsetDateTime.of),
    "java.time.Year": _numbers(11, Year, "i", Year.of),
    "java.time.YearMonth": _numbers(12, YearMonth, "ib", YearMonth.of),
    "java.time.MonthDay": _numbers(13, MonthDay, "bb", MonthDay.of),
    "java.time.Period": _numbers(14, Period, "iii", Period.of),
}
"""The classes. The text of a value is that of Java's ``toString``."""


def time_content(data: bytes) -> tuple[str, str] | None:
    """Return the class and the text of the data of a replacement, or ``None`` if the class is another one of ``java.time``."""
    source = DataInput(data, REPLACEMENT)
    number = source.read_byte()
    for name, kind in TIMES.items():
        if kind.number == number:
            time = kind.read(source)
            if not source.at_end():
                raise source.corrupt(f"{source.remaining} bytes are left over")
            return name, str(time)
    return None


def time_data(name: str, text: Any) -> bytes:
    """Return the data of the replacement of a value."""
    if not isinstance(text, str):
        raise InvalidRowError(f"a value of {name} is text such as Java prints it, found {text!r}")
    kind, target = TIMES[name], DataOutput()
    target.write_byte(kind.number)
    kind.write(kind.of_text(text), target)
    return target.to_bytes()
