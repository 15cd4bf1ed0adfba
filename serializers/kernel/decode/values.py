"""Strings and tags of subclasses in the decode kernel."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_null, room
from state_processor.serializers.kernel.decode.text import put_units
from state_processor.serializers.kernel.memory import load_be_u16


@kernel
def varint(buf, pos, end):  # type: ignore[no-untyped-def]
    """Return an unsigned LEB128 of at most five bytes and the position after it, which is -1 if it is damaged."""
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
def java_string(nullable, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
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
def pojo_target(buf, pos, end, flags, aux, first, rows, consts):  # type: ignore[no-untyped-def]
    """Return the start of a subclass's program and the position of the flags after its tag; -1 for a class not described."""
    if flags == 8:
        if pos >= end:
            return -1, pos
        tag = np.int64(buf[pos])
        for r in range(first, first + rows):
            if aux[r, 0] == 8 and aux[r, 1] == tag:
                return aux[r, 3], pos + 1
        return -1, pos
    if pos + 2 > end:
        return -1, pos
    size = load_be_u16(buf, pos)
    if pos + 2 + size > end:
        return -1, pos
    for r in range(first, first + rows):
        if aux[r, 0] != 4 or aux[r, 2] != size:
            continue
        same = True
        for i in range(size):
            if buf[pos + 2 + i] != consts[aux[r, 1] + i]:
                same = False
                break
        if same:
            return aux[r, 3], pos + 2 + size
    return -1, pos
