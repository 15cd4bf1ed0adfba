"""Numbers of any size and decimals of up to 128 bits in the decode kernel."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.decode.arena import (
    CAPACITY,
    COUNT,
    DATA,
    UNSPELLED,
    VAR,
    VAR_SIZE,
    end_text,
    load_tables,
    put_null,
    room,
)
from state_processor.serializers.kernel.decode.text import (
    LARGE_NUMBER,
    decimal_text_size,
    put_integer,
    put_padded,
    put_point,
    put_unspelled,
)
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64, load_i64, pointed, store_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, E, F, Op


@kernel
def _put_halves(arena, cols, col, high, low, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """Append a decimal of 128 bits below a power of ten, in two halves. Return 0, or the status that stops the run."""
    over_high, over_low = high, low
    if high < 0:
        over_low = ~low
        over_high = ~high
        # |x| - 1 for negative numbers: the limit itself is the first too large
        over_low += 1
        if over_low == 0:
            over_high += 1
    unsigned = np.uint64(over_low)
    if over_high < 0 or over_high > limit_high or (over_high == limit_high and unsigned >= np.uint64(limit_low)):
        return outcomes.OUT_OF_RANGE
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return outcomes.FULL
    store_i64(arena, cols[col, DATA] + 16 * n, low)
    store_i64(arena, cols[col, DATA] + 16 * n + 8, high)
    cols[col, COUNT] = n + 1
    return outcomes.OK


@kernel
def _put_bytes(buf, pos, size, arena, cols, col, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """Append a decimal of big-endian bytes in two's complement. Return 0, or the status that stops the run."""
    if size < 1 or size > 16:
        return outcomes.OUT_OF_RANGE
    high = np.int64(-1) if buf[pos] & 0x80 else np.int64(0)
    low = high
    for i in range(size):
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | np.int64(buf[pos + i])
    return _put_halves(arena, cols, col, high, low, limit_high, limit_low)


@inlined_kernel
def _plain(prog, pc, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a decimal outside of binary rows. Return the new position and 0, or the status that stops the run."""
    if prog[pc, D]:
        if pos + 8 > end:
            return pos, outcomes.TRUNCATED
        if col < 0:
            return pos + 8, outcomes.OK
        low = load_be_i64(buf, pos)
        return pos + 8, _put_halves(arena, cols, col, low >> 63, low, prog[pc, E], prog[pc, F])
    if pos + 4 > end:
        return pos, outcomes.TRUNCATED
    size = load_be_i32(buf, pos)
    if size < 0 or size > end - pos - 4:
        return pos, outcomes.BAD_COUNT
    after = pos + 4 + size
    if col < 0:
        return after, outcomes.OK
    return after, _put_bytes(buf, pos + 4, size, arena, cols, col, prog[pc, E], prog[pc, F])


@inlined_kernel
def _in_slot(prog, pc, buf, regs, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a decimal of a binary row, whose slot lies inside of it. Return 0, or the status that stops the run."""
    slot = regs[prog[pc, B]] + prog[pc, C]
    if prog[pc, D]:
        low = load_i64(buf, slot)
        return _put_halves(arena, cols, col, low >> 63, low, prog[pc, E], prog[pc, F])
    at, size = pointed(buf, slot, regs[prog[pc, A]], regs[prog[pc, A] + 1])
    if size < 0:
        return outcomes.OUT_OF_BOUNDS
    return _put_bytes(buf, at, size, arena, cols, col, prog[pc, E], prog[pc, F])


@family
def decimal(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read a decimal."""
    prog, _, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.DECIMAL:
        pos, status = _plain(prog, pc, buf, pos, end, arena, cols, col)
    elif op == Op.SLOT_DECIMAL:
        status = _in_slot(prog, pc, buf, regs, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col


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
