"""Tables without the entries of some keys: the keys of a state, or of timers, which begin with their time.

Only the blocks that have such entries are written again. All other blocks are copied as they are stored. The index, the
properties and the footer are new. Filters of keys are left out: RocksDB reads a table without a filter, and a filter would tell
that a key was there. Tables of format version 6, whose checksums depend on offsets, become tables of version 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from secrets import choice
from typing import Final

import numpy as np

from state_processor.backends.formats.key_index import KeyIndex, SerializedKeys
from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.block_format import TRAILER, Numbers
from state_processor.backends.formats.sst.block_kernels import KEY, KEY_END
from state_processor.backends.formats.sst.family_scan import stored_entries
from state_processor.backends.formats.sst.key_set import Beginnings
from state_processor.backends.formats.sst.manifest import END_OF_DELETION, TableFile
from state_processor.backends.formats.sst.plain_blocks import (
    RESTART_INTERVAL,
    block_entries,
    entries_block,
    read_varint,
    varint,
)
from state_processor.backends.formats.sst.table import (
    WITH_CONTEXT,
    BlockList,
    Bound,
    Table,
)
from state_processor.backends.formats.sst.table_builder import TableOutput
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.late import cramjam
from state_processor.support.mappings import without_keys, without_none

Entry = tuple[bytes, bytes]
"""An internal key, and a value."""

_LOW: Final = 0xFFFFFFFF
_COPIED_AT_ONCE: Final = 4 << 20
_OF_FILE: Final = frozenset({7, 8, 12, 15})
"""Tags of details that describe the bytes of a file: checksum, function of the checksum, unique id, size of the tail."""
_DROPPED: Final = (b"rocksdb.index.partitions", b"rocksdb.top-level.index.size", b"rocksdb.filter.policy")
_INDEX_TYPE: Final = b"rocksdb.block.based.table.index.type"
_SESSION: Final = b"rocksdb.creating.session.identity"
"""RocksDB names cached blocks after the session that wrote a table: the new table is another one."""
_TAIL: Final = b"rocksdb.tail.start.offset"
_BASE_36: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass
class ErasedTable:
    """A table without some entries. :meth:`write` writes it."""

    table: Table  # the table with all entries
    beginnings: Beginnings  # the beginnings of the keys to leave out
    index: BlockList  # all blocks of the table
    # the entries that are left of the blocks that change, by the number of the block
    changed: dict[int, list[Entry]] = field(default_factory=dict)
    deletions: list[Entry] = field(default_factory=list)  # the range deletions that are left
    removed: list[Entry] = field(default_factory=list)  # the entries that are left out

    @property
    def is_empty(self) -> bool:
        """Whether no entry and no range deletion is left."""
        return not self.deletions and next(self._blocks_left(), None) is None

    def write(self, write: Callable[[bytes | memoryview], object], number: int) -> TableFile:
        """Write the table.

        ``write``: appends bytes to the new file. ``number``: the number of the new file.

        Returns: the record of the new file for the manifest.
        """
        out = _Output(write, self.table.format.checksum)
        rows, keys = self.index.rows.copy(), [self.index.keys]
        if not self.table.keys_are_exact:
            rows[:, k.SEPARATOR_END] += k.TAG_BYTES
        for first, after in self._runs():
            if first not in self.changed:
                shift = out.size - int(rows[first, k.OFFSET])
                out.copy(self.table, self.index.rows[first:after])
                rows[first:after, k.OFFSET] += shift
                continue
            block = entries_block(self.changed[first], RESTART_INTERVAL)
            rows[first, [k.OFFSET, k.SIZE]] = out.data_block(block, is_compressed=self._is_compressed(first))
            if self.beginnings.covering(self.index.separator(first)) is not None:
                begin, separator = sum(map(len, keys)), self._last_key(first)
                keys.append(np.frombuffer(separator, dtype=np.uint8))
                rows[first, [k.SEPARATOR, k.SEPARATOR_END]] = begin, begin + len(separator)
        rows = np.delete(rows, [block for block, entries in self.changed.items() if not entries], axis=0)
        data_size = out.size
        index = out.index(np.concatenate(keys), rows, is_delta=self.table.is_delta)
        properties = self._properties(data_size, index[1], len(rows))
        out.close(index, self.deletions, properties, min(self.table.version, WITH_CONTEXT - 1))
        smallest, largest = self._bounds()
        details = tuple((tag, value) for tag, value in self.table.file.details if tag not in _OF_FILE)
        return replace(self.table.file, number=number, size=out.size, smallest=smallest, largest=largest, details=details)

    def _blocks_left(self) -> Iterator[int]:
        return (block for block in range(len(self.index)) if self.changed.get(block) != [])

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Yield the first block and the one after the last of what is left: a changed block, or blocks to copy at once."""
        start = 0
        for block in sorted(self.changed):
            yield from self._unchanged(start, block)
            if self.changed[block]:
                yield block, block + 1
            start = block + 1
        yield from self._unchanged(start, len(self.index))

    def _unchanged(self, first: int, behind: int) -> Iterator[tuple[int, int]]:
        """Cut blocks into parts that are stored back to back and not too large."""
        begins = self.index.rows[:, k.OFFSET]
        ends = begins + self.index.rows[:, k.SIZE] + TRAILER
        while first < behind:
            fitting = int(np.searchsorted(ends, begins[first] + _COPIED_AT_ONCE, side="right"))
            after = min(behind, max(first + 1, fitting))
            gaps = np.flatnonzero(begins[first + 1 : after] != ends[first : after - 1])
            after = first + 1 + int(gaps[0]) if len(gaps) else after
            yield first, after
            first = after

    def _last_key(self, block: int) -> bytes:
        """Return a separator for a changed block: its last key."""
        last = self.changed[block][-1][0]
        return last[: -k.TAG_BYTES] if self.table.keys_are_exact else last

    def _is_compressed(self, block: int) -> bool:
        offset, size = self.index.rows[block, [k.OFFSET, k.SIZE]].tolist()
        return self.table.stream.read(offset + size, 1)[0] == k.SNAPPY

    def _properties(self, data_size: int, index_size: int, blocks: int) -> dict[bytes, bytes]:
        old, gone = self.table.properties, self.removed
        kinds = [key[-k.TAG_BYTES] for key, _ in gone]
        ranges = len(self.table.stored_deletions) - len(self.deletions)
        less = {
            b"rocksdb.num.entries": len(gone) + ranges,
            b"rocksdb.raw.key.size": sum(len(key) for key, _ in gone),
            b"rocksdb.raw.value.size": sum(len(value) for _, value in gone),
            b"rocksdb.deleted.keys": sum(kind in (k.DELETION, k.SINGLE_DELETION) for kind in kinds) + ranges,
            b"rocksdb.merge.operands": kinds.count(k.MERGE),
            b"rocksdb.num.range-deletions": ranges,
        }
        new = {
            b"rocksdb.data.size": data_size,
            b"rocksdb.index.size": index_size + TRAILER,
            b"rocksdb.num.data.blocks": blocks,
            b"rocksdb.filter.size": 0,
            b"rocksdb.num.filter_entries": 0,
            _TAIL: data_size,
        }
        new |= {name: max(0, read_varint(old.get(name, b"")) - count) for name, count in less.items()}
        properties = without_keys(old, _DROPPED)
        properties |= {name: varint(value) for name, value in new.items() if name in old}
        properties[_INDEX_TYPE] = bytes(4)
        if _SESSION in old:
            properties[_SESSION] = "".join(choice(_BASE_36) for _ in range(20)).encode()
        return properties

    def _bounds(self) -> tuple[bytes, bytes]:
        """Return the first and the last internal key."""
        table = self.table
        smallest, largest = table.file.smallest, table.file.largest
        if self.beginnings.covering(table.smallest) is not None:
            firsts = list(map(self._tagged, self._first_keys()))
            firsts += [self._begin_within(key) for key, _ in self.deletions]
            smallest = min(firsts, key=_order)
        if self.beginnings.covering(table.largest) is not None:
            lasts = list(map(self._tagged, self._last_keys()))
            lasts += [self._end_within(end) for _, end in self.deletions]
            largest = max(lasts, key=_order)
        return smallest, largest

    def _first_keys(self) -> Iterator[bytes]:
        block = next(self._blocks_left(), None)
        if block is not None:
            yield self._entries(block)[0][0]

    def _last_keys(self) -> Iterator[bytes]:
        block = max(self._blocks_left(), default=None)
        if block is not None:
            yield self._entries(block)[-1][0]

    def _entries(self, block: int) -> list[Entry]:
        return self.changed[block] if block in self.changed else _entries(self.table, self.index, block)

    def _tagged(self, key: bytes) -> bytes:
        """Return an internal key with the sequence number that RocksDB gives it."""
        if self.table.sequence < 0:
            return key
        return key[: -k.TAG_BYTES] + (self.table.sequence << 8 | key[-k.TAG_BYTES]).to_bytes(k.TAG_BYTES, "little")

    def _begin_within(self, internal: bytes) -> bytes:
        """Return where a range deletion begins in this file."""
        begin = self.beginnings.behind(max(internal[: -k.TAG_BYTES], self.table.smallest))
        return begin + self._tagged(internal)[-k.TAG_BYTES :]

    def _end_within(self, end: bytes) -> bytes:
        """Return where a range deletion ends in this file."""
        if end > self.table.largest:
            raise _needs_key(self.table)
        return end + END_OF_DELETION


