"""Varints, tags of subclasses, and pointers of binary rows in the decode kernel."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.memory import load_be_u16, load_i32


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


@kernel
def pointed(buf, slot, begin, end):  # type: ignore[no-untyped-def]
    """Return the position and the size of the value that a slot points to; size -1 if it is not inside of the region."""
    size = load_i32(buf, slot)
    offset = load_i32(buf, slot + 4)
    if size < 0 or offset < 0 or offset + size > end - begin:
        return begin, np.int64(-1)
    return begin + offset, size
