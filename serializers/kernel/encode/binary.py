"""The encode kernel's instructions for Flink's binary rows, arrays and maps: the inverse of ``decode.binary``.

A region (a row, an array, a map) is written from its begin: null bits and slots first, all zero. Then values follow that do not
fit in a slot, in steps of eight bytes from the region's begin. A region inside another one is at the end of the outer one, so
that the output only grows. Numbers are little-endian.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.encode.input_arena import (
    DATA,
    LEVEL,
    copy,
    is_null,
    load_tables,
    point,
    row_kind,
    text_at,
    zeros,
)
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import (
    load_i16,
    load_i32,
    load_i64,
    store_be_i32,
    store_i16,
    store_i32,
    store_i64,
)
from state_processor.serializers.kernel.opcodes import CODE, COL, FAMILY, TABLE, A, B, C, D, E, Op

_INLINE: Final = 7


@kernel
def _rounded(size):  # type: ignore[no-untyped-def]
    return (size + 7) // 8 * 8


@kernel
def _put_bytes(arena, first, last, inline, out, slot, begin, pos):  # type: ignore[no-untyped-def]
    """Write bytes into a slot, or to the end of the region. Return the new end of the region, or -1 without room."""
    size = last - first
    if inline and size <= _INLINE:
        for i in range(size):
            out[slot + i] = arena[first + i]
        out[slot + 7] = 0x80 | size
        return pos
    padded = _rounded(size)
    if pos + padded + 8 > len(out):
        return np.int64(-1)
    point(out, slot, begin, pos, size)
    if size >= 8:
        for i in range(0, size - 7, 8):
            store_i64(out, pos + i, load_i64(arena, first + i))
    if size < padded:
        store_i64(out, pos + padded - 8, 0)
        for i in range(padded - 8, size):
            out[pos + i] = arena[first + i]
    return pos + padded


@kernel
def _put_variant(op, prog, pc, arena, cols, idx, col, regs, out, pos):  # type: ignore[no-untyped-def]
    """Write a variant from the columns of its value and dictionary. Return the new end and 0, or the status."""
    value_col, names_col = prog[pc, D], prog[pc, E]
    value_slot, names_slot = idx[cols[value_col, LEVEL]], idx[cols[names_col, LEVEL]]
    if is_null(arena, cols, value_col, value_slot) or is_null(arena, cols, names_col, names_slot):
        return pos, outcomes.NULL_VALUE
    begin, end = text_at(arena, cols, value_col, value_slot)
    names, names_end = text_at(arena, cols, names_col, names_slot)
    size = end - begin + names_end - names
    if pos + size + 16 > len(out):
        return pos, outcomes.FULL
    if op == Op.VARIANT:
        store_be_i32(out, pos, end - begin)
        store_be_i32(out, pos + 4, names_end - names)
        return copy(arena, names, names_end, out, copy(arena, begin, end, out, pos + 8)), outcomes.OK
    point(out, regs[prog[pc, B]] + prog[pc, C], regs[prog[pc, A]], pos, size + 4)
    store_be_i32(out, pos, names_end - names)
    after = copy(arena, begin, end, out, copy(arena, names, names_end, out, pos + 4))
    return zeros(out, after, _rounded(size + 4) - size - 4), outcomes.OK


@kernel
def _open_elements(prog, pc, arena, cols, col, at, idx, stop, regs, out, pos):  # type: ignore[no-untyped-def]
    """Begin an array. Return its number of elements, -1 without room, and the end of its slots."""
    data = cols[col, DATA] + 4 * at
    first = np.int64(load_i32(arena, data))
    count = load_i32(arena, data + 4) - first
    header = 4 + (count + 31) // 32 * 4
    size = _rounded(header + count * prog[pc, B])
    if pos + size > len(out):
        return np.int64(-1), pos
    zeros(out, pos, size)
    store_i32(out, pos, count)
    reg = prog[pc, A]
    regs[reg] = pos
    regs[reg + 1] = 0
    regs[reg + 2] = pos + header
    idx[col + 1] = first
    stop[col + 1] = first + count
    return count, pos + size


@family
def binary(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Run instructions while they are of ``TABLE``.

    Many at once, because the call costs more than most of them.
    """
    prog, consts, arena, cols, idx, stop, regs, out = load_tables(tables)
    status = outcomes.OK
    while True:
        op = prog[pc, CODE]
        if op & FAMILY != TABLE:
            break
        col = prog[pc, COL]
        reg = prog[pc, A]
        at = np.int64(0)
        if col >= 0:
            at = idx[cols[col, LEVEL]]
        if op == Op.BIT_NULL:
            if is_null(arena, cols, col, at):
                bit = prog[pc, E]
                out[regs[reg] + (bit >> 3)] |= 1 << (bit & 7)
                reserved = prog[pc, B]
                if reserved:
                    if pos + reserved > limit:
                        status = outcomes.FULL
                        break
                    point(out, regs[reg] + prog[pc, C], regs[reg], pos, np.int64(0))
                    pos = zeros(out, pos, reserved)
                pc = prog[pc, D]
                continue
        elif op == Op.SLOT_INT:
            slot = regs[prog[pc, B]] + prog[pc, C]
            width = prog[pc, D]
            data = cols[col, DATA] + width * at
            if width == 8:
                store_i64(out, slot, load_i64(arena, data))
            elif width == 4:
                store_i32(out, slot, load_i32(arena, data))
            elif width == 2:
                store_i16(out, slot, load_i16(arena, data))
            else:
                out[slot] = arena[data]
        elif op == Op.SLOT_BYTES:
            first, last = text_at(arena, cols, col, at)
            slot = regs[prog[pc, B]] + prog[pc, C]
            after = _put_bytes(arena, first, last, prog[pc, D], out, slot, regs[reg], pos)
            if after < 0:
                status = outcomes.FULL
                break
            pos = after
        elif op == Op.OPEN:
            if pos + prog[pc, B] > limit:
                status = outcomes.FULL
                break
            regs[reg] = pos
            pos = zeros(out, pos, prog[pc, B])
        elif op == Op.BINARY_KIND:
            kind = row_kind(arena, cols, col, idx, consts, prog[pc, B])
            if kind < 0:
                status = outcomes.BAD_NAME
                break
            out[regs[reg]] = kind
        elif op == Op.CLOSE:
            begin = regs[reg]
            padded = _rounded(pos - begin)
            if begin + padded > limit:
                status = outcomes.FULL
                break
            point(out, regs[prog[pc, B]] + prog[pc, C], regs[prog[pc, D]], begin, pos - begin)
            pos = zeros(out, pos, begin + padded - pos)
        elif op == Op.ELEMENTS:
            count, pos = _open_elements(prog, pc, arena, cols, col, at, idx, stop, regs, out, pos)
            if count < 0:
                status = outcomes.FULL
                break
            if count == 0:
                pc = prog[pc, D]
                continue
        elif op == Op.ELEMENT_NULL:
            if is_null(arena, cols, col, at):
                index = regs[reg + 1]
                out[regs[reg] + 4 + (index >> 3)] |= 1 << (index & 7)
                pc = prog[pc, D]
                continue
        elif op == Op.ELEMENTS_NEXT:
            regs[reg + 1] += 1
            regs[reg + 2] += prog[pc, B]
            idx[col + 1] += 1
            if idx[col + 1] < stop[col + 1]:
                pc = prog[pc, D]
                continue
        elif op == Op.KEYS:
            if pos + 4 > limit:
                status = outcomes.FULL
                break
            regs[reg] = pos
            pos += 4
        elif op == Op.END_KEYS:
            store_i32(out, regs[reg], pos - regs[reg] - 4)
        elif op == Op.SLOT_VARIANT or op == Op.VARIANT:
            pos, status = _put_variant(op, prog, pc, arena, cols, idx, col, regs, out, pos)
            if status != outcomes.OK:
                break
        else:
            status = outcomes.UNKNOWN_INSTRUCTION
            break
        pc += 1
    return pc, pos, status
