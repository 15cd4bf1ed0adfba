"""Dates and times of Avro in the encode kernel: counts of days, or of parts of a second."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import DAY, MOST_YEARS, NANOS
from state_processor.serializers.kernel.compiler import inlined_kernel
from state_processor.serializers.kernel.encode.access import is_null, text_at
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL
from state_processor.serializers.kernel.encode.tables import load_tables
from state_processor.serializers.kernel.encode.time_text import parse_clock, parse_date, parse_instant, parse_local
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MAX_I32, MAX_I64, MIN_I32, load_i32, load_i64, store_be_i32, store_be_i64
from state_processor.serializers.kernel.opcodes import CLOCK_TEXT, CODE, COL, COUNTS, INSTANT_TEXT, LOCAL_TEXT, A, B, C, Op

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
