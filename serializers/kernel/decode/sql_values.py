"""Values of Flink SQL in the decode kernel: UTF-8, decimals and timestamps, in the slots of binary rows and outside of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import inlined_kernel, kernel, on_demand
from state_processor.serializers.kernel.decode.slots import (
    CAPACITY,
    COUNT,
    DATA,
    VAR,
    VAR_SIZE,
    end_text,
    put_bytes,
    put_instant_text,
    put_micros,
    room,
)
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.text import INSTANT_SIZE, TIME_SIZE, civil_from_days, put_date, put_time
from state_processor.serializers.kernel.families import ARGUMENTS
from state_processor.serializers.kernel.memory import load_be_i32, load_be_i64, load_i64, store_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, D, E, F, Op

_TEXT: Final = 1  # the mode that makes text of dates and points in time
_ASCII: Final = -0x7F7F7F7F7F7F7F80  # 0x8080808080808080 as a signed long
_DAY_MS: Final = 86400000


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
        while at + 8 <= end and not load_i64(buf, at) & _ASCII:
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
            while at + 8 <= end and not load_i64(buf, at) & _ASCII:
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


@kernel
def put_decimal(arena, cols, col, high, low, limit_high, limit_low):  # type: ignore[no-untyped-def]
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
def put_decimal_bytes(buf, pos, size, arena, cols, col, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """Append a decimal of big-endian bytes in two's complement. Return 0, or the status that stops the run."""
    if size < 1 or size > 16:
        return outcomes.OUT_OF_RANGE
    high = np.int64(-1) if buf[pos] & 0x80 else np.int64(0)
    low = high
    for i in range(size):
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | np.int64(buf[pos + i])
    return put_decimal(arena, cols, col, high, low, limit_high, limit_low)


@kernel
def put_timestamp(arena, cols, col, ms, nano, mode, zone):  # type: ignore[no-untyped-def]
    """Append milliseconds and nanoseconds of the millisecond. Return 0, or the status that stops the run."""
    if nano < 0 or nano > 999999:
        return outcomes.BAD_TIME
    seconds = ms // 1000
    nano += ms % 1000 * 1000000
    if mode != _TEXT:
        return put_micros(arena, cols, col, seconds, nano, mode)
    if zone:
        return put_instant_text(arena, cols, col, seconds, nano, True)
    if not room(cols, col, INSTANT_SIZE + TIME_SIZE):
        return outcomes.FULL
    days = seconds // 86400
    rest = seconds - days * 86400
    year, month, day = civil_from_days(days)
    out = put_date(arena, cols[col, VAR] + cols[col, VAR_SIZE], year, month, day)
    arena[out] = 84
    end_text(arena, cols, col, put_time(arena, out + 1, rest // 3600, rest // 60 % 60, rest % 60, nano, False))
    return outcomes.OK


@kernel
def put_clock(arena, cols, col, ms):  # type: ignore[no-untyped-def]
    """Append milliseconds of the day. Return 0, or the status that stops the run."""
    if ms < 0 or ms >= _DAY_MS:
        return outcomes.BAD_TIME
    if not room(cols, col, TIME_SIZE):
        return outcomes.FULL
    seconds = ms // 1000
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    out = put_time(arena, out, seconds // 3600, seconds // 60 % 60, seconds % 60, ms % 1000 * 1000000, False)
    end_text(arena, cols, col, out)
    return outcomes.OK


@on_demand(*ARGUMENTS)
def utf8(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read a text with its size. Return the index of the next instruction, the position, the status, the column."""
    prog, _, _, buf, _, arena, cols = load_tables(tables)
    col = prog[pc, COL]
    if prog[pc, CODE] != Op.UTF8:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    if pos + 4 > end:
        return pc, pos, outcomes.TRUNCATED, col
    size = load_be_i32(buf, pos)
    if size < 0 or size > end - pos - 4:
        return pc, pos, outcomes.BAD_COUNT, col
    after = pos + 4 + size
    if col >= 0:
        status = put_text(buf, pos + 4, size, arena, cols, col)
        if status != outcomes.OK:
            return pc, after, status, col
    return pc + 1, after, outcomes.OK, col


@inlined_kernel
def timestamp(prog, pc, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a timestamp outside of binary rows. Return the new position and 0, or the status that stops the run."""
    compact = prog[pc, D] != 0
    size = np.int64(8 if compact else 12)
    if size > end - pos:
        return pos, outcomes.TRUNCATED
    if col < 0:
        return pos + size, outcomes.OK
    nano = np.int64(0) if compact else load_be_i32(buf, pos + 8)
    return pos + size, put_timestamp(arena, cols, col, load_be_i64(buf, pos), nano, prog[pc, E], prog[pc, F])


@inlined_kernel
def decimal(prog, pc, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    """Read a decimal outside of binary rows. Return the new position and 0, or the status that stops the run."""
    if prog[pc, D]:
        if pos + 8 > end:
            return pos, outcomes.TRUNCATED
        if col < 0:
            return pos + 8, outcomes.OK
        low = load_be_i64(buf, pos)
        return pos + 8, put_decimal(arena, cols, col, low >> 63, low, prog[pc, E], prog[pc, F])
    if pos + 4 > end:
        return pos, outcomes.TRUNCATED
    size = load_be_i32(buf, pos)
    if size < 0 or size > end - pos - 4:
        return pos, outcomes.BAD_COUNT
    after = pos + 4 + size
    if col < 0:
        return after, outcomes.OK
    return after, put_decimal_bytes(buf, pos + 4, size, arena, cols, col, prog[pc, E], prog[pc, F])
