"""Blocks in files: verify their checksums and decompress them within limits.

A block is followed by the number of its compression and by a checksum (RocksDB: ``table/format.h``, ``util/compression.h``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import cramjam
import numpy as np
import numpy.typing as npt
import xxhash

from state_processor.backends.formats.sst.block_kernels import varint
from state_processor.backends.formats.sst.crc32c import masked_checksums
from state_processor.serializers.errors import CorruptSnapshotError, UndecodableValueError, UnsupportedFormatError
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.memory import load_i32
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

TRAILER: Final = 5
"""Bytes after a block: its compression and its checksum."""
LARGEST_BLOCK: Final = (2 << 30) - 1024
"""Maximum size of a decompressed block: values of Arrow columns can't be larger."""

NO_CHECKSUM, CRC32C, XXHASH, XXHASH64, XXH3 = 0, 1, 2, 3, 4
CHECKSUMS: Final = frozenset({NO_CHECKSUM, CRC32C, XXHASH, XXHASH64, XXH3})
_LAST_BYTE_PRIME: Final = 0x6B9083D9
_LOW: Final = 0xFFFFFFFF

_NONE, _SNAPPY = 0, 1
_LARGEST_NUMBER: Final = 5
"""Maximum number of bytes of the decompressed size before compressed bytes."""


@dataclass(frozen=True, slots=True)
class _Compression:
    """A compression: its name, the largest ratio of its sizes, and the function that decompresses into a buffer."""

    name: str
    most: int
    into: Callable[[Any, Any], int]


_COMPRESSIONS: Final = {
    1: _Compression("snappy", 64, cramjam.snappy.decompress_raw_into),
    2: _Compression("zlib", 1100, cramjam.deflate.decompress_into),
    4: _Compression("LZ4", 256, cramjam.lz4.decompress_block_into),
    5: _Compression("LZ4HC", 256, cramjam.lz4.decompress_block_into),
    7: _Compression("ZSTD", 1 << 16, cramjam.zstd.decompress_into),
}
_UNREAD: Final = {3: "bzip2", 6: "XPRESS", 0x40: "ZSTD before its format was final", 0xFE: "an unnamed compression"}


