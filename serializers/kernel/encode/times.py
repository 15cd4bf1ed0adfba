"""Dates and times in the encode kernel: of Java, of Avro and of Flink SQL, from Arrow's days and microseconds or from text."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import (
    DAY,
    DAY_MS,
    DAY_US,
    GREGORIAN_SECOND,
    INSTANT_MAX,
    INSTANT_MIN,
    MOST_YEARS,
    NANOS,
    NO_DAY,
    civil_from_days,
    days_from_civil,
    days_of_month,
    from_gregorian,
    zone_offset,
)
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL, copy, is_null, load_tables, point, text_at
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import (
    MAX_I32,
    MAX_I64,
    MIN_I32,
    MIN_I64,
    load_i32,
    load_i64,
    store_be_i16,
    store_be_i32,
    store_be_i64,
    store_i32,
    store_i64,
)
from state_processor.serializers.kernel.opcodes import CLOCK_TEXT, CODE, COL, COUNTS, INSTANT_TEXT, LOCAL_TEXT, A, B, C, D, E, Op

_ANY_YEAR: Final = np.int64(9999999999)
_MOST_MS: Final = 9223372036854775  # seconds whose milliseconds fit a long, at both ends not all of them
_LAST_NANO: Final = 807_999_999
_FIRST_NANO: Final = 193_000_000  # the preceding millisecond represents null


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


_WRONG: Final = np.int64(-1)


@inlined_kernel
def _put_epoch(prog, pc, arena, cols, col, slot, out, pos):  # type: ignore[no-untyped-def]
    """Write a count of days or of parts of a second (Avro). Return the offset after it and 0, or the status."""
    units, size, form = prog[pc, A], prog[pc, B], prog[pc, C]
    seconds = np.int64(0)
    nano = np.int64(0)
    value = np.int64(0)
    if form == COUNTS:
        if units == 0:
            value = np.int64(load_i32(arena, cols[col, DATA] + 4 * slot))
        else:
            micros = load_i64(arena, cols[col, DATA] + 8 * slot)
            seconds = micros // 1000000
            nano = (micros - seconds * 1000000) * 1000
    else:
        begin, end = text_at(arena, cols, col, slot)
        if form == INSTANT_TEXT:
            seconds, nano = parse_instant(arena, begin, end)
        elif form == CLOCK_TEXT:
            nanos = parse_clock(arena, begin, end)
            seconds = nanos // NANOS
            nano = _WRONG if nanos < 0 else nanos % NANOS
        elif form == LOCAL_TEXT:
            days, nanos = parse_local(arena, begin, end)
            seconds = days * DAY + nanos // NANOS
            nano = _WRONG if nanos < 0 else nanos % NANOS
        else:
            at, value = parse_date(arena, begin, end, MOST_YEARS)
            nano = np.int64(0) if at == end else _WRONG
        if nano < 0:
            return pos, outcomes.BAD_TIME
    if units:
        most = MAX_I64 // units - 1
        if seconds > most or seconds < -most:
            return pos, outcomes.OUT_OF_RANGE
        part = NANOS // units
        if nano % part:
            return pos, outcomes.LOST_DIGITS
        value = seconds * units + nano // part
    if size == 8:
        store_be_i64(out, pos, value)
    else:
        if value > MAX_I32 or value < MIN_I32:
            return pos, outcomes.OUT_OF_RANGE
        store_be_i32(out, pos, value)
    return pos + size, outcomes.OK


@family
def put_epoch(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write one date or time."""
    prog, _, arena, cols, idx, _, _, out = load_tables(tables)
    col = prog[pc, COL]
    if prog[pc, CODE] != Op.EPOCH:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION
    slot = idx[cols[col, LEVEL]]
    if is_null(arena, cols, col, slot):
        return pc, pos, outcomes.NULL_VALUE
    pos, status = _put_epoch(prog, pc, arena, cols, col, slot, out, pos)
    return pc + 1 if status == outcomes.OK else pc, pos, status


_MIN_I16: Final = -(2**15)


@kernel
def _put_date(days, out, pos):  # type: ignore[no-untyped-def]
    year, month, day = civil_from_days(days)
    store_be_i32(out, pos, year)
    out[pos + 4] = month
    out[pos + 5] = day
    return pos + 6


