"""Dates and times of Flink SQL in the encode kernel, in the slots of binary rows and outside of them."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import MOST_YEARS
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.encode.access import is_null, point, text_at
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL
from state_processor.serializers.kernel.encode.tables import load_tables
from state_processor.serializers.kernel.encode.time_text import fits_millis, parse_clock, parse_date, parse_moment
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import (
    MAX_I32,
    MIN_I32,
    load_i32,
    load_i64,
    store_be_i32,
    store_be_i64,
    store_i32,
    store_i64,
)
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, E, Op


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
