"""Access to columns in the encode kernel: nulls, texts, bytes."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.encode.input_arena import DATA, LEVEL, VALIDITY, VAR
from state_processor.serializers.kernel.memory import load_i32, store_i32, store_i64

_KINDS: Final = 4


@kernel
def is_null(arena, cols, col, slot):  # type: ignore[no-untyped-def]
    """Return True if a slot of a column is null."""
    validity = cols[col, VALIDITY]
    return validity >= 0 and arena[validity + slot] == 0


@kernel
def text_at(arena, cols, col, slot):  # type: ignore[no-untyped-def]
    """Return begin and end of a text or of bytes in the arena."""
    data = cols[col, DATA] + 4 * slot
    return cols[col, VAR] + load_i32(arena, data), cols[col, VAR] + load_i32(arena, data + 4)


@kernel
def copy(source, begin, end, out, pos):  # type: ignore[no-untyped-def]
    """Copy bytes and return the offset after them."""
    for i in range(begin, end):
        out[pos + i - begin] = source[i]
    return pos + end - begin


@kernel
def row_kind(arena, cols, col, idx, consts, names):  # type: ignore[no-untyped-def]
    """Return the number of the row kind in a column; a null is an insertion. Return -1 for an unknown kind."""
    if col < 0:
        return 0
    slot = idx[cols[col, LEVEL]]
    if is_null(arena, cols, col, slot):
        return 0
    begin, end = text_at(arena, cols, col, slot)
    if end - begin == 2:
        for kind in range(_KINDS):
            if arena[begin] == consts[names + 2 * kind] and arena[begin + 1] == consts[names + 2 * kind + 1]:
                return kind
    return -1


@kernel
def zeros(out, pos, size):  # type: ignore[no-untyped-def]
    """Write ``size`` zeros, up to seven more if they fit. Return the offset after them."""
    end = pos + size
    while pos + 8 <= end:
        store_i64(out, pos, 0)
        pos += 8
    while pos < end:
        out[pos] = 0
        pos += 1
    return end


@kernel
def point(out, slot, begin, at, size):  # type: ignore[no-untyped-def]
    """Write size and position of bytes in a region into a slot."""
    store_i32(out, slot, size)
    store_i32(out, slot + 4, at - begin)