def without(table: Table, beginnings: Beginnings) -> ErasedTable | None:
    """Return a table without the entries of some keys.

    Returns: ``None`` if the table lacks such an entry, and such a key in its index, its range deletions and its bounds.
    """
    near = beginnings.between(table.smallest, table.largest)
    if not near and not beginnings.cover_some(_bounds_of_deletions(table)):
        return None
    erased = ErasedTable(table, beginnings, table.blocks())
    for block in _candidates(erased.index, near):
        entries = _entries(table, erased.index, block)
        staying: list[Entry] = []
        removed: list[Entry] = []
        for entry in entries:
            if beginnings.covering(entry[0][: -k.TAG_BYTES]) is None:
                staying.append(entry)
            else:
                removed.append(entry)
        if removed or beginnings.covering(erased.index.separator(block)) is not None:
            erased.changed[block] = staying
            erased.removed += removed
    deletions = (_deletion_left(table, beginnings, key, end) for key, end in table.stored_deletions)
    erased.deletions = without_none(deletions)
    is_bound = beginnings.cover_some((table.smallest, table.largest))
    return erased if erased.changed or erased.deletions != table.stored_deletions or is_bound else None


def _bounds_of_deletions(table: Table) -> Iterator[bytes]:
    for key, end in table.stored_deletions:
        yield key[: -k.TAG_BYTES]
        yield end


