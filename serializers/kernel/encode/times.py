"""Dates and times in the encode kernel: from days, microseconds or ISO text to Java's fields.

Texts are those of :mod:`~state_processor.serializers.text_grammar`, which the decode kernel writes and Python accepts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel, on_demand
from state_processor.serializers.kernel.decode.text import civil_from_days, days_from_civil
from state_processor.serializers.kernel.encode.access import copy, is_null, text_at
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL
from state_processor.serializers.kernel.encode.tables import LARGEST_FIXED, load_tables
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_i32, load_i64, store_be_i16, store_be_i32, store_be_i64
from state_processor.serializers.kernel.opcodes import CLOCK_TEXT, CODE, COL, COUNTS, INSTANT_TEXT, LOCAL_TEXT, A, B, C, Op

_MIN_I64: Final = -(2**63)
_MIN_I32: Final = -(2**31)
_MIN_I16: Final = -(2**15)
_NANOS: Final = 1000000000
_DAY: Final = 86400
_DAY_MS: Final = 86400000
_DAY_US: Final = 86400000000
_MOST_YEARS: Final = np.int64(999999999)
_ANY_YEAR: Final = np.int64(9999999999)
_INSTANT_MIN: Final = -31557014167219200
_INSTANT_MAX: Final = 31556889864403199
_MOST_MS: Final = 9223372036854775  # seconds whose milliseconds fit a long, at both ends not all of them
_LAST_NANO: Final = 807_999_999
_FIRST_NANO: Final = 193_000_000  # the millisecond before stands for null
_MOST_MS_DAY: Final = 106751991166  # days whose milliseconds do

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
def _days_of_month(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


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
    if day > _days_of_month(year, month):
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
    return (hour * 3600 + minute * 60 + second) * _NANOS + nano


@kernel
def parse_local(text, begin, end):  # type: ignore[no-untyped-def]
    """Return days and nanoseconds of the day of a date and time without a zone; -1 nanoseconds for other text."""
    at, days = parse_date(text, begin, end, _MOST_YEARS)
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
    seconds = days * _DAY + nanos // _NANOS
    if nanos < 0 or seconds < _INSTANT_MIN or seconds > _INSTANT_MAX:
        return np.int64(0), _WRONG
    return seconds, nanos % _NANOS


@kernel
def parse_moment(text, begin, end):  # type: ignore[no-untyped-def]
    """Return the same for a point in time, or for a date and time without a zone, taken as UTC."""
    if end > begin and text[end - 1] == 90:
        return parse_instant(text, begin, end)
    days, nanos = parse_local(text, begin, end)
    if nanos < 0:
        return np.int64(0), _WRONG
    return days * _DAY + nanos // _NANOS, nanos % _NANOS


@kernel
def _fits_millis(seconds, nano):  # type: ignore[no-untyped-def]
    """Return True if a long holds the milliseconds since 1970 of a point in time, and they do not represent null."""
    if seconds == _MOST_MS:
        return nano <= _LAST_NANO
    if seconds == -_MOST_MS - 1:
        return nano >= _FIRST_NANO
    return -_MOST_MS <= seconds <= _MOST_MS


@kernel
def _put_date(days, out, pos):  # type: ignore[no-untyped-def]
    year, month, day = civil_from_days(days)
    store_be_i32(out, pos, year)
    out[pos + 4] = month
    out[pos + 5] = day
    return pos + 6


@kernel
def _put_clock(nanos, out, pos):  # type: ignore[no-untyped-def]
    seconds = nanos // _NANOS
    out[pos] = seconds // 3600
    out[pos + 1] = seconds // 60 % 60
    out[pos + 2] = seconds % 60
    store_be_i32(out, pos + 3, nanos % _NANOS)
    return pos + 7


@kernel
def _put_null(op, out, pos):  # type: ignore[no-untyped-def]
    """Write the bytes for null. Return the offset after them and 0, or the status that stops the run."""
    if op == Op.LOCAL_DATE or op == Op.LOCAL_DATE_TIME:
        store_be_i32(out, pos, _MIN_I32)
        store_be_i16(out, pos + 4, _MIN_I16)
        pos += 6
    if op == Op.LOCAL_TIME or op == Op.LOCAL_DATE_TIME:
        out[pos] = 0x80
        store_be_i16(out, pos + 1, _MIN_I16)
        store_be_i32(out, pos + 3, _MIN_I32)
        pos += 7
    if op == Op.LOCAL_DATE or op == Op.LOCAL_TIME or op == Op.LOCAL_DATE_TIME:
        return pos, outcomes.OK
    if op == Op.INSTANT or op == Op.SQL_TIMESTAMP:
        store_be_i64(out, pos, _MIN_I64)
        store_be_i32(out, pos + 8, _MIN_I32 if op == Op.INSTANT else 0)
        return pos + 12, outcomes.OK
    if op == Op.DATE_MS or op == Op.SQL_DATE or op == Op.SQL_TIME:
        store_be_i64(out, pos, _MIN_I64)
        return pos + 8, outcomes.OK
    return pos, outcomes.UNKNOWN_INSTRUCTION


@kernel
def _put_moment(op, seconds, nano, out, pos):  # type: ignore[no-untyped-def]
    """Write a point in time. Return the offset after it and 0, or the status that stops the run."""
    if op == Op.INSTANT:
        store_be_i64(out, pos, seconds)
        store_be_i32(out, pos + 8, nano)
        return pos + 12, outcomes.OK
    if op != Op.SQL_TIMESTAMP and op != Op.DATE_MS and op != Op.MILLIS:
        return pos, outcomes.UNKNOWN_INSTRUCTION
    if not _fits_millis(seconds, nano):
        return pos, outcomes.OUT_OF_RANGE
    store_be_i64(out, pos, seconds * 1000 + nano // 1000000)
    if op == Op.SQL_TIMESTAMP:
        store_be_i32(out, pos + 8, nano)
        return pos + 12, outcomes.OK
    return pos + 8, outcomes.LOST_DIGITS if nano % 1000000 else outcomes.OK


@kernel
def _from_text(op, text, begin, end, out, pos):  # type: ignore[no-untyped-def]
    if op == Op.LOCAL_DATE or op == Op.SQL_DATE:
        at, days = parse_date(text, begin, end, _MOST_YEARS)
        if at != end:
            return pos, outcomes.BAD_TIME
        if op == Op.LOCAL_DATE:
            return _put_date(days, out, pos), outcomes.OK
        if days > _MOST_MS_DAY or days < -_MOST_MS_DAY:
            return pos, outcomes.OUT_OF_RANGE
        store_be_i64(out, pos, days * _DAY_MS)
        return pos + 8, outcomes.OK
    if op == Op.LOCAL_TIME or op == Op.SQL_TIME:
        nanos = parse_clock(text, begin, end)
        if nanos < 0:
            return pos, outcomes.BAD_TIME
        if op == Op.LOCAL_TIME:
            return _put_clock(nanos, out, pos), outcomes.OK
        store_be_i64(out, pos, nanos // 1000000)
        return pos + 8, outcomes.LOST_DIGITS if nanos % 1000000 else outcomes.OK
    if op == Op.LOCAL_DATE_TIME:
        days, nanos = parse_local(text, begin, end)
        if nanos < 0:
            return pos, outcomes.BAD_TIME
        return _put_clock(nanos, out, _put_date(days, out, pos)), outcomes.OK
    if op != Op.INSTANT and op != Op.SQL_TIMESTAMP and op != Op.DATE_MS and op != Op.MILLIS:
        return pos, outcomes.UNKNOWN_INSTRUCTION
    seconds, nano = parse_instant(text, begin, end)
    if nano < 0:
        return pos, outcomes.BAD_TIME
    return _put_moment(op, seconds, nano, out, pos)


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
        return _from_text(op, arena, begin, end, out, pos)
    if op == Op.LOCAL_DATE:
        return _put_date(load_i32(arena, cols[col, DATA] + 4 * slot), out, pos), outcomes.OK
    if op == Op.SQL_DATE:
        store_be_i64(out, pos, load_i32(arena, cols[col, DATA] + 4 * slot) * _DAY_MS)
        return pos + 8, outcomes.OK
    micros = load_i64(arena, cols[col, DATA] + 8 * slot)
    if op == Op.LOCAL_DATE_TIME:
        days = micros // _DAY_US
        return _put_clock((micros - days * _DAY_US) * 1000, out, _put_date(days, out, pos)), outcomes.OK
    seconds = micros // 1000000
    return _put_moment(op, seconds, (micros - seconds * 1000000) * 1000, out, pos)


@inlined_kernel
def _put_timestamp(prog, pc, arena, cols, col, slot, out, pos):  # type: ignore[no-untyped-def]
    """Write a timestamp of Flink SQL outside of binary rows. Return the offset after it and 0, or the status."""
    millis, nano, status = millis_of(arena, cols, col, slot, prog[pc, B] != 0)
    if status != outcomes.OK:
        return pos, status
    store_be_i64(out, pos, millis)
    if prog[pc, A]:
        return pos + 8, outcomes.LOST_DIGITS if nano else outcomes.OK
    store_be_i32(out, pos + 8, nano)
    return pos + 12, outcomes.OK


@kernel
def millis_of(arena, cols, col, slot, textual):  # type: ignore[no-untyped-def]
    """Return milliseconds since 1970, nanoseconds of the millisecond, and 0 or the status that stops the run."""
    if not textual:
        micros = load_i64(arena, cols[col, DATA] + 8 * slot)
        millis = micros // 1000
        return millis, (micros - millis * 1000) * 1000, outcomes.OK
    begin, end = text_at(arena, cols, col, slot)
    seconds, nano = parse_moment(arena, begin, end)
    if nano < 0:
        return seconds, nano, outcomes.BAD_TIME
    if not _fits_millis(seconds, nano):
        return seconds, nano, outcomes.OUT_OF_RANGE
    return seconds * 1000 + nano // 1000000, nano % 1000000, outcomes.OK


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
            seconds = nanos // _NANOS
            nano = _WRONG if nanos < 0 else nanos % _NANOS
        elif form == LOCAL_TEXT:
            days, nanos = parse_local(arena, begin, end)
            seconds = days * _DAY + nanos // _NANOS
            nano = _WRONG if nanos < 0 else nanos % _NANOS
        else:
            at, value = parse_date(arena, begin, end, _MOST_YEARS)
            nano = np.int64(0) if at == end else _WRONG
        if nano < 0:
            return pos, outcomes.BAD_TIME
    if units:
        most = 0x7FFFFFFFFFFFFFFF // units - 1
        if seconds > most or seconds < -most:
            return pos, outcomes.OUT_OF_RANGE
        part = _NANOS // units
        if nano % part:
            return pos, outcomes.LOST_DIGITS
        value = seconds * units + nano // part
    if size == 8:
        store_be_i64(out, pos, value)
    else:
        if value > 0x7FFFFFFF or value < _MIN_I32:
            return pos, outcomes.OUT_OF_RANGE
        store_be_i32(out, pos, value)
    return pos + size, outcomes.OK


@on_demand(*ARGUMENTS)
def put_temporal(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write one date or time. Return the index of the next instruction, the position, and the status."""
    prog, consts, arena, cols, idx, _, _, out = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    if pos + LARGEST_FIXED > limit:
        return pc, pos, outcomes.FULL
    slot = np.int64(0)
    null = False
    if col >= 0:
        slot = idx[cols[col, LEVEL]]
        null = is_null(arena, cols, col, slot)
    if op != Op.EPOCH and op != Op.TIMESTAMP:
        pos, status = _put_time(prog, pc, consts, arena, cols, col, slot, null, out, pos)
    elif null:
        status = outcomes.NULL_VALUE
    elif op == Op.EPOCH:
        pos, status = _put_epoch(prog, pc, arena, cols, col, slot, out, pos)
    else:
        pos, status = _put_timestamp(prog, pc, arena, cols, col, slot, out, pos)
    return pc + 1 if status == outcomes.OK else pc, pos, status
