"""Classes of ``java.time`` that only Kryo serializes: their fields, and conversions from and to Java's text."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from state_processor.serializers.core.time_values import LocalDate, LocalDateTime, LocalTime, to_local_date_time, to_local_time

_SECOND: Final = 1_000_000_000
_OFFSET: Final = r"Z|[+-][0-9][0-9]:[0-9][0-9](?::[0-9][0-9])?"
_SIGNED: Final = r"([+-]?[0-9]+)"


def _match(pattern: str, text: Any, like: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"expected text like {like}, found {text!r}")
    return match


class Duration(NamedTuple):
    """``java.time.Duration``: seconds, and nonnegative nanoseconds."""

    seconds: int
    nano: int

    def __str__(self) -> str:
        total = self.seconds * _SECOND + self.nano
        if total == 0:
            return "PT0S"
        whole = -(-total // _SECOND) if total < 0 else self.seconds
        hours, rest = int(math.copysign(abs(whole) // 3600, whole)), abs(whole) % 3600
        minutes, nanos = rest // 60, abs(total) - (abs(whole) - rest % 60) * _SECOND
        sign = "-" if total < 0 else ""
        text = "PT" + (f"{hours}H" if hours else "") + (f"{sign}{minutes}M" if minutes else "")
        if not nanos:
            return text
        fraction = f".{nanos % _SECOND:09}".rstrip("0") if nanos % _SECOND else ""
        return f"{text}{sign}{nanos // _SECOND}{fraction}S"

    @classmethod
    def of(cls, value: Any) -> Duration:
        """Convert a ``timedelta`` or text like ``PT1H-0.5S``."""
        if isinstance(value, Duration):
            return value
        if isinstance(value, timedelta):
            return cls(value.days * 86400 + value.seconds, value.microseconds * 1000)
        match = _match(
            rf"([+-]?)P(?:{_SIGNED}D)?(?:T(?:{_SIGNED}H)?(?:{_SIGNED}M)?(?:{_SIGNED}(?:\.([0-9]{{1,9}}))?S)?)?", value, "PT1.5S"
        )
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:5])
        nanos = int((match[6] or "").ljust(9, "0"))
        total = (days * 86400 + hours * 3600 + minutes * 60 + seconds) * _SECOND
        total += -nanos if (match[5] or "").startswith("-") else nanos
        return cls(*divmod(-total if match[1] == "-" else total, _SECOND))


class Period(NamedTuple):
    """``java.time.Period``."""

    years: int
    months: int
    days: int

    def __str__(self) -> str:
        parts = "".join(f"{n}{unit}" for n, unit in zip(self, "YMD", strict=True) if n)
        return f"P{parts or '0D'}"

    @classmethod
    def of(cls, value: Any) -> Period:
        """Convert text like ``P1Y-2M3D``."""
        if isinstance(value, Period):
            return value
        match = _match(rf"P(?:{_SIGNED}Y)?(?:{_SIGNED}M)?(?:{_SIGNED}D)?", value, "P1Y2M3D")
        return cls(*(int(part or 0) for part in match.groups()))


class Year(NamedTuple):
    """``java.time.Year``."""

    year: int

    def __str__(self) -> str:
        return str(self.year)

    @classmethod
    def of(cls, value: Any) -> Year:
        """Convert a number or its text."""
        return value if isinstance(value, Year) else cls(int(value))


class YearMonth(NamedTuple):
    """``java.time.YearMonth``."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{'-' * (self.year < 0)}{abs(self.year):04}-{self.month:02}"

    @classmethod
    def of(cls, value: Any) -> YearMonth:
        """Convert text like ``2024-02``."""
        if isinstance(value, YearMonth):
            return value
        match = _match(rf"{_SIGNED}-(0[1-9]|1[0-2])", value, "2024-02")
        return cls(int(match[1]), int(match[2]))


class MonthDay(NamedTuple):
    """``java.time.MonthDay``."""

    month: int
    day: int

    def __str__(self) -> str:
        return f"--{self.month:02}-{self.day:02}"

    @classmethod
    def of(cls, value: Any) -> MonthDay:
        """Convert text like ``--02-29``."""
        if isinstance(value, MonthDay):
            return value
        match = _match(r"--([0-9][0-9])-([0-9][0-9])", value, "--02-29")
        parts = cls(int(match[1]), int(match[2]))
        if not LocalDate(2000, *parts).is_valid:
            raise ValueError(f"expected a day of the year, found {parts}")
        return parts