def _candidates(index: BlockList, beginnings: Iterable[bytes]) -> list[int]:
    """Return the blocks that may have keys with some beginnings, and the blocks whose separators have these beginnings."""
    blocks = set()
    for beginning in beginnings:
        for block in range(index.first_from(Bound(beginning)), len(index)):
            blocks.add(block)
            if not index.separator(block).startswith(beginning):
                break
    return sorted(blocks)


def _entries(table: Table, index: BlockList, block: int) -> list[Entry]:
    offset, size = index.rows[block, [k.OFFSET, k.SIZE]].tolist()
    return list(block_entries(table.plain_block((offset, size)), table.context))


def _deletion_left(table: Table, beginnings: Beginnings, key: bytes, end: bytes) -> Entry | None:
    """Return what is left of a range deletion without the erased keys in its bounds."""
    begin = beginnings.behind(key[: -k.TAG_BYTES])
    if begin >= end:
        return None
    if beginnings.covering(end) is not None:
        raise _needs_key(table)
    return begin + key[-k.TAG_BYTES :], end


def _needs_key(table: Table) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"{table.context}: a range deletion ends at an erased key; write a canonical savepoint")


def _order(internal: bytes) -> tuple[bytes, int]:
    return internal[: -k.TAG_BYTES], -int.from_bytes(internal[-k.TAG_BYTES :], "little")


class _Output(TableOutput):
    """The new file."""

    def data_block(self, content: bytes, *, is_compressed: bool) -> tuple[int, int]:
        """Add a block, compressed if that makes it smaller."""
        smaller = bytes(cramjam.snappy.compress_raw(content)) if is_compressed else content
        return self.block(smaller, k.SNAPPY) if len(smaller) < len(content) else self.block(content)

    def copy(self, table: Table, rows: Numbers) -> None:
        """Add blocks of another table that are stored back to back."""
        offsets, sizes = rows[:, k.OFFSET], rows[:, k.SIZE]
        begin, end = int(offsets[0]), int(offsets[-1] + sizes[-1]) + TRAILER
        data = table.stream.read(begin, end - begin)
        context = table.format.context
        self.add(_without_context(data, offsets, offsets + sizes - begin, context) if context else data)


def _without_context(data: memoryview, offsets: Numbers, ends: Numbers, context: int) -> bytes:
    """Return blocks with checksums that do not depend on their offsets."""
    plain = np.frombuffer(data, dtype=np.uint8).copy()
    trailers = ends[:, None] + np.arange(1, TRAILER)
    stored = plain[trailers].view("<u4")[:, 0].astype(np.int64)
    checksums = (stored - (context ^ ((offsets + (offsets >> 32)) & _LOW))) & _LOW
    plain[trailers] = checksums.astype("<u4").view(np.uint8).reshape(-1, 4)
    return plain.tobytes()


_TIMESTAMP: Final = 8


class ErasedKeys:
    """Keys to erase from the tables of a column family.

    ``markers``: the beginnings of entries, from the key group to the key. ``prefix``: bytes of the key group. ``are_timers``:
    whether the entries are timers: the time is between the key group and the key. All entries of a table are read then.
    """

    def __init__(self, markers: Iterable[bytes], prefix: int, *, are_timers: bool) -> None:
        self._beginnings = Beginnings(markers)
        self._prefix = prefix
        self._index = (
            KeyIndex(SerializedKeys.of(beginning[prefix:] for beginning in self._beginnings), _TIMESTAMP) if are_timers else None
        )

    def without(self, table: Table) -> ErasedTable | None:
        """Return a table without the entries of the keys; see :func:`.erased_table.without`."""
        beginnings = self._beginnings if self._index is None else Beginnings(self._timers(table, self._index))
        return without(table, beginnings) if len(beginnings) else None

    def _timers(self, table: Table, index: KeyIndex) -> Iterator[bytes]:
        """Yield the entries of timers with one of the keys."""
        for data, entries in stored_entries(table, self._prefix):
            for row in index.keep(data, entries).tolist():
                yield data[row[KEY] - self._prefix : row[KEY_END]].tobytes()
