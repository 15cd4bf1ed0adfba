"""Dates and times without a zone in the decode kernel: Java's fields to Arrow's days and microseconds, or to text.

Fields that Java refuses (a 13th month, a negative nanosecond) are damaged bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel, on_demand
from state_processor.serializers.kernel.decode.days import TEXTUAL, put_day
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_micros, put_null, room
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import (
    INSTANT_SIZE,
    TIME_SIZE,
    civil_from_days,
    days_from_civil,
    put_date,
    put_time,
)
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, A, Op

_MIN_I32: Final = -(2**31)
_NANOS: Final = 1000000000


@kernel
def _is_date(year, month, day):  # type: ignore[no-untyped-def]
    if year > 999999999 or year < -999999999 or month < 1 or month > 12 or day < 1:
        return False
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if leap else 28)
    return day <= (30 if month == 4 or month == 6 or month == 9 or month == 11 else 31)


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
        null = year == _MIN_I32
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
    if null or hour > 23 or minute > 59 or second > 59 or nano < 0 or nano >= _NANOS:
        return pos, outcomes.BAD_TIME
    if op == Op.LOCAL_DATE_TIME and mode != TEXTUAL:
        return at, put_micros(arena, cols, col, days * 86400 + hour * 3600 + minute * 60 + second, nano, mode)
    if not room(cols, col, INSTANT_SIZE + TIME_SIZE):
        return pos, outcomes.FULL
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    if op == Op.LOCAL_DATE_TIME:
        year, month, day = civil_from_days(days)
        out = put_date(arena, out, year, month, day)
        arena[out] = 84
        out += 1
    end_text(arena, cols, col, put_time(arena, out, hour, minute, second, nano, False))
    return at, outcomes.OK


@on_demand(*ARGUMENTS)
def java_local_time(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time. Return the index of the next instruction, the position, the status, the column."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    if op != Op.LOCAL_DATE and op != Op.LOCAL_TIME and op != Op.LOCAL_DATE_TIME:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    pos, status = _local(op, prog[pc, A], buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
