"""Dates and times of Flink SQL as text in the decode kernel, in the slots of binary rows and outside of them."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import kernel, on_demand
from state_processor.serializers.kernel.decode.days import put_day_text
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_instant_text, room
from state_processor.serializers.kernel.decode.sql_times import plain_timestamp, timestamp_in_slot
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import INSTANT_SIZE, TIME_SIZE, civil_from_days, put_date, put_time
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, B, C, E, Op

_DAY_MS: Final = 86400000


@kernel
def _put_timestamp(arena, cols, col, seconds, nano, zone):  # type: ignore[no-untyped-def]
    """Append seconds and nanoseconds of the second, with or without the Z of UTC. Return 0, or the status that stops the run."""
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


@on_demand(*ARGUMENTS)
def sql_time_text(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time. Return the index of the next instruction, the position, the status, the column."""
    prog, _, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.SLOT_DATE_TEXT:
        status = put_day_text(arena, cols, col, load_i32(buf, regs[prog[pc, B]] + prog[pc, C]))
    elif op == Op.SLOT_TIME:
        status = _put_clock(arena, cols, col, load_i32(buf, regs[prog[pc, B]] + prog[pc, C]))
    elif op == Op.TIMESTAMP_TEXT or op == Op.SLOT_TIMESTAMP_TEXT:
        if op == Op.TIMESTAMP_TEXT:
            pos, seconds, nano, status = plain_timestamp(prog, pc, buf, pos, end)
        else:
            seconds, nano, status = timestamp_in_slot(prog, pc, buf, regs)
        if status == outcomes.OK and col >= 0:
            status = _put_timestamp(arena, cols, col, seconds, nano, prog[pc, E])
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
