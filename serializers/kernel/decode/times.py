"""Dates and times in the decode kernel: Java's fields to Arrow's days and microseconds, or to the text that Java prints.

Fields that Java refuses (a 13th month, a negative nanosecond) are damaged bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel, on_demand
from state_processor.serializers.kernel.decode.slots import (
    VAR,
    VAR_SIZE,
    end_text,
    put_fixed,
    put_instant_text,
    put_micros,
    put_null,
    put_time_of,
    room,
)
from state_processor.serializers.kernel.decode.sql_values import timestamp
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
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, Op

_TEXT: Final = 1  # the mode that makes text of dates and points in time
_MIN_I64: Final = -(2**63)
_MIN_I32: Final = -(2**31)
_NANOS: Final = 1000000000
_FIRST_DAY: Final = -719162  # 0001-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31
_INSTANT_MIN: Final = -31557014167219200
_INSTANT_MAX: Final = 31556889864403199


@kernel
def put_day(arena, cols, col, days, mode):  # type: ignore[no-untyped-def]
    """Append a day as days since 1970 or as text. Return 0, or the status that stops the run."""
    if mode == _TEXT:
        if not room(cols, col, INSTANT_SIZE):
            return outcomes.FULL
        year, month, day = civil_from_days(days)
        end_text(arena, cols, col, put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, day))
        return outcomes.OK
    if days > _LAST_DAY or days < _FIRST_DAY:
        return outcomes.OUT_OF_RANGE
    return outcomes.OK if put_fixed(arena, cols, col, days) else outcomes.FULL


@kernel
def _is_date(year, month, day):  # type: ignore[no-untyped-def]
    if year > 999999999 or year < -999999999 or month < 1 or month > 12 or day < 1:
        return False
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if leap else 28)
    return day <= (30 if month == 4 or month == 6 or month == 9 or month == 11 else 31)


@inlined_kernel
def _millis(op, mode, zone, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    if pos + 8 > end:
        return pos, outcomes.TRUNCATED
    ms = load_be_i64(buf, pos)
    pos += 8
    if col < 0:
        return pos, outcomes.OK
    if ms == _MIN_I64 and op != Op.MILLIS:
        return pos, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if op == Op.SQL_DATE:
        return pos, put_day(arena, cols, col, ms // 86400000, mode)
    if op == Op.SQL_TIME:
        if not room(cols, col, TIME_SIZE):
            return pos, outcomes.FULL
        of_day = ms % 86400000
        seconds = of_day // 1000
        out = cols[col, VAR] + cols[col, VAR_SIZE]
        out = put_time(arena, out, seconds // 3600, seconds // 60 % 60, seconds % 60, of_day % 1000 * 1000000, True)
        end_text(arena, cols, col, out)
        return pos, outcomes.OK
    if mode == _TEXT and not zone:
        return pos, put_instant_text(arena, cols, col, ms // 1000, ms % 1000 * 1000000, False)
    return pos, put_time_of(arena, cols, col, ms // 1000, ms % 1000 * 1000000, mode)


@inlined_kernel
def _with_nanos(op, mode, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    if pos + 12 > end:
        return pos, outcomes.TRUNCATED
    whole = load_be_i64(buf, pos)
    nano = load_be_i32(buf, pos + 8)
    pos += 12
    if col < 0:
        return pos, outcomes.OK
    if whole == _MIN_I64 and ((op == Op.INSTANT and nano == _MIN_I32) or op == Op.SQL_TIMESTAMP):
        return pos, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if op == Op.SQL_TIMESTAMP:
        whole = whole // 1000
    elif whole < _INSTANT_MIN or whole > _INSTANT_MAX:
        return pos - 12, outcomes.BAD_TIME
    if nano < 0 or nano >= _NANOS:
        return pos - 12, outcomes.BAD_TIME
    return pos, put_time_of(arena, cols, col, whole, nano, mode)


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
    if op == Op.LOCAL_DATE_TIME and mode != _TEXT:
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


@inlined_kernel
def _epoch(prog, pc, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a count of days or of parts of a second, never null (Avro). Return the new position and 0, or the status."""
    mode, meaning, units, size = prog[pc, A], prog[pc, B], prog[pc, C], prog[pc, D]
    if pos + size > end:
        return pos, outcomes.TRUNCATED
    value = np.int64(load_be_i32(buf, pos)) if size == 4 else load_be_i64(buf, pos)
    pos += size
    if col < 0:
        return pos, outcomes.OK
    if units == 0:
        return pos, put_day(arena, cols, col, value, mode)
    seconds = value // units
    nano = value % units * (_NANOS // units)
    if meaning == 2:
        if seconds < 0 or seconds >= 86400:
            return pos, outcomes.OUT_OF_RANGE
        if not room(cols, col, TIME_SIZE):
            return pos, outcomes.FULL
        out = cols[col, VAR] + cols[col, VAR_SIZE]
        end_text(arena, cols, col, put_time(arena, out, seconds // 3600, seconds // 60 % 60, seconds % 60, nano, False))
        return pos, outcomes.OK
    if mode == _TEXT:
        return pos, put_instant_text(arena, cols, col, seconds, nano, meaning == 1)
    return pos, put_micros(arena, cols, col, seconds, nano, mode)


@on_demand(*ARGUMENTS)
def temporal(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time. Return the index of the next instruction, the position, the status, the column.

    ``zone`` is an operand of ``MILLIS`` alone: 1 if its text ends with the ``Z`` of UTC, as that of the others does.
    """
    prog, _, _, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    mode = prog[pc, A]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.LOCAL_DATE or op == Op.LOCAL_TIME or op == Op.LOCAL_DATE_TIME:
        pos, status = _local(op, mode, buf, pos, end, arena, cols, col)
    elif op == Op.SQL_TIMESTAMP or op == Op.INSTANT:
        pos, status = _with_nanos(op, mode, buf, pos, end, arena, cols, col)
    elif op == Op.DATE_MS or op == Op.SQL_DATE or op == Op.SQL_TIME or op == Op.MILLIS:
        pos, status = _millis(op, mode, prog[pc, B] != 0 or op != Op.MILLIS, buf, pos, end, arena, cols, col)
    elif op == Op.EPOCH:
        pos, status = _epoch(prog, pc, buf, pos, end, arena, cols, col)
    elif op == Op.TIMESTAMP:
        pos, status = timestamp(prog, pc, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
