"""Text in the decode kernel: whole numbers as decimal digits, dates and times as Java prints them, strings and characters.

Every function with a parameter ``out`` writes there in ``arena`` and returns the offset after the written bytes. The caller
reserves the space: the ``*_SIZE`` constants and :func:`decimal_size` give its upper limit. Strings are UTF-16 units, each a
varint or two bytes, or UTF-8; Avro's other formats of texts are here too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import DAY, civil_from_days
from state_processor.serializers.kernel.compiler import allocating_kernel, inlined_kernel, kernel
from state_processor.serializers.kernel.decode.arena import (
    CAPACITY,
    COUNT,
    DATA,
    UNSPELLED_MARK,
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
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import NOT_ASCII, load_be_i32, load_be_u16, load_i64, store_i32, store_i64
from state_processor.serializers.kernel.opcodes import AVRO, CODE, COL, FAMILY, A, B, D, Op

INSTANT_SIZE: Final = 40
"""Bytes of the longest ``Instant`` or ``LocalDateTime`` text, with a year of ten digits."""
TIME_SIZE: Final = 20
LARGE_NUMBER: Final = 1024
"""Bytes of a number beyond which its digits are left to Python."""


@kernel
def put_code_point(arena, out, code):  # type: ignore[no-untyped-def]
    """Write one Unicode code point as UTF-8, at most four bytes."""
    if code < 0x80:
        arena[out] = code
        return out + 1
    if code < 0x800:
        arena[out] = 0xC0 | (code >> 6)
        arena[out + 1] = 0x80 | (code & 0x3F)
        return out + 2
    if code < 0x10000:
        arena[out] = 0xE0 | (code >> 12)
        arena[out + 1] = 0x80 | ((code >> 6) & 0x3F)
        arena[out + 2] = 0x80 | (code & 0x3F)
        return out + 3
    arena[out] = 0xF0 | (code >> 18)
    arena[out + 1] = 0x80 | ((code >> 12) & 0x3F)
    arena[out + 2] = 0x80 | ((code >> 6) & 0x3F)
    arena[out + 3] = 0x80 | (code & 0x3F)
    return out + 4


@kernel
def put_units(buf, pos, end, units, arena, out):  # type: ignore[no-untyped-def]
    """Put ``units`` UTF-16 code units, each a varint (Flink's ``StringValue``), as UTF-8: at most three bytes a unit.

    A surrogate without its partner becomes U+FFFD. Returns the input position after the text,
    or -1 where it ends too early or a unit does not fit 16 bits, and the output offset.
    """
    high = 0
    i = 0
    while i < units:
        if pos + 8 <= len(buf) and high == 0:
            # Up to eight ASCII characters at once, which may look beyond the text on either side: the columns have room for
            # eight bytes behind their last text.
            count = min(8, units - i)
            eight = load_i64(buf, pos)
            if eight & (NOT_ASCII if count == 8 else NOT_ASCII & ((1 << (8 * count)) - 1)) == 0 and pos + count <= end:
                store_i64(arena, out, eight)
                pos += count
                out += count
                i += count
                continue
        if pos >= end:
            return -1, out
        unit = np.int64(buf[pos])
        pos += 1
        if unit >= 0x80:
            unit &= 0x7F
            shift = 7
            while True:
                if pos >= end or shift > 14:
                    return -1, out
                byte = np.int64(buf[pos])
                pos += 1
                unit |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            if unit > 0xFFFF:
                return -1, out
        i += 1
        if high:
            if 0xDC00 <= unit < 0xE000:
                out = put_code_point(arena, out, 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00))
                high = 0
                continue
            out = put_code_point(arena, out, 0xFFFD)
            high = 0
        if 0xD800 <= unit < 0xDC00:
            high = int(unit)
        elif 0xDC00 <= unit < 0xE000:
            out = put_code_point(arena, out, 0xFFFD)
        else:
            out = put_code_point(arena, out, unit)
    if high:
        out = put_code_point(arena, out, 0xFFFD)
    return pos, out


@kernel
def put_padded(arena, out, value, width):  # type: ignore[no-untyped-def]
    """Write a number that is not negative, with leading zeros up to ``width`` digits."""
    digits = 1
    bound = 10
    while digits < 19 and value >= bound:
        digits += 1
        bound *= 10
    digits = max(digits, width)
    for i in range(digits):
        arena[out + digits - 1 - i] = 48 + value % 10
        value //= 10
    return out + digits


@kernel
def decimal_size(size):  # type: ignore[no-untyped-def]
    """Return the most characters, sign and point included, that a two's complement number of ``size`` bytes takes in digits."""
    return size * 5 // 2 + 4


@allocating_kernel
def put_integer(buf, pos, size, arena, out):  # type: ignore[no-untyped-def]
    """Write a two's complement big-endian number of ``size`` > 0 bytes as decimal digits (``BigInteger.toString``)."""
    negative = buf[pos] >= 0x80
    if size <= 8:
        value = np.int64(-1) if negative else np.int64(0)
        for i in range(size):
            value = (value << 8) | np.int64(buf[pos + i])
        if not negative:
            return put_padded(arena, out, value, 1)
        if value > np.int64(-0x7FFFFFFFFFFFFFFF) - 1:
            arena[out] = 45
            return put_padded(arena, out + 1, -value, 1)
    # Magnitude as 32-bit limbs, then nine digits at a time by long division.
    limbs = (size + 3) // 4 + 1
    words = np.zeros(limbs, np.int64)
    carry = np.int64(1) if negative else np.int64(0)
    for i in range(size):
        byte = np.int64(buf[pos + size - 1 - i])
        if negative:
            byte = (byte ^ 0xFF) + carry
            carry = byte >> 8
            byte &= 0xFF
        words[limbs - 1 - i // 4] |= byte << (8 * (i % 4))
    if negative:
        words[limbs - 1 - size // 4] += carry << (8 * (size % 4))
    groups = np.empty(limbs * 32 * 31 // (100 * 9) + 2, np.int64)
    count = 0
    first = 0
    while True:
        while first < limbs and words[first] == 0:
            first += 1
        if first == limbs:
            break
        remainder = np.int64(0)
        for i in range(first, limbs):
            current = (remainder << 32) | words[i]
            words[i] = current // 1000000000
            remainder = current % 1000000000
        groups[count] = remainder
        count += 1
    if count == 0:
        arena[out] = 48
        return out + 1
    if negative:
        arena[out] = 45
        out += 1
    out = put_padded(arena, out, groups[count - 1], 1)
    for i in range(count - 2, -1, -1):
        out = put_padded(arena, out, groups[i], 9)
    return out


@kernel
def put_unspelled(buf, pos, size, scale, arena, out):  # type: ignore[no-untyped-def]
    """Write the bytes of a number that the long division of :func:`put_integer` is too slow for; Python converts them to digits.

    A byte that no text starts with, scale, size and two's complement take the room of the digits. See
    :func:`~state_processor.serializers.kernel.decode.arena.spelled`.
    """
    arena[out] = UNSPELLED_MARK
    store_i64(arena, out + 1, scale)
    store_i64(arena, out + 9, size)
    for i in range(size):
        arena[out + 17 + i] = buf[pos + i]
    return out + decimal_text_size(size, scale)


@kernel
def decimal_text_size(size, scale):  # type: ignore[no-untyped-def]
    """Return the most bytes of digits after :func:`put_point`: plain digits occur only where the scale adds six zeros or less."""
    return decimal_size(size) + 24


@kernel
def put_point(arena, start, out, scale):  # type: ignore[no-untyped-def]
    """Put a point and an exponent into digits as ``BigDecimal.toString`` prints a number of this scale."""
    if scale == 0:
        return out
    if arena[start] == 45:
        start += 1
    digits = out - start
    exponent = -scale + (digits - 1)
    if scale > 0 and exponent >= -6:
        before = digits - scale
        if before > 0:
            for i in range(out, start + before, -1):
                arena[i] = arena[i - 1]
            arena[start + before] = 46
            return out + 1
        shift = 2 - before
        for i in range(out - 1, start - 1, -1):
            arena[i + shift] = arena[i]
        arena[start] = 48
        arena[start + 1] = 46
        for i in range(-before):
            arena[start + 2 + i] = 48
        return out + shift
    if digits > 1:
        for i in range(out, start + 1, -1):
            arena[i] = arena[i - 1]
        arena[start + 1] = 46
        out += 1
    if exponent == 0:
        return out
    arena[out] = 69
    arena[out + 1] = 43 if exponent > 0 else 45
    return put_padded(arena, out + 2, abs(exponent), 1)


@kernel
def put_date(arena, out, year, month, day):  # type: ignore[no-untyped-def]
    """Put ``LocalDate.toString``: four digits of year at least, ``+`` before more, ``-`` before negative ones."""
    if year < 0:
        arena[out] = 45
        out += 1
    elif year > 9999:
        arena[out] = 43
        out += 1
    out = put_padded(arena, out, abs(year), 4)
    arena[out] = 45
    out = put_padded(arena, out + 1, month, 2)
    arena[out] = 45
    return put_padded(arena, out + 1, day, 2)


@kernel
def put_time(arena, out, hour, minute, second, nano, always_seconds):  # type: ignore[no-untyped-def]
    """Put ``LocalTime.toString``: seconds left out if they are zero (unless asked for), a fraction of 3, 6 or 9 digits."""
    out = put_padded(arena, out, hour, 2)
    arena[out] = 58
    out = put_padded(arena, out + 1, minute, 2)
    if second > 0 or nano > 0 or always_seconds:
        arena[out] = 58
        out = put_padded(arena, out + 1, second, 2)
        if nano > 0:
            arena[out] = 46
            if nano % 1000000 == 0:
                return put_padded(arena, out + 1, nano // 1000000, 3)
            if nano % 1000 == 0:
                return put_padded(arena, out + 1, nano // 1000, 6)
            return put_padded(arena, out + 1, nano, 9)
    return out


@kernel
def put_moment(arena, out, seconds, nano):  # type: ignore[no-untyped-def]
    """Put ``Instant.toString``: date, ``T``, time with seconds, ``Z``."""
    days = seconds // DAY
    rest = seconds - days * DAY
    year, month, day = civil_from_days(days)
    out = put_date(arena, out, year, month, day)
    arena[out] = 84
    out = put_time(arena, out + 1, rest // 3600, rest // 60 % 60, rest % 60, nano, True)
    arena[out] = 90
    return out + 1


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
            has_element = False
            if op == Op.BLOCKS_NEXT:
                regs[prog[pc, A]] -= 1
                has_element = regs[prog[pc, A]] > 0
            if not has_element:
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
                has_element = op == Op.BLOCKS_NEXT
            if has_element:
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
    remaining = size
    while remaining > 0:
        if at + 8 > len(buf):
            return False
        eight = load_i64(buf, at)
        if eight & (NOT_ASCII if remaining >= 8 else NOT_ASCII & ((1 << (8 * remaining)) - 1)):
            return False
        store_i64(arena, out, eight)
        at += 8
        out += 8
        remaining -= 8
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
