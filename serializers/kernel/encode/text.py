"""Text and variable-length numbers in the encode kernel: UTF-8 to UTF-16 units, each a varint."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.memory import load_i64, store_i64


@kernel
def put_varint(out, pos, value):  # type: ignore[no-untyped-def]
    """Write an unsigned LEB128, at most five bytes for an int."""
    while value >= 0x80:
        out[pos] = (value & 0x7F) | 0x80
        pos += 1
        value >>= 7
    out[pos] = value
    return pos + 1


@kernel
def utf8_size(lead):  # type: ignore[no-untyped-def]
    """Return the size of the code point that begins with ``lead``."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


@kernel
def code_point(text, at, size):  # type: ignore[no-untyped-def]
    """Return the code point of ``size`` bytes at ``at``."""
    lead = np.int64(text[at])
    if size == 1:
        return lead
    code = lead & (0xFF >> (size + 1))
    for i in range(1, size):
        code = (code << 6) | (np.int64(text[at + i]) & 0x3F)
    return code


@kernel
def count_units(text, begin, end):  # type: ignore[no-untyped-def]
    """Return the number of UTF-16 units of UTF-8 text."""
    units = 0
    for i in range(begin, end):
        byte = text[i]
        units += (byte & 0xC0) != 0x80
        units += byte >= 0xF0
    return units


@inlined_kernel
def put_string(text, begin, end, lengths_start_at, out, pos):  # type: ignore[no-untyped-def]
    """Write Flink's string: length and units as varints. Return the offset after it, or -1 without room."""
    size = end - begin
    # A byte of UTF-8 becomes one and a half bytes at most: four make two surrogates of three bytes.
    if pos + size + size // 2 + 16 > len(out):
        return -1
    units = count_units(text, begin, end)
    pos = put_varint(out, pos, units + lengths_start_at)
    if units == size:
        i = begin
        while i < end:
            store_i64(out, pos, load_i64(text, i))
            i += 8
            pos += 8
        return pos - (i - end)
    i = begin
    while i < end:
        width = utf8_size(text[i])
        code = code_point(text, i, width)
        i += width
        if code >= 0x10000:
            code -= 0x10000
            pos = put_varint(out, pos, 0xD800 + (code >> 10))
            code = 0xDC00 + (code & 0x3FF)
        pos = put_varint(out, pos, code)
    return pos
