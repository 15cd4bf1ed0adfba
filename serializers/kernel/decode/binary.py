"""The kernel's instructions for Flink's binary rows, arrays and maps, and for other formats of the table serializers.

Binary rows are read at random: every field has a slot of eight bytes, and longer values are elsewhere in the row; the slot
contains their position. A region (a row, an array, a map) occupies two registers, its begin and its end. Every reference of a
slot is checked against them before it is read. Numbers are little-endian.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode.arena import (
    CAPACITY,
    COUNT,
    DATA,
    fill_nulls,
    load_tables,
    put_bytes,
    put_offset,
)
from state_processor.serializers.kernel.decode.text import put_text
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import (
    load_be_i32,
    load_i16,
    load_i32,
    load_i64,
    pointed,
    store_i16,
    store_i32,
    store_i64,
)
from state_processor.serializers.kernel.opcodes import CODE, COL, FAMILY, TABLE, A, B, C, D, E, Op

_ARRAY: Final = 5  # registers of an array: begin, end, count left, index, position


@kernel
def _pointed_or_inline(buf, slot, begin, end):  # type: ignore[no-untyped-def]
    """Return the same as :func:`pointed`, for values that have up to seven bytes in the slot itself."""
    mark = np.int64(buf[slot + 7])
    if mark & 0x80:
        size = mark & 0x7F
        return slot, size if size < 8 else np.int64(-1)
    return pointed(buf, slot, begin, end)


@kernel
def _open_array(buf, regs, reg, width):  # type: ignore[no-untyped-def]
    """Set the registers of an array whose region is known. Return its number of elements; -1 if they exceed the region."""
    begin = regs[reg]
    size = regs[reg + 1] - begin
    if size < 4:
        return np.int64(-1)
    count = load_i32(buf, begin)
    if count < 0 or count > size * 8:
        return np.int64(-1)
    header = 4 + (count + 31) // 32 * 4
    if header + count * width > size:
        return np.int64(-1)
    regs[reg + 2] = count
    regs[reg + 3] = 0
    regs[reg + 4] = begin + header
    return count


@kernel
def _open_map(buf, regs, reg, key_width, value_width):  # type: ignore[no-untyped-def]
    """Set the registers of a map's keys and values. Return their number; -1 if they exceed the region or differ."""
    begin = regs[reg]
    end = regs[reg + 1]
    if end - begin < 4:
        return np.int64(-1)
    keys = load_i32(buf, begin)
    if keys < 0 or keys > end - begin - 4:
        return np.int64(-1)
    regs[reg + 2] = begin + 4
    regs[reg + 3] = begin + 4 + keys
    regs[reg + 2 + _ARRAY] = begin + 4 + keys
    regs[reg + 3 + _ARRAY] = end
    count = _open_array(buf, regs, reg + 2, key_width)
    return count if count == _open_array(buf, regs, reg + 2 + _ARRAY, value_width) else np.int64(-1)


@kernel
def _collection(op, prog, pc, buf, regs, arena, cols, col):  # type: ignore[no-untyped-def]
    """Begin or continue an array or a map. Return True if the run continues at the target, and the status."""
    reg = prog[pc, A]
    if op == Op.ELEMENTS:
        remaining = _open_array(buf, regs, reg, prog[pc, C])
    elif op == Op.PAIRS:
        remaining = _open_map(buf, regs, reg, prog[pc, C], prog[pc, E])
    else:
        if op == Op.PAIRS_NEXT:
            regs[reg + 3 + 2] += 1
            regs[reg + 4 + 2] += prog[pc, C]
            regs[reg + 3 + 2 + _ARRAY] += 1
            regs[reg + 4 + 2 + _ARRAY] += prog[pc, E]
            reg += 2
        else:
            regs[reg + 3] += 1
            regs[reg + 4] += prog[pc, C]
        regs[reg + 2] -= 1
        remaining = regs[reg + 2]
    if remaining < 0:
        return False, outcomes.OUT_OF_BOUNDS
    begins = op == Op.ELEMENTS or op == Op.PAIRS
    if remaining == 0 and col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, B], COUNT]):
        return False, outcomes.FULL
    return (remaining == 0) == begins, outcomes.OK


@kernel
def _variant(op, prog, pc, buf, pos, end, regs):  # type: ignore[no-untyped-def]
    """Return position and size of a variant's value and of its dictionary, the position after it, and 0 or the status."""
    if op == Op.SLOT_VARIANT:
        at, size = pointed(buf, regs[prog[pc, B]] + prog[pc, C], regs[prog[pc, A]], regs[prog[pc, A] + 1])
        if size < 4:
            return at, size, at, size, pos, outcomes.OUT_OF_BOUNDS
        names = load_be_i32(buf, at)
        if names < 0 or names > size - 4:
            return at, size, at, size, pos, outcomes.OUT_OF_BOUNDS
        return at + 4 + names, size - 4 - names, at + 4, names, pos, outcomes.OK
    if pos + 8 > end:
        return pos, pos, pos, pos, pos, outcomes.TRUNCATED
    size = load_be_i32(buf, pos)
    names = load_be_i32(buf, pos + 4)
    at = pos + 8
    if size < 0 or names < 0 or size + names > end - at:
        return at, size, at, names, pos, outcomes.BAD_COUNT
    return at, size, at + size, names, at + size + names, outcomes.OK


