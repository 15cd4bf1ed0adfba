"""Dates and times of Flink SQL in the decode kernel, in the slots of binary rows and outside of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel, on_demand
from state_processor.serializers.kernel.decode.days import TEXTUAL, put_day
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_instant_text, put_micros, room
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import INSTANT_SIZE, TIME_SIZE, civil_from_days, put_date, put_time
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64, load_i32, load_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, E, F, Op

_DAY_MS: Final = 86400000


@kernel
def _put_timestamp(arena, cols, col, ms, nano, mode, zone):  # type: ignore[no-untyped-def]
    """Append milliseconds and nanoseconds of the millisecond. Return 0, or the status that stops the run."""
    if nano < 0 or nano > 999999:
        return outcomes.BAD_TIME
    seconds = ms // 1000
    nano += ms % 1000 * 1000000
    if mode != TEXTUAL:
        return put_micros(arena, cols, col, seconds, nano, mode)
    if zone:
        return put_instant_text(arena, cols, col, seconds, nano, True)
    if not room(cols, col, INSTANT_SIZE + TIME_SIZE):
        return outcomes.FULL
    days = seconds // 86400
    rest = seconds - days * 86400
    year, month, day = civil_from_days(days)
    out = put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, day)
    arena[out] = 84
    end_text(arena, cols, col, put_time(arena, out + 1, rest // 3600, rest // 60 % 60, rest % 60, nano, False))
    return outcomes.OK


@kernel
def _put_clock(arena, cols, col, ms):  # type: ignore[no-untyped-def]
    """Append milliseconds of the day. Return 0, or the status that stops the run."""
    if ms < 0 or ms >= _DAY_MS:
        return outcomes.BAD_TIME
    if not room(cols, col, TIME_SIZE):
        return outcomes.FULL
    seconds = ms // 1000
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    out = put_time(arena, out, seconds // 3600, seconds // 60 % 60, seconds % 60, ms % 1000 * 1000000, False)
    end_text(arena, cols, col, out)
    return outcomes.OK


@inlined_kernel
def _plain(prog, pc, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a timestamp outside of binary rows. Return the new position and 0, or the status that stops the run."""
    compact = prog[pc, D] != 0
    size = np.int64(8 if compact else 12)
    if size > end - pos:
        return pos, outcomes.TRUNCATED
    if col < 0:
        return pos + size, outcomes.OK
    nano = np.int64(0) if compact else load_be_i32(buf, pos + 8)
    return pos + size, _put_timestamp(arena, cols, col, load_be_i64(buf, pos), nano, prog[pc, E], prog[pc, F])


@inlined_kernel
def _in_slot(op, prog, pc, buf, regs, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a value of a binary row, whose slot lies inside of it. Return 0, or the status that stops the run."""
    slot = regs[prog[pc, B]] + prog[pc, C]
    if op == Op.SLOT_DATE:
        return put_day(arena, cols, col, load_i32(buf, slot), prog[pc, E])
    if op == Op.SLOT_TIME:
        return _put_clock(arena, cols, col, load_i32(buf, slot))
    if op != Op.SLOT_TIMESTAMP:
        return outcomes.UNKNOWN_INSTRUCTION
    if prog[pc, D]:
        return _put_timestamp(arena, cols, col, load_i64(buf, slot), np.int64(0), prog[pc, E], prog[pc, F])
    begin = regs[prog[pc, A]]
    offset = load_i32(buf, slot + 4)
    if offset < 0 or offset + 8 > regs[prog[pc, A] + 1] - begin:
        return outcomes.OUT_OF_BOUNDS
    return _put_timestamp(arena, cols, col, load_i64(buf, begin + offset), load_i32(buf, slot), prog[pc, E], prog[pc, F])


@on_demand(*ARGUMENTS)
def moment(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time. Return the index of the next instruction, the position, the status, the column."""
    prog, _, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    if op == Op.TIMESTAMP:
        pos, status = _plain(prog, pc, buf, pos, end, arena, cols, col)
    else:
        status = _in_slot(op, prog, pc, buf, regs, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
