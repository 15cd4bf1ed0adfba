"""Rows whose bounds are known from equal rows of a guide, so that they don't have to be skipped to find their ends."""

from __future__ import annotations

from typing import Final

from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.serializers.kernel.compiler import entry_point, inlined_kernel
from state_processor.serializers.kernel.memory import load_i64
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

GUIDE: Final = 0
"""The next row of the guide."""
ROW: Final = 1
POSITION: Final = 2

_AHEAD: Final = 24


@inlined_kernel
def same_bytes(first, begin, end, second, other_begin, other_end):  # type: ignore[no-untyped-def]
    """Return whether two ranges of bytes are equal."""
    size = end - begin
    if size != other_end - other_begin:
        return False
    if size < 8:
        different = 0
        for i in range(size):
            different |= first[begin + i] ^ second[other_begin + i]
        return different == 0
    i = 0
    while i + 8 <= size:
        if load_i64(first, begin + i) != load_i64(second, other_begin + i):
            return False
        i += 8
    return load_i64(first, end - 8) == load_i64(second, other_end - 8)


@entry_point(read(uint8), read(int64, 2), read(uint8), int64, int64, written(int64), written(int64, 2))
def follow(guide, rows, buffer, end, skipped, place, entries):  # type: ignore[no-untyped-def]
    """Fill in entries of two parts for rows with the same bytes as the guide's rows, up to the first different row.

    Parameters
    ----------
    guide, rows
        Entries of two adjacent parts; each entry is a row.
    buffer, end
        Rows of the same layout, and their end.
    skipped
        Number of rows before ``place`` that differ from the guide's. The row to begin with is searched among this number of rows
        and a few more.
    place
        The next row of the guide, the next entry to fill in, and the start of its row; updated.
    entries
        Receives the entries.
    """
    first = place[GUIDE]
    row = place[ROW]
    position = place[POSITION]
    match = -1
    for ahead in range(skipped + _AHEAD):
        # First changed rows, and additional rows of the guide; then rows that the guide does not have.
        k = first + (skipped + ahead if ahead < _AHEAD else ahead - _AHEAD)
        if k >= len(rows):
            continue
        size = rows[k, 3] - rows[k, 0]
        if position + size <= end and same_bytes(guide, rows[k, 0], rows[k, 3], buffer, position, position + size):
            match = k
            break
    if match < 0:
        return
    while row < len(entries) and match < len(rows):
        begin = rows[match, 0]
        size = rows[match, 3] - begin
        if position + size > end or not same_bytes(guide, begin, begin + size, buffer, position, position + size):
            break
        entries[row, 0] = position
        entries[row, 1] = position + rows[match, 1] - begin
        entries[row, 2] = position + rows[match, 2] - begin
        entries[row, 3] = position + size
        entries[row, KEY_GROUP] = rows[match, KEY_GROUP]
        position += size
        row += 1
        match += 1
    place[GUIDE] = match
    place[ROW] = row
    place[POSITION] = position
