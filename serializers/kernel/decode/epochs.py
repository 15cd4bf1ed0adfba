"""Dates and times of Avro in the decode kernel: counts of days, or of parts of a second."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import DAY, NANOS
from state_processor.serializers.kernel.compiler import inlined_kernel
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.time_columns import TEXTUAL, put_clock, put_day, put_instant_text, put_micros
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, Op


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
    nano = value % units * (NANOS // units)
    if meaning == 2:
        if seconds < 0 or seconds >= DAY:
            return pos, outcomes.OUT_OF_RANGE
        return pos, put_clock(arena, cols, col, seconds, nano, False)
    if mode == TEXTUAL:
        return pos, put_instant_text(arena, cols, col, seconds, nano, meaning == 1)
    return pos, put_micros(arena, cols, col, seconds, nano, mode)


@family
def epoch(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    col = prog[pc, COL]
    if prog[pc, CODE] != Op.EPOCH:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    pos, status = _epoch(prog, pc, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