@family
def binary(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Run instructions while they are of ``TABLE``.

    Many at once, because the call costs more than most of them; the most frequent ones are part of the loop for the same reason.
    """
    prog, nulls, _, consts, buf, regs, arena, cols = load_tables(tables)
    status = outcomes.OK
    col = np.int64(-1)
    while True:
        op = prog[pc, CODE]
        if op & FAMILY != TABLE:
            break
        col = prog[pc, COL]
        reg = prog[pc, A]
        if op == Op.BIT_NULL:
            bit = prog[pc, E]
            if buf[regs[reg] + (bit >> 3)] & (1 << (bit & 7)):
                col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
                if col >= 0:
                    status = outcomes.FULL
                    break
                pc = prog[pc, D]
                continue
        elif op == Op.SLOT_INT:
            n = cols[col, COUNT]
            if n >= cols[col, CAPACITY]:
                status = outcomes.FULL
                break
            slot = regs[prog[pc, B]] + prog[pc, C]
            width = prog[pc, D]
            out = cols[col, DATA] + width * n
            if width == 8:
                store_i64(arena, out, load_i64(buf, slot))
            elif width == 4:
                store_i32(arena, out, load_i32(buf, slot))
            elif width == 2:
                store_i16(arena, out, load_i16(buf, slot))
            else:
                arena[out] = buf[slot]
            cols[col, COUNT] = n + 1
        elif op == Op.SLOT_TEXT:
            slot = regs[prog[pc, B]] + prog[pc, C]
            at, size = _pointed_or_inline(buf, slot, regs[reg], regs[reg + 1])
            status = outcomes.OUT_OF_BOUNDS if size < 0 else put_text(buf, at, size, arena, cols, col)
            if status != outcomes.OK:
                break
        elif op == Op.SLOT_BYTES:
            slot = regs[prog[pc, B]] + prog[pc, C]
            at, size = pointed(buf, slot, regs[reg], regs[reg + 1])
            if prog[pc, D]:
                at, size = _pointed_or_inline(buf, slot, regs[reg], regs[reg + 1])
            if size < 0:
                status = outcomes.OUT_OF_BOUNDS
                break
            if not put_bytes(arena, cols, col, buf, at, size):
                status = outcomes.FULL
                break
        elif op == Op.ELEMENT_NULL:
            index = regs[reg + 3]
            if (buf[regs[reg] + 4 + (index >> 3)] >> (index & 7)) & 1:
                col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
                if col >= 0:
                    status = outcomes.FULL
                    break
                pc = prog[pc, D]
                continue
        elif op == Op.REGION:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            size = load_be_i32(buf, pos)
            if size < prog[pc, D] or size > end - pos - 4:
                status = outcomes.BAD_COUNT
                break
            regs[reg] = pos + 4
            pos += 4 + size
            regs[reg + 1] = pos
        elif op == Op.SUBREGION:
            at, size = pointed(buf, regs[prog[pc, B]] + prog[pc, C], regs[reg], regs[reg + 1])
            if size < prog[pc, E]:
                status = outcomes.OUT_OF_BOUNDS
                break
            regs[prog[pc, D]] = at
            regs[prog[pc, D] + 1] = at + size
        elif op == Op.BINARY_KIND:
            kind = np.int64(buf[regs[reg]])
            if kind > 3:
                status = outcomes.BAD_BYTE
                break
            if col >= 0 and not put_bytes(arena, cols, col, consts, prog[pc, B] + 2 * kind, 2):
                status = outcomes.FULL
                break
        elif op == Op.SLOT_VARIANT or op == Op.VARIANT:
            at, size, names_at, names, after, status = _variant(op, prog, pc, buf, pos, end, regs)
            if status != outcomes.OK:
                break
            if col >= 0 and not put_bytes(arena, cols, col, buf, at, size):
                status = outcomes.FULL
                break
            col = prog[pc, D]
            if col >= 0 and not put_bytes(arena, cols, col, buf, names_at, names):
                status = outcomes.FULL
                break
            pos = after
        elif op == Op.ELEMENTS or op == Op.ELEMENTS_NEXT or op == Op.PAIRS or op == Op.PAIRS_NEXT:
            jumps, status = _collection(op, prog, pc, buf, regs, arena, cols, col)
            if status != outcomes.OK:
                break
            if jumps:
                pc = prog[pc, D]
                continue
        else:
            status = outcomes.UNKNOWN_INSTRUCTION
            break
        pc += 1
    return pc, pos, status, col
