"""Decompressed blocks whose entries are read and written one by one: blocks of metadata, and few blocks of data.

:mod:`~state_processor.backends.formats.sst.block_kernels` has the format of blocks, and reads many blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from struct import pack
from typing import Final

from state_processor.support.errors import CorruptSnapshotError

RESTART_INTERVAL: Final = 16
"""The number of entries from one restart to the next in blocks of data, as RocksDB's default option sets it."""
_HASHED: Final = 1 << 31


def varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest group first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes) -> int:
    """Return the number that bytes begin with; 0 for no bytes."""
    value = 0
    for i, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            break
    return value


def block_entries(content: bytes, context: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block: keys and values.

    ``content``: the decompressed block. ``context``: the table, for messages.
    """
    end, at, key = _entries_end(content, context), 0, b""
    restarts = _restarts(content, end)
    if not restarts or restarts[0] or any(start >= next_start for start, next_start in pairwise(restarts)):
        raise _damaged(context)
    restarts_left = set(restarts)
    while at < end:
        start, sizes = at, []
        for _ in range(3):
            value = shift = 0
            while True:
                if at >= end or shift > 28:
                    raise _damaged(context)
                byte = content[at]
                value |= (byte & 0x7F) << shift
                shift, at = shift + 7, at + 1
                if byte < 0x80:
                    break
            sizes.append(value)
        shared, unshared, length = sizes
        if shared > len(key) or at + unshared + length > end or (start in restarts_left and shared):
            raise _damaged(context)
        restarts_left.discard(start)
        key = key[:shared] + content[at : at + unshared]
        at += unshared + length
        yield key, content[at - length : at]
    if restarts_left - {0}:
        raise _damaged(context)


def _restarts(content: bytes, entries_end: int) -> list[int]:
    """Return the offsets of the restarts, which follow the entries; RocksDB searches keys by them."""
    count = int.from_bytes(content[-4:], "little") & ~_HASHED
    return [int.from_bytes(content[at : at + 4], "little") for at in range(entries_end, entries_end + 4 * count, 4)]


def _entries_end(content: bytes, context: str) -> int:
    """Return where the entries end: before the index of hashes, if there is one, the restarts, and the number of restarts."""
    packed = int.from_bytes(content[-4:], "little")
    end = len(content) - 4
    if packed & _HASHED:
        end -= 2 + int.from_bytes(content[max(0, end - 2) : max(0, end)], "little")
    end -= 4 * (packed & ~_HASHED)
    if len(content) < 4 or end < 0:
        raise _damaged(context)
    return end


def _damaged(context: str) -> CorruptSnapshotError:
    return CorruptSnapshotError(f"{context}: the entries of a block are damaged")


def entries_block(entries: Iterable[tuple[bytes, bytes]], interval: int = 1) -> bytes:
    """Return a block of entries.

    ``entries``: keys and values, in the order of the keys. ``interval``: the number of entries from one restart to the next.
    """
    out, restarts, before = bytearray(), [0], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % interval:
            shared = next((i for i, (a, b) in enumerate(zip(before, key, strict=False)) if a != b), min(len(before), len(key)))
        elif number:
            restarts.append(len(out))
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return bytes(out) + restarts_of(restarts)


def restarts_of(restarts: Sequence[int]) -> bytes:
    """Return the end of a block: the offsets of its restarts, and their number. A block has at least one."""
    return pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
