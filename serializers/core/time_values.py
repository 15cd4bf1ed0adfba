"""Values of dates and times, their ISO texts, and the calendar and time zones of ``java.sql``.

Python's ``datetime`` supports neither nanoseconds nor years outside 1 to 9999. Decoded values are therefore small tuples of
Java's fields; their ``str`` equals the output of Java's ``toString``. All points in time are in UTC.

``java.sql.Date``, ``Time`` and ``Timestamp`` show their values in ``java.util.GregorianCalendar``. It follows the Julian calendar
before 1582-10-15. Spark, Arrow and ``java.time`` always follow the Gregorian calendar. A conversion keeps year, month and day, as
in Spark. Before 1900 ``java.util.TimeZone`` uses today's standard offset, not the local mean time of the place.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from state_processor.serializers import text_grammar
from state_processor.serializers.kernel.calendar import (
    CYCLE,
    CYCLE_END,
    FIRST_GREGORIAN_DAY,
    JULIAN_SHIFT,
    LAST_JULIAN_DAY,
    YEARS_4,
)
from state_processor.support.errors import OptionError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

SECONDS_OF_DAY: Final = 86_400
MILLIS_OF_DAY: Final = SECONDS_OF_DAY * 1000
NANOS_OF_SECOND: Final = 1_000_000_000
EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = EPOCH.toordinal()
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
INSTANT_MIN: Final = -31_557_014_167_219_200
INSTANT_MAX: Final = 31_556_889_864_403_199


def _days_of(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _DAYS[month - 1] + (month == 2 and is_leap)


class LocalDate(NamedTuple):
    """``java.time.LocalDate``: a day of the proleptic Gregorian calendar, of any year."""

    year: int
    month: int
    day: int

    def __str__(self) -> str:
        sign = "-" if self.year < 0 else "+" if self.year > 9999 else ""
        return f"{sign}{abs(self.year):04}-{self.month:02}-{self.day:02}"

    @property
    def epoch_day(self) -> int:
        """Days since 1970-01-01."""
        cycles, year = divmod(self.year - 1, 400)
        return date(year + 1, self.month, self.day).toordinal() + cycles * 146_097 - _EPOCH_DAY

    @classmethod
    def of_epoch_day(cls, day: int) -> LocalDate:
        """Return the day of a number of days since 1970-01-01."""
        cycles, of_cycle = divmod(day + _EPOCH_DAY - 1, 146_097)
        cycle_date = date.fromordinal(of_cycle + 1)
        return cls(cycle_date.year + 400 * cycles, cycle_date.month, cycle_date.day)

    @property
    def is_valid(self) -> bool:
        """Whether Java accepts the fields."""
        return (
            -999_999_999 <= self.year <= 999_999_999
            and 1 <= self.month <= 12
            and 1 <= self.day <= _days_of(self.year, self.month)
        )


class LocalTime(NamedTuple):
    """``java.time.LocalTime``: a time of day in nanoseconds."""

    hour: int
    minute: int
    second: int
    nano: int

    def __str__(self) -> str:
        text = f"{self.hour:02}:{self.minute:02}"
        return text + f":{self.second:02}{_fraction(self.nano)}" if self.second or self.nano else text

    @classmethod
    def of_second(cls, second: int, nano: int) -> LocalTime:
        """Return the time of a second of the day, and nanoseconds."""
        return cls(second // 3600, second // 60 % 60, second % 60, nano)

    @property
    def nano_of_day(self) -> int:
        """Nanoseconds since midnight."""
        return (self.hour * 3600 + self.minute * 60 + self.second) * NANOS_OF_SECOND + self.nano

    @property
    def is_valid(self) -> bool:
        """Whether Java accepts the fields."""
        return 0 <= self.hour < 24 and 0 <= self.minute < 60 and 0 <= self.second < 60 and 0 <= self.nano < NANOS_OF_SECOND


class LocalDateTime(NamedTuple):
    """``java.time.LocalDateTime``: date and time without a zone."""

    date: LocalDate
    time: LocalTime

    def __str__(self) -> str:
        return f"{self.date}T{self.time}"

    @property
    def in_utc(self) -> Instant:
        """The point in time that has this date and time in UTC."""
        second, nano = divmod(self.time.nano_of_day, NANOS_OF_SECOND)
        return Instant(self.date.epoch_day * SECONDS_OF_DAY + second, nano)


class Instant(NamedTuple):
    """``java.time.Instant``: seconds since 1970-01-01T00:00:00Z and nanoseconds of the second."""

    seconds: int
    nano: int

    @classmethod
    def of_millis(cls, millis: int, nano_of_milli: int = 0) -> Instant:
        """Return the point in time of milliseconds since 1970, and nanoseconds of the millisecond."""
        return cls(millis // 1000, millis % 1000 * 1_000_000 + nano_of_milli)

    @property
    def is_valid(self) -> bool:
        """Whether Java accepts the fields."""
        return 0 <= self.nano < NANOS_OF_SECOND and INSTANT_MIN <= self.seconds <= INSTANT_MAX

    @property
    def utc(self) -> LocalDateTime:
        """The date and time in UTC."""
        day, second = divmod(self.seconds, SECONDS_OF_DAY)
        return LocalDateTime(LocalDate.of_epoch_day(day), LocalTime.of_second(second, self.nano))

    def __str__(self) -> str:
        day, second = divmod(self.seconds, SECONDS_OF_DAY)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        return f"{LocalDate.of_epoch_day(day)}T{clock}{_fraction(self.nano)}Z"


class SqlTimestamp(NamedTuple):
    """``java.sql.Timestamp``: milliseconds since 1970-01-01T00:00:00Z and nanoseconds of the second (not of the millisecond)."""

    millis: int
    nano: int

    @property
    def is_valid(self) -> bool:
        """Whether Java accepts the fields."""
        return 0 <= self.nano < NANOS_OF_SECOND

    @property
    def instant(self) -> Instant:
        """The point in time; its fraction is ``nano`` alone, as in ``Timestamp.setNanos``."""
        return Instant(self.millis // 1000, self.nano)

    def __str__(self) -> str:
        return str(self.instant)


def _fraction(nano: int) -> str:
    """Return three, six or nine digits, or an empty text."""
    if not nano:
        return ""
    digits = f"{nano:09}"
    for end in (3, 6):
        if not int(digits[end:]):
            return f".{digits[:end]}"
    return f".{digits}"


def _matched(grammar: re.Pattern[str], value: Any, expected: str) -> re.Match[str]:
    """Return the match of a whole text."""
    match = grammar.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected {expected}, found {value!r}")
    return match


def _date_of(text: Any) -> LocalDate:
    return LocalDate(*map(int, _matched(text_grammar.DATE, text, "a date like 2024-02-29").groups()))


def to_local_date(value: Any) -> LocalDate:
    """Return a day from a date or its ISO text, as in a column, in JSON or from a user."""
    if isinstance(value, LocalDate):
        day = value
    elif isinstance(value, date) and not isinstance(value, datetime):
        day = LocalDate(value.year, value.month, value.day)
    else:
        day = _date_of(value)
    if not day.is_valid:
        raise ValueError(f"expected a day of the calendar, found {day}")
    return day


def to_local_time(value: Any) -> LocalTime:
    """Return a time of day from a time or its ISO text."""
    if isinstance(value, LocalTime):
        time_of_day = value
    elif isinstance(value, time) and value.tzinfo is None:
        time_of_day = LocalTime(value.hour, value.minute, value.second, value.microsecond * 1000)
    else:
        match = _matched(text_grammar.CLOCK, value, "a time of day like 08:30:00.5")
        hour, minute, second, fraction = match.groups("0")
        time_of_day = LocalTime(int(hour), int(minute), int(second), int(fraction.ljust(9, "0")))
    if not time_of_day.is_valid:
        raise ValueError(f"expected a time of day, found {time_of_day}")
    return time_of_day


def to_local_date_time(value: Any) -> LocalDateTime:
    """Return a date and time without zone from a ``datetime`` without one, or from ISO text."""
    if isinstance(value, LocalDateTime):
        return LocalDateTime(to_local_date(value.date), to_local_time(value.time))
    if isinstance(value, datetime) and value.tzinfo is None:
        return LocalDateTime(to_local_date(value.date()), to_local_time(value.time()))
    match = _matched(text_grammar.LOCAL, value, "a date and time without a zone, like 2024-02-29T08:30:00.5")
    return LocalDateTime(to_local_date(match["date"]), to_local_time(match["clock"] or "00:00"))


def to_instant(value: Any) -> Instant:
    """Return a point in time from a ``datetime`` with a zone, or from ISO text that ends in ``Z``."""
    if isinstance(value, Instant):
        instant = value
    elif isinstance(value, datetime) and value.tzinfo is not None:
        delta = value.astimezone(UTC).replace(tzinfo=None) - EPOCH
        instant = Instant(delta.days * SECONDS_OF_DAY + delta.seconds, delta.microseconds * 1000)
    elif isinstance(value, str) and (match := text_grammar.INSTANT.fullmatch(value)):
        day, clock = match["date"], match["clock"]
        date_of = _date_of(day)  # the years of an instant reach further than the years of a local date
        if not date_of._replace(year=(date_of.year - 1) % 400 + 1).is_valid:
            raise ValueError(f"expected a day of the calendar, found {day}")
        instant = LocalDateTime(date_of, to_local_time(clock)).in_utc
    else:
        raise ValueError(f"expected a point in time like 2024-02-29T08:30:00Z, found {value!r}")
    if not instant.is_valid:
        raise ValueError(f"expected seconds and nanoseconds of an instant, found {tuple(instant)}")
    return instant


def exact_millis(value: Instant) -> int:
    """Return milliseconds since 1970."""
    millis, rest = divmod(value.nano, 1_000_000)
    if rest:
        raise ValueError(f"{value} has more digits than milliseconds hold")
    return value.seconds * 1000 + millis


# The calendar and the time zones of java.sql

_FIRST_TRANSITION: Final = -2_208_988_800  # 1900-01-01
_LAST_RULE: Final = 2_114_380_800  # 2037-01-01
_BEGINNING: Final = -(1 << 63)

NO_SUCH_DAY: Final = "1582-10-05 to 1582-10-14 do not exist in the calendar of java.sql"


def java_date(day: int) -> LocalDate:
    """Return the year, month and day that Java shows for days since 1970."""
    if day >= FIRST_GREGORIAN_DAY:
        return LocalDate.of_epoch_day(day)
    era, of_era = divmod(day + JULIAN_SHIFT, YEARS_4)
    year = min(of_era // 365, 3)
    of_year = of_era - 365 * year
    index = (5 * of_year + 2) // 153
    month = index + 3 if index < 10 else index - 9
    return LocalDate(year + 4 * era + (month <= 2), month, of_year - (153 * index + 2) // 5 + 1)


def to_gregorian(day: int) -> int | None:
    """Return the day of the Gregorian calendar with the year, month and day that Java shows; ``None`` if it does not exist."""
    if day >= FIRST_GREGORIAN_DAY:
        return day
    gregorian = java_date(day)
    return gregorian.epoch_day if gregorian.is_valid else None


def java_day(date_shown: LocalDate) -> int:
    """Return the days since 1970 of the day that Java shows with this year, month and day."""
    day = date_shown.epoch_day
    if day >= FIRST_GREGORIAN_DAY:
        return day
    if day > LAST_JULIAN_DAY:
        raise ValueError(f"{date_shown} can't be stored: {NO_SUCH_DAY}")
    year = date_shown.year - (date_shown.month <= 2)
    era, of_era = divmod(year, 4)
    of_year = (153 * (date_shown.month - 3 if date_shown.month > 2 else date_shown.month + 9) + 2) // 5 + date_shown.day - 1
    return era * YEARS_4 + of_era * 365 + of_year - JULIAN_SHIFT


class JavaZone:
    """The offsets of a time zone, as in ``java.util.TimeZone``.

    ``name``: the name in the database of time zones, such as ``America/New_York``, or an offset such as ``+05:30``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        transitions = _transitions(name)
        begins, offsets = zip(*transitions, strict=True)
        self._begins: list[int] = list(begins)
        self._offsets: list[int] = list(offsets)
        self._local_begins = [_BEGINNING, *(begin + offset for begin, offset in transitions[1:])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JavaZone) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[type[JavaZone], tuple[str]]:
        return JavaZone, (self.name,)

    @property
    def is_utc(self) -> bool:
        """Whether local times equal UTC."""
        return self._offsets == [0]

    def offset_at(self, millis: int) -> int:
        """Return the milliseconds from UTC to local time at a point in time."""
        return self._offsets[bisect_right(self._begins, _of_cycle(millis)) - 1]

    def offset_of_local(self, millis: int) -> int:
        """Return the offset that Java uses for a local time: the later of two, or inside a gap the offset before the gap."""
        return self._offsets[bisect_right(self._local_begins, _of_cycle(millis)) - 1]

    def local(self, millis: int) -> int:
        """Return the local time of a point in time, in milliseconds since 1970."""
        return millis + self.offset_at(millis)

    def utc(self, local: int) -> int:
        """Return the point in time of a local time. A local time that clocks skip moves forward, as in Java."""
        return local - self.offset_of_local(local)

    def start_of(self, date_shown: LocalDate) -> int:
        """Return the milliseconds that ``java.sql.Date.valueOf`` computes for a day."""
        day = java_day(date_shown)
        millis = self.utc(day * MILLIS_OF_DAY)
        if self.local(millis) // MILLIS_OF_DAY != day:
            raise ValueError(f"{date_shown} can't be stored: clocks in {self.name} skip the day")
        return millis

    def table(self) -> bytes:
        """Return the offsets for kernels: their number, then the first millisecond and the offset of each."""
        pairs = zip(self._begins, self._offsets, strict=True)
        return struct.pack(f"<{2 * len(self._begins) + 1}q", len(self._begins), *chain.from_iterable(pairs))


