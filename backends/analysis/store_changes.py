"""Entries of a state that may differ between two stores with common files.

RocksDB never changes a table. Common tables contain the same entries: both snapshots record the same file, and it is at the same
place for both. A copy of a snapshot has files of its own, which may be damaged. An entry can differ only if its key is in a table
of one store alone. The comparison has two steps:

1. The newest entries in the tables of one store alone are compared. Most of them are equal, because a compaction writes entries
   again without a change.
2. The keys of the remaining entries are looked up in all tables of both stores.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import numpy as np

from state_processor.backends.analysis.unequal_entries import without_equals
from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.formats.rocksdb_store import Store
from state_processor.backends.formats.source import Block, Buffer, Entries
from state_processor.backends.formats.sst.block_kernels import KEY_END, MERGE, TAG_BYTES
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.key_set import KeySet
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.merge_kernel import within
from state_processor.backends.formats.sst.runs import OpenTable, first_key, last_key
from state_processor.backends.formats.sst.table import Table
from state_processor.backends.metadata.streams import StateStream
from state_processor.support.locks import process_lock

INCREMENTAL: Final = "incremental"
FULL: Final = "full"
MIXED: Final = "mixed"

_READ_AT_ONCE: Final = 256 << 10
_OPEN_TABLES: Final = 256


class BytesRead:
    """Counts the bytes that a comparison of a state reads.

    ``read``: bytes that were read so far.
    """

    def __init__(self) -> None:
        self.read = 0
        self._lock = process_lock()
        self._files: dict[tuple[str, str], int] = {}
        self._full = 0

    @property
    def stored(self) -> int:
        """Bytes that both snapshots have of the state, in the parts that were compared."""
        return sum(self._files.values()) + self._full

    @property
    def method(self) -> str:
        """``incremental`` if common tables were skipped, ``full``, or ``mixed``: both, in different subtasks."""
        if not self._files:
            return FULL
        return MIXED if self._full else INCREMENTAL

    def add(self, size: int) -> None:
        """Count bytes that were read."""
        with self._lock:
            self.read += size

    def add_files(self, store: str, files: Iterable[tuple[str, int]]) -> None:
        """Count the tables of a store, by name and size; once, even if several parts of them are compared."""
        with self._lock:
            self._files.update({(store, name): size for name, size in files})

    def add_full(self, size: int) -> None:
        """Count bytes that are read in full."""
        with self._lock:
            self.read += size
            self._full += size


@dataclass
class _Side:
    """A store, and its tables of the state."""

    store: Store
    files: tuple[TableFile, ...]
    unshared: Sequence[TableFile] = ()
    identities: dict[TableFile, Hashable] = field(default_factory=dict)
    """The identity of each table. Tables with equal identities have the same entries."""

    def recorded(self, file: TableFile) -> Hashable:
        """Return what both snapshots record of a common table."""
        return self.store.identity(file), file.smallest, file.largest, file.sequences

    def identify(self, recorded: set[Hashable]) -> None:
        """Set the identity of each table. A common table is recorded by both snapshots, and is at the same place in both."""
        common = [file for file in self.files if self.recorded(file) in recorded]
        places = dict(zip(common, at_once(self.store.place, common), strict=True))
        self.identities = {file: (self.recorded(file), places.get(file, id(self))) for file in self.files}


class StoreChanges:
    """Finds the entries of a state that may differ between two stores.

    ``prefix``: bytes of the key group before each key. ``tally``: counts the bytes that are read.
    """

    def __init__(self, old: Store, new: Store, name: str, prefix: int, tally: BytesRead) -> None:
        self._name = name
        self._prefix = prefix
        self._tally = tally
        self._sides = [_Side(store, store.family(name).files) for store in (old, new)]
        recorded = [set(map(side.recorded, side.files)) for side in self._sides]
        for side, identities in zip(self._sides, reversed(recorded), strict=True):
            side.identify(identities)
        old_files, new_files = (set(side.identities.values()) for side in self._sides)
        for side, identities in zip(self._sides, (new_files, old_files), strict=True):
            side.unshared = [file for file in side.files if side.identities[file] not in identities]
            tally.add_files(side.store.label, ((file.name, file.size) for file in side.files))
        self._tables: OrderedDict[Hashable, tuple[Table, KeptReads]] = OrderedDict()

    def blocks(self, lower: bytes, upper: bytes) -> tuple[Iterator[Block], Iterator[Block]]:
        """Return the entries of both stores that may differ, from the key ``lower`` (inclusive) to ``upper`` (exclusive)."""
        self.forget()
        keys = self.keys(lower, upper)
        old, new = (self._looked_up(side, keys, lower, upper) for side in self._sides)
        return old, new

    def _looked_up(self, side: _Side, keys: KeySet | None, lower: bytes, upper: bytes) -> Iterator[Block]:
        if keys is not None and not len(keys):
            return
        with side.store.fetching() as threads:
            scan = FamilyScan(side.files, self._opener(side), self._prefix, self._context(side), threads, keys)
            for buffer, entries in scan.blocks(lower, upper):
                yield buffer, None, entries

    def forget(self) -> None:
        """Free the bytes of the blocks that were read so far."""
        for _, reads in self._tables.values():
            reads.forget()

    def entries(self, side: int, lower: bytes, upper: bytes) -> Iterator[Block]:
        """Yield the entries of one store, 0 or 1, from the key ``lower`` (inclusive) to ``upper`` (exclusive)."""
        of_side = self._sides[side]
        with of_side.store.fetching() as threads:
            scan = FamilyScan(of_side.files, self._opener(of_side), self._prefix, self._context(of_side), threads)
            for buffer, entries in scan.blocks(lower, upper):
                yield buffer, None, entries

    def keys(self, lower: bytes, upper: bytes) -> KeySet | None:
        """Return the keys whose entries may differ; ``None`` if all entries may differ."""
        tables: list[Table] = []
        for side in self._sides:
            files = (file for file in side.unshared if first_key(file) < upper and last_key(file) >= lower)
            tables += map(self._opener(side), files)
        if any(within(table.deletions, lower, upper) for table in tables):
            return None
        # All entries of an ingested table share a sequence number. The table does not contain the number.
        comparable = all(table.sequence < 0 for table in tables)
        old_side, new_side = self._sides
        old_merged: list[KeySet] = []
        new_merged: list[KeySet] = []
        with ExitStack() as stack:
            old = self._newest(stack, old_side, lower, upper, old_merged, comparable)
            new = self._newest(stack, new_side, lower, upper, new_merged, comparable)
            unequal = without_equals(old, new)
        key_sets = [KeySet.of(data, entries, self._prefix, TAG_BYTES) for data, entries in unequal]
        keys = KeySet.none()
        for keys_of_part in (*key_sets, KeySet.joined(old_merged), KeySet.joined(new_merged)):
            keys = keys.union(keys_of_part)
        return keys

    def _newest(
        self, stack: ExitStack, side: _Side, lower: bytes, upper: bytes, merged_keys: list[KeySet], comparable: bool
    ) -> Iterator[tuple[Buffer, Entries]]:
        """Yield the newest entries. Add the keys of merge operands to ``merged_keys``, or all keys unless ``comparable``."""
        threads = stack.enter_context(side.store.fetching())
        scan = FamilyScan(side.unshared, self._opener(side), self._prefix, self._context(side), threads, newest=True)
        for data, entries in scan.blocks(lower, upper):
            alone = data[entries[:, KEY_END] - TAG_BYTES] == MERGE if comparable else np.ones(len(entries), dtype=bool)
            if alone.any():
                merged_keys.append(KeySet.of(data, np.ascontiguousarray(entries[alone]), self._prefix, TAG_BYTES))
                yield data, np.ascontiguousarray(entries[~alone])
            else:
                yield data, entries

    def _opener(self, side: _Side) -> OpenTable:
        def open_table(file: TableFile) -> Table:
            identity = side.identities[file]
            opened = self._tables.pop(identity) if identity in self._tables else self._opened(side, file)
            self._tables[identity] = opened
            while len(self._tables) > _OPEN_TABLES:
                self._tables.popitem(last=False)
            return opened[0]

        return open_table

    def _opened(self, side: _Side, file: TableFile) -> tuple[Table, KeptReads]:
        reads = KeptReads(side.store.stream(file), self._tally.add, at_once=file in side.unshared)
        return side.store.open_table(file, reads.as_stream()), reads

    def _context(self, side: _Side) -> str:
        return f"{side.store.label}, state {self._name!r}"


class KeptReads:
    """Reads of a stream. They are kept until :meth:`forget`.

    ``count``: receives the number of bytes of each read that was not kept. ``at_once``: whether all of the stream is needed. A
    small stream is read at once then.
    """

    def __init__(self, stream: StateStream, count: Callable[[int], None], at_once: bool) -> None:
        self._stream = stream
        self._count = count
        self._lock = process_lock()
        self._at_once = at_once and stream.size <= _READ_AT_ONCE
        self._reads: list[tuple[int, memoryview]] = []

    def as_stream(self) -> StateStream:
        """Return a stream with these reads."""
        return StateStream(self, 0, self._stream.size, self._stream.describe(), self._stream.path)

    def read(self, offset: int, length: int) -> memoryview:
        """See :meth:`StateStream.read`."""
        with self._lock:
            place = bisect_right(self._reads, offset, key=itemgetter(0))
            for begin, data in self._reads[max(0, place - 2) : place]:
                if offset + length <= begin + len(data):
                    return data[offset - begin : offset - begin + length]
        begin, size = (0, self._stream.size) if self._at_once else (offset, length)
        data = self._stream.read(begin, size)
        self._count(size)
        with self._lock:
            insort(self._reads, (begin, data), key=itemgetter(0))
        return data[offset - begin : offset - begin + length]

    def forget(self) -> None:
        """Forget the reads. A small stream that was read at once stays."""
        with self._lock:
            if not self._at_once:
                self._reads.clear()
