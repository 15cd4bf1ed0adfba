"""The calendar and the time zones of ``java.sql.Date``, ``Time`` and ``Timestamp``.

These classes show their values in ``java.util.GregorianCalendar``. It follows the Julian calendar before 1582-10-15. Spark, Arrow
and ``java.time`` always follow the Gregorian calendar. A conversion keeps year, month and day, as in Spark.
Before 1900 ``java.util.TimeZone`` uses today's standard offset, not the local mean time of the place.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from state_processor.serializers.core.time_values import EPOCH, MILLIS_OF_DAY, LocalDate
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

_DAY: Final = 86_400
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
        self._begins = [begin for begin, _ in transitions]
        self._local_begins = [_BEGINNING, *(begin + offset for begin, offset in transitions[1:])]
        self._offsets = [offset for _, offset in transitions]

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
        pairs = [number for pair in zip(self._begins, self._offsets, strict=True) for number in pair]
        return struct.pack(f"<{len(pairs) + 1}q", len(self._begins), *pairs)


def _of_cycle(millis: int) -> int:
    return millis if millis < CYCLE_END else millis - ((millis - CYCLE_END) // CYCLE + 1) * CYCLE


@cache
def java_zone(name: str) -> JavaZone:
    """Return the zone of a name; see :class:`JavaZone`."""
    return JavaZone(name)


def _transitions(name: str) -> list[tuple[int, int]]:
    """Return the first millisecond of each offset of a zone, and the offset in milliseconds."""
    zone = _zone(name)

    def offset(second: int) -> int:
        moved = (EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC).astimezone(zone).utcoffset()
        assert moved is not None
        return int(moved.total_seconds()) * 1000

    if isinstance(zone, timezone):
        return [(_BEGINNING, offset(0))]
    standard = min(offset(_LAST_RULE + day * _DAY) for day in range(0, 366, 5))
    transitions = [(_BEGINNING, standard)]
    if offset(_FIRST_TRANSITION) != standard:
        transitions.append((_FIRST_TRANSITION * 1000, offset(_FIRST_TRANSITION)))
    seen = _FIRST_TRANSITION
    for second in chain(range(_FIRST_TRANSITION, _LAST_RULE, _DAY), range(_LAST_RULE, CYCLE_END // 1000, 7 * _DAY)):
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