def _of_cycle(millis: int) -> int:
    return millis if millis < CYCLE_END else millis - ((millis - CYCLE_END) // CYCLE + 1) * CYCLE


@cache
def java_zone(name: str) -> JavaZone:
    """Return the zone of a name; see :class:`JavaZone`."""
    return JavaZone(name)


def _transitions(name: str) -> list[tuple[int, int]]:
    """Return the first millisecond of each offset of a zone, and the offset in milliseconds."""
    zone = _zone(name)
    epoch = EPOCH.replace(tzinfo=zone)

    def offset(second: int) -> int:
        moved = zone.fromutc(epoch + timedelta(seconds=second)).utcoffset()
        assert moved is not None
        return (moved.days * SECONDS_OF_DAY + moved.seconds) * 1000

    if isinstance(zone, timezone):
        return [(_BEGINNING, offset(0))]
    standard = min(offset(_LAST_RULE + day * SECONDS_OF_DAY) for day in range(0, 366, 5))
    transitions, seen = [(_BEGINNING, standard)], _FIRST_TRANSITION
    if offset(_FIRST_TRANSITION) != standard:
        transitions.append((_FIRST_TRANSITION * 1000, offset(_FIRST_TRANSITION)))
    for second in chain(
        range(_FIRST_TRANSITION, _LAST_RULE, SECONDS_OF_DAY), range(_LAST_RULE, CYCLE_END // 1000, 7 * SECONDS_OF_DAY)
    ):
        if (new := offset(second)) != transitions[-1][1]:
            same, after = seen, second
            while after - same > 1:
                middle = (same + after) // 2
                same, after = (middle, after) if offset(middle) == transitions[-1][1] else (same, middle)
            transitions.append((after * 1000, new))
        seen = second
    return transitions


def _zone(name: str) -> ZoneInfo | timezone:
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    from zoneinfo import ZoneInfo  # it imports sysconfig; most processes need only UTC

    try:
        if name[:1] in ("+", "-"):
            parsed = datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo
            assert isinstance(parsed, timezone)
            return parsed
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise OptionError(f"{name!r} is not a time zone: expected a name such as 'America/New_York', or '+05:30'") from None


UTC_ZONE: Final = java_zone("UTC")


def to_gregorian_millis(millis: int, zone: JavaZone) -> int | None:
    """Return the milliseconds of a ``java.sql.Timestamp`` with the same date in the Gregorian calendar, if it has the date."""
    day = zone.local(millis) // MILLIS_OF_DAY
    gregorian_day = to_gregorian(day)
    return None if gregorian_day is None else millis + (gregorian_day - day) * MILLIS_OF_DAY


def from_gregorian_millis(millis: int, zone: JavaZone) -> int:
    """Return the milliseconds of a ``java.sql.Timestamp`` that shows the same date as a Gregorian point in time."""
    day = zone.local(millis) // MILLIS_OF_DAY
    return millis + (java_day(LocalDate.of_epoch_day(day)) - day) * MILLIS_OF_DAY
