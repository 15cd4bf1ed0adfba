"""Dates and times as text in the encode kernel.

Texts follow :mod:`~state_processor.serializers.text_grammar`. The decode kernel writes them and Python accepts them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel.calendar import (
    DAY,
    INSTANT_MAX,
    INSTANT_MIN,
    MOST_YEARS,
    NANOS,
    days_from_civil,
    days_of_month,
)
from state_processor.serializers.kernel.compiler import kernel

_ANY_YEAR: Final = np.int64(9999999999)
_MOST_MS: Final = 9223372036854775  # seconds whose milliseconds fit a long, at both ends not all of them
_LAST_NANO: Final = 807_999_999
_FIRST_NANO: Final = 193_000_000  # the preceding millisecond represents null
_WRONG: Final = np.int64(-1)


@kernel
def _digits(text, at, end, count):  # type: ignore[no-untyped-def]
    """Return the number that so many digits represent; -1 for other text."""
    if at + count > end:
        return _WRONG
    value = np.int64(0)
    for i in range(at, at + count):
        digit = np.int64(text[i]) - 48
        if digit < 0 or digit > 9:
            return _WRONG
        value = 10 * value + digit
    return value


@kernel
def parse_date(text, begin, end, most_years):  # type: ignore[no-untyped-def]
    """Return the offset after a date like 2024-02-29 and its days since 1970; -1 for other text."""
    at = begin
    negative = False
    if at < end and (text[at] == 43 or text[at] == 45):
        negative = text[at] == 45
        at += 1
    dash = at
    while dash < end and dash - at <= 10 and text[dash] != 45:
        dash += 1
    if dash - at < 4 or dash - at > 10 or dash == end or dash + 6 > end or text[dash + 3] != 45:
        return _WRONG, np.int64(0)
    year = _digits(text, at, end, dash - at)
    month = _digits(text, dash + 1, end, 2)
    day = _digits(text, dash + 4, end, 2)
    if year < 0 or year > most_years or month < 1 or month > 12 or day < 1:
        return _WRONG, np.int64(0)
    if negative:
        year = -year
    if day > days_of_month(year, month):
        return _WRONG, np.int64(0)
    return np.int64(dash + 6), np.int64(days_from_civil(year, month, day))


@kernel
def parse_clock(text, at, end):  # type: ignore[no-untyped-def]
    """Return the nanoseconds of the day of a time like 08:30 or 08:30:00.5; -1 for other text."""
    if end - at < 5 or text[at + 2] != 58:
        return _WRONG
    hour = _digits(text, at, end, 2)
    minute = _digits(text, at + 3, end, 2)
    second = np.int64(0)
    nano = np.int64(0)
    if end - at > 5:
        if text[at + 5] != 58:
            return _WRONG
        second = _digits(text, at + 6, end, 2)
        size = end - at - 9
        if end - at > 8:
            if text[at + 8] != 46 or size < 1 or size > 9:
                return _WRONG
            nano = _digits(text, at + 9, end, size)
            for _ in range(9 - size):
                nano *= 10
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59 or nano < 0:
        return _WRONG
    return (hour * 3600 + minute * 60 + second) * NANOS + nano


@kernel
def parse_local(text, begin, end):  # type: ignore[no-untyped-def]
    """Return days and nanoseconds of the day of a date and time without a zone; -1 nanoseconds for other text."""
    at, days = parse_date(text, begin, end, MOST_YEARS)
    if at < 0:
        return days, _WRONG
    if at == end:
        return days, np.int64(0)
    if text[at] != 84 and text[at] != 32:
        return days, _WRONG
    return days, parse_clock(text, at + 1, end)


@kernel
def parse_instant(text, begin, end):  # type: ignore[no-untyped-def]
    """Return seconds since 1970 and nanoseconds of the second of a point in time; -1 nanoseconds for other text."""
    if end == begin or text[end - 1] != 90:
        return np.int64(0), _WRONG
    at, days = parse_date(text, begin, end - 1, _ANY_YEAR)
    if at < 0 or at >= end - 1 or (text[at] != 84 and text[at] != 32):
        return np.int64(0), _WRONG
    nanos = parse_clock(text, at + 1, end - 1)
    seconds = days * DAY + nanos // NANOS
    if nanos < 0 or seconds < INSTANT_MIN or seconds > INSTANT_MAX:
        return np.int64(0), _WRONG
    return seconds, nanos % NANOS


@kernel
def parse_moment(text, begin, end):  # type: ignore[no-untyped-def]
    """Return the same for a point in time, or for a date and time without a zone, taken as UTC."""
    if end > begin and text[end - 1] == 90:
        return parse_instant(text, begin, end)
    days, nanos = parse_local(text, begin, end)
    if nanos < 0:
        return np.int64(0), _WRONG
    return days * DAY + nanos // NANOS, nanos % NANOS


@kernel
def fits_millis(seconds, nano):  # type: ignore[no-untyped-def]
    """Return True if a long holds the milliseconds since 1970 of a point in time, and they do not represent null."""
    if seconds == _MOST_MS:
        return nano <= _LAST_NANO
    if seconds == -_MOST_MS - 1:
        return nano >= _FIRST_NANO
    return -_MOST_MS <= seconds <= _MOST_MS
