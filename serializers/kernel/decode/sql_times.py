"""Dates and times of Flink SQL in the decode kernel, in the slots of binary rows and outside of them."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, on_demand
from state_processor.serializers.kernel.decode.days import put_day_number
from state_processor.serializers.kernel.decode.slots import put_micros
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64, load_i32, load_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, E, Op


@inlined_kernel
def plain_timestamp(prog, pc, buf, pos, end):  # type: ignore[no-untyped-def]
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
def timestamp_in_slot(prog, pc, buf, regs):  # type: ignore[no-untyped-def]
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


@on_demand(*ARGUMENTS)
def sql_time(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time. Return the index of the next instruction, the position, the status, the column."""
    prog, _, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.SLOT_DATE:
        status = put_day_number(arena, cols, col, load_i32(buf, regs[prog[pc, B]] + prog[pc, C]))
    elif op == Op.TIMESTAMP or op == Op.SLOT_TIMESTAMP:
        if op == Op.TIMESTAMP:
            pos, seconds, nano, status = plain_timestamp(prog, pc, buf, pos, end)
        else:
            seconds, nano, status = timestamp_in_slot(prog, pc, buf, regs)
        if status == outcomes.OK and col >= 0:
            status = put_micros(arena, cols, col, seconds, nano, prog[pc, E])
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
