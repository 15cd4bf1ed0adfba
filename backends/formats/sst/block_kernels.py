"""Kernels over blocks of tables: entries with internal keys, and the entries of indexes.

An entry has three varints, the rest of its key, and its value. The varints are the number of bytes that the key shares with the
previous key, the number of other bytes of the key, and the number of bytes of the value. After the entries follow the offsets of
the restarts, whose keys don't share bytes, and the number of restarts. An internal key ends with eight bytes, the *tag*: the
sequence number and the type of the entry (RocksDB: ``table/block_based/block.cc``, ``db/dbformat.h``).

Every length is compared with the remaining bytes before its use. Buffers have :data:`SLACK` bytes after their content: copies and
comparisons take eight or sixteen bytes at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.sst.crc32c import masked_crc32c, masked_crc32c_of_three
from state_processor.backends.formats.sst.decompression_kernels import decompress_lz4, decompress_snappy
from state_processor.serializers.kernel.compiler import entry_point, inlined_kernel, kernel
from state_processor.serializers.kernel.memory import MAX_I64, load_be_i64, load_be_u16, load_i32, load_i64, store_i64
from state_processor.serializers.kernel.signatures import int64, read, uint8, updated, written

SLACK: Final = 16
"""Bytes after the content of a buffer."""
TAG_BYTES: Final = 8

# Columns of a table of entries; the last one is the key group
KEY, KEY_END, VALUE, VALUE_END = 0, 1, 2, 3

# Columns of a table of blocks, as an index has them
SEPARATOR, SEPARATOR_END, OFFSET, SIZE = 0, 1, 2, 3
INDEX_FIELDS: Final = 4

# Columns of the places of blocks in bytes of a file: the compression, the block up to its trailer, its bytes behind the
# decompressed size, this size, and the offset of the block in the file
KIND, BEGIN, END, COMPRESSED, PLAIN_SIZE, FILE_OFFSET = 0, 1, 2, 3, 4, 5
PLACE_FIELDS: Final = 6

# Kinds of checksums and of compressions in kernels
NO_CHECKSUM, CRC32C = 0, 1
READY, NOT_COMPRESSED, SNAPPY, LZ4, LZ4HC = -1, 0, 1, 4, 5

# Types of entries
DELETION, VALUE_TYPE, MERGE, SINGLE_DELETION, RANGE_DELETION = 0, 1, 2, 7, 15

# Outcomes
DONE: Final = 0
FULL: Final = 1
BAD_BLOCK: Final = 2
BAD_TYPE: Final = 3
BAD_HANDLE: Final = 4
NEWER_BLOCK: Final = 5
BAD_ORDER: Final = 6
BAD_CHECKSUM: Final = 7
BAD_COMPRESSION: Final = 8
SHORT_KEY: Final = 9
BAD_SEPARATOR: Final = 10

# Fields of a result
STATUS, ROWS, KEYS_END, MERGES, WHERE, VALUE_BYTES, DISTINCT, LAST_KEY, LAST_KEY_END = 0, 1, 2, 3, 4, 5, 6, 7, 8
LEAST_TAG, LARGEST_TAG = 9, 10
RESULT_FIELDS: Final = 11

_HASHED: Final = 1 << 31
_MOST_RESTARTS: Final = (1 << 28) - 1


@inlined_kernel
def compare(first, begin, end, second, other_begin, other_end):  # type: ignore[no-untyped-def]
    """Return a negative number if some bytes are before others, 0 if they are equal, else a positive one."""
    size = min(end - begin, other_end - other_begin)
    at = 0
    while at < size:
        first_word = load_be_i64(first, begin + at)
        right = load_be_i64(second, other_begin + at)
        if first_word != right:
            unequal = np.uint64(first_word) ^ np.uint64(right)
            rest = size - at
            if rest < 8:
                unequal >>= np.uint64(8 * (8 - rest))
                if unequal == np.uint64(0):
                    break
            return -1 if np.uint64(first_word) < np.uint64(right) else 1
        at += 8
    return (end - begin) - (other_end - other_begin)


@inlined_kernel
def _copy(data, target, source, size):  # type: ignore[no-untyped-def]
    """Copy bytes, and up to fifteen behind them."""
    i = np.int64(0)
    while i < size:
        low_word = load_i64(data, source + i)
        high_word = load_i64(data, source + i + 8)
        store_i64(data, target + i, low_word)
        store_i64(data, target + i + 8, high_word)
        i += 16


@inlined_kernel
def varint(data, at, end):  # type: ignore[no-untyped-def]
    """Return a number of at most 63 bits and where it ends; a position of -1 if it is damaged."""
    value = np.int64(0)
    shift = 0
    while at < end and shift < 63:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return np.int64(0), np.int64(-1)


@inlined_kernel
def _entries_end(data, begin, end):  # type: ignore[no-untyped-def]
    """Return where the entries of a block end, a negative outcome if its last bytes are damaged, and the number of restarts."""
    if end - begin < 4:
        return np.int64(-BAD_BLOCK), np.int64(0)
    packed = load_i32(data, end - 4) & 0xFFFFFFFF
    at = end - 4
    restarts = packed & ~np.int64(_HASHED)
    if restarts > _MOST_RESTARTS:
        return np.int64(-NEWER_BLOCK), np.int64(0)
    if packed & _HASHED:
        if at - begin < 2:
            return np.int64(-BAD_BLOCK), np.int64(0)
        at -= 2 + np.int64(data[at - 2]) + (np.int64(data[at - 1]) << 8)
    at -= 4 * restarts
    if at < begin:
        return np.int64(-BAD_BLOCK), np.int64(0)
    before = np.int64(-1)
    for restart in range(restarts):  # RocksDB begins at the first one, and searches keys by all of them
        place = load_i32(data, at + 4 * restart) & 0xFFFFFFFF
        if place <= before or (restart == 0 and place != 0) or (restart > 0 and place >= at - begin):
            return np.int64(-BAD_BLOCK), np.int64(0)
        before = place
    return at, restarts


@kernel
def _checksums(raw, places, block, checksum, tables):  # type: ignore[no-untyped-def]
    """Return the checksums of a block and the two behind it; zeros for blocks without checksums, and of other kinds."""
    first = second = third = np.int64(0)
    if checksum == CRC32C and block + 2 < len(places):
        first, second, third = masked_crc32c_of_three(
            raw, places[block, BEGIN], places[block, END] + 1, places[block + 1, BEGIN], places[block + 1, END] + 1,
            places[block + 2, BEGIN], places[block + 2, END] + 1, tables
        )  # fmt: skip
    elif checksum == CRC32C:
        first = masked_crc32c(raw, places[block, BEGIN], places[block, END] + 1, tables)
        if block + 1 < len(places):
            second = masked_crc32c(raw, places[block + 1, BEGIN], places[block + 1, END] + 1, tables)
    return first, second, third


@kernel
def _plain_block(raw, places, block, checksum, context, computed, data, at):  # type: ignore[no-untyped-def]
    """Verify a block by its ``computed`` checksum, and decompress it; return the outcome."""
    begin = places[block, BEGIN]
    end = places[block, END]
    if checksum == CRC32C:
        if context != 0:
            offset = places[block, FILE_OFFSET]
            computed = (computed + (context ^ ((offset + (offset >> 32)) & 0xFFFFFFFF))) & 0xFFFFFFFF
        if computed != load_i32(raw, end + 1) & 0xFFFFFFFF:
            return BAD_CHECKSUM
    kind = places[block, KIND]
    stop = at + places[block, PLAIN_SIZE]
    done = True
    if kind == NOT_COMPRESSED:
        for i in range(end - begin):
            data[at + i] = raw[begin + i]
    elif kind == SNAPPY:
        done = decompress_snappy(raw, places[block, COMPRESSED], end, data, at, stop)
    elif kind in (LZ4, LZ4HC):
        done = decompress_lz4(raw, places[block, COMPRESSED], end, data, at, stop)
    return DONE if done else BAD_COMPRESSION


@entry_point(
    *(read(uint8), read(int64, 2), int64, int64, read(int64, 2), written(uint8), int64),
    *(read(uint8), read(uint8), int64, int64, int64, read(uint8), read(int64, 2), int64, int64, int64),
    *(written(int64, 2), written(int64), int64, int64, int64, int64, written(int64)),
)
def decode_blocks(  # type: ignore[no-untyped-def]
    raw, places, checksum, context, tables, data, at, lower, upper, lower_size, upper_size, bounded_from,
    separators, spans, is_exact, sequence, prefix, table, tags, first, row, keys, keys_end, result
):  # fmt: skip
    """Decompress some blocks, and find their entries whose keys are from ``lower`` to before ``upper``.

    Parameters
    ----------
    raw, places
        The stored blocks, and their places in ``raw``.
    checksum, context, tables
        The kind of checksum to verify, 0 for none; the context of checksums; the tables of CRC32C.
    data, at
        Receives the decompressed blocks from ``at`` on. Blocks of the kind ``READY`` are there already.
    lower, upper, lower_size, upper_size
        The bounds, and their lengths.
    bounded_from
        The first block that may have keys from ``upper`` on.
    separators, spans, is_exact
        Bytes of separators; where the separator in front of the first block is, and that behind each block; whether keys behind a
        separator have to be larger than it. A separator whose end is before its begin is unknown. Keys have to be between the
        separators of their block, or the index is damaged.
    sequence
        The sequence number of all entries, if the table was ingested; else -1.
    prefix
        Bytes of the key group in front of each key, at most 2.
    table, tags
        Receive the entries from the line ``row`` on, as :mod:`~state_processor.backends.formats.framing` has them, and their
        tags. The lines from ``first`` on are of the same run: their keys have to ascend.
    keys, keys_end
        The part of ``data`` that receives keys that share bytes with the ones before.
    result
        The status, the line behind the last entry, the end of the keys, the number of merge operands, the block or the type that
        an error is about, the bytes of all values, 1 if all entries are values of different keys, where the last key is, also
        if it is not before ``upper``, and the least and the largest tag of the entries. The end of the last key is -1 without
        entries.
    """
    searching = True
    merges = np.int64(0)
    value_bytes = np.int64(0)
    distinct = np.int64(1)
    status = DONE
    detail = np.int64(0)
    last = np.int64(0)  # the previous key
    last_end = np.int64(-1)
    last_tag = np.int64(0)
    if row > first:
        last = table[row - 1, KEY] - prefix
        last_end = table[row - 1, KEY_END]
        last_tag = tags[row - 1]
    least_tag = np.int64(MAX_I64)
    largest_tag = np.int64(0)
    computed = second = third = np.int64(0)  # checksums of this block and the next two
    is_behind = False  # keys are not before the upper bound any more
    for block in range(len(places)):
        detail = np.int64(block)
        if block % 3 == 0:
            computed, second, third = _checksums(raw, places, block, checksum, tables)
        status = _plain_block(raw, places, block, checksum, context, computed, data, at)
        computed = second
        second = third
        if status != DONE:
            break
        stop = at + places[block, PLAIN_SIZE]
        end, _ = _entries_end(data, at, stop)
        if end < 0:
            status = -end
            break
        bounded = block >= bounded_from
        key = at
        key_end = at
        is_first = True
        while at < end:
            word = load_i32(data, at)
            if at + 3 <= end and word & 0x808080 == 0:
                shared = word & 0xFF
                unshared = (word >> 8) & 0xFF
                size = (word >> 16) & 0xFF
                at += 3
            else:
                shared, at = varint(data, at, end)
                if at >= 0:
                    unshared, at = varint(data, at, end)
                if at >= 0:
                    size, at = varint(data, at, end)
                if at < 0:
                    status = BAD_BLOCK
                    break
            if shared > key_end - key or unshared > end - at or size > end - at - unshared or shared + unshared < TAG_BYTES:
                status = BAD_BLOCK
                break
            unshared_at = at
            same = shared if key == last else np.int64(0)  # bytes that the key shares with the previous entry
            if shared == 0:
                key = at
                key_end = at + unshared
            else:
                if shared + unshared > keys_end - keys:
                    status = FULL
                    break
                _copy(data, keys, key, shared)
                _copy(data, keys + shared, at, unshared)
                key = keys
                key_end = keys + shared + unshared
                keys = key_end
            at += unshared
            user_end = key_end - TAG_BYTES
            tag = load_i64(data, at - TAG_BYTES if unshared >= TAG_BYTES else user_end)
            kind = tag & 0xFF
            if kind != VALUE_TYPE and kind != DELETION and kind != SINGLE_DELETION and kind != MERGE:
                status = BAD_TYPE
                detail = kind
                break
            if sequence >= 0:
                tag = (sequence << 8) | kind
            if tag < 0:
                status = BAD_BLOCK
                break
            if is_first:
                is_first = False
                if spans[block, 1] >= spans[block, 0]:
                    order = compare(data, key, user_end, separators, spans[block, 0], spans[block, 1])
                    if order < 0 or (order == 0 and is_exact != 0):
                        status = BAD_SEPARATOR
                        break
            is_repeated = False
            ascends = same < last_end - last and same < user_end - key and data[last + same] < data[unshared_at]
            if last_end >= 0 and not ascends:
                same = min(same, last_end - last, user_end - key)
                order = compare(data, last + same, last_end, data, key + same, user_end)
                if order > 0 or (order == 0 and last_tag < tag):
                    status = BAD_ORDER
                    break
                is_repeated = order == 0
            last = key
            last_end = user_end
            last_tag = tag
            if searching:
                if compare(data, key, user_end, lower, 0, lower_size) < 0:
                    at += size
                    continue
                searching = False
            if is_behind or (bounded and compare(data, key, user_end, upper, 0, upper_size) >= 0):
                is_behind = True
                at += size
                continue
            if row == len(table):
                status = FULL
                break
            if user_end - key < prefix:
                status = SHORT_KEY
                break
            if is_repeated or kind != VALUE_TYPE:
                distinct = np.int64(0)
            merges += kind == MERGE
            value_bytes += size
            table[row, KEY] = key + prefix
            table[row, KEY_END] = user_end
            table[row, VALUE] = at
            table[row, VALUE_END] = at + size
            table[row, KEY_GROUP] = load_be_u16(data, key) >> (8 * (2 - prefix))
            tags[row] = tag
            least_tag = min(least_tag, tag)
            largest_tag = max(largest_tag, tag)
            row += 1
            at += size
        begin = spans[block + 1, 0]
        if status == DONE and not is_first and compare(data, last, last_end, separators, begin, spans[block + 1, 1]) > 0:
            status = BAD_SEPARATOR
        if status != DONE or is_behind:
            break
        at = stop
    result[STATUS] = status
    result[ROWS] = row
    result[KEYS_END] = keys
    result[MERGES] = merges
    result[WHERE] = detail
    result[VALUE_BYTES] = value_bytes
    result[DISTINCT] = distinct
    result[LAST_KEY] = last
    result[LAST_KEY_END] = last_end
    result[LEAST_TAG] = least_tag
    result[LARGEST_TAG] = largest_tag


@inlined_kernel
def _index_entry(data, at, end, has_size, key, key_end, keys, keys_end):  # type: ignore[no-untyped-def]
    """Read the key of an entry of an index. Return the outcome, where the value begins, the key, and where keys go on."""
    shared, at = varint(data, at, end)
    unshared = np.int64(0)
    if at >= 0:
        unshared, at = varint(data, at, end)
    if has_size and at >= 0:
        _, at = varint(data, at, end)
    if at < 0 or shared > key_end - key or unshared > end - at:
        return BAD_BLOCK, at, key, key_end, keys, shared
    if shared == 0:
        return DONE, at + unshared, at, at + unshared, keys, shared
    if shared + unshared > keys_end - keys:
        return FULL, at, key, key_end, keys, shared
    _copy(data, keys, key, shared)
    _copy(data, keys + shared, at, unshared)
    return DONE, at + unshared, keys, keys + shared + unshared, keys + shared + unshared, shared


@entry_point(
    *(updated(uint8), int64, int64, read(uint8), read(uint8), int64, int64, int64, int64, int64),
    *(written(int64, 2), int64, int64, written(int64)),
)
def decode_index(  # type: ignore[no-untyped-def]
    data, begin, size, lower, upper, lower_size, upper_size, tail, is_delta, has_first, table, keys, keys_end, result
):
    """Find the blocks of an index that may have keys from ``lower`` to before ``upper``.

    Parameters
    ----------
    data, begin, size
        The decompressed block of the index.
    lower, upper, lower_size, upper_size
        The bounds, and their lengths. Without an upper bound, ``upper_size`` is -1.
    tail
        Bytes of the tag behind a key: 8, or 0 for keys without tags.
    is_delta
        Whether handles are stored as differences. A length precedes other handles only.
    has_first
        Whether values have the first key of the block behind its handle.
    table
        Receives the blocks: the separator behind the last key of each, its offset and size.
    keys, keys_end
        The part of ``data`` that receives separators that share bytes with the ones before.
    result
        The status, and how many blocks there are.
    """
    end, restarts = _entries_end(data, begin, begin + size)
    status = DONE
    rows = 0
    if end < 0:
        status = -end
        end = begin
    at = begin
    # The last restart whose key is before the lower bound
    low = np.int64(0)
    high = restarts - 1
    while status == DONE and low < high:
        middle = (low + high + 1) >> 1
        place = begin + (load_i32(data, end + 4 * middle) & 0xFFFFFFFF)
        if place >= end:
            status = BAD_BLOCK
            break
        outcome, _, key, key_end, _, shared = _index_entry(data, place, end, is_delta == 0, keys, keys, keys, keys_end)
        if outcome != DONE or shared != 0 or key_end - key < tail:
            status = BAD_BLOCK
            break
        if compare(data, key, key_end - tail, lower, 0, lower_size) < 0:
            low = middle
        else:
            high = middle - 1
    if status == DONE and low > 0:
        at = begin + (load_i32(data, end + 4 * low) & 0xFFFFFFFF)
    key = keys
    key_end = keys
    offset = np.int64(0)
    length = np.int64(-1)
    restart = low
    while status == DONE and at < end:
        previous = key
        previous_end = key_end
        start = at
        status, at, key, key_end, next_keys, shared = _index_entry(data, at, end, is_delta == 0, key, key_end, keys, keys_end)
        if status != DONE:
            break
        if key_end - key < tail or (shared != 0 and length < 0):
            status = BAD_BLOCK
            break
        if restart < restarts and begin + (load_i32(data, end + 4 * restart) & 0xFFFFFFFF) <= start:
            if begin + (load_i32(data, end + 4 * restart) & 0xFFFFFFFF) != start or shared != 0:
                status = BAD_BLOCK
                break
            restart += 1
        if is_delta != 0 and shared != 0:
            change, at = varint(data, at, end)
            offset += length + 5
            length += (change >> 1) ^ -(change & 1)
        else:
            offset, at = varint(data, at, end)
            if at >= 0:
                length, at = varint(data, at, end)
        if at >= 0 and has_first != 0:
            first, at = varint(data, at, end)
            if at >= 0:
                at = at + first if first <= end - at else np.int64(-1)
        if at < 0 or offset < 0 or length < 0:
            status = BAD_HANDLE
            break
        if previous_end > previous and compare(data, key, key_end - tail, data, previous, previous_end - tail) < 0:
            status = BAD_BLOCK
            break
        keys = next_keys
        if compare(data, key, key_end - tail, lower, 0, lower_size) < 0:
            continue
        if rows == len(table):
            status = FULL
            break
        table[rows, SEPARATOR] = key
        table[rows, SEPARATOR_END] = key_end - tail
        table[rows, OFFSET] = offset
        table[rows, SIZE] = length
        rows += 1
        if upper_size >= 0 and compare(data, key, key_end - tail, upper, 0, upper_size) >= 0:
            break
    if status == DONE and at >= end and begin < end and restart < restarts:  # a restart within the last entry
        status = BAD_BLOCK
    result[STATUS] = status
    result[ROWS] = rows


@inlined_kernel
def put_varint(out, at, value):  # type: ignore[no-untyped-def]
    """Write a number; return where it ends."""
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@entry_point(read(uint8), read(int64, 2), int64, written(uint8), written(int64))
def encode_index(keys, table, is_delta, out, starts):  # type: ignore[no-untyped-def]
    """Write the entries of an index, each of which is a restart; return their size.

    Parameters
    ----------
    keys, table
        The blocks, as :func:`decode_index` has them, with tags if the index has tags.
    is_delta
        Whether handles are stored as differences: the first one after a restart is stored whole, without its length.
    out, starts
        Receive the entries, and where each begins.
    """
    at = np.int64(0)
    for row in range(len(table)):
        starts[row] = at
        begin = table[row, SEPARATOR]
        size = table[row, SEPARATOR_END] - begin
        out[at] = 0
        at = put_varint(out, at + 1, size)
        if is_delta == 0:
            ends = put_varint(out, put_varint(out, at, table[row, OFFSET]), table[row, SIZE])
            at = put_varint(out, at, ends - at)
        for i in range(size):
            out[at + i] = keys[begin + i]
        at = put_varint(out, put_varint(out, at + size, table[row, OFFSET]), table[row, SIZE])
    return at


@entry_point(read(uint8), read(int64, 2), read(uint8), int64)
def first_from(data, table, key, key_size):  # type: ignore[no-untyped-def]
    """Return the number of the first block of an index whose separator is not before a key."""
    low = 0
    high = len(table)
    while low < high:
        middle = (low + high) >> 1
        if compare(data, table[middle, SEPARATOR], table[middle, SEPARATOR_END], key, 0, key_size) < 0:
            low = middle + 1
        else:
            high = middle
    return low