@kernel
def _put_clock(nanos, out, pos):  # type: ignore[no-untyped-def]
    seconds = nanos // NANOS
    out[pos] = seconds // 3600
    out[pos + 1] = seconds // 60 % 60
    out[pos + 2] = seconds % 60
    store_be_i32(out, pos + 3, nanos % NANOS)
    return pos + 7


@inlined_kernel
def _put_local_null(op, out, pos):  # type: ignore[no-untyped-def]
    """Write the bytes for null. Return the offset after them."""
    if op != Op.LOCAL_TIME:
        store_be_i32(out, pos, MIN_I32)
        store_be_i16(out, pos + 4, _MIN_I16)
        pos += 6
    if op != Op.LOCAL_DATE:
        out[pos] = 0x80
        store_be_i16(out, pos + 1, _MIN_I16)
        store_be_i32(out, pos + 3, MIN_I32)
        pos += 7
    return pos


@inlined_kernel
def _local_time_from_text(op, text, begin, end, out, pos):  # type: ignore[no-untyped-def]
    """Write a text. Return the offset after it, or -1 for a wrong one."""
    if op == Op.LOCAL_DATE:
        at, days = parse_date(text, begin, end, MOST_YEARS)
        return _put_date(days, out, pos) if at == end else np.int64(-1)
    if op == Op.LOCAL_TIME:
        nanos = parse_clock(text, begin, end)
        return _put_clock(nanos, out, pos) if nanos >= 0 else np.int64(-1)
    days, nanos = parse_local(text, begin, end)
    return _put_clock(nanos, out, _put_date(days, out, pos)) if nanos >= 0 else np.int64(-1)


