"""Kernels that write blocks of tables: entries with prefix compression and restarts, snappy, checksums.

:mod:`~state_processor.backends.formats.sst.block_kernels` has the format of blocks (RocksDB: ``block_builder.cc``,
``flush_block_policy.cc``). A block that is not complete at the end of a call stays in the arrays of the table, and the next call
continues it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.backends.formats.sst.block_kernels import (
    NOT_COMPRESSED,
    OFFSET,
    SEPARATOR,
    SEPARATOR_END,
    SIZE,
    SNAPPY,
    TAG_BYTES,
    put_varint,
)
from state_processor.backends.formats.sst.crc32c import masked_crc32c
from state_processor.serializers.kernel.compiler import entry_point, inlined_kernel, kernel
from state_processor.serializers.kernel.memory import load_i32, load_i64, prefetch, store_i32, store_i64
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

BLOCK_BYTES: Final = 4096
"""Size of a block before compression, as RocksDB's default option ``block_size`` sets it."""
_NEARLY_FULL: Final = BLOCK_BYTES * 9 // 10
"""A block of this size is complete if the next entry does not fit into it (``block_size_deviation``)."""
RESTART_INTERVAL: Final = 16
MOST_OF_ENTRY: Final = TAG_BYTES + 3 * 9
"""Bytes of an entry besides its key and value."""
TRAILER: Final = 5

# Numbers of a table between two calls
BLOCK, ENTRIES, RESTARTS, LAST, OUT, ROWS, KEYS, FILE_OFFSET, TICK = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Bytes and entries of the block, its restarts, the length of the last key (-1 without one), bytes of the output, lines and bytes
of the index, the offset of the output in the file, and a number by which the table of matches knows old positions."""
NUMBERS: Final = 9

KEY_BYTES, VALUE_BYTES, LARGEST_KEY, LARGEST_VALUE = 0, 1, 2, 3
"""Bytes of all keys and values of a table, and the most of a key and a value of one call."""
SIZES: Final = 4

HASH_BITS: Final = 11
_FRAGMENT: Final = 1 << 16
"""Snappy compresses parts of this size: a copy has two bytes for its distance."""
_MULTIPLIER: Final = 0x1E35A7BD
_LONGEST_COPY: Final = 64
_AHEAD: Final = 8
"""So many entries ahead, the bytes of an entry are fetched: sorted entries are anywhere in memory."""
_SKIPPING: Final = 5
"""Bytes without a match are skipped the faster, the more of them there are."""


def compressed_room(size: int) -> int:
    """Return the most bytes that a block takes in a file."""
    return 32 + size + size // 6 + TRAILER


@inlined_kernel
def _copy(source, begin, size, target, at):  # type: ignore[no-untyped-def]
    """Copy bytes; return where they end in the target."""
    i = np.int64(0)
    while i + 8 <= size:
        store_i64(target, at + i, load_i64(source, begin + i))
        i += 8
    if i < size and i > 0:  # the last eight bytes overlap the bytes before
        store_i64(target, at + size - 8, load_i64(source, begin + size - 8))
        return at + size
    while i < size:
        target[at + i] = source[begin + i]
        i += 1
    return at + size


@inlined_kernel
def _shared_bytes(first, at, second, begin, most):  # type: ignore[no-untyped-def]
    """Return the number of equal bytes at two places, at most ``most``."""
    size = np.int64(0)
    while size + 8 <= most and load_i64(first, at + size) == load_i64(second, begin + size):
        size += 8
    while size < most and first[at + size] == second[begin + size]:
        size += 1
    return size


@kernel
def _literal(data, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Write bytes that are not compressed; return where they end."""
    size = end - begin
    if size == 0:
        return at
    if size <= 60:
        out[at] = (size - 1) << 2
        at += 1
    elif size <= 256:
        out[at] = 60 << 2
        out[at + 1] = size - 1
        at += 2
    else:
        out[at] = 61 << 2
        out[at + 1] = (size - 1) & 0xFF
        out[at + 2] = (size - 1) >> 8
        at += 3
    if size <= 16:  # the bytes behind are overwritten
        store_i64(out, at, load_i64(data, begin))
        store_i64(out, at + 8, load_i64(data, begin + 8))
        return at + size
    return _copy(data, begin, size, out, at)


