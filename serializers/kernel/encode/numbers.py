"""Numbers of any size and decimals of up to 128 bits in the encode kernel."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.encode.input_arena import (
    DATA,
    LEVEL,
    LONG_MARK,
    copy,
    is_null,
    load_tables,
    point,
    text_at,
    zeros,
)
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MAX_I32, MIN_I32, load_i64, store_be_i32, store_be_i64, store_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, IN_LONG, SIZED, A, B, C, D, E, F, Op
from state_processor.serializers.text_grammar import MOST_ZEROS

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


_EXPONENT_DIGITS: Final = 10
_LONG_HEAD: Final = 9


@kernel
def _scan(text, begin, end):  # type: ignore[no-untyped-def]
    """Return begin and end of a number's digits, how many are behind the point, the exponent; begin -1 for other text."""
    at = begin
    if at < end and (text[at] == 43 or text[at] == 45):
        at += 1
    first = at
    digits = 0
    after = np.int64(-1)
    while at < end:
        byte = text[at]
        if byte == 46 and after < 0:
            after = np.int64(0)
        elif 48 <= byte <= 57:
            digits += 1
            if after >= 0:
                after += 1
        else:
            break
        at += 1
    last = at
    exponent = np.int64(0)
    if digits == 0:
        return np.int64(-1), last, after, exponent
    if at < end:
        if text[at] != 69 and text[at] != 101:
            return np.int64(-1), last, after, exponent
        at += 1
        negative = at < end and text[at] == 45
        if at < end and (text[at] == 43 or text[at] == 45):
            at += 1
        if at == end or end - at > _EXPONENT_DIGITS:
            return np.int64(-1), last, after, exponent
        while at < end:
            digit = np.int64(text[at]) - 48
            if digit < 0 or digit > 9:
                return np.int64(-1), last, after, exponent
            exponent = 10 * exponent + digit
            at += 1
        if negative:
            exponent = -exponent
    return np.int64(first), last, max(after, np.int64(0)), exponent


@kernel
def _times(out, start, size, factor, add):  # type: ignore[no-untyped-def]
    """Multiply a number of little-endian bytes and add to it. Return its new size."""
    carry = np.int64(add)
    for i in range(size):
        carry += np.int64(out[start + i]) * factor
        out[start + i] = carry & 0xFF
        carry >>= 8
    while carry:
        out[start + size] = carry & 0xFF
        carry >>= 8
        size += 1
    return size


