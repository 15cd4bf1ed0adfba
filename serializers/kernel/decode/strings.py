"""Strings and characters in the decode kernel: UTF-16 units, each a varint or two bytes; UTF-8, and other formats of Avro."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.decode.arena import (
    CAPACITY,
    COUNT,
    DATA,
    VAR,
    VAR_CAPACITY,
    VAR_SIZE,
    end_text,
    load_tables,
    put_bytes,
    put_null,
    put_offset,
    room,
)
from state_processor.serializers.kernel.decode.text import put_code_point, put_units
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import NOT_ASCII, load_be_i32, load_be_u16, load_i64, store_i32, store_i64
from state_processor.serializers.kernel.opcodes import AVRO, CODE, COL, FAMILY, A, B, D, Op


@kernel
def varint(buf, pos, end):  # type: ignore[no-untyped-def]
    """Return an unsigned LEB128 of at most five bytes and the position after it, or position -1 if it is damaged."""
    value = np.int64(0)
    shift = 0
    while pos < end and shift <= 28:
        byte = np.int64(buf[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    return value, -1


@kernel
def _sequence(buf, pos, end):  # type: ignore[no-untyped-def]
    """Return the size of the UTF-8 sequence at ``pos``; of an invalid one, the size of its longest valid prefix, negated."""
    lead = buf[pos]
    if lead < 0x80:
        return 1
    low, high, size = 0x80, 0xBF, 0
    if 0xC2 <= lead <= 0xDF:
        size = 2
    elif 0xE0 <= lead <= 0xEF:
        size = 3
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        size = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    for i in range(1, size):
        if pos + i >= end or buf[pos + i] < low or buf[pos + i] > high:
            return -i
        low, high = 0x80, 0xBF
    return size if size else -1


@kernel
def put_text(buf, pos, size, arena, cols, col):  # type: ignore[no-untyped-def]
    """Append UTF-8 text, with U+FFFD for invalid sequences as in Java. Return 0, or the status that stops the run."""
    end = pos + size
    at = pos
    needed = 0
    while at < end:
        while at + 8 <= end and not load_i64(buf, at) & NOT_ASCII:
            at += 8
            needed += 8
        if at < end:
            length = _sequence(buf, at, end)
            needed += length if length > 0 else 3
            at += abs(length)
    if needed == size and at == end:
        # Wrong sequences of three bytes have the size of their replacement, but not its bytes: they take the long way.
        at = pos
        while at < end:
            while at + 8 <= end and not load_i64(buf, at) & NOT_ASCII:
                at += 8
            if at < end:
                length = _sequence(buf, at, end)
                if length < 0:
                    break
                at += length
        if at == end:
            return outcomes.OK if put_bytes(arena, cols, col, buf, pos, size) else outcomes.FULL
    if not room(cols, col, needed):
        return outcomes.FULL
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    at = pos
    while at < end:
        length = _sequence(buf, at, end)
        if length < 0:
            arena[out] = 0xEF
            arena[out + 1] = 0xBF
            arena[out + 2] = 0xBD
            out += 3
        for i in range(length):
            arena[out] = buf[at + i]
            out += 1
        at += abs(length)
    end_text(arena, cols, col, out)
    return outcomes.OK


@family
def avro(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Run instructions while they are of ``AVRO``."""
    prog, _, aux, _, buf, regs, arena, cols = load_tables(tables)
    status = outcomes.OK
    col = np.int64(-1)
    while True:
        op = prog[pc, CODE]
        if op & FAMILY != AVRO:
            break
        col = prog[pc, COL]
        if op == Op.UTF8:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            size = load_be_i32(buf, pos)
            if size < 0 or size > end - pos - 4:
                status = outcomes.BAD_COUNT
                break
            if col >= 0:
                status = put_text(buf, pos + 4, size, arena, cols, col)
                if status != outcomes.OK:
                    break
            pos += 4 + size
        elif op == Op.BLOCKS or op == Op.BLOCKS_NEXT:
            more = False
            if op == Op.BLOCKS_NEXT:
                regs[prog[pc, A]] -= 1
                more = regs[prog[pc, A]] > 0
            if not more:
                count, after = varint(buf, pos, end)
                if after < 0 or count > end - after:
                    status = outcomes.BAD_COUNT
                    break
                pos = after
                regs[prog[pc, A]] = count
                if count == 0:
                    if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, B], COUNT]):
                        status = outcomes.FULL
                        break
                    if op == Op.BLOCKS:
                        pc = prog[pc, D]
                    else:
                        pc += 1
                    continue
                more = op == Op.BLOCKS_NEXT
            if more:
                pc = prog[pc, D]
                continue
        elif op == Op.CHOOSE:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            index = load_be_i32(buf, pos)
            if index < 0 or index >= prog[pc, B]:
                status = outcomes.BAD_INDEX
                break
            pos += 4
            pc = aux[prog[pc, A] + index, 0]
            continue
        else:
            status = outcomes.UNKNOWN_INSTRUCTION
            break
        pc += 1
    return pc, pos, status, col


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
