"""Decimals of up to 128 bits in the encode kernel, in the slots of binary rows and outside of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.encode.access import is_null, point, zeros
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL
from state_processor.serializers.kernel.encode.tables import load_tables
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_i64, store_be_i32, store_be_i64, store_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, IN_LONG, SIZED, A, B, C, D, E, F, Op

_DECIMAL: Final = np.int64(16)


@kernel
def _below(high, low, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """Return True if the magnitude of a number of 128 bits, in two halves, is below a limit."""
    if high < 0:
        low = -low
        high = ~high + (1 if low == 0 else 0)
    if high != limit_high:
        return 0 <= high < limit_high
    return np.uint64(low) < np.uint64(limit_low)


@kernel
def _size_of(high, low):  # type: ignore[no-untyped-def]
    """Return the size of the shortest two's complement of a number of 128 bits."""
    size = 16
    while size > 1:
        byte = (high >> (8 * size - 72)) if size > 8 else (low >> (8 * size - 8))
        next_byte = (high >> (8 * size - 80)) if size > 9 else (low >> (8 * size - 16))
        sign = -1 if next_byte & 0x80 else 0
        if (byte & 0xFF) != (sign & 0xFF):
            break
        size -= 1
    return size


@kernel
def _put_halves(high, low, size, out, pos):  # type: ignore[no-untyped-def]
    """Write the last ``size`` bytes of a number of 128 bits, big-endian, sign-extended."""
    for i in range(size):
        place = size - 1 - i
        if place < 8:
            out[pos + i] = (low >> (8 * place)) & 0xFF
        else:
            out[pos + i] = (high >> min(8 * place - 64, 63)) & 0xFF
    return pos + size


@inlined_kernel
def _put_plain(prog, pc, arena, cols, col, slot, out, pos):  # type: ignore[no-untyped-def]
    """Write a decimal outside of binary rows. Return the offset after it and 0, or the status that stops the run."""
    form, length = prog[pc, A], prog[pc, B]
    low = load_i64(arena, cols[col, DATA] + 16 * slot)
    high = load_i64(arena, cols[col, DATA] + 16 * slot + 8)
    if not _below(high, low, prog[pc, E], prog[pc, F]):
        return pos, outcomes.OUT_OF_RANGE
    if form == IN_LONG:
        store_be_i64(out, pos, low)
        return pos + 8, outcomes.OK
    size = _size_of(high, low)
    if form == SIZED:
        if pos + 20 > len(out):
            return pos, outcomes.FULL
        store_be_i32(out, pos, size)
        return _put_halves(high, low, size, out, pos + 4), outcomes.OK
    if size > length:
        return pos, outcomes.OUT_OF_RANGE
    if pos + length > len(out):
        return pos, outcomes.FULL
    return _put_halves(high, low, length, out, pos), outcomes.OK


@inlined_kernel
def _put_in_slot(prog, pc, arena, cols, col, at, out, slot, begin, pos):  # type: ignore[no-untyped-def]
    """Write a decimal. Return the new end of the region and 0, or the status that stops the run."""
    low = load_i64(arena, cols[col, DATA] + 16 * at)
    high = load_i64(arena, cols[col, DATA] + 16 * at + 8)
    if not _below(high, low, prog[pc, E], prog[pc, F]):
        return pos, outcomes.OUT_OF_RANGE
    if prog[pc, D]:
        store_i64(out, slot, low)
        return pos, outcomes.OK
    if pos + _DECIMAL > len(out):
        return pos, outcomes.FULL
    size = _size_of(high, low)
    point(out, slot, begin, pos, size)
    zeros(out, pos, _DECIMAL)
    _put_halves(high, low, size, out, pos)
    return pos + _DECIMAL, outcomes.OK


@family
def put_decimal(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write a decimal."""
    prog, _, arena, cols, idx, _, regs, out = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.DECIMAL or op == Op.SLOT_DECIMAL:
        at = idx[cols[col, LEVEL]]
        if op == Op.SLOT_DECIMAL:
            slot = regs[prog[pc, B]] + prog[pc, C]
            pos, status = _put_in_slot(prog, pc, arena, cols, col, at, out, slot, regs[prog[pc, A]], pos)
        elif is_null(arena, cols, col, at):
            status = outcomes.NULL_VALUE
        else:
            pos, status = _put_plain(prog, pc, arena, cols, col, at, out, pos)
    return pc + 1 if status == outcomes.OK else pc, pos, status
