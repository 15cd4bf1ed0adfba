"""The calendar and the zone of ``java.sql`` in kernels; :mod:`state_processor.serializers.core.calendars` explains them."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode.text import civil_from_days, days_from_civil
from state_processor.serializers.kernel.memory import load_i64

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
