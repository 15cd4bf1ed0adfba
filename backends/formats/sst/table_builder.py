"""New tables: sorted entries become blocks, an index, properties and a footer (RocksDB: ``BlockBasedTableBuilder``).

Tables have the format version 5, snappy and CRC32C: RocksDB opens them since 6.20, the version in Flink 1.14, and so does ForSt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Final
from uuid import UUID

import numpy as np
from xxhash import xxh3_128

from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst import block_writing_kernels as w
from state_processor.backends.formats.sst.block_format import BlockFormat, Bytes, Numbers
from state_processor.backends.formats.sst.crc32c import TABLES
from state_processor.backends.formats.sst.manifest import END_OF_DELETION, TableFile
from state_processor.backends.formats.sst.plain_blocks import entries_block, restarts_of, varint
from state_processor.backends.formats.sst.table import FOOTER, HANDLES, MAGIC, RANGE_DELETIONS
from state_processor.support.errors import OptionError
from state_processor.support.mappings import map_values

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


COMPARATOR: Final = b"leveldb.BytewiseComparator"
_VERSION: Final = 5
_OUTPUT_BYTES: Final = 1 << 20
_INDEX_LINES: Final = 1 << 12


def tag(sequence: int, kind: int) -> int:
    """Return the tag of an entry: its sequence number and its type."""
    return sequence << 8 | kind


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries in the order of their keys.

    ``data`` and ``spans``: a line for each entry: where its key begins and ends in ``data``, and where its value does.
    """

    data: Bytes
    spans: Numbers
    order: Numbers  # the lines in the order of the keys
    tags: Numbers  # the tags of the entries in this order, or one for all

    def __len__(self) -> int:
        return len(self.order)

    def key(self, row: int) -> bytes:
        """Return the internal key of an entry."""
        begin, end = self.spans[self.order[row], :2].tolist()
        return self.data[begin:end].tobytes() + int(self.tags[row if len(self.tags) > 1 else 0]).to_bytes(k.TAG_BYTES, "little")


