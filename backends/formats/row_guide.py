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
def same_bytes(one, begin, end, other, other_begin, other_end):  # type: ignore[no-untyped-def]
    """Return whether two ranges of bytes are equal."""
    size = end - begin
    if size != other_end - other_begin:
        return False
    if size < 8:
        different = 0
        for i in range(size):
            different |= one[begin + i] ^ other[other_begin + i]
        return different == 0
    i = 0
    while i + 8 <= size:
        if load_i64(one, begin + i) != load_i64(other, other_begin + i):
            return False
        i += 8
    return load_i64(one, end - 8) == load_i64(other, other_end - 8)


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
    found = -1
    for ahead in range(skipped + _AHEAD):
        # First changed rows, and additional rows of the guide; then rows that the guide does not have.
        k = first + (skipped + ahead if ahead < _AHEAD else ahead - _AHEAD)
        if k >= len(rows):
            continue
        size = rows[k, 3] - rows[k, 0]
        if position + size <= end and same_bytes(guide, rows[k, 0], rows[k, 3], buffer, position, position + size):
            found = k
            break
    if found < 0:
        return
    while row < len(entries) and found < len(rows):
        begin = rows[found, 0]
        size = rows[found, 3] - begin
        if position + size > end or not same_bytes(guide, begin, begin + size, buffer, position, position + size):
            break
        entries[row, 0] = position
        entries[row, 1] = position + rows[found, 1] - begin
        entries[row, 2] = position + rows[found, 2] - begin
        entries[row, 3] = position + size
        entries[row, KEY_GROUP] = rows[found, KEY_GROUP]
        position += size
        row += 1
        found += 1
    place[GUIDE] = found
    place[ROW] = row
    place[POSITION] = position
