"""Points in time in the encode kernel: from days, microseconds or ISO text to Java's fields."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import (
    DAY,
    DAY_MS,
    GREGORIAN_SECOND,
    MOST_YEARS,
    NO_DAY,
    from_gregorian,
    zone_offset,
)
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.encode.access import copy, is_null, text_at
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL
from state_processor.serializers.kernel.encode.tables import load_tables
from state_processor.serializers.kernel.encode.time_text import fits_millis, parse_clock, parse_date, parse_instant
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MIN_I32, MIN_I64, load_i32, load_i64, store_be_i32, store_be_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, Op

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
        shown = from_gregorian(day)
        if shown == NO_DAY:
            return pos, outcomes.NO_SUCH_DAY
        seconds += (shown - day) * DAY
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
