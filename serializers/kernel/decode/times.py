"""Dates and times in the decode kernel: of Java, of Avro and of Flink SQL, to Arrow's days and microseconds or to text."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import (
    DAY,
    DAY_MS,
    GREGORIAN_SECOND,
    INSTANT_MAX,
    INSTANT_MIN,
    MOST_YEARS,
    NANOS,
    NO_DAY,
    civil_from_days,
    days_from_civil,
    days_of_month,
    java_date,
    to_gregorian,
    zone_offset,
)
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.decode.arena import VAR, VAR_SIZE, end_text, load_tables, put_fixed, put_null, room
from state_processor.serializers.kernel.decode.text import INSTANT_SIZE, TIME_SIZE, put_date, put_moment, put_time
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MIN_I32, MIN_I64, load_be_i32, load_be_i64, load_i32, load_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, E, Op

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
    nano = value % units * (NANOS // units)
    if meaning == 2:
        if seconds < 0 or seconds >= DAY:
            return pos, outcomes.OUT_OF_RANGE
        return pos, put_clock(arena, cols, col, seconds, nano, False)
    if mode == TEXTUAL:
        return pos, put_instant_text(arena, cols, col, seconds, nano, meaning == 1)
    return pos, put_micros(arena, cols, col, seconds, nano, mode)


@family
def epoch(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    col = prog[pc, COL]
    if prog[pc, CODE] != Op.EPOCH:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    pos, status = _epoch(prog, pc, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col


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


@inlined_kernel
def _plain_timestamp(prog, pc, buf, pos, end):  # type: ignore[no-untyped-def]
    """Read a timestamp outside of binary rows. Return the new position, seconds, nanoseconds of the second, 0 or the status."""
    compact = prog[pc, D] != 0
    size = np.int64(8 if compact else 12)
    if size > end - pos:
        return pos, np.int64(0), np.int64(0), outcomes.TRUNCATED
    ms = load_be_i64(buf, pos)
    nano = np.int64(0) if compact else load_be_i32(buf, pos + 8)
    status = outcomes.OK if nano >= 0 and nano <= 999999 else outcomes.BAD_TIME
    return pos + size, ms // 1000, nano + ms % 1000 * 1000000, status


@inlined_kernel
def _timestamp_in_slot(prog, pc, buf, regs):  # type: ignore[no-untyped-def]
    """Read a timestamp of a binary row. Return seconds, nanoseconds of the second, and 0 or the status that stops the run."""
    slot = regs[prog[pc, B]] + prog[pc, C]
    at = slot
    nano = np.int64(0)
    if prog[pc, D] == 0:
        begin = regs[prog[pc, A]]
        offset = load_i32(buf, slot + 4)
        if offset < 0 or offset + 8 > regs[prog[pc, A] + 1] - begin:
            return np.int64(0), np.int64(0), outcomes.OUT_OF_BOUNDS
        at = begin + offset
        nano = load_i32(buf, slot)
    ms = load_i64(buf, at)
    status = outcomes.OK if nano >= 0 and nano <= 999999 else outcomes.BAD_TIME
    return ms // 1000, nano + ms % 1000 * 1000000, status


@family
def sql_time(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time."""
    prog, _, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.SLOT_DATE:
        status = put_day_number(arena, cols, col, load_i32(buf, regs[prog[pc, B]] + prog[pc, C]))
    elif op == Op.TIMESTAMP or op == Op.SLOT_TIMESTAMP:
        if op == Op.TIMESTAMP:
            pos, seconds, nano, status = _plain_timestamp(prog, pc, buf, pos, end)
        else:
            seconds, nano, status = _timestamp_in_slot(prog, pc, buf, regs)
        if status == outcomes.OK and col >= 0:
            status = put_micros(arena, cols, col, seconds, nano, prog[pc, E])
    return pc + 1 if status == outcomes.OK else pc, pos, status, col