@kernel
def _match(out, at, distance, size):  # type: ignore[no-untyped-def]
    """Write copies of earlier bytes; return where they end."""
    while size > 0:
        part = min(size, _LONGEST_COPY)
        if 0 < size - part < 4:
            part = size - 4  # a copy with a short distance has at least four bytes
        if 4 <= part < 12 and distance < 2048:
            out[at] = 1 | ((part - 4) << 2) | ((distance >> 8) << 5)
            out[at + 1] = distance & 0xFF
            at += 2
        else:
            out[at] = 2 | ((part - 1) << 2)
            out[at + 1] = distance & 0xFF
            out[at + 2] = distance >> 8
            at += 3
        size -= part
    return at


@kernel
def _compress(data, begin, end, out, at, positions, tick):  # type: ignore[no-untyped-def]
    """Compress bytes with snappy. Return where the result ends, and the tick for the next call.

    ``positions`` has a position for each hash of four bytes. Positions of earlier parts are less than ``tick``.
    """
    at = put_varint(out, at, end - begin)
    first = begin
    while first < end:
        stop = min(first + _FRAGMENT, end)
        literal = first
        pos = first
        while pos + 12 <= stop:
            word = load_i32(data, pos) & 0xFFFFFFFF
            slot = ((word * _MULTIPLIER) & 0xFFFFFFFF) >> (32 - HASH_BITS)
            earlier = positions[slot] - tick + first
            positions[slot] = tick + pos - first
            if earlier < first or load_i32(data, earlier) & 0xFFFFFFFF != word:
                pos += 1 + ((pos - literal) >> _SKIPPING)
                continue
            at = _literal(data, literal, pos, out, at)
            size = _shared_bytes(data, earlier, data, pos, stop - pos)
            at = _match(out, at, pos - earlier, size)
            pos += size
            literal = pos
        at = _literal(data, literal, stop, out, at)
        tick += stop - first
        first = stop
    return at, tick


@kernel
def _end_block(block, restarts, numbers, out, positions, tables):  # type: ignore[no-untyped-def]
    """Complete the block, and write it to the output; return its place in the output and its size there."""
    size = numbers[BLOCK]
    for i in range(numbers[RESTARTS]):
        store_i32(block, size, restarts[i])
        size += 4
    store_i32(block, size, numbers[RESTARTS])
    size += 4
    begin = numbers[OUT]
    end, tick = _compress(block, np.int64(0), size, out, begin, positions, numbers[TICK])
    numbers[TICK] = tick
    kind = SNAPPY
    if end - begin >= size - (size >> 3):  # RocksDB keeps a compressed block if it is an eighth smaller
        kind = NOT_COMPRESSED
        end = _copy(block, np.int64(0), size, out, begin)
    out[end] = kind
    store_i32(out, end + 1, masked_crc32c(out, begin, end + 1, tables))
    numbers[OUT] = end + TRAILER
    numbers[BLOCK] = 0
    numbers[ENTRIES] = 0
    numbers[RESTARTS] = 0
    return begin, end - begin


@kernel
def _add_to_index(begin, size, shared, follows, last, numbers, keys, index):  # type: ignore[no-untyped-def]
    """Add a block to the index: its last key, or a shorter one that is before the next key.

    ``shared`` bytes of the last key and the next one are equal; ``follows`` is the next byte of the next one, -1 without one.
    """
    length = numbers[LAST]
    shortens = 0 <= shared < length and last[shared] + 1 < follows
    length = shared + 1 if shortens else length
    row = numbers[ROWS]
    at = numbers[KEYS]
    for i in range(length):
        keys[at + i] = last[i]
    if shortens:
        keys[at + shared] = last[shared] + 1
    index[row, SEPARATOR] = at
    index[row, SEPARATOR_END] = at + length
    index[row, OFFSET] = numbers[FILE_OFFSET] + begin
    index[row, SIZE] = size
    numbers[ROWS] = row + 1
    numbers[KEYS] = at + length


