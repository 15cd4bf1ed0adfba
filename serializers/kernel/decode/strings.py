"""Strings and characters in the decode kernel: UTF-16 units, each a varint or two bytes."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.decode.slots import (
    CAPACITY,
    COUNT,
    DATA,
    VAR,
    VAR_CAPACITY,
    VAR_SIZE,
    end_text,
    put_null,
    room,
)
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import put_code_point, put_units
from state_processor.serializers.kernel.decode.values import varint
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import NOT_ASCII, load_be_u16, load_i64, store_i32, store_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, Op


@inlined_kernel
def put_short_ascii(buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Append a string of Flink if its size is one byte and all others are ASCII; False for another, and without room.

    Eight characters at a time, which may look beyond the text on either side: columns have room for eight bytes behind the last.
    """
    if pos + 1 > end:
        return False
    size = np.int64(buf[pos]) - 1
    n = cols[col, COUNT]
    used = cols[col, VAR_SIZE]
    if size < 0 or size > 126 or size > end - pos - 1 or n >= cols[col, CAPACITY] or used + size > cols[col, VAR_CAPACITY]:
        return False
    out = cols[col, VAR] + used
    at = pos + 1
    left = size
    while left > 0:
        if at + 8 > len(buf):
            return False
        eight = load_i64(buf, at)
        if eight & (NOT_ASCII if left >= 8 else NOT_ASCII & ((1 << (8 * left)) - 1)):
            return False
        store_i64(arena, out, eight)
        at += 8
        out += 8
        left -= 8
    used += size
    cols[col, VAR_SIZE] = used
    store_i32(arena, cols[col, DATA] + 4 * (n + 1), used)
    cols[col, COUNT] = n + 1
    return True


@kernel
def _java_string(nullable, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read Flink's string. Return the new position and 0, or the status that stops the run."""
    units, after = varint(buf, pos, end)
    if after < 0:
        return pos, outcomes.BAD_STRING
    if nullable:
        if units == 0:
            if col >= 0 and not put_null(arena, cols, col):
                return pos, outcomes.FULL
            return after, outcomes.OK
        units -= 1
    if units > end - after:
        return pos, outcomes.BAD_STRING
    if col < 0:
        for _ in range(units):
            while after < end and buf[after] >= 0x80:
                after += 1
            after += 1
        return (after, outcomes.OK) if after <= end else (pos, outcomes.BAD_STRING)
    if not room(cols, col, 3 * units):
        return pos, outcomes.FULL
    after, out = put_units(buf, after, end, units, arena, cols[col, VAR] + cols[col, VAR_SIZE])
    if after < 0:
        return pos, outcomes.BAD_STRING
    end_text(arena, cols, col, out)
    return after, outcomes.OK


@kernel
def _character(buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a UTF-16 unit. Return the new position and 0, or the status that stops the run."""
    if pos + 2 > end:
        return pos, outcomes.TRUNCATED
    if col >= 0:
        if not room(cols, col, 3):
            return pos, outcomes.FULL
        unit = load_be_u16(buf, pos)
        if 0xD800 <= unit < 0xE000:
            unit = 0xFFFD
        end_text(arena, cols, col, put_code_point(arena, cols[col, VAR] + cols[col, VAR_SIZE], unit))
    return pos + 2, outcomes.OK


@family
def string(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read a string or character."""
    prog, _, _, _, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.STRING or op == Op.STRING_VALUE:
        pos, status = _java_string(op == Op.STRING, buf, pos, end, arena, cols, col)
    elif op == Op.CHAR:
        pos, status = _character(buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
