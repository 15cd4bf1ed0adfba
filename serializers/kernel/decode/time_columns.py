"""Dates and times in columns: functions that append days, points in time and times of day, as numbers or as text.

Each returns 0, or the status that stops the run.
"""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import civil_from_days, java_date
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_fixed, room
from state_processor.serializers.kernel.decode.text import INSTANT_SIZE, TIME_SIZE, put_date, put_moment, put_time

TEXTUAL: Final = 1
"""The mode that makes text of dates and points in time."""
_FIRST_DAY: Final = -719162  # 0001-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31
_FIRST_SECOND: Final = -62135596800  # 0001-01-01T00:00:00Z, where Spark's timestamps begin
_LAST_SECOND: Final = 253402300799  # 9999-12-31T23:59:59Z


@kernel
def put_day_number(arena, cols, col, days):  # type: ignore[no-untyped-def]
    """Append a day as days since 1970."""
    if days > _LAST_DAY or days < _FIRST_DAY:
        return outcomes.OUT_OF_RANGE
    return outcomes.OK if put_fixed(arena, cols, col, days) else outcomes.FULL


@kernel
def _put_date_text(arena, cols, col, year, month, day):  # type: ignore[no-untyped-def]
    if not room(cols, col, INSTANT_SIZE):
        return outcomes.FULL
    end_text(arena, cols, col, put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, day))
    return outcomes.OK


@kernel
def put_day_text(arena, cols, col, days):  # type: ignore[no-untyped-def]
    """Append a day as text."""
    year, month, day = civil_from_days(days)
    return _put_date_text(arena, cols, col, year, month, day)


@kernel
def put_java_day_text(arena, cols, col, days):  # type: ignore[no-untyped-def]
    """Append a day as the text that ``java.sql.Date`` shows."""
    year, month, day = java_date(days)
    return _put_date_text(arena, cols, col, year, month, day)


@kernel
def put_day(arena, cols, col, days, mode):  # type: ignore[no-untyped-def]
    """Append a day as days since 1970 or as text."""
    if mode == TEXTUAL:
        return put_day_text(arena, cols, col, days)
    return put_day_number(arena, cols, col, days)


@kernel
def put_clock(arena, cols, col, seconds, nano, always_seconds):  # type: ignore[no-untyped-def]
    """Append a time of day as text."""
    if not room(cols, col, TIME_SIZE):
        return outcomes.FULL
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    end_text(arena, cols, col, put_time(arena, out, seconds // 3600, seconds // 60 % 60, seconds % 60, nano, always_seconds))
    return outcomes.OK


@kernel
def put_local(arena, cols, col, days, seconds, nano):  # type: ignore[no-untyped-def]
    """Append a day and a time of day as text."""
    if not room(cols, col, INSTANT_SIZE):
        return outcomes.FULL
    year, month, day = civil_from_days(days)
    out = put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, day)
    arena[out] = 84
    end_text(arena, cols, col, put_time(arena, out + 1, seconds // 3600, seconds // 60 % 60, seconds % 60, nano, False))
    return outcomes.OK


@kernel
def put_micros(arena, cols, col, seconds, nano, mode):  # type: ignore[no-untyped-def]
    """Append a point in time as microseconds."""
    if mode == 0 and nano % 1000 != 0:
        return outcomes.LOST_NANOS
    if seconds > _LAST_SECOND or seconds < _FIRST_SECOND:
        return outcomes.OUT_OF_RANGE
    if put_fixed(arena, cols, col, seconds * 1000000 + nano // 1000):
        return outcomes.OK
    return outcomes.FULL


@kernel
def put_instant_text(arena, cols, col, seconds, nano, zone):  # type: ignore[no-untyped-def]
    """Append a point in time as text."""
    if not room(cols, col, INSTANT_SIZE):
        return outcomes.FULL
    out = put_moment(arena, cols[col, VAR] + cols[col, VAR_SIZE], seconds, nano)
    end_text(arena, cols, col, out if zone else out - 1)
    return outcomes.OK


@kernel
def put_instant(arena, cols, col, seconds, nano, mode):  # type: ignore[no-untyped-def]
    """Append a point in time as UTC text or as microseconds."""
    if mode == TEXTUAL:
        return put_instant_text(arena, cols, col, seconds, nano, True)
    return put_micros(arena, cols, col, seconds, nano, mode)
