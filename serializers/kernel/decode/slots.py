"""Slots of columns in the arena: functions that append values, texts and nulls.

Every function that appends returns whether there was room. If not, the kernel stops, and the caller continues with more
room.
"""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.memory import load_i32, store_i16, store_i32, store_i64

# Fields of a row of the column table
COUNT: Final = 0  # slots written
CAPACITY: Final = 1  # capacity in slots
VALIDITY: Final = 2  # arena offset: one byte a slot, 1 until a null is written
DATA: Final = 3  # arena offset: values, or int32 offsets (one more than slots)
VAR: Final = 4  # arena offset of text and bytes
VAR_SIZE: Final = 5  # bytes written there
VAR_CAPACITY: Final = 6
NULLS: Final = 7  # nulls written
KIND: Final = 8
UNSPELLED: Final = 9  # 1 if the column contains a large number that must still become digits
FIELDS: Final = 10


@kernel
def put_offset(arena, cols, col, end):  # type: ignore[no-untyped-def]
    """Close a slot of a text, bytes or list column; False without room."""
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return False
    store_i32(arena, cols[col, DATA] + 4 * (n + 1), end)
    cols[col, COUNT] = n + 1
    return True


@kernel
def put_fixed(arena, cols, col, value):  # type: ignore[no-untyped-def]
    """Append a number to a column of any fixed width; False without room."""
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return False
    width = cols[col, KIND]
    if width == 8:
        store_i64(arena, cols[col, DATA] + 8 * n, value)
    elif width == 4:
        store_i32(arena, cols[col, DATA] + 4 * n, value)
    elif width == 2:
        store_i16(arena, cols[col, DATA] + 2 * n, value)
    else:
        arena[cols[col, DATA] + n] = value
    cols[col, COUNT] = n + 1
    return True


@kernel
def room(cols, col, size):  # type: ignore[no-untyped-def]
    """Return True if a text column has room for another slot of at most ``size`` bytes."""
    return cols[col, COUNT] < cols[col, CAPACITY] and cols[col, VAR_SIZE] + size <= cols[col, VAR_CAPACITY]


@kernel
def end_text(arena, cols, col, out):  # type: ignore[no-untyped-def]
    """Close a slot whose bytes end at ``out``; room was checked before."""
    cols[col, VAR_SIZE] = out - cols[col, VAR]
    put_offset(arena, cols, col, cols[col, VAR_SIZE])


@kernel
def put_bytes(arena, cols, col, source, pos, size):  # type: ignore[no-untyped-def]
    """Append a slot with a copy of bytes; False without room."""
    if not room(cols, col, size):
        return False
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    for i in range(size):
        arena[out + i] = source[pos + i]
    end_text(arena, cols, col, out + size)
    return True


@kernel
def put_null(arena, cols, col):  # type: ignore[no-untyped-def]
    """Append a null slot to one column; False without room."""
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return False
    arena[cols[col, VALIDITY] + n] = 0
    cols[col, NULLS] += 1
    kind = cols[col, KIND]
    if kind > 0:
        data = cols[col, DATA] + kind * n
        for i in range(kind):
            arena[data + i] = 0
    elif kind < 0:
        store_i32(arena, cols[col, DATA] + 4 * (n + 1), load_i32(arena, cols[col, DATA] + 4 * n))
    cols[col, COUNT] = n + 1
    return True


@kernel
def fill_nulls(arena, cols, nulls, first, last):  # type: ignore[no-untyped-def]
    """Append a null slot to each column of a range of the null table; the first column without room, or -1."""
    for i in range(first, last):
        if not put_null(arena, cols, nulls[i]):
            return nulls[i]
    return -1