@kernel
def _put_timestamp_text(arena, cols, col, seconds, nano, zone):  # type: ignore[no-untyped-def]
    """Append seconds and nanoseconds of the second, with or without the Z of UTC. Return 0, or the status that stops the run."""
    if zone:
        return put_instant_text(arena, cols, col, seconds, nano, True)
    return put_local(arena, cols, col, seconds // DAY, seconds % DAY, nano)


@kernel
def _put_clock_text(arena, cols, col, ms):  # type: ignore[no-untyped-def]
    """Append milliseconds of the day. Return 0, or the status that stops the run."""
    if ms < 0 or ms >= DAY_MS:
        return outcomes.BAD_TIME
    return put_clock(arena, cols, col, ms // 1000, ms % 1000 * 1000000, False)


@family
def sql_time_text(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time into a column of text."""
    prog, _, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.SLOT_DATE_TEXT:
        status = put_day_text(arena, cols, col, load_i32(buf, regs[prog[pc, B]] + prog[pc, C]))
    elif op == Op.SLOT_TIME:
        status = _put_clock_text(arena, cols, col, load_i32(buf, regs[prog[pc, B]] + prog[pc, C]))
    elif op == Op.TIMESTAMP_TEXT or op == Op.SLOT_TIMESTAMP_TEXT:
        if op == Op.TIMESTAMP_TEXT:
            pos, seconds, nano, status = _plain_timestamp(prog, pc, buf, pos, end)
        else:
            seconds, nano, status = _timestamp_in_slot(prog, pc, buf, regs)
        if status == outcomes.OK and col >= 0:
            status = _put_timestamp_text(arena, cols, col, seconds, nano, prog[pc, E])
    return pc + 1 if status == outcomes.OK else pc, pos, status, col


@inlined_kernel
def _millis(op, mode, utc, consts, zone, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    if pos + 8 > end:
        return pos, outcomes.TRUNCATED
    ms = load_be_i64(buf, pos)
    pos += 8
    if col < 0:
        return pos, outcomes.OK
    if ms == MIN_I64 and op != Op.MILLIS:
        return pos, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if op == Op.SQL_DATE:
        day = (ms + zone_offset(consts, zone, ms, False)) // DAY_MS
        if mode == TEXTUAL:
            return pos, put_java_day_text(arena, cols, col, day)
        return pos, put_day_number(arena, cols, col, to_gregorian(day))
    if op == Op.SQL_TIME:
        of_day = (ms + zone_offset(consts, zone, ms, False)) % DAY_MS
        return pos, put_clock(arena, cols, col, of_day // 1000, of_day % 1000 * 1000000, True)
    if mode == TEXTUAL and not utc:
        return pos, put_instant_text(arena, cols, col, ms // 1000, ms % 1000 * 1000000, False)
    return pos, put_instant(arena, cols, col, ms // 1000, ms % 1000 * 1000000, mode)


@inlined_kernel
def _with_nanos(op, mode, consts, zone, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    if pos + 12 > end:
        return pos, outcomes.TRUNCATED
    whole = load_be_i64(buf, pos)
    nano = load_be_i32(buf, pos + 8)
    pos += 12
    if col < 0:
        return pos, outcomes.OK
    if whole == MIN_I64 and ((op == Op.INSTANT and nano == MIN_I32) or op == Op.SQL_TIMESTAMP):
        return pos, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if op == Op.SQL_TIMESTAMP:
        if whole < GREGORIAN_SECOND * 1000:
            day = (whole + zone_offset(consts, zone, whole, False)) // DAY_MS
            gregorian_day = to_gregorian(day)
            if gregorian_day == NO_DAY:
                return pos - 12, outcomes.OUT_OF_RANGE
            whole += (gregorian_day - day) * DAY_MS
        whole = whole // 1000
    elif whole < INSTANT_MIN or whole > INSTANT_MAX:
        return pos - 12, outcomes.BAD_TIME
    if nano < 0 or nano >= NANOS:
        return pos - 12, outcomes.BAD_TIME
    return pos, put_instant(arena, cols, col, whole, nano, mode)


@family
def temporal(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time.

    The operand ``utc`` belongs to ``MILLIS`` alone: 1 if its text ends with the ``Z`` of UTC, as the text of the others does. The
    operand ``zone`` belongs to the others.
    """
    prog, _, _, consts, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    mode = prog[pc, A]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.SQL_TIMESTAMP or op == Op.INSTANT:
        pos, status = _with_nanos(op, mode, consts, prog[pc, B], buf, pos, end, arena, cols, col)
    elif op == Op.DATE_MS or op == Op.SQL_DATE or op == Op.SQL_TIME or op == Op.MILLIS:
        zone = np.int64(-1) if op == Op.MILLIS else prog[pc, B]
        utc = prog[pc, B] != 0 or op != Op.MILLIS
        pos, status = _millis(op, mode, utc, consts, zone, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
