"""The kernel's instructions for Flink's binary rows, arrays and maps, and for what else the table serializers write.

Binary rows are read at random: every field has a slot of eight bytes, and longer values lie elsewhere in the row, where
the slot says. A region (a row, an array, a map) occupies two registers, its begin and its end; whatever a slot refers to
is checked against them before it is read. Numbers are little-endian.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode import ops
from state_processor.serializers.kernel.decode.slots import (
    CAPACITY,
    COUNT,
    DATA,
    fill_nulls,
    put_bytes,
    put_offset,
)
from state_processor.serializers.kernel.decode.sql_values import (
    put_clock,
    put_decimal,
    put_decimal_bytes,
    put_text,
    put_timestamp,
    sized_value,
)
from state_processor.serializers.kernel.decode.times import put_day
from state_processor.serializers.kernel.memory import (
    load_be_i32,
    load_i16,
    load_i32,
    load_i64,
    store_i16,
    store_i32,
    store_i64,
)

_TEXT: Final = 1  # the mode that makes text of dates and points in time
_ASCII: Final = -0x7F7F7F7F7F7F7F80  # 0x8080808080808080 as a signed long
_DAY_MS: Final = 86400000
_ARRAY: Final = 5  # registers of an array: begin, end, count left, index, position


@kernel
def _pointed(buf, slot, begin, end):  # type: ignore[no-untyped-def]
    """Where the value lies that a slot points to and its size, which is -1 where that is not inside of the region."""
    size = load_i32(buf, slot)
    offset = load_i32(buf, slot + 4)
    if size < 0 or offset < 0 or offset + size > end - begin:
        return begin, np.int64(-1)
    return begin + offset, size


@kernel
def _pointed_or_inline(buf, slot, begin, end):  # type: ignore[no-untyped-def]
    """As :func:`_pointed`, for values of which up to seven bytes lie in the slot itself."""
    mark = np.int64(buf[slot + 7])
    if mark & 0x80:
        size = mark & 0x7F
        return slot, size if size < 8 else np.int64(-1)
    return _pointed(buf, slot, begin, end)


@kernel
def _slot(op, prog, pc, buf, regs, arena, cols, col):  # type: ignore[no-untyped-def]
    """A value from its slot, which lies inside of its region; 0, or the status that stops the run."""
    slot = regs[prog[pc, 3]] + prog[pc, 4]
    if op == ops.SLOT_DATE:
        return put_day(arena, cols, col, load_i32(buf, slot), prog[pc, 6])
    if op == ops.SLOT_TIME:
        return put_clock(arena, cols, col, load_i32(buf, slot))
    begin = regs[prog[pc, 2]]
    end = regs[prog[pc, 2] + 1]
    if op == ops.SLOT_BYTES:
        at, size = _pointed_or_inline(buf, slot, begin, end) if prog[pc, 5] else _pointed(buf, slot, begin, end)
        if size < 0:
            return ops.OUT_OF_BOUNDS
        return ops.OK if put_bytes(arena, cols, col, buf, at, size) else ops.FULL
    if op == ops.SLOT_DECIMAL:
        if prog[pc, 5]:
            low = load_i64(buf, slot)
            return put_decimal(arena, cols, col, low >> 63, low, prog[pc, 6], prog[pc, 7])
        at, size = _pointed(buf, slot, begin, end)
        return ops.OUT_OF_BOUNDS if size < 0 else put_decimal_bytes(buf, at, size, arena, cols, col, prog[pc, 6], prog[pc, 7])
    if prog[pc, 5]:
        return put_timestamp(arena, cols, col, load_i64(buf, slot), np.int64(0), prog[pc, 6], prog[pc, 7])
    offset = load_i32(buf, slot + 4)
    if offset < 0 or offset + 8 > end - begin:
        return ops.OUT_OF_BOUNDS
    return put_timestamp(arena, cols, col, load_i64(buf, begin + offset), load_i32(buf, slot), prog[pc, 6], prog[pc, 7])


@kernel
def _open_array(buf, regs, reg, width):  # type: ignore[no-untyped-def]
    """Set the registers of an array whose region is known; its number of elements, or -1 where they don't fit."""
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
    """Set the registers of a map's keys and values; their number, or -1 where they don't fit or differ."""
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
    """Begin or go on with an array or a map: whether to jump to the target, and the status."""
    reg = prog[pc, 2]
    if op == ops.ELEMENTS:
        left = _open_array(buf, regs, reg, prog[pc, 4])
    elif op == ops.PAIRS:
        left = _open_map(buf, regs, reg, prog[pc, 4], prog[pc, 6])
    else:
        if op == ops.PAIRS_NEXT:
            regs[reg + 3 + 2] += 1
            regs[reg + 4 + 2] += prog[pc, 4]
            regs[reg + 3 + 2 + _ARRAY] += 1
            regs[reg + 4 + 2 + _ARRAY] += prog[pc, 6]
            reg += 2
        else:
            regs[reg + 3] += 1
            regs[reg + 4] += prog[pc, 4]
        regs[reg + 2] -= 1
        left = regs[reg + 2]
    if left < 0:
        return False, ops.OUT_OF_BOUNDS
    begins = op == ops.ELEMENTS or op == ops.PAIRS
    if left == 0 and col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
        return False, ops.FULL
    return (left == 0) == begins, ops.OK