class Offset(NamedTuple):
    """``java.time.ZoneOffset``: seconds east of Greenwich."""

    seconds: int

    def __str__(self) -> str:
        if self.seconds == 0:
            return "Z"
        rest = abs(self.seconds)
        text = f"{'-' if self.seconds < 0 else '+'}{rest // 3600:02}:{rest // 60 % 60:02}"
        return text + f":{rest % 60:02}" if rest % 60 else text

    @classmethod
    def of(cls, value: Any) -> Offset:
        """Convert text like ``+02:00``, or ``Z``."""
        if isinstance(value, Offset):
            return value
        text = _match(_OFFSET, value, "+02:00")[0]
        if text == "Z":
            return cls(0)
        hours, minutes, seconds = [*map(int, text[1:].split(":")), 0][:3]
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > 18 * 3600:
            raise ValueError(f"expected an offset from -18:00 to +18:00, found {text}")
        return cls(-total if text[0] == "-" else total)


class Region(NamedTuple):
    """``java.time.ZoneRegion``: a time zone with a name."""

    id: str

    def __str__(self) -> str:
        return self.id

    @classmethod
    def of(cls, value: Any) -> Region:
        """Convert its name."""
        return value if isinstance(value, Region) else cls(_match(r"[A-Za-z][\w~/.+-]+", value, "Europe/Zurich")[0])


def zone_of(value: Any) -> Offset | Region:
    """Convert the text of a ``ZoneId`` to an offset or a region."""
    if isinstance(value, (Offset, Region)):
        return value
    return Offset.of(value) if isinstance(value, str) and re.fullmatch(_OFFSET, value) else Region.of(value)


class OffsetTime(NamedTuple):
    """``java.time.OffsetTime``."""

    time: LocalTime
    offset: Offset

    def __str__(self) -> str:
        return f"{self.time}{self.offset}"

    @classmethod
    def of(cls, value: Any) -> OffsetTime:
        """Convert text like ``13:05+02:00``."""
        if isinstance(value, OffsetTime):
            return value
        match = _match(rf"(.*?)({_OFFSET})", value, "13:05+02:00")
        return cls(to_local_time(match[1]), Offset.of(match[2]))


class OffsetDateTime(NamedTuple):
    """``java.time.OffsetDateTime``."""

    date_time: LocalDateTime
    offset: Offset

    def __str__(self) -> str:
        return f"{self.date_time}{self.offset}"

    @classmethod
    def of(cls, value: Any) -> OffsetDateTime:
        """Convert a ``datetime`` with a zone, or text like ``2024-02-29T13:05-03:30``."""
        if isinstance(value, OffsetDateTime):
            return value
        if isinstance(value, datetime):
            away = value.utcoffset()
            if away is None:
                raise ValueError(f"expected a datetime with an offset, found {value!r}")
            return cls(to_local_date_time(value.replace(tzinfo=None)), Offset(round(away.total_seconds())))
        match = _match(rf"(.*?)({_OFFSET})", value, "2024-02-29T13:05-03:30")
        return cls(to_local_date_time(match[1]), Offset.of(match[2]))


class ZonedDateTime(NamedTuple):
    """``java.time.ZonedDateTime``; Kryo 5 derives the offset from the zone."""

    date_time: LocalDateTime
    offset: Offset | None
    zone: Offset | Region

    def __str__(self) -> str:
        return f"{self.date_time}{self.offset or ''}" + (f"[{self.zone}]" if self.zone != self.offset else "")

    @property
    def known_offset(self) -> Offset:
        """Offset: given, or derived from the zone (the earlier one when clocks are set back)."""
        if self.offset is not None:
            return self.offset
        if isinstance(self.zone, Offset):
            return self.zone
        from zoneinfo import ZoneInfo

        day, clock = self.date_time
        try:
            zone = ZoneInfo(self.zone.id)
        except (LookupError, OSError):
            raise ValueError(f"{self}: the time zone database lacks the zone {self.zone}") from None
        local = datetime(day.year, day.month, day.day, clock.hour, clock.minute, clock.second, tzinfo=zone)
        away = local.utcoffset() or timedelta()
        if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
            raise ValueError(f"{self}: clocks in {self.zone} skip that time")
        return Offset(round(away.total_seconds()))

    @classmethod
    def of(cls, value: Any) -> ZonedDateTime:
        """Convert text like ``2024-07-01T13:05+02:00[Europe/Zurich]``, with an offset or a zone or both."""
        if isinstance(value, ZonedDateTime):
            return value
        match = _match(rf"([^\[]*?)({_OFFSET})?(?:\[(.+)\])?", value, "2024-07-01T13:05+02:00[Europe/Zurich]")
        offset = Offset.of(match[2]) if match[2] else None
        if offset is None and not match[3]:
            raise ValueError(f"expected an offset or a zone, found {value!r}")
        zone = zone_of(match[3]) if match[3] else offset
        assert zone is not None
        return cls(to_local_date_time(match[1]), offset, zone)
