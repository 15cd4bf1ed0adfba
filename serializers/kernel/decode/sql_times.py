"""Dates and times of Flink SQL in the decode kernel, in the slots of binary rows and outside of them.

There are two families, of numbers and of text, because most programs need only the first.
"""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import DAY, DAY_MS
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.time_columns import (
    put_clock,
    put_day_number,
    put_day_text,
    put_instant_text,
    put_local,
    put_micros,
)
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64, load_i32, load_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, E, Op


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