@kernel
def _masked(op, prog, pc, buf, pos, end, regs, arena, cols, col):  # type: ignore[no-untyped-def]
    """Begin or go on with a list that has a bit mask: whether to jump to the target, the position, and the status."""
    reg = prog[pc, 2]
    if op == ops.MASKED:
        if pos + 4 > end:
            return False, pos, ops.TRUNCATED
        count = load_be_i32(buf, pos)
        if count < 0 or (count + 7) // 8 > end - pos - 4:
            return False, pos, ops.BAD_COUNT
        regs[reg] = count
        regs[reg + 1] = 0
        regs[reg + 2] = pos + 4
        pos += 4 + (count + 7) // 8
    else:
        regs[reg] -= 1
        regs[reg + 1] += 1
    if regs[reg] == 0 and col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
        return False, pos, ops.FULL
    return (regs[reg] == 0) == (op == ops.MASKED), pos, ops.OK


@kernel
def _variant(op, prog, pc, buf, pos, end, regs):  # type: ignore[no-untyped-def]
    """Where a variant's value and dictionary lie, the position after it, and 0 or the status that stops the run."""
    if op == ops.SLOT_VARIANT:
        at, size = _pointed(buf, regs[prog[pc, 3]] + prog[pc, 4], regs[prog[pc, 2]], regs[prog[pc, 2] + 1])
        if size < 4:
            return at, size, at, size, pos, ops.OUT_OF_BOUNDS
        names = load_be_i32(buf, at)
        if names < 0 or names > size - 4:
            return at, size, at, size, pos, ops.OUT_OF_BOUNDS
        return at + 4 + names, size - 4 - names, at + 4, names, pos, ops.OK
    if pos + 8 > end:
        return pos, pos, pos, pos, pos, ops.TRUNCATED
    size = load_be_i32(buf, pos)
    names = load_be_i32(buf, pos + 4)
    at = pos + 8
    if size < 0 or names < 0 or size + names > end - at:
        return at, size, at, names, pos, ops.BAD_COUNT
    return at, size, at + size, names, at + size + names, ops.OK


