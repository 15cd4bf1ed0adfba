"""Blocks in files: verify their checksums and decompress them within limits.

A block is followed by the number of its compression and by a checksum (RocksDB: ``table/format.h``, ``util/compression.h``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from state_processor.backends.formats.sst.block_kernels import (
    BEGIN,
    COMPRESSED,
    CRC32C,
    END,
    FILE_OFFSET,
    KIND,
    LZ4,
    LZ4HC,
    NO_CHECKSUM,
    NOT_COMPRESSED,
    PLACE_FIELDS,
    PLAIN_SIZE,
    READY,
    SNAPPY,
    varint,
)
from state_processor.backends.formats.sst.crc32c import masked_checksums
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, partly_read, read, uint8, written
from state_processor.support.errors import (
    CorruptSnapshotError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from state_processor.support.late import cramjam
from state_processor.support.mappings import names_of

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

TRAILER: Final = 5
"""Bytes after a block: its compression and its checksum."""
LARGEST_BLOCK: Final = (2 << 30) - 1024
"""Maximum size of a decompressed block: values of Arrow columns can't be larger."""

XXHASH, XXHASH64, XXH3 = 2, 3, 4
CHECKSUMS: Final = frozenset({NO_CHECKSUM, CRC32C, XXHASH, XXHASH64, XXH3})
_LAST_BYTE_PRIME: Final = 0x6B9083D9
_LOW: Final = 0xFFFFFFFF

_LARGEST_NUMBER: Final = 5
"""Maximum number of bytes of the decompressed size before compressed bytes."""
_LEAST_LIMIT: Final = 64
"""Decompressed bytes that are always possible."""


@dataclass(frozen=True, slots=True)
class _Compression:
    """A compression: its name, the largest ratio of its sizes, and the function that decompresses into a buffer."""

    name: str
    most: int
    into: Callable[[Any, Any], int]


_COMPRESSIONS: Final = {
    SNAPPY: _Compression("snappy", 64, cramjam.snappy.decompress_raw_into),
    2: _Compression("zlib", 1100, cramjam.deflate.decompress_into),
    LZ4: _Compression("LZ4", 256, cramjam.lz4.decompress_block_into),
    LZ4HC: _Compression("LZ4HC", 256, cramjam.lz4.decompress_block_into),
    7: _Compression("ZSTD", 1 << 16, cramjam.zstd.decompress_into),
}
_IN_KERNELS: Final = np.isin(np.arange(256), (NOT_COMPRESSED, SNAPPY, LZ4, LZ4HC))
"""Whether kernels decompress a kind of compression."""
_UNREAD: Final = {3: "bzip2", 6: "XPRESS", 0x40: "ZSTD before its format was final", 0xFE: "an unnamed compression"}
_LIMITS: Final = np.array([_COMPRESSIONS[kind].most if kind in _COMPRESSIONS else 0 for kind in range(256)], dtype=np.int64)
"""The largest ratio of sizes for each kind of compression."""

_UNKNOWN, _IMPOSSIBLE, _LARGE = 1, 2, 3


@entry_point(*(partly_read(uint8), read(int64), read(int64), read(int64), read(int64), int64, written(int64, 2), written(int64)))
def _inspect(data, begins, offsets, sizes, limits, largest, places, result):  # type: ignore[no-untyped-def]
    """Fill in the places of blocks, and the first problem: its kind and the block. Return the sum of decompressed sizes."""
    total = np.int64(0)
    result[0] = 0
    for i in range(len(begins)):
        begin = begins[i]
        end = begin + sizes[i]
        kind = np.int64(data[end])
        at = begin
        size = end - begin
        if kind != NOT_COMPRESSED:
            size, at = varint(data, begin, min(end, begin + _LARGEST_NUMBER))
            if result[0] == 0 and limits[kind] == 0:
                result[0] = _UNKNOWN
                result[1] = i
            elif result[0] == 0 and (at < 0 or size > (end - at) * limits[kind] + _LEAST_LIMIT):
                result[0] = _IMPOSSIBLE
                result[1] = i
        if result[0] == 0 and size > largest:
            result[0] = _LARGE
            result[1] = i
        places[i, KIND] = kind
        places[i, BEGIN] = begin
        places[i, END] = end
        places[i, COMPRESSED] = at
        places[i, PLAIN_SIZE] = size
        places[i, FILE_OFFSET] = offsets[i]
        total += size
    return total


