"""Days in the decode kernel, for all families of dates and times."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode.java_days import java_date
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_fixed, room
from state_processor.serializers.kernel.decode.text import INSTANT_SIZE, civil_from_days, put_date

TEXTUAL: Final = 1
"""The mode that makes text of dates and points in time."""
_FIRST_DAY: Final = -719162  # 0001-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31


@kernel
def put_day_number(arena, cols, col, days):  # type: ignore[no-untyped-def]
    """Append a day as days since 1970. Return 0, or the status that stops the run."""
    if days > _LAST_DAY or days < _FIRST_DAY:
        return outcomes.OUT_OF_RANGE
    return outcomes.OK if put_fixed(arena, cols, col, days) else outcomes.FULL


@kernel
def put_day_text(arena, cols, col, days):  # type: ignore[no-untyped-def]
    """Append a day as text. Return 0, or the status that stops the run."""
    if not room(cols, col, INSTANT_SIZE):
        return outcomes.FULL
    year, month, day = civil_from_days(days)
    end_text(arena, cols, col, put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, day))
    return outcomes.OK


@kernel
def put_java_day_text(arena, cols, col, day):  # type: ignore[no-untyped-def]
    """Append a day as the text that ``java.sql.Date`` shows. Return 0, or the status that stops the run."""
    if not room(cols, col, INSTANT_SIZE):
        return outcomes.FULL
    year, month, of_month = java_date(day)
    end_text(arena, cols, col, put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, of_month))
    return outcomes.OK


@kernel
def put_day(arena, cols, col, days, mode):  # type: ignore[no-untyped-def]
    """Append a day as days since 1970 or as text. Return 0, or the status that stops the run."""
    if mode == TEXTUAL:
        return put_day_text(arena, cols, col, days)
    return put_day_number(arena, cols, col, days)