@kernel
def binary(prog, pc, nulls, consts, buf, pos, end, regs, arena, cols):  # type: ignore[no-untyped-def]
    """Run instructions up to the first one before ``REGION``: its index, the position, the status, the column without room.

    Many at once, because the call costs more than most of them; the most frequent ones stand in the loop for the same reason.
    """
    status = ops.OK
    col = -1
    while True:
        op = prog[pc, 0]
        if op < ops.REGION:
            break
        col = prog[pc, 1]
        reg = prog[pc, 2]
        if op == ops.BIT_NULL:
            bit = prog[pc, 6]
            if buf[regs[reg] + (bit >> 3)] & (1 << (bit & 7)):
                col = fill_nulls(arena, cols, nulls, prog[pc, 3], prog[pc, 4])
                if col >= 0:
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
        elif op == ops.SLOT_INT:
            n = cols[col, COUNT]
            if n >= cols[col, CAPACITY]:
                status = ops.FULL
                break
            slot = regs[prog[pc, 3]] + prog[pc, 4]
            width = prog[pc, 5]
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
        elif op == ops.SLOT_TEXT:
            slot = regs[prog[pc, 3]] + prog[pc, 4]
            at, size = _pointed_or_inline(buf, slot, regs[reg], regs[reg + 1])
            status = ops.OUT_OF_BOUNDS if size < 0 else put_text(buf, at, size, arena, cols, col)
            if status != ops.OK:
                break
        elif op >= ops.SLOT_BYTES and op <= ops.SLOT_TIME:
            status = _slot(op, prog, pc, buf, regs, arena, cols, col)
            if status != ops.OK:
                break
        elif op == ops.ELEMENT_NULL or op == ops.MASKED_NULL:
            if op == ops.ELEMENT_NULL:
                index = regs[reg + 3]
                is_null = (buf[regs[reg] + 4 + (index >> 3)] >> (index & 7)) & 1
            else:
                index = regs[reg + 1]
                is_null = (buf[regs[reg + 2] + (index >> 3)] >> (7 - (index & 7))) & 1
            if is_null:
                col = fill_nulls(arena, cols, nulls, prog[pc, 3], prog[pc, 4])
                if col >= 0:
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
        elif op == ops.REGION:
            if pos + 4 > end:
                status = ops.TRUNCATED
                break
            size = load_be_i32(buf, pos)
            if size < prog[pc, 5] or size > end - pos - 4:
                status = ops.BAD_COUNT
                break
            regs[reg] = pos + 4
            pos += 4 + size
            regs[reg + 1] = pos
        elif op == ops.SUBREGION:
            at, size = _pointed(buf, regs[prog[pc, 3]] + prog[pc, 4], regs[reg], regs[reg + 1])
            if size < prog[pc, 6]:
                status = ops.OUT_OF_BOUNDS
                break
            regs[prog[pc, 5]] = at
            regs[prog[pc, 5] + 1] = at + size
        elif op == ops.BINARY_KIND:
            kind = np.int64(buf[regs[reg]])
            if kind > 3:
                status = ops.BAD_BYTE
                break
            if col >= 0 and not put_bytes(arena, cols, col, consts, prog[pc, 3] + 2 * kind, 2):
                status = ops.FULL
                break
        elif op == ops.UTF8 or op == ops.DECIMAL or op == ops.TIMESTAMP:
            pos, status = sized_value(op, prog, pc, buf, pos, end, arena, cols, col)
            if status != ops.OK:
                break
        elif op == ops.SLOT_VARIANT or op == ops.VARIANT:
            at, size, names_at, names, after, status = _variant(op, prog, pc, buf, pos, end, regs)
            if status != ops.OK:
                break
            if col >= 0 and not put_bytes(arena, cols, col, buf, at, size):
                status = ops.FULL
                break
            col = prog[pc, 5]
            if col >= 0 and not put_bytes(arena, cols, col, buf, names_at, names):
                status = ops.FULL
                break
            pos = after
        elif op <= ops.MASKED_NEXT:
            if op < ops.MASKED:
                jumps, status = _collection(op, prog, pc, buf, regs, arena, cols, col)
            else:
                jumps, pos, status = _masked(op, prog, pc, buf, pos, end, regs, arena, cols, col)
            if status != ops.OK:
                break
            if jumps:
                pc = prog[pc, 5]
                continue
        else:
            status = ops.BAD_BYTE
            break
        pc += 1
    return pc, pos, status, col