@kernel
def _put_digits(text, first, last, count, zeros, negative, out, pos):  # type: ignore[no-untyped-def]
    """Write the first ``count`` digits of a text, and zeros, as the shortest big-endian two's complement. Return its size.

    There is room for a byte for every two digits, and eight more.
    """
    size = np.int64(0)
    factor = np.int64(1)
    part = np.int64(0)
    at = first
    for i in range(count + zeros):
        digit = np.int64(0)
        if i < count:
            if text[at] == 46:
                at += 1
            digit = np.int64(text[at]) - 48
            at += 1
        part = 10 * part + digit
        factor *= 10
        if factor == 1000000000000000:
            size = _times(out, pos, size, factor, part)
            factor = np.int64(1)
            part = np.int64(0)
    size = _times(out, pos, size, factor, part)
    if size == 0 or out[pos + size - 1] & 0x80:
        out[pos + size] = 0
        size += 1
    if negative:
        carry = np.int64(1)
        for i in range(size):
            carry += np.int64(out[pos + i]) ^ 0xFF
            out[pos + i] = carry & 0xFF
            carry >>= 8
        if size > 1 and out[pos + size - 1] == 0xFF and out[pos + size - 2] & 0x80:
            size -= 1
    for i in range(size // 2):
        byte = out[pos + i]
        out[pos + i] = out[pos + size - 1 - i]
        out[pos + size - 1 - i] = byte
    return size


@kernel
def _put_sized(text, first, last, count, zeros, negative, out, pos):  # type: ignore[no-untyped-def]
    """Write a big integer: size and bytes, or one of three constants. Return the offset after it, or -1 without room."""
    if pos + (count + zeros) // 2 + 24 > len(out):
        return np.int64(-1)
    return _end_sized(_put_digits(text, first, last, count, zeros, negative, out, pos + 4), out, pos)


@kernel
def _end_sized(size, out, pos):  # type: ignore[no-untyped-def]
    """Write the size of a big integer before its bytes, or a constant instead of both. Return the offset after it."""
    head = size + 4
    if size == 1:
        byte = out[pos + 4]
        if byte == 0 or byte == 1 or byte == 10:
            store_be_i32(out, pos, 1 if byte == 0 else (2 if byte == 1 else 3))
            return pos + 4
    store_be_i32(out, pos, head)
    return pos + head


@inlined_kernel
def _put_digits_of(op, arena, cols, col, slot, null, out, pos):  # type: ignore[no-untyped-def]
    """Write a big integer or big decimal from its digits. Return the offset after it and 0, or the status that stops the run."""
    if null:
        store_be_i32(out, pos, 0)
        return pos + 4, outcomes.OK
    begin, end = text_at(arena, cols, col, slot)
    if end - begin > _LONG_HEAD and arena[begin] == LONG_MARK:
        if pos + 8 + end - begin > len(out):
            return pos, outcomes.FULL
        scale = load_i64(arena, begin + 1)
        position = _end_sized(copy(arena, begin + _LONG_HEAD, end, out, pos + 4) - pos - 4, out, pos)
        if op == Op.BIG_DECIMAL:
            store_be_i32(out, position, scale)
            position += 4
        return position, outcomes.OK
    first, last, after, exponent = _scan(arena, begin, end)
    if first < 0:
        return pos, outcomes.BAD_NUMBER
    negative = arena[begin] == 45
    count = last - first - (1 if _has_point(arena, first, last) else 0)
    scale = after - exponent
    if op == Op.BIG_DECIMAL:
        if scale > MAX_I32 or scale < MIN_I32:
            return pos, outcomes.BAD_NUMBER
        position = _put_sized(arena, first, last, count, np.int64(0), negative, out, pos)
        if position < 0 or position + 4 > len(out):
            return pos, outcomes.FULL
        store_be_i32(out, position, scale)
        return position + 4, outcomes.OK
    zeros = np.int64(0)
    if scale < 0:
        zeros = -scale
        if _only_zeros(arena, first, last):
            zeros = np.int64(0)
        if zeros > MOST_ZEROS:
            return pos, outcomes.BAD_NUMBER
    elif scale > 0:
        if not _only_zeros(arena, _behind(arena, first, last, count - scale), last):
            return pos, outcomes.BAD_NUMBER
        count = max(count - scale, np.int64(0))
    position = _put_sized(arena, first, last, count, zeros, negative, out, pos)
    if position < 0:
        return pos, outcomes.FULL
    return position, outcomes.OK


@kernel
def _has_point(text, first, last):  # type: ignore[no-untyped-def]
    for i in range(first, last):  # noqa: SIM110
        if text[i] == 46:
            return True
    return False


@kernel
def _only_zeros(text, first, last):  # type: ignore[no-untyped-def]
    for i in range(first, last):  # noqa: SIM110
        if text[i] != 48 and text[i] != 46:
            return False
    return True


@kernel
def _behind(text, first, last, count):  # type: ignore[no-untyped-def]
    """Return the offset behind so many digits."""
    at = first
    while count > 0:
        if text[at] != 46:
            count -= 1
        at += 1
    return at


@family
def put_number(tables, pc, pos, limit):  # type: ignore[no-untyped-def]
    """Write one number."""
    prog, _, arena, cols, idx, _, _, out = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.BIG_INTEGER or op == Op.BIG_DECIMAL:
        slot = idx[cols[col, LEVEL]]
        null = is_null(arena, cols, col, slot)
        pos, status = _put_digits_of(op, arena, cols, col, slot, null, out, pos)
    return pc + 1 if status == outcomes.OK else pc, pos, status
