"""Dates and times of ``java.time`` in Java object streams.

Java replaces such an object by one of the class ``java.time.Ser``: a number for the class, and the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def _read_instant(source: DataInput) -> Instant:
    return Instant(source.read_long(), source.read_int())


def _write_instant(value: Instant, target: DataOutput) -> None:
    target.write_long(value.seconds)
    target.write_int(value.nano)


class _TimeClass(NamedTuple):
    number: int
    read: Callable[[DataInput], Any]
    write: Callable[[Any, DataOutput], None]
    of_text: Callable[[str], Any]


TIMES: Final[Mapping[str, _TimeClass]] = {
    "java.time.Instant": _TimeClass(2, _read_instant, _write_instant, to_instant),
    "java.time.LocalDate": _TimeClass(3, _read_date, _write_date, to_local_date),
    "java.time.LocalTime": _TimeClass(4, _read_time, _write_time, to_local_time),
    "java.time.LocalDateTime": _TimeClass(5, _read_date_time, _write_date_time, to_local_date_time),
}
"""The known classes. The text of a value is that of Java's ``toString``."""


def time_content(data: bytes) -> tuple[str, str] | None:
    """Return the class and the text of the data of a replacement, or ``None`` if the class is another one of ``java.time``."""
    source = DataInput(data, REPLACEMENT)
    number = source.read_byte()
    for name, kind in TIMES.items():
        if kind.number == number:
            found = kind.read(source)
            if not source.at_end():
                raise source.corrupt(f"{source.remaining} bytes are left over")
            return name, str(found)
    return None


def time_data(name: str, text: Any) -> bytes:
    """Return the data of the replacement of a value.

    Raises
    ------
    InvalidRowError
        The text is not that of a value of the class.
    """
    if not isinstance(text, str):
        raise InvalidRowError(f"a value of {name} is text such as Java prints it, found {text!r}")
    kind, target = TIMES[name], DataOutput()
    target.write_byte(kind.number)
    kind.write(kind.of_text(text), target)
    return target.to_bytes()
