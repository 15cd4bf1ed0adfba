"""Dates and times of Avro in the decode kernel: counts of days, or of parts of a second."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, on_demand
from state_processor.serializers.kernel.decode.days import TEXTUAL, put_day
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_instant_text, put_micros, room
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import TIME_SIZE, put_time
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, Op

_NANOS: Final = 1000000000


@inlined_kernel
def _epoch(prog, pc, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a count of days or of parts of a second, never null (Avro). Return the new position and 0, or the status."""
    mode, meaning, units, size = prog[pc, A], prog[pc, B], prog[pc, C], prog[pc, D]
    if pos + size > end:
        return pos, outcomes.TRUNCATED
    value = np.int64(load_be_i32(buf, pos)) if size == 4 else load_be_i64(buf, pos)
    pos += size
    if col < 0:
        return pos, outcomes.OK
    if units == 0:
        return pos, put_day(arena, cols, col, value, mode)
    seconds = value // units
    nano = value % units * (_NANOS // units)
    if meaning == 2:
        if seconds < 0 or seconds >= 86400:
            return pos, outcomes.OUT_OF_RANGE
        if not room(cols, col, TIME_SIZE):
            return pos, outcomes.FULL
        out = cols[col, VAR] + cols[col, VAR_SIZE]
        end_text(arena, cols, col, put_time(arena, out, seconds // 3600, seconds // 60 % 60, seconds % 60, nano, False))
        return pos, outcomes.OK
    if mode == TEXTUAL:
        return pos, put_instant_text(arena, cols, col, seconds, nano, meaning == 1)
    return pos, put_micros(arena, cols, col, seconds, nano, mode)


@on_demand(*ARGUMENTS)
def epoch(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time. Return the index of the next instruction, the position, the status, the column."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    col = prog[pc, COL]
    if prog[pc, CODE] != Op.EPOCH:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    pos, status = _epoch(prog, pc, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