class TableBuilder:
    """A table that is written.

    ``write``: appends bytes to the file. ``number``: the number of the file. ``family``: the id and the name of the column
    family.
    """

    def __init__(self, write: Callable[[bytes | memoryview], object], number: int, family: tuple[int, str]) -> None:
        self._out = TableOutput(write, k.CRC32C)
        self._number = number
        self._family = family
        self._numbers = np.zeros(w.NUMBERS, dtype=np.int64)
        self._numbers[[w.LAST, w.TICK]] = -1, 1
        self._positions = np.zeros(1 << w.HASH_BITS, dtype=np.int64)
        self._block = np.empty(0, dtype=np.uint8)
        self._last = np.empty(0, dtype=np.uint8)
        self._restarts = np.empty(0, dtype=np.int64)
        self._output = np.empty(0, dtype=np.uint8)
        self._keys = np.empty(0, dtype=np.uint8)
        self._index = np.empty((_INDEX_LINES, k.INDEX_FIELDS), dtype=np.int64)
        self._indexed: list[tuple[Bytes, Numbers]] = []
        self._deletions: list[tuple[bytes, bytes]] = []
        self._smallest = self._largest = b""
        self._sequences: list[int] = []
        self._sizes = np.zeros(w.SIZES, dtype=np.int64)
        self._count = self._deleted = 0

    @property
    def size(self) -> int:
        """Bytes of the complete blocks."""
        return self._out.size + int(self._numbers[w.OUT])

    def add(self, entries: Entries, first: int = 0, stop: int | None = None) -> None:
        """Add entries, whose keys follow the keys of earlier calls.

        ``entries``, ``first`` and ``stop``: the entries, the first one to add, and the one behind the last.
        """
        stop = len(entries) if stop is None else stop
        if first == stop:
            return
        w.add_sizes(entries.spans, entries.order, first, stop, self._sizes)
        self._make_room(int(self._sizes[w.LARGEST_KEY]), int(self._sizes[w.LARGEST_VALUE]))
        row = first
        while (row := self._write_blocks(entries, row, stop)) < stop:
            self._flush()
        tags = entries.tags if len(entries.tags) == 1 else entries.tags[first:stop]
        self._smallest = self._smallest or entries.key(first)
        self._largest = entries.key(stop - 1)
        self._sequences += [int(tags.min()) >> 8, int(tags.max()) >> 8]
        self._count += stop - first
        is_deletion = (tags & 0xFF) == k.DELETION
        self._deleted += int(is_deletion.sum()) * (stop - first if len(tags) == 1 else 1)

    def delete(self, begin: bytes, end: bytes, sequence: int) -> None:
        """Add the deletion of a range of keys; ranges ascend, and don't overlap."""
        self._deletions.append((begin + tag(sequence, k.RANGE_DELETION).to_bytes(k.TAG_BYTES, "little"), end))
        self._sequences.append(sequence)

    def close(self, level: int, epoch: int) -> TableFile:
        """Complete the table.

        ``level`` and ``epoch``: the level of the file, and its position in the order of files.

        Returns: the record of the file for the manifest.
        """
        if self._numbers[w.ENTRIES]:
            self._make_room(0, 0)
            self._flush()
            w.end_blocks(
                self._block, self._restarts, self._last, self._numbers, self._positions,
                self._output, self._keys, self._index, TABLES,
            )  # fmt: skip
        self._flush()
        data_size = self._out.size
        keys, rows = self._whole_index()
        index = self._out.index(keys, rows, is_delta=True)
        self._out.close(index, self._deletions, self._properties(data_size, index[1], len(rows)), _VERSION)
        begins, ends = self._bounds_of_deletions()
        firsts = [self._smallest, *begins]
        lasts = [self._largest, *(end + END_OF_DELETION for end in ends)]
        smallest, largest = min(filter(None, firsts), key=_order), max(filter(None, lasts), key=_order)
        sequences = min(self._sequences), max(self._sequences)
        return TableFile(level, self._number, self._out.size, smallest, largest, sequences).in_epoch(epoch)

    def _write_blocks(self, entries: Entries, row: int, stop: int) -> int:
        return int(
            w.write_blocks(
                entries.data, entries.spans, entries.order, entries.tags, row, stop,
                self._block, self._restarts, self._last, self._numbers, self._positions,
                self._output, self._keys, self._index, TABLES,
            )
        )  # fmt: skip

    def _make_room(self, key: int, value: int) -> None:
        """Enlarge the arrays for entries with keys and values of some sizes."""
        used = int(self._numbers[w.BLOCK]) + w.BLOCK_BYTES + key + value + w.MOST_OF_ENTRY
        lines = w.BLOCK_BYTES // (k.TAG_BYTES + 3) // w.RESTART_INTERVAL + 2
        used += 4 * lines + 4
        if len(self._restarts) < lines:
            self._restarts = np.empty(lines, dtype=np.int64)
        self._block = _with_room(self._block, used + k.SLACK)
        self._last = _with_room(self._last, key + k.SLACK)
        if len(self._output) < _OUTPUT_BYTES + w.compressed_room(used):
            self._flush()
            self._output = np.empty(_OUTPUT_BYTES + w.compressed_room(used), dtype=np.uint8)
        if len(self._keys) < _OUTPUT_BYTES // 4 + key:
            self._flush()
            self._keys = np.empty(_OUTPUT_BYTES // 4 + 2 * key, dtype=np.uint8)

    def _flush(self) -> None:
        """Write the complete blocks to the file."""
        size, rows, keys = (int(self._numbers[field]) for field in (w.OUT, w.ROWS, w.KEYS))
        if size:
            self._out.add(self._output[:size].data)
            self._indexed.append((self._keys[:keys].copy(), self._index[:rows].copy()))
        self._numbers[w.FILE_OFFSET] = self._out.size
        self._numbers[[w.OUT, w.ROWS, w.KEYS]] = 0

    def _whole_index(self) -> tuple[Bytes, Numbers]:
        begin, all_rows = 0, []
        for keys, rows in self._indexed:
            moved = rows.copy()
            moved[:, [k.SEPARATOR, k.SEPARATOR_END]] += begin
            all_rows.append(moved)
            begin += len(keys)
        no_keys, no_rows = np.empty(0, dtype=np.uint8), np.empty((0, k.INDEX_FIELDS), dtype=np.int64)
        return np.concatenate([no_keys, *(keys for keys, _ in self._indexed)]), np.concatenate([no_rows, *all_rows])

    def _bounds_of_deletions(self) -> tuple[list[bytes], list[bytes]]:
        return [begin for begin, _ in self._deletions], [end for _, end in self._deletions]

    def _identity(self) -> tuple[str, str]:
        """Return the names of the database and of the session that write the table: 20 digits of base 36.

        RocksDB names cached blocks after them and the number of the file. They follow from the content: equal input gives equal
        files, and tables with other blocks have other names.
        """
        content = xxh3_128(self._out.digest())
        content.update(repr((self._number, self._family, self._deletions)).encode())
        database = UUID(bytes=xxh3_128(content.digest()).digest(), version=4)
        return str(database), np.base_repr(content.intdigest(), 36)[-20:].rjust(20, "0")

    def _properties(self, data_size: int, index_size: int, blocks: int) -> dict[bytes, bytes]:
        number = len(self._deletions)
        key_bytes, value_bytes = (int(self._sizes[column]) for column in (w.KEY_BYTES, w.VALUE_BYTES))
        begins, ends = self._bounds_of_deletions()
        keys_of_deletions, values_of_deletions = sum(map(len, begins)), sum(map(len, ends))
        now = _creation_time()
        database, session = self._identity()
        numbers = {
            "column.family.id": self._family[0],
            "creation.time": now,
            "data.size": data_size,
            "deleted.keys": self._deleted + number,
            "file.creation.time": now,
            "filter.size": 0,
            "fixed.key.length": 0,
            "format.version": 0,
            "index.key.is.user.key": 1,
            "index.size": index_size + w.TRAILER,
            "index.value.is.delta.encoded": 1,
            "merge.operands": 0,
            "num.data.blocks": blocks,
            "num.entries": self._count + number,
            "num.filter_entries": 0,
            "num.range-deletions": number,
            "oldest.key.time": now,
            "original.file.number": self._number,
            "raw.key.size": key_bytes + k.TAG_BYTES * self._count + keys_of_deletions,
            "raw.value.size": value_bytes + values_of_deletions,
            "tail.start.offset": data_size,
        }
        texts = {
            "block.based.table.index.type": bytes(4),
            "block.based.table.prefix.filtering": b"0",
            "block.based.table.whole.key.filtering": b"1",
            "column.family.name": self._family[1].encode(),
            "comparator": COMPARATOR,
            "compression": b"Snappy",
            "compression_options": b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0;",
            "creating.db.identity": database.encode(),
            "creating.session.identity": session.encode(),
            "merge.operator": b"nullptr",
            "prefix.extractor.name": b"nullptr",
            "property.collectors": b"[]",
        }
        values = texts | map_values(varint, numbers)
        return {f"rocksdb.{name}".encode(): value for name, value in values.items()}


def _creation_time() -> int:
    """Return the time in seconds: the variable SOURCE_DATE_EPOCH, as for other files that are to be equal in bytes, or now."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "").strip()
    if text and not text.isdecimal():
        raise OptionError(f"SOURCE_DATE_EPOCH={text!r}: expected seconds since 1970-01-01 UTC")
    return int(text) if text else int(time())


def _with_room(array: Bytes, size: int) -> Bytes:
    """Return an array of at least some size with the same content."""
    if len(array) >= size:
        return array
    larger = np.zeros(max(size, 2 * len(array)), dtype=np.uint8)
    larger[: len(array)] = array
    return larger


def _order(internal: bytes) -> tuple[bytes, int]:
    """Return the sort key of an internal key: later entries of a key come first."""
    return internal[: -k.TAG_BYTES], -int.from_bytes(internal[-k.TAG_BYTES :], "little")
