"""Numbers of any size in the decode kernel."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel
from state_processor.serializers.kernel.decode.slots import UNSPELLED, VAR, VAR_SIZE, end_text, put_null, room
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import (
    LARGE_NUMBER,
    decimal_text_size,
    put_integer,
    put_padded,
    put_point,
    put_unspelled,
)
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, Op


@inlined_kernel
def _big_number(op, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a ``BigInteger`` or ``BigDecimal``. Return the new position and 0, or the status that stops the run.

    The int before the bytes is 0 for null, 1, 2 and 3 for the constants ZERO, ONE and TEN, else the size plus 4.
    """
    if pos + 4 > end:
        return pos, outcomes.TRUNCATED
    head = load_be_i32(buf, pos)
    pos += 4
    if head < 0:
        return pos - 4, outcomes.BAD_COUNT
    if head == 0:
        if col >= 0 and not put_null(arena, cols, col):
            return pos, outcomes.FULL
        return pos, outcomes.OK
    size = head - 4 if head >= 4 else 0
    if pos + size > end or head == 4:
        return pos - 4, outcomes.BAD_COUNT
    start = pos
    pos += size
    scale = np.int64(0)
    if op == Op.BIG_DECIMAL:
        if pos + 4 > end:
            return pos, outcomes.TRUNCATED
        scale = load_be_i32(buf, pos)
        pos += 4
    if col < 0:
        return pos, outcomes.OK
    if not room(cols, col, decimal_text_size(size, scale)):
        return pos, outcomes.FULL
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    if size > LARGE_NUMBER:
        after = put_unspelled(buf, start, size, scale, arena, out)
        cols[col, UNSPELLED] = 1
    else:
        after = put_integer(buf, start, size, arena, out) if size else put_padded(arena, out, 10 if head == 3 else head - 1, 1)
        after = put_point(arena, out, after, scale)
    end_text(arena, cols, col, after)
    return pos, outcomes.OK


@family
def number(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one number."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.BIG_DECIMAL or op == Op.BIG_INTEGER:
        pos, status = _big_number(op, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