@entry_point(read(uint8), read(int64, 2), written(int64, 2))
def _inspect(data, spans, found):  # type: ignore[no-untyped-def]
    """Fill in the compression of each block, the start of its compressed bytes, its decompressed size or -1, and its checksum."""
    for i in range(len(spans)):
        begin = spans[i, 0]
        end = spans[i, 1]
        kind = np.int64(data[end])
        found[i, 0] = kind
        found[i, 1] = begin
        found[i, 2] = end - begin
        if kind != 0:
            size, at = varint(data, begin, min(end, begin + _LARGEST_NUMBER))
            found[i, 2] = size if at >= 0 else np.int64(-1)
            if kind != 1:  # snappy contains the size itself
                found[i, 1] = at
        found[i, 3] = load_i32(data, end + 1) & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class RawBlocks:
    """Blocks of a table, still compressed.

    Attributes
    ----------
    data
        Bytes of the table, or of several parts of it one after the other.
    spans
        Start and end of each block in ``data``, without its trailer.
    found
        For each block: the compression, the start of its compressed bytes, its decompressed size, its checksum.
    offsets
        The offset of each block in the table.
    """

    data: Bytes
    spans: Numbers
    found: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, data: Bytes, begins: Numbers, offsets: Numbers, sizes: Numbers) -> RawBlocks:
        """Return blocks of a table; they begin at ``begins`` in ``data``, and at ``offsets`` in the table."""
        spans = np.stack([begins, begins + sizes], axis=1)
        found = np.empty((len(spans), 4), dtype=np.int64)
        _inspect(data, spans, found)
        return cls(data, spans, found, np.ascontiguousarray(offsets))

    def first(self, count: int) -> RawBlocks:
        """Return the first blocks."""
        return RawBlocks(self.data, self.spans[:count], self.found[:count], self.offsets[:count])

    @property
    def plain_sizes(self) -> Numbers:
        """The decompressed sizes that the blocks declare."""
        return self.found[:, 2]


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Common properties of all blocks of a table.

    Parameters
    ----------
    checksum
        The kind of checksum.
    context
        Since format version 6, checksums also depend on this number and the offset of the block; otherwise 0.
    """

    checksum: int
    context: int

    def decompress(self, blocks: RawBlocks, target: Bytes, at: int, where: str) -> int:
        """Verify and decompress blocks to ``target`` from ``at``; return their ends.

        Raises
        ------
        CorruptSnapshotError
            If a checksum is wrong, or compressed bytes are damaged.
        UnsupportedFormatError
            If a compression is not supported.
        """
        self._verify(blocks, where)
        data, view, plain = blocks.data, blocks.data.data, target.data
        places = zip(blocks.spans.tolist(), blocks.found.tolist(), blocks.offsets.tolist(), strict=True)
        for (_, end), (kind, begin, size, _), offset in places:
            behind = at + size
            if kind == _NONE:
                target[at:behind] = data[begin:end]
            else:
                try:
                    got = _COMPRESSIONS[kind].into(view[begin:end], plain[at:behind])
                except (cramjam.DecompressionError, OSError) as problem:
                    raise CorruptSnapshotError(f"{where}, block at {offset}: {problem}") from None
                if got != size:
                    raise CorruptSnapshotError(f"{where}, block at {offset}: {got} bytes when decompressed; expected {size}")
            at = behind
        return at

    def check_sizes(self, blocks: RawBlocks, where: str) -> None:
        """Refuse blocks with an unsupported compression, or with an impossible decompressed size."""
        kinds, sizes = blocks.found[:, 0], blocks.found[:, 2]
        compressed = blocks.spans[:, 1] - blocks.found[:, 1]
        for kind in np.unique(kinds).tolist():
            compression = _COMPRESSIONS.get(kind)
            if kind == _NONE:
                continue
            if compression is None:
                raise UnsupportedFormatError(
                    f"{where}: blocks are compressed by {_UNREAD.get(kind, f'the unknown compression {kind}')}; expected none, "
                    f"{', '.join(c.name for c in _COMPRESSIONS.values())}. Write a canonical savepoint"
                )
            wrong = (kinds == kind) & ((sizes < 0) | (sizes > np.maximum(compressed, 0) * compression.most + 64))
            if wrong.any():
                first = int(np.flatnonzero(wrong)[0])
                raise CorruptSnapshotError(
                    f"{where}, block at {int(blocks.offsets[first])}: its {int(compressed[first])} bytes can't be "
                    f"{int(sizes[first])} bytes when decompressed by {compression.name}"
                )
        if len(sizes) and int(sizes.max()) > LARGEST_BLOCK:
            raise UndecodableValueError(
                f"{where}: a block has {int(sizes.max())} bytes when decompressed; blocks of up to {LARGEST_BLOCK} bytes are read"
            )

    def _verify(self, blocks: RawBlocks, where: str) -> None:
        if self.checksum == NO_CHECKSUM or not len(blocks.spans):
            return
        expected = blocks.found[:, 3]
        computed = self._checksums(blocks.data, blocks.spans)
        if self.context:
            offsets = blocks.offsets
            computed = computed + (self.context ^ ((offsets + (offsets >> 32)) & _LOW)) & _LOW
        wrong = np.flatnonzero(computed != expected)
        if len(wrong):
            offset = int(blocks.offsets[wrong[0]])
            raise CorruptSnapshotError(
                f"{where}, block at {offset}: its checksum is {int(computed[wrong[0]]):#010x}, the stored one is "
                f"{int(expected[wrong[0]]):#010x}; the file is damaged"
            )

    def _checksums(self, data: Bytes, spans: Numbers) -> Numbers:
        if self.checksum == CRC32C:
            return masked_checksums(data, spans + np.array([0, 1]))
        view = data.data
        return np.array([self.checksum_of(view[begin : end + 1]) for begin, end in spans.tolist()], dtype=np.int64)

    def checksum_of(self, data: memoryview) -> int:
        """Return the checksum of some bytes (RocksDB: ``ComputeBuiltinChecksum``)."""
        if self.checksum == CRC32C:
            whole = np.frombuffer(data, dtype=np.uint8)
            return int(masked_checksums(whole, np.array([[0, len(whole)]], dtype=np.int64))[0])
        if self.checksum == XXHASH:
            return xxhash.xxh32_intdigest(data)
        if self.checksum == XXHASH64:
            return xxhash.xxh64_intdigest(data) & _LOW
        return xxhash.xxh3_64_intdigest(data[:-1]) & _LOW ^ (data[-1] * _LAST_BYTE_PRIME & _LOW)
