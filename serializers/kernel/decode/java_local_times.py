"""Dates and times without a zone in the decode kernel: Java's fields to Arrow's days and microseconds, or to text.

Fields that Java refuses (a 13th month, a negative nanosecond) are damaged bytes.
"""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import DAY, MOST_YEARS, NANOS, days_from_civil, days_of_month
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.decode.slots import put_null
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.time_columns import TEXTUAL, put_clock, put_day, put_local, put_micros
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MIN_I32, load_be_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, A, Op


@kernel
def _is_date(year, month, day):  # type: ignore[no-untyped-def]
    if year > MOST_YEARS or year < -MOST_YEARS or month < 1 or month > 12 or day < 1:
        return False
    return day <= days_of_month(year, month)


@inlined_kernel
def _local(op, mode, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    size = 6 if op == Op.LOCAL_DATE else (7 if op == Op.LOCAL_TIME else 13)
    if pos + size > end:
        return pos, outcomes.TRUNCATED
    if col < 0:
        return pos + size, outcomes.OK
    days = np.int64(0)
    null = False
    at = pos
    if op != Op.LOCAL_TIME:
        year = load_be_i32(buf, at)
        month = np.int64(buf[at + 4])
        day = np.int64(buf[at + 5])
        at += 6
        null = year == MIN_I32
        if not null:
            if not _is_date(year, month, day):
                return pos, outcomes.BAD_TIME
            days = days_from_civil(year, month, day)
    if op == Op.LOCAL_DATE:
        if null:
            return at, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
        return at, put_day(arena, cols, col, days, mode)
    hour = np.int64(buf[at])
    minute = np.int64(buf[at + 1])
    second = np.int64(buf[at + 2])
    nano = load_be_i32(buf, at + 3)
    at += 7
    if hour == 0x80 and (null or op == Op.LOCAL_TIME):
        return at, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if null or hour > 23 or minute > 59 or second > 59 or nano < 0 or nano >= NANOS:
        return pos, outcomes.BAD_TIME
    seconds = hour * 3600 + minute * 60 + second
    if op == Op.LOCAL_TIME:
        return at, put_clock(arena, cols, col, seconds, nano, False)
    if mode == TEXTUAL:
        return at, put_local(arena, cols, col, days, seconds, nano)
    return at, put_micros(arena, cols, col, days * DAY + seconds, nano, mode)


@family
def java_local_time(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    if op != Op.LOCAL_DATE and op != Op.LOCAL_TIME and op != Op.LOCAL_DATE_TIME:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    pos, status = _local(op, prog[pc, A], buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
