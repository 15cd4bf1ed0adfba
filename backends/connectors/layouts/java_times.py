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


class _Layout(NamedTuple):
    """How the fields of a class follow each other."""

    read: Callable[[DataInput], Any]
    write: Callable[[Any, DataOutput], None]


def _numbers(kind: Callable[..., Any], form: str) -> _Layout:
    """Return the layout of a tuple of numbers, by their format of ``struct``."""
    numbers = Struct(f">{form}")
    return _Layout(
        lambda source: kind(*numbers.unpack(source.read_bytes(numbers.size, "numbers"))),
        lambda value, target: target.write_bytes(numbers.pack(*value)),
    )


def _sequence(kind: Callable[..., Any], *parts: _Layout) -> _Layout:
    """Return the layout of a tuple whose parts follow each other."""

    def write(value: Any, target: DataOutput) -> None:
        for part, field in zip(parts, value, strict=True):
            part.write(field, target)

    return _Layout(lambda source: kind(*(part.read(source) for part in parts)), write)


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


def _write_zoned(value: ZonedDateTime, target: DataOutput) -> None:
    _DATE_TIME.write(value.date_time, target)
    _write_offset(value.known_offset, target)
    _write_zone(value.zone, target)


_REGION: Final = 7
_OFFSET: Final = 8

_TIME: Final = _Layout(_read_time, _write_time)
_DATE: Final = _numbers(LocalDate, "ibb")
_DATE_TIME: Final = _sequence(LocalDateTime, _DATE, _TIME)
_OF_OFFSET: Final = _Layout(_read_offset, _write_offset)
_ZONED: Final = _sequence(ZonedDateTime, _DATE_TIME, _OF_OFFSET, _Layout(_read_zone, _write_zone))


class _TimeClass(NamedTuple):
    number: int
    layout: _Layout
    of_text: Callable[[str], Any]


TIMES: Final[Mapping[str, _TimeClass]] = {
    "java.time.Duration": _TimeClass(1, _numbers(Duration, "qi"), Duration.of),
    "java.time.Instant": _TimeClass(2, _numbers(Instant, "qi"), to_instant),
    "java.time.LocalDate": _TimeClass(3, _DATE, to_local_date),
    "java.time.LocalTime": _TimeClass(4, _TIME, to_local_time),
    "java.time.LocalDateTime": _TimeClass(5, _DATE_TIME, to_local_date_time),
    "java.time.ZonedDateTime": _TimeClass(6, _ZONED._replace(write=_write_zoned), ZonedDateTime.of),
    "java.time.ZoneRegion": _TimeClass(_REGION, _Layout(_read_region, _write_region), Region.of),
    "java.time.ZoneOffset": _TimeClass(_OFFSET, _OF_OFFSET, Offset.of),
    "java.time.OffsetTime": _TimeClass(9, _sequence(OffsetTime, _TIME, _OF_OFFSET), OffsetTime.of),
    "java.time.OffsetDateTime": _TimeClass(10, _sequence(OffsetDateTime, _DATE_TIME, _OF_OFFSET), OffsetDateTime.of),
    "java.time.Year": _TimeClass(11, _numbers(Year, "i"), Year.of),
    "java.time.YearMonth": _TimeClass(12, _numbers(YearMonth, "ib"), YearMonth.of),
    "java.time.MonthDay": _TimeClass(13, _numbers(MonthDay, "bb"), MonthDay.of),
    "java.time.Period": _TimeClass(14, _numbers(Period, "iii"), Period.of),
}
"""The classes. The text of a value is that of Java's ``toString``."""


def time_content(data: bytes) -> tuple[str, str] | None:
    """Return the class and the text of the data of a replacement, or ``None`` if the class is another one of ``java.time``."""
    source = DataInput(data, REPLACEMENT)
    number = source.read_byte()
    for name, kind in TIMES.items():
        if kind.number == number:
            time = kind.layout.read(source)
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
    kind.layout.write(kind.of_text(text), target)
    return target.to_bytes()
