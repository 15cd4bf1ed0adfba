"""Calendars and units of time in kernels: the Gregorian calendar, and the calendar and the zone of ``java.sql``.

:mod:`state_processor.serializers.core.time_values` explains the latter.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.memory import load_i64

NANOS: Final = 1_000_000_000
"""Nanoseconds of a second."""
DAY: Final = 86_400
"""Seconds of a day."""
DAY_MS: Final = 86_400_000
DAY_US: Final = 86_400_000_000
MOST_YEARS: Final = np.int64(999_999_999)
"""The last year of ``java.time``."""
INSTANT_MIN: Final = -31_557_014_167_219_200
"""The first second of ``java.time.Instant``."""
INSTANT_MAX: Final = 31_556_889_864_403_199
"""Its last second."""
GREGORIAN_SECOND: Final = -12_219_206_400
"""1582-10-16 in UTC, which no zone reaches before the Gregorian calendar of ``java.sql`` begins."""
NO_DAY: Final = np.int64(-(2**62))
"""Stands for a day that the other calendar lacks."""
FIRST_GREGORIAN_DAY: Final = -141_427
"""1582-10-15, as days since 1970."""
LAST_JULIAN_DAY: Final = -141_438
"""1582-10-04 of the proleptic Gregorian calendar; days between it and the first Gregorian day do not exist in Java."""
JULIAN_SHIFT: Final = 719_470
"""Days from March 1 of the year 0 in the Julian calendar to 1970."""
YEARS_4: Final = 1461
"""Days of four years of the Julian calendar."""
CYCLE: Final = 12_622_780_800_000
"""Milliseconds of 400 years, after which the rules of a zone repeat."""
CYCLE_END: Final = 2_114_380_800_000 + CYCLE
"""2437-01-01: from there on times are looked up 400 years earlier."""


@kernel
def days_from_civil(year, month, day):  # type: ignore[no-untyped-def]
    """Return the days since 1970-01-01 of a date in the proleptic Gregorian calendar."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468


@kernel
def civil_from_days(days):  # type: ignore[no-untyped-def]
    """Return the year, month and day of a number of days since 1970-01-01: the inverse of :func:`days_from_civil`."""
    days += 719468
    era = days // 146097
    day_of_era = days - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_index + 2) // 5 + 1
    month = month_index + (3 if month_index < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day


@kernel
def days_of_month(year, month):  # type: ignore[no-untyped-def]
    """Return the number of days of a month in the proleptic Gregorian calendar."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@kernel
def java_date(day):  # type: ignore[no-untyped-def]
    """Return the year, month and day that Java shows for days since 1970."""
    if day >= FIRST_GREGORIAN_DAY:
        return civil_from_days(day)
    days = day + JULIAN_SHIFT
    era = days // YEARS_4
    of_era = days - era * YEARS_4
    year = (of_era - of_era // 1460) // 365
    of_year = of_era - 365 * year
    index = (5 * of_year + 2) // 153
    month = index + (3 if index < 10 else -9)
    return year + 4 * era + (month <= 2), month, of_year - (153 * index + 2) // 5 + 1


@kernel
def to_gregorian(day):  # type: ignore[no-untyped-def]
    """Return the Gregorian day with the year, month and day that Java shows, or ``NO_DAY``."""
    if day >= FIRST_GREGORIAN_DAY:
        return day
    year, month, of_month = java_date(day)
    if month == 2 and of_month == 29 and year % 100 == 0 and year % 400 != 0:
        return NO_DAY
    return np.int64(days_from_civil(year, month, of_month))


@kernel
def from_gregorian(day):  # type: ignore[no-untyped-def]
    """Return the day that Java shows with the year, month and day of a Gregorian one, or ``NO_DAY``."""
    if day >= FIRST_GREGORIAN_DAY:
        return day
    if day > LAST_JULIAN_DAY:
        return NO_DAY
    year, month, of_month = civil_from_days(day)
    year -= month <= 2
    era = year // 4
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + of_month - 1
    return np.int64(era * YEARS_4 + (year - 4 * era) * 365 + of_year - JULIAN_SHIFT)


@kernel
def zone_offset(consts, zone, millis, is_local):  # type: ignore[no-untyped-def]
    """Return the offset of a zone at a point in time, or of a local time, in milliseconds; a negative zone is UTC."""
    if zone < 0:
        return np.int64(0)
    if millis >= CYCLE_END:
        millis -= ((millis - CYCLE_END) // CYCLE + 1) * CYCLE
    low = np.int64(0)
    high = load_i64(consts, zone)
    while high - low > 1:
        middle = (low + high) // 2
        begin = load_i64(consts, zone + 8 + 16 * middle)
        if is_local:
            begin += load_i64(consts, zone + 16 + 16 * middle)
        if begin <= millis:
            low = middle
        else:
            high = middle
    return load_i64(consts, zone + 16 + 16 * low)