@family
def put_java_local_time(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write one date or time."""
    prog, _, arena, cols, idx, _, _, out = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    textual = prog[pc, B] != 0
    if op != Op.LOCAL_DATE and op != Op.LOCAL_TIME and op != Op.LOCAL_DATE_TIME:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION
    slot = idx[cols[col, LEVEL]]
    if is_null(arena, cols, col, slot):
        return pc + 1, _put_local_null(op, out, pos), outcomes.OK
    if textual:
        begin, end = text_at(arena, cols, col, slot)
        after = _local_time_from_text(op, arena, begin, end, out, pos)
        return (pc, pos, outcomes.BAD_TIME) if after < 0 else (pc + 1, after, outcomes.OK)
    if op == Op.LOCAL_DATE:
        return pc + 1, _put_date(load_i32(arena, cols[col, DATA] + 4 * slot), out, pos), outcomes.OK
    if op == Op.LOCAL_TIME:  # its columns are text
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION
    micros = load_i64(arena, cols[col, DATA] + 8 * slot)
    days = micros // DAY_US
    return pc + 1, _put_clock((micros - days * DAY_US) * 1000, out, _put_date(days, out, pos)), outcomes.OK


@kernel
def _millis_of(arena, cols, col, slot, textual):  # type: ignore[no-untyped-def]
    """Return milliseconds since 1970, nanoseconds of the millisecond, and 0 or the status that stops the run."""
    if not textual:
        micros = load_i64(arena, cols[col, DATA] + 8 * slot)
        millis = micros // 1000
        return millis, (micros - millis * 1000) * 1000, outcomes.OK
    begin, end = text_at(arena, cols, col, slot)
    seconds, nano = parse_moment(arena, begin, end)
    if nano < 0:
        return seconds, nano, outcomes.BAD_TIME
    if not fits_millis(seconds, nano):
        return seconds, nano, outcomes.OUT_OF_RANGE
    return seconds * 1000 + nano // 1000000, nano % 1000000, outcomes.OK


@inlined_kernel
def _put_plain(prog, pc, arena, cols, col, slot, out, pos):  # type: ignore[no-untyped-def]
    """Write a timestamp of Flink SQL outside of binary rows. Return the offset after it and 0, or the status."""
    millis, nano, status = _millis_of(arena, cols, col, slot, prog[pc, B] != 0)
    if status != outcomes.OK:
        return pos, status
    store_be_i64(out, pos, millis)
    if prog[pc, A]:
        return pos + 8, outcomes.LOST_DIGITS if nano else outcomes.OK
    store_be_i32(out, pos + 8, nano)
    return pos + 12, outcomes.OK


@inlined_kernel
def _put_in_slot(op, prog, pc, arena, cols, col, at, out, slot, begin, pos):  # type: ignore[no-untyped-def]
    """Write a date, a time of day or a timestamp. Return the new end of the region and 0, or the status that stops the run."""
    textual = prog[pc, E] != 0
    first, last = np.int64(0), np.int64(0)
    if textual:
        first, last = text_at(arena, cols, col, at)
    if op == Op.SLOT_DATE:
        days = np.int64(0)
        if textual:
            after, days = parse_date(arena, first, last, MOST_YEARS)
            if after != last:
                return pos, outcomes.BAD_TIME
            if days > MAX_I32 or days < MIN_I32:
                return pos, outcomes.OUT_OF_RANGE
        else:
            days = np.int64(load_i32(arena, cols[col, DATA] + 4 * at))
        store_i32(out, slot, days)
        return pos, outcomes.OK
    if op == Op.SLOT_TIME:
        nanos = parse_clock(arena, first, last)
        if nanos < 0:
            return pos, outcomes.BAD_TIME
        store_i32(out, slot, nanos // 1000000)
        return pos, outcomes.LOST_DIGITS if nanos % 1000000 else outcomes.OK
    millis, nano, status = _millis_of(arena, cols, col, at, textual)
    if status != outcomes.OK:
        return pos, status
    if prog[pc, D]:
        store_i64(out, slot, millis)
        return pos, outcomes.LOST_DIGITS if nano else outcomes.OK
    if pos + 8 > len(out):
        return pos, outcomes.FULL
    point(out, slot, begin, pos, nano)
    store_i64(out, pos, millis)
    return pos + 8, outcomes.OK


@family
def put_sql_time(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write one date or time."""
    prog, _, arena, cols, idx, _, regs, out = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.TIMESTAMP or op == Op.SLOT_TIMESTAMP or op == Op.SLOT_DATE or op == Op.SLOT_TIME:
        at = idx[cols[col, LEVEL]]
        if op != Op.TIMESTAMP:
            slot = regs[prog[pc, B]] + prog[pc, C]
            pos, status = _put_in_slot(op, prog, pc, arena, cols, col, at, out, slot, regs[prog[pc, A]], pos)
        elif is_null(arena, cols, col, at):
            status = outcomes.NULL_VALUE
        else:
            pos, status = _put_plain(prog, pc, arena, cols, col, at, out, pos)
    return pc + 1 if status == outcomes.OK else pc, pos, status


_MOST_MS_DAY: Final = 106751991165  # days whose milliseconds fit a long, in every zone


@kernel
def _put_null(op, out, pos):  # type: ignore[no-untyped-def]
    """Write the bytes for null. Return the offset after them and 0, or the status that stops the run."""
    if op == Op.INSTANT or op == Op.SQL_TIMESTAMP:
        store_be_i64(out, pos, MIN_I64)
        store_be_i32(out, pos + 8, MIN_I32 if op == Op.INSTANT else 0)
        return pos + 12, outcomes.OK
    if op == Op.DATE_MS or op == Op.SQL_DATE or op == Op.SQL_TIME:
        store_be_i64(out, pos, MIN_I64)
        return pos + 8, outcomes.OK
    return pos, outcomes.UNKNOWN_INSTRUCTION


@kernel
def _put_java_day(days, consts, zone, out, pos):  # type: ignore[no-untyped-def]
    """Write the start of a day as ``java.sql.Date`` has it. Return the offset after it and 0, or the status."""
    day = from_gregorian(days)
    if day == NO_DAY:
        return pos, outcomes.NO_SUCH_DAY
    if day > _MOST_MS_DAY or day < -_MOST_MS_DAY:
        return pos, outcomes.OUT_OF_RANGE
    millis = day * DAY_MS - zone_offset(consts, zone, day * DAY_MS, True)
    if (millis + zone_offset(consts, zone, millis, False)) // DAY_MS != day:
        return pos, outcomes.NO_SUCH_DAY
    store_be_i64(out, pos, millis)
    return pos + 8, outcomes.OK


@kernel
def _put_sql_time(op, seconds, nano, out, pos):  # type: ignore[no-untyped-def]
    """Write a point in time. Return the offset after it and 0, or the status that stops the run."""
    if op == Op.INSTANT:
        store_be_i64(out, pos, seconds)
        store_be_i32(out, pos + 8, nano)
        return pos + 12, outcomes.OK
    if op != Op.SQL_TIMESTAMP and op != Op.DATE_MS and op != Op.MILLIS:
        return pos, outcomes.UNKNOWN_INSTRUCTION
    if not fits_millis(seconds, nano):
        return pos, outcomes.OUT_OF_RANGE
    store_be_i64(out, pos, seconds * 1000 + nano // 1000000)
    if op == Op.SQL_TIMESTAMP:
        store_be_i32(out, pos + 8, nano)
        return pos + 12, outcomes.OK
    return pos + 8, outcomes.LOST_DIGITS if nano % 1000000 else outcomes.OK


@kernel
def _put_java_moment(seconds, nano, consts, zone, out, pos):  # type: ignore[no-untyped-def]
    """Write a point in time as ``java.sql.Timestamp`` with the same date. Return the offset after it and 0, or the status."""
    if seconds < GREGORIAN_SECOND:
        day = (seconds + zone_offset(consts, zone, seconds * 1000, False) // 1000) // DAY
        java_day = from_gregorian(day)
        if java_day == NO_DAY:
            return pos, outcomes.NO_SUCH_DAY
        seconds += (java_day - day) * DAY
    return _put_sql_time(Op.SQL_TIMESTAMP, seconds, nano, out, pos)


@kernel
def _from_text(op, text, begin, end, consts, zone, out, pos):  # type: ignore[no-untyped-def]
    if op == Op.SQL_DATE:
        at, days = parse_date(text, begin, end, MOST_YEARS)
        if at != end:
            return pos, outcomes.BAD_TIME
        return _put_java_day(days, consts, zone, out, pos)
    if op == Op.SQL_TIME:
        nanos = parse_clock(text, begin, end)
        if nanos < 0:
            return pos, outcomes.BAD_TIME
        of_day = nanos // 1000000
        store_be_i64(out, pos, of_day - zone_offset(consts, zone, of_day, True))
        return pos + 8, outcomes.LOST_DIGITS if nanos % 1000000 else outcomes.OK
    if op != Op.INSTANT and op != Op.SQL_TIMESTAMP and op != Op.DATE_MS and op != Op.MILLIS:
        return pos, outcomes.UNKNOWN_INSTRUCTION
    seconds, nano = parse_instant(text, begin, end)
    if nano < 0:
        return pos, outcomes.BAD_TIME
    if op == Op.SQL_TIMESTAMP:
        return _put_java_moment(seconds, nano, consts, zone, out, pos)
    return _put_sql_time(op, seconds, nano, out, pos)


@inlined_kernel
def _put_time(prog, pc, consts, arena, cols, col, slot, null, out, pos):  # type: ignore[no-untyped-def]
    """Write a date or time from days, microseconds or text. Return the offset after it and 0, or the status."""
    op = prog[pc, CODE]
    if null:
        if op != Op.MILLIS:
            return _put_null(op, out, pos)
        if prog[pc, A] < 0:
            return pos, outcomes.NULL_VALUE
        return copy(consts, prog[pc, A], prog[pc, A] + 8, out, pos), outcomes.OK
    if prog[pc, B]:
        begin, end = text_at(arena, cols, col, slot)
        return _from_text(op, arena, begin, end, consts, prog[pc, A], out, pos)
    if op == Op.SQL_DATE:
        return _put_java_day(np.int64(load_i32(arena, cols[col, DATA] + 4 * slot)), consts, prog[pc, A], out, pos)
    micros = load_i64(arena, cols[col, DATA] + 8 * slot)
    seconds = micros // 1000000
    nano = (micros - seconds * 1000000) * 1000
    if op == Op.SQL_TIMESTAMP:
        return _put_java_moment(seconds, nano, consts, prog[pc, A], out, pos)
    return _put_sql_time(op, seconds, nano, out, pos)


@family
def put_temporal(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write one date or time."""
    prog, consts, arena, cols, idx, _, _, out = load_tables(tables)
    col = prog[pc, COL]
    slot = np.int64(0)
    null = False
    if col >= 0:
        slot = idx[cols[col, LEVEL]]
        null = is_null(arena, cols, col, slot)
    pos, status = _put_time(prog, pc, consts, arena, cols, col, slot, null, out, pos)
    return pc + 1 if status == outcomes.OK else pc, pos, status