@entry_point(
    *(read(uint8), read(int64, 2), read(int64), read(int64), int64, int64),
    *(written(uint8), written(int64), written(uint8), written(int64), written(int64)),
    *(written(uint8), written(uint8), written(int64, 2), read(int64, 2)),
)
def write_blocks(  # type: ignore[no-untyped-def]
    data, spans, order, tags, row, stop, block, restarts, last, numbers, positions, out, keys, index, tables
):  # fmt: skip
    """Write entries to blocks; return the line of the first entry that is not written, because the output is full.

    Parameters
    ----------
    data, spans
        The entries: where the key begins and ends, and where the value does.
    order
        The lines of ``spans`` in the order of the keys.
    tags
        Sequence numbers and types of the entries in this order, or one for all.
    row, stop
        The first entry in the order, and the one behind the last.
    block, restarts, last, numbers, positions
        The table between two calls: the block, the offsets of its restarts, the last key, numbers, and positions of matches.
    out
        Receives complete blocks.
    keys, index
        Receive the keys and lines of an index of these blocks.
    tables
        The tables of CRC32C.
    """
    while row < stop:
        entry = order[row]
        prefetch(data, spans[order[min(row + _AHEAD, stop - 1)], 0])
        begin = spans[entry, 0]
        length = spans[entry, 1] - begin
        value = spans[entry, 2]
        size = spans[entry, 3] - value
        shared = _shared_bytes(last, np.int64(0), data, begin, min(length, numbers[LAST]))
        used = numbers[BLOCK] + 4 * numbers[RESTARTS] + 4
        is_full = used >= BLOCK_BYTES or (used > _NEARLY_FULL and used + length + size + TAG_BYTES + 6 > BLOCK_BYTES)
        if numbers[ENTRIES] > 0 and is_full:
            room = 64 + used + used // 6 + TRAILER
            if numbers[OUT] + room > len(out) or numbers[ROWS] == len(index) or numbers[KEYS] + numbers[LAST] > len(keys):
                return row
            follows = np.int64(data[begin + shared]) if shared < length else np.int64(-1)
            at, stored = _end_block(block, restarts, numbers, out, positions, tables)
            _add_to_index(at, stored, shared, follows, last, numbers, keys, index)
        at = numbers[BLOCK]
        if numbers[ENTRIES] % RESTART_INTERVAL == 0:
            restarts[numbers[RESTARTS]] = at
            numbers[RESTARTS] += 1
            shared = np.int64(0)
        at = put_varint(block, at, shared)
        at = put_varint(block, at, length - shared + TAG_BYTES)
        at = put_varint(block, at, size)
        at = _copy(data, begin + shared, length - shared, block, at)
        store_i64(block, at, tags[row if len(tags) > 1 else 0])
        numbers[BLOCK] = _copy(data, value, size, block, at + TAG_BYTES)
        _copy(data, begin, length, last, np.int64(0))
        numbers[ENTRIES] += 1
        numbers[LAST] = length
        row += 1
    return row


@entry_point(read(int64, 2), read(int64), int64, int64, written(int64))
def add_sizes(spans, order, row, stop, sizes):  # type: ignore[no-untyped-def]
    """Add the bytes of keys and values to ``sizes``, and set the largest ones; see :func:`write_blocks` and :data:`SIZES`."""
    sizes[LARGEST_KEY] = 0
    sizes[LARGEST_VALUE] = 0
    for i in range(row, stop):
        key = spans[order[i], 1] - spans[order[i], 0]
        value = spans[order[i], 3] - spans[order[i], 2]
        sizes[KEY_BYTES] += key
        sizes[VALUE_BYTES] += value
        sizes[LARGEST_KEY] = max(sizes[LARGEST_KEY], key)
        sizes[LARGEST_VALUE] = max(sizes[LARGEST_VALUE], value)


@entry_point(
    *(written(uint8), written(int64), written(uint8), written(int64), written(int64)),
    *(written(uint8), written(uint8), written(int64, 2), read(int64, 2)),
)
def end_blocks(block, restarts, last, numbers, positions, out, keys, index, tables):  # type: ignore[no-untyped-def]
    """Write the last block of a table; for the arguments see :func:`write_blocks`."""
    at, stored = _end_block(block, restarts, numbers, out, positions, tables)
    _add_to_index(at, stored, np.int64(-1), np.int64(-1), last, numbers, keys, index)
