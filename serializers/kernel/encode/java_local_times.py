"""Dates and times without a zone in the encode kernel: from days, microseconds or ISO text to Java's fields."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import DAY_US, MOST_YEARS, NANOS, civil_from_days
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.encode.access import is_null, text_at
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL
from state_processor.serializers.kernel.encode.tables import load_tables
from state_processor.serializers.kernel.encode.time_text import parse_clock, parse_date, parse_local
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MIN_I32, load_i32, load_i64, store_be_i16, store_be_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, B, Op

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
def _put_null(op, out, pos):  # type: ignore[no-untyped-def]
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
def _from_text(op, text, begin, end, out, pos):  # type: ignore[no-untyped-def]
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
        return pc + 1, _put_null(op, out, pos), outcomes.OK
    if textual:
        begin, end = text_at(arena, cols, col, slot)
        after = _from_text(op, arena, begin, end, out, pos)
        return (pc, pos, outcomes.BAD_TIME) if after < 0 else (pc + 1, after, outcomes.OK)
    if op == Op.LOCAL_DATE:
        return pc + 1, _put_date(load_i32(arena, cols[col, DATA] + 4 * slot), out, pos), outcomes.OK
    if op == Op.LOCAL_TIME:  # its columns are text
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION
    micros = load_i64(arena, cols[col, DATA] + 8 * slot)
    days = micros // DAY_US
    return pc + 1, _put_clock((micros - days * DAY_US) * 1000, out, _put_date(days, out, pos)), outcomes.OK
