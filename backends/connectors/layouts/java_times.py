"""Dates and times of ``java.time`` in Java object streams.

Java replaces such an object by one of the class ``java.time.Ser``: a number for the class, and the fields. Kryo has the same
fields, so the layouts are the layouts of Kryo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from state_processor.serializers.core.time_values import (
    Instant,
    LocalDate,
    LocalDateTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
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
from state_processor.serializers.kryo.jdk_layouts import OFFSET, local_time
from state_processor.serializers.kryo.layouts import Layout, ObjectInput, ObjectOutput, fixed, sequence
from state_processor.serializers.kryo.wire import KRYO_2, KryoInput, KryoOutput
from state_processor.support.errors import InvalidRowError

REPLACEMENT: Final = "java.time.Ser"


def _numbers(kind: Callable[..., Any], form: str) -> Layout:
    """Return the layout of a tuple of numbers, by their formats of ``struct``."""
    return sequence(kind, *map(fixed, form))


def _read_zone(reader: ObjectInput) -> Offset | Region:
    start, kind = reader.source.position, reader.byte()
    if kind not in (_REGION, _OFFSET):
        raise reader.source.corrupt(f"a time zone of kind {kind}; expected {_REGION} or {_OFFSET}", start)
    zone: Offset | Region = (_OF_REGION if kind == _REGION else OFFSET).read(reader)
    return zone


def _write_zone(writer: ObjectOutput, value: Offset | Region) -> None:
    is_region = isinstance(value, Region)
    writer.byte(_REGION if is_region else _OFFSET)
    (_OF_REGION if is_region else OFFSET).write(writer, value)


_REGION: Final = 7
_OFFSET: Final = 8

_OF_REGION: Final = Layout(lambda r: Region(r.source.read_utf()), lambda w, v: w.target.write_utf(v.id))
_DATE: Final = _numbers(LocalDate, "ibb")
_TIME: Final = local_time(fixed("i"))
_DATE_TIME: Final = sequence(LocalDateTime, _DATE, _TIME)
_ZONED: Final = sequence(
    ZonedDateTime, _DATE_TIME, OFFSET, Layout(_read_zone, _write_zone), take=lambda v: (v.date_time, v.known_offset, v.zone)
)


class _TimeClass(NamedTuple):
    number: int
    layout: Layout
    of_text: Callable[[str], Any]


TIMES: Final[Mapping[str, _TimeClass]] = {
    "java.time.Duration": _TimeClass(1, _numbers(Duration, "qi"), Duration.of),
    "java.time.Instant": _TimeClass(2, _numbers(Instant, "qi"), to_instant),
    "java.time.LocalDate": _TimeClass(3, _DATE, to_local_date),
    "java.time.LocalTime": _TimeClass(4, _TIME, to_local_time),
    "java.time.LocalDateTime": _TimeClass(5, _DATE_TIME, to_local_date_time),
    "java.time.ZonedDateTime": _TimeClass(6, _ZONED, ZonedDateTime.of),
    "java.time.ZoneRegion": _TimeClass(_REGION, _OF_REGION, Region.of),
    "java.time.ZoneOffset": _TimeClass(_OFFSET, OFFSET, Offset.of),
    "java.time.OffsetTime": _TimeClass(9, sequence(OffsetTime, _TIME, OFFSET), OffsetTime.of),
    "java.time.OffsetDateTime": _TimeClass(10, sequence(OffsetDateTime, _DATE_TIME, OFFSET), OffsetDateTime.of),
    "java.time.Year": _TimeClass(11, _numbers(Year, "i"), Year.of),
    "java.time.YearMonth": _TimeClass(12, _numbers(YearMonth, "ib"), YearMonth.of),
    "java.time.MonthDay": _TimeClass(13, _numbers(MonthDay, "bb"), MonthDay.of),
    "java.time.Period": _TimeClass(14, _numbers(Period, "iii"), Period.of),
}
"""The classes. The text of a value is that of Java's ``toString``."""


def time_content(data: bytes) -> tuple[str, str] | None:
    """Return the class and the text of the data of a replacement, or ``None`` if the class is another one of ``java.time``."""
    source = DataInput(data, REPLACEMENT)
    reader: Any = KryoInput(source, KRYO_2)  # numbers of fixed width are big-endian in both
    number = source.read_byte()
    for name, kind in TIMES.items():
        if kind.number == number:
            time = kind.layout.read(reader)
            if not source.at_end():
                raise source.corrupt(f"{source.remaining} bytes are left over")
            return name, str(time)
    return None


def time_data(name: str, text: Any) -> bytes:
    """Return the data of the replacement of a value."""
    if not isinstance(text, str):
        raise InvalidRowError(f"a value of {name} is text such as Java prints it, found {text!r}")
    kind, target = TIMES[name], DataOutput()
    writer: Any = KryoOutput(target, KRYO_2)
    writer.byte(kind.number)
    kind.layout.write(writer, kind.of_text(text))
    return target.to_bytes()
