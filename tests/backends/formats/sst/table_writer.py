"""A writer of tables for tests: every layout that RocksDB reads, with entries of any type, well-formed or not.

It follows RocksDB's ``table/block_based/block_based_table_builder.cc`` and ``block_builder.cc``; RocksDB opens these tables.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import cramjam
import numpy as np
import xxhash

from state_processor.backends.formats.sst.crc32c import masked_checksum
from state_processor.backends.formats.sst.manifest import TableFile

DELETION, VALUE, MERGE, SINGLE_DELETION, RANGE_DELETION = 0, 1, 2, 7, 15
MOST_SEQUENCE: Final = (1 << 56) - 1
BINARY, HASH, PARTITIONED, WITH_FIRST_KEY = range(4)
NONE, SNAPPY, ZLIB, LZ4, LZ4HC, ZSTD = 0, 1, 2, 4, 5, 7


@dataclass(frozen=True)
class Entry:
    """An entry with its internal key; the value of a range deletion is where it ends."""

    key: bytes
    sequence: int
    kind: int
    value: bytes = b""

    @property
    def internal(self) -> bytes:
        return self.key + (self.sequence << 8 | self.kind).to_bytes(8, "little")

    @property
    def order(self) -> tuple[bytes, int]:
        return self.key, -(self.sequence << 8 | self.kind)


@dataclass(frozen=True)
class Layout:
    """How a table is written."""

    version: int = 5
    checksum: int = 1
    compression: int = SNAPPY
    restart_interval: int = 16
    index_restart_interval: int = 1
    index: int = BINARY
    keys_are_exact: bool = True
    is_delta: bool = True
    block_bytes: int = 256
    hashed: bool = False
    ingested: bool = False
    context: int = 0x12345678
    properties: dict[bytes, bytes] = field(default_factory=dict)


def random_layout(rng: random.Random) -> Layout:
    version = rng.randrange(2, 7)
    return Layout(
        version=version,
        checksum=rng.choice((0, 1, 2, 3, 4)),
        compression=rng.choice((NONE, SNAPPY, LZ4, LZ4HC, ZSTD)),
        restart_interval=rng.choice((1, 2, 16)),
        index_restart_interval=rng.choice((1, 1, 3, 16)),
        index=rng.choice((BINARY, HASH, PARTITIONED, WITH_FIRST_KEY)),
        keys_are_exact=version > 2 and rng.random() < 0.6,
        is_delta=version > 3 and rng.random() < 0.6,
        block_bytes=rng.choice((1, 64, 256, 4096)),
        hashed=rng.random() < 0.2,
    )


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def handle(offset: int, size: int) -> bytes:
    return varint(offset) + varint(size)


def block(pairs: Sequence[tuple[bytes, bytes]], interval: int, hashed: bool = False) -> bytes:
    """Return a block of entries, each with the length of its value."""
    out, restarts, before = bytearray(), [0], b""
    for i, (key, value) in enumerate(pairs):
        if i % interval == 0:
            before = b""
            if i:
                restarts.append(len(out))
        shared = _shared(before, key)
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return bytes(out) + _restarts(restarts, hashed and len(restarts) < 253)


def _restarts(restarts: Sequence[int], hashed: bool) -> bytes:
    tail = b"".join(r.to_bytes(4, "little") for r in restarts)
    if not hashed:
        return tail + len(restarts).to_bytes(4, "little")
    return tail + b"\xfe" * 3 + (3).to_bytes(2, "little") + (1 << 31 | len(restarts)).to_bytes(4, "little")  # 254: several keys


def _shared(one: bytes, other: bytes) -> int:
    size = 0
    while size < min(len(one), len(other)) and one[size] == other[size]:
        size += 1
    return size


class TableWriter:
    """Writes one table."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.data = bytearray()

    def write(self, entries: Sequence[Entry]) -> bytes:
        layout = self._layout
        points = sorted((e for e in entries if e.kind != RANGE_DELETION), key=lambda e: e.order)
        deletions = sorted((e for e in entries if e.kind == RANGE_DELETION), key=lambda e: e.order)
        blocks: list[list[Entry]] = []
        size = 0
        for entry in points:
            if not blocks or size >= layout.block_bytes:
                blocks.append([])
                size = 0
            blocks[-1].append(entry)
            size += len(entry.key) + len(entry.value) + 11
        exact = layout.keys_are_exact and all(a[-1].key != b[0].key for a, b in pairwise(blocks))
        handles = [
            self.put(block([(e.internal, e.value) for e in part], layout.restart_interval, layout.hashed)) for part in blocks
        ]
        separators = [_separator(a[-1], b[0], exact) for a, b in pairwise(blocks)]
        if blocks:
            separators.append(blocks[-1][-1].key if exact else blocks[-1][-1].internal)
        firsts = [part[0].internal for part in blocks]
        index = self._index(list(zip(separators, handles, firsts, strict=True)))
        meta = {
            b"rocksdb.properties": self.put(
                block(sorted(self._properties(points, deletions, exact, len(handles)).items()), 1), NONE
            )
        }
        if deletions:
            meta[b"rocksdb.range_del"] = self.put(block([(e.internal, e.value) for e in deletions], 1), NONE)
        if layout.version >= 6:
            meta[b"rocksdb.index"] = index
        listed = sorted((name, handle(*place)) for name, place in meta.items())
        self._footer(self.put(block(listed, 1), NONE), index)
        return bytes(self.data)

    def put(self, content: bytes, compression: int | None = None) -> tuple[int, int]:
        """Add a block; return its place."""
        kind = self._layout.compression if compression is None else compression
        stored = compressed(content, kind)
        place = len(self.data)
        trailer = self.checksum(stored + bytes([kind]), place)
        self.data += stored + bytes([kind]) + trailer.to_bytes(4, "little")
        return place, len(stored)

    def checksum(self, data: bytes, place: int) -> int:
        kind = self._layout.checksum
        if kind == 0:
            found = 0
        elif kind == 1:
            found = masked_checksum(np.frombuffer(data, dtype=np.uint8), 0, len(data))
        elif kind == 2:
            found = xxhash.xxh32_intdigest(data)
        elif kind == 3:
            found = xxhash.xxh64_intdigest(data) & 0xFFFFFFFF
        else:
            found = xxhash.xxh3_64_intdigest(data[:-1]) & 0xFFFFFFFF ^ (data[-1] * 0x6B9083D9 & 0xFFFFFFFF)
        if self._layout.version >= 6:
            found += self._layout.context ^ ((place + (place >> 32)) & 0xFFFFFFFF)
        return found & 0xFFFFFFFF

    def _index(self, entries: Sequence[tuple[bytes, tuple[int, int], bytes]]) -> tuple[int, int]:
        if self._layout.index != PARTITIONED:
            return self.put(self._index_block(entries))
        parts = [entries[i : i + 5] for i in range(0, len(entries), 5)]
        return self.put(self._index_block([(part[-1][0], self.put(self._index_block(part)), b"") for part in parts]))

    def _index_block(self, entries: Sequence[tuple[bytes, tuple[int, int], bytes]]) -> bytes:
        out, restarts, before = bytearray(), [0], b""
        last: tuple[int, int] | None = None
        for i, (key, place, first) in enumerate(entries):
            if i % self._layout.index_restart_interval == 0:
                before = b""
                if i:
                    restarts.append(len(out))
            shared = _shared(before, key)
            out += varint(shared) + varint(len(key) - shared)
            if self._layout.is_delta and shared and last is not None:
                assert place[0] == last[0] + last[1] + 5
                value = varint(zigzag(place[1] - last[1]))
            else:
                value = handle(*place)
            if self._layout.index == WITH_FIRST_KEY:
                value += varint(len(first)) + first
            if not self._layout.is_delta:
                out += varint(len(value))
            out += key[shared:] + value
            before, last = key, place
        return bytes(out) + _restarts(restarts, False)

    def _properties(self, points: Sequence[Entry], deletions: Sequence[Entry], exact: bool, blocks: int) -> dict[bytes, bytes]:
        layout = self._layout
        found = {
            b"rocksdb.block.based.table.index.type": layout.index.to_bytes(4, "little"),
            b"rocksdb.block.based.table.prefix.filtering": b"0",
            b"rocksdb.block.based.table.whole.key.filtering": b"1",
            b"rocksdb.comparator": b"leveldb.BytewiseComparator",
            b"rocksdb.merge.operator": b"StringAppendTESTOperator",
            b"rocksdb.raw.key.size": varint(sum(len(e.internal) for e in points)),
            b"rocksdb.raw.value.size": varint(1 + sum(len(e.value) for e in points)),
            b"rocksdb.deleted.keys": varint(sum(e.kind in (DELETION, SINGLE_DELETION) for e in points) + len(deletions)),
            b"rocksdb.num.entries": varint(len(points) + len(deletions)),
            b"rocksdb.num.data.blocks": varint(blocks),
            b"rocksdb.num.range-deletions": varint(len(deletions)),
            b"rocksdb.merge.operands": varint(sum(e.kind == MERGE for e in points)),
            b"rocksdb.index.key.is.user.key": varint(int(exact)),
            b"rocksdb.index.value.is.delta.encoded": varint(int(layout.is_delta)),
        }
        if layout.index == PARTITIONED:
            found[b"rocksdb.index.partitions"] = varint((blocks + 4) // 5)
        if layout.ingested:
            found[b"rocksdb.external_sst_file.version"] = (2).to_bytes(4, "little")
            found[b"rocksdb.external_sst_file.global_seqno"] = bytes(8)
        return found | layout.properties

    def _footer(self, meta: tuple[int, int], index: tuple[int, int]) -> None:
        layout = self._layout
        tail = layout.version.to_bytes(4, "little") + (0x88E241B785F4CFF7).to_bytes(8, "little")
        if layout.version < 6:
            self.data += bytes([layout.checksum]) + (handle(*meta) + handle(*index)).ljust(40, b"\0") + tail
            return
        head = bytes([layout.checksum]) + b"\x3e\x00\x7a\x00"
        rest = layout.context.to_bytes(4, "little") + meta[1].to_bytes(4, "little") + bytes(24) + tail
        checksum = self.checksum(head + bytes(4) + rest, len(self.data))
        self.data += head + checksum.to_bytes(4, "little") + rest


def compressed(content: bytes, kind: int) -> bytes:
    if kind == NONE:
        return content
    if kind == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(content))
    size = varint(len(content))
    if kind == ZLIB:
        with_window = zlib.compressobj(wbits=-14)
        return size + with_window.compress(content) + with_window.flush()
    if kind == ZSTD:
        return size + bytes(cramjam.zstd.compress(content))
    return size + bytes(cramjam.lz4.compress_block(content, store_size=False))


def zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _separator(last: Entry, following: Entry, exact: bool) -> bytes:
    """Return a key from the last one to before the one that follows; shortened where it can be."""
    one, other = last.key, following.key
    size = _shared(one, other)
    if size < min(len(one), len(other)) and one[size] + 1 < other[size]:
        shorter = one[:size] + bytes([one[size] + 1])
        return shorter if exact else shorter + (MOST_SEQUENCE << 8 | 0x18).to_bytes(8, "little")
    return one if exact else last.internal


def table_file(number: int, level: int, entries: Sequence[Entry], size: int, sequence: int | None = None) -> TableFile:
    """Return the line of a manifest for a table with these entries. An ingested table has one ``sequence`` for all entries."""
    numbered = [e if sequence is None else Entry(e.key, sequence, e.kind, e.value) for e in entries]
    ends = [Entry(e.value, MOST_SEQUENCE, RANGE_DELETION) for e in numbered if e.kind == RANGE_DELETION]
    smallest = min(numbered, key=lambda e: e.order).internal
    largest = max((*numbered, *ends), key=lambda e: e.order).internal
    sequences = [e.sequence for e in numbered]
    return TableFile(level, number, size, smallest, largest, (min(sequences), max(sequences)))
