"""The end of a table that is written: blocks of metadata, and the footer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from xxhash import xxh3_128

from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.block_format import BlockFormat, Bytes, Numbers
from state_processor.backends.formats.sst.plain_blocks import entries_block, restarts_of, varint
from state_processor.backends.formats.sst.table import FOOTER, HANDLES, MAGIC, RANGE_DELETIONS

PROPERTIES: Final = b"rocksdb.properties"
_MOST_OF_ENTRY: Final = 32
"""Bytes of an entry of an index without its separator: five numbers."""


class TableOutput:
    """A table that is written: blocks and their places.

    ``write``: appends bytes to the file. ``checksum``: the kind of checksums.
    """

    def __init__(self, write: Callable[[bytes | memoryview], object], checksum: int) -> None:
        self._write = write
        self._format = BlockFormat(checksum, 0)
        self._content = xxh3_128()
        self.size = 0

    def add(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._write(data)
        self._content.update(data)
        self.size += len(data)

    def digest(self) -> bytes:
        """Return a hash of the bytes that were added."""
        return self._content.digest()

    def block(self, content: bytes, kind: int = k.NOT_COMPRESSED) -> tuple[int, int]:
        """Add a block as it is to be stored; return its place."""
        offset = self.size
        body = content + bytes([kind])
        checksum = self._format.checksum_of(memoryview(body))
        self.add(body + checksum.to_bytes(4, "little"))
        return offset, len(content)

    def index(self, keys: Bytes, rows: Numbers, *, is_delta: bool) -> tuple[int, int]:
        """Add an index of blocks; return its place."""
        room = int((rows[:, k.SEPARATOR_END] - rows[:, k.SEPARATOR]).sum()) + _MOST_OF_ENTRY * len(rows)
        out, starts = np.empty(room, dtype=np.uint8), np.empty(len(rows), dtype=np.int64)
        size = k.encode_index(keys, np.ascontiguousarray(rows), int(is_delta), out, starts)
        return self.block(out[:size].tobytes() + restarts_of(starts.tolist() or [0]))

    def close(
        self, index: tuple[int, int], deletions: Sequence[tuple[bytes, bytes]], properties: Mapping[bytes, bytes], version: int
    ) -> None:
        """Add range deletions, properties and the footer."""
        meta = {}
        if deletions:
            meta[RANGE_DELETIONS] = self.block(entries_block(deletions))
        meta[PROPERTIES] = self.block(entries_block(sorted(properties.items())))
        metaindex = self.block(entries_block((name, _handle(place)) for name, place in sorted(meta.items())))
        places = (_handle(metaindex) + _handle(index)).ljust(HANDLES, b"\0")
        footer = bytes([self._format.checksum]) + places + version.to_bytes(4, "little") + MAGIC.to_bytes(8, "little")
        assert len(footer) == FOOTER
        self.add(footer)


def _handle(place: tuple[int, int]) -> bytes:
    return varint(place[0]) + varint(place[1])