@dataclass(frozen=True, slots=True)
class RawBlocks:
    """Blocks of a table, still compressed."""

    data: Bytes  # bytes of the table, or of several parts of it one after the other
    # a row for each block: its compression, its start and end in ``data`` without the trailer, the start of its compressed bytes,
    # its decompressed size, and its offset in the table
    places: Numbers
    plain_size: int  # the sum of the decompressed sizes

    @classmethod
    def of(cls, data: Bytes, begins: Numbers, offsets: Numbers, sizes: Numbers, context: str) -> RawBlocks:
        """Return blocks of a table; they begin at ``begins`` in ``data``, and at ``offsets`` in the table."""
        places = np.empty((len(begins), PLACE_FIELDS), dtype=np.int64)
        result = np.zeros(2, dtype=np.int64)
        columns = map(np.ascontiguousarray, (begins, offsets, sizes))
        size = int(_inspect(data, *columns, _LIMITS, LARGEST_BLOCK, places, result))
        blocks = cls(data, places, size)
        if result[0]:
            problem, block = result.tolist()
            raise blocks._problem(problem, block, context)
        return blocks

    def first(self, count: int) -> RawBlocks:
        """Return the first blocks."""
        places = self.places[:count]
        return RawBlocks(self.data, places, int(places[:, PLAIN_SIZE].sum()))

    @property
    def plain_sizes(self) -> Numbers:
        """The decompressed sizes that the blocks declare."""
        return self.places[:, PLAIN_SIZE]

    def offset(self, block: int) -> int:
        """Return the offset of a block in the table."""
        return int(self.places[block, FILE_OFFSET])

    def _problem(self, problem: int, block: int, context: str) -> StateProcessorError:
        kind, _, end, compressed, size, _ = self.places[block].tolist()
        if problem == _UNKNOWN:
            return UnsupportedFormatError(
                f"{context}: blocks are compressed by {_UNREAD.get(kind, f'the unknown compression {kind}')}; expected none, "
                f"{', '.join(names_of(_COMPRESSIONS.values()))}. Write a canonical savepoint"
            )
        if problem == _LARGE:
            return UndecodableValueError(
                f"{context}: a block has {size} bytes when decompressed; blocks of up to {LARGEST_BLOCK} bytes are read"
            )
        declared = f"{size} bytes" if compressed >= 0 else "of the size that it declares"
        return CorruptSnapshotError(
            f"{context}, block at {self.offset(block)}: its {end - max(compressed, 0)} bytes can't be {declared} when "
            f"decompressed by {_COMPRESSIONS[kind].name}"
        )


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Common properties of all blocks of a table."""

    checksum: int  # the kind of checksum
    context: int  # since format version 6, checksums also depend on this number and the offset of the block; otherwise 0

    def decompress(self, blocks: RawBlocks, target: Bytes, at: int, context: str) -> None:
        """Verify and decompress blocks to ``target`` from ``at``."""
        self.verify(blocks, context)
        self._decompress(blocks, target, at, context)

    def prepare(self, blocks: RawBlocks, target: Bytes, at: int, context: str) -> RawBlocks:
        """Do what :func:`~state_processor.backends.formats.sst.block_kernels.decode_blocks` does not do for these blocks.

        Verify checksums other than CRC32C, and decompress blocks that the kernel can't decompress.
        """
        if _IN_KERNELS[blocks.places[:, KIND]].all():
            if self.checksum != CRC32C:
                self.verify(blocks, context)
            return blocks
        # Every block: the kernel may overwrite the first bytes of the block behind a block that it decompresses
        self.decompress(blocks, target, at, context)
        places = blocks.places.copy()
        places[:, KIND] = READY
        return replace(blocks, places=places)

    def _decompress(self, blocks: RawBlocks, target: Bytes, at: int, context: str) -> None:
        view, plain = blocks.data.data, target.data
        ends = (at + np.cumsum(blocks.plain_sizes)).tolist()
        for block, (kind, begin, end, compressed, size, _) in enumerate(blocks.places.tolist()):
            into = plain[ends[block] - size : ends[block]]
            if kind == NOT_COMPRESSED:
                into[:] = view[begin:end]
                continue
            # snappy contains the size itself
            source = view[begin if kind == SNAPPY else compressed : end]
            try:
                got = _COMPRESSIONS[kind].into(source, into)
            except (cramjam.DecompressionError, OSError) as problem:
                raise CorruptSnapshotError(f"{context}, block at {blocks.offset(block)}: {problem}") from None
            if got != size:
                raise CorruptSnapshotError(
                    f"{context}, block at {blocks.offset(block)}: {got} bytes when decompressed; expected {size}"
                )

    def verify(self, blocks: RawBlocks, context: str) -> None:
        """Compare the checksums of blocks with the stored ones. Without checksums, RocksDB stores and expects zero."""
        if not len(blocks.places):
            return
        begins, ends = blocks.places[:, BEGIN], blocks.places[:, END]
        trailers = ends[:, None] + np.arange(1, TRAILER)
        expected = blocks.data[trailers].view("<u4")[:, 0].astype(np.int64)
        computed = self._checksums(blocks.data, np.stack([begins, ends + 1], axis=1))
        if self.context:
            offsets = blocks.places[:, FILE_OFFSET]
            computed = computed + (self.context ^ ((offsets + (offsets >> 32)) & _LOW)) & _LOW
        wrong = np.flatnonzero(computed != expected)
        if len(wrong):
            first = int(wrong[0])
            raise CorruptSnapshotError(
                f"{context}, block at {blocks.offset(first)}: its checksum is {int(computed[first]):#010x}, the stored one is "
                f"{int(expected[first]):#010x}; the file is damaged"
            )

    def _checksums(self, data: Bytes, spans: Numbers) -> Numbers:
        if self.checksum == NO_CHECKSUM:
            return np.zeros(len(spans), dtype=np.int64)
        if self.checksum == CRC32C:
            return masked_checksums(data, spans)
        view = data.data
        return np.array([self.checksum_of(view[begin:end]) for begin, end in spans.tolist()], dtype=np.int64)

    def checksum_of(self, data: memoryview) -> int:
        """Return the checksum of some bytes (RocksDB: ``ComputeBuiltinChecksum``)."""
        if self.checksum == NO_CHECKSUM:
            return 0
        if self.checksum == CRC32C:
            whole = np.frombuffer(data, dtype=np.uint8)
            return int(masked_checksums(whole, np.array([[0, len(whole)]], dtype=np.int64))[0])
        if self.checksum == XXHASH:
            return xxhash.xxh32_intdigest(data)
        if self.checksum == XXHASH64:
            return xxhash.xxh64_intdigest(data) & _LOW
        return xxhash.xxh3_64_intdigest(data[:-1]) & _LOW ^ (data[-1] * _LAST_BYTE_PRIME & _LOW)
