"""Runs: tables of a column family whose keys follow each other, and positions in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final

import numpy as np

from state_processor.backends.formats.sst.block_format import TRAILER, Bytes, Numbers, RawBlocks
from state_processor.backends.formats.sst.block_kernels import OFFSET, SIZE, TAG_BYTES
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.table import BlockList, Bound, Table
from state_processor.backends.metadata.streams import StateStream
from state_processor.support.errors import CorruptSnapshotError

OpenTable = Callable[[TableFile], Table]
ChooseBlocks = Callable[[BlockList], BlockList]
"""Function that returns the blocks of a list that a scan needs."""
READ_AHEAD: Final = 4 << 20
_LARGEST_GAP: Final = 64 << 20
"""Bytes between blocks that are read together; RocksDB writes those of entries back to back."""
_NO_SEPARATOR: Final = np.array([[0, -1]], dtype=np.int64)
_SKIPPED: Final = 256 << 10
"""Bytes between chosen blocks that are read with them from remote storage: a request takes longer."""


def first_key(file: TableFile) -> bytes:
    """Return the first key of a table."""
    return file.smallest[:-TAG_BYTES]


def last_key(file: TableFile) -> bytes:
    """Return the last key of a table."""
    return file.largest[:-TAG_BYTES]


def runs_of(files: Iterable[TableFile], lower: bytes, upper: bytes) -> list[list[TableFile]]:
    """Return the tables that may have keys from ``lower`` to before ``upper``, as runs.

    A level is one run. Tables of level 0 overlap and become several runs. Sequence numbers decide which entry is newer.
    """
    levels: dict[int, list[TableFile]] = {}
    for file in files:
        if first_key(file) < upper and last_key(file) >= lower:
            levels.setdefault(file.level, []).append(file)
    runs: list[list[TableFile]] = []
    for level in sorted(levels):
        runs += _disjoint(levels[level])
    return runs


def _order(internal_key: bytes) -> tuple[bytes, int]:
    """Return the sort key of internal keys: the key, then the newest entry first."""
    return internal_key[:-TAG_BYTES], -int.from_bytes(internal_key[-TAG_BYTES:], "little")


def _disjoint(files: Iterable[TableFile]) -> list[list[TableFile]]:
    """Return tables as runs, as few as their keys allow; the tables of a level are one, unless the manifest is damaged."""
    runs: list[list[TableFile]] = []
    for file in sorted(files, key=lambda f: _order(f.smallest)):
        place = next((run for run in runs if _order(run[-1].largest) < _order(file.smallest)), None)
        if place is None:
            runs.append([file])
        else:
            place.append(file)
    return runs


class TableScan:
    """A position in a table that is read from front to back.

    ``lower`` and ``upper``: the bounds of the keys. ``threads``: threads that read ahead. ``choose``: chooses the blocks to read;
    ``None`` reads all. ``has_all_blocks``: whether these are all blocks between the bounds.
    """

    def __init__(
        self, table: Table, lower: bytes, upper: bytes, threads: ThreadPoolExecutor | None, choose: ChooseBlocks | None = None
    ) -> None:
        self.table = table
        self.blocks = table.blocks(lower, upper)
        if not len(self.blocks) and lower <= table.smallest < upper and not table.has_range_deletions:
            raise table.has_other_keys()
        self.has_all_blocks = choose is None
        if choose is not None:
            self.blocks = choose(self.blocks)
        rows = self.blocks.rows
        self.sizes = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(rows[:, SIZE] + TRAILER)))
        end = int(rows[-1, OFFSET] + rows[-1, SIZE]) + TRAILER if len(rows) else 0
        self._reads = ReadAhead(table.stream, end, READ_AHEAD, threads)

    def raw(self, first: int, behind: int) -> RawBlocks:
        """Read blocks."""
        rows = self.blocks.rows[first:behind]
        offsets, sizes = rows[:, OFFSET], rows[:, SIZE]
        begin, end = int(offsets[0]), int(offsets[-1] + sizes[-1]) + TRAILER
        if not self.has_all_blocks and begin < self.table.tail_begin:
            data, begins = self._parts(offsets, offsets + sizes + TRAILER)
        else:
            if end - begin > int(self.sizes[behind] - self.sizes[first]) + _LARGEST_GAP:
                raise CorruptSnapshotError(
                    f"{self.table.context}: blocks of entries are far from each other; expected blocks back to back"
                )
            in_tail = begin >= self.table.tail_begin
            base, read = (self.table.tail_begin, self.table.tail) if in_tail else self._reads.read(begin, end)
            data, begins = np.frombuffer(read, dtype=np.uint8), offsets - base
        return RawBlocks.of(data, begins, offsets, sizes, self.table.context)

    def _parts(self, begins: Numbers, ends: Numbers) -> tuple[Bytes, Numbers]:
        """Read blocks that are apart; return their bytes, and where each block begins in them."""
        most = _SKIPPED if self.table.stream.is_remote else 0
        starts = np.flatnonzero(np.concatenate(([True], begins[1:] - ends[:-1] > most)))
        lasts = np.append(starts[1:], len(begins)) - 1
        parts = []
        for begin, end in zip(begins[starts].tolist(), ends[lasts].tolist(), strict=True):
            parts.append(np.frombuffer(self.table.stream.read(begin, end - begin), dtype=np.uint8))
        places = np.cumsum([0, *map(len, parts[:-1])])
        numbers = np.searchsorted(starts, np.arange(len(begins)), side="right") - 1
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)), begins - begins[starts][numbers] + places[numbers]


@dataclass(frozen=True, slots=True)
class Piece:
    """Blocks of a table that a round decodes.

    ``scan``, ``first`` and ``behind``: the table, the first block, and the one after the last.
    """

    scan: TableScan
    first: int
    behind: int
    bounded_from: int  # the first block that may have keys from the end of the round on
    raw: RawBlocks | None  # the bytes of the blocks; ``None`` without blocks

    @property
    def plain_size(self) -> int:
        """Number of decompressed bytes."""
        return 0 if self.raw is None else self.raw.plain_size

    @property
    def separators(self) -> tuple[Bytes, Numbers]:
        """Bytes of separators, and the places of the separator in front of the first block and of those behind each block."""
        rows = self.scan.blocks.rows[:, :2]
        before = rows[self.first - 1 : self.first] if self.first else _NO_SEPARATOR
        return self.scan.blocks.keys, np.ascontiguousarray(np.concatenate((before, rows[self.first : self.behind])))

    def cut(self, upper: Bound) -> Piece:
        """Return the piece up to a key."""
        bounded_from, behind = self.scan.table.blocks_before(self.scan.blocks, upper)
        behind = max(self.first, min(self.behind, behind))
        raw = None if self.raw is None or behind == self.first else self.raw.first(behind - self.first)
        return Piece(self.scan, self.first, behind, bounded_from, raw)


class RunScan:
    """A position in a run that is read from front to back.

    ``files``: the tables of the run. ``lower`` and ``upper``: the bounds of the keys. ``threads``: threads that read ahead.
    ``choose``: chooses the blocks to read; ``None`` reads all.
    """

    def __init__(
        self,
        files: Sequence[TableFile],
        open_table: OpenTable,
        lower: bytes,
        upper: bytes,
        threads: ThreadPoolExecutor | None,
        choose: ChooseBlocks | None = None,
    ) -> None:
        self._files = list(files)
        self._open_table = open_table
        self._lower = lower
        self._upper = upper
        self._threads = threads
        self._choose = choose
        self._scans: dict[int, TableScan] = {}
        self._at = self._first = 0

    def reach(self, lower: Bound, budget: int) -> bytes | None:
        """Go to a key. Return the key that ends the next ``budget`` bytes (about); ``None`` if everything fits."""
        while self._at < len(self._files) and last_key(self._files[self._at]) < lower.key:
            self._scans.pop(self._at, None)
            self._at += 1
        if self._at == len(self._files):
            return None
        scan = self._scan(self._at)
        self._first = first = scan.blocks.first_from(lower)
        last = int(np.searchsorted(scan.sizes, scan.sizes[first] + budget)) - 1 if first < len(scan.blocks) else first
        if last < len(scan.blocks):
            return scan.blocks.separator(max(last, first)) + b"\0"
        return last_key(self._files[self._at]) + b"\0" if self._at + 1 < len(self._files) else None

    def pieces(self, upper: Bound) -> list[Piece]:
        """Return the blocks that may have keys before ``upper``, in order, from the key on that the run has reached."""
        pieces = []
        for number in range(self._at, len(self._files)):
            if first_key(self._files[number]) >= upper.key:
                break
            scan = self._scan(number)
            first = self._first if number == self._at else 0
            bounded_from, behind = scan.table.blocks_before(scan.blocks, upper)
            behind = max(first, behind)
            pieces.append(Piece(scan, first, behind, bounded_from, scan.raw(first, behind) if first < behind else None))
        return pieces

    def _scan(self, number: int) -> TableScan:
        if number not in self._scans:
            table = self._open_table(self._files[number])
            self._scans[number] = TableScan(table, self._lower, self._upper, self._threads, self._choose)
        return self._scans[number]


class ReadAhead:
    """Reads of a file whose ranges begin in ascending order.

    ``end``: end of the last read. ``ahead``: bytes to fetch ahead. ``threads``: the threads that fetch; ``None`` reads on demand.
    """

    def __init__(self, stream: StateStream, end: int, ahead: int, threads: ThreadPoolExecutor | None) -> None:
        self._stream = stream
        self._end = end
        self._ahead = ahead
        self._threads = threads
        self._start = 0
        self._data = memoryview(b"")
        self._next: tuple[int, Future[memoryview]] | None = None

    def read(self, begin: int, end: int) -> tuple[int, memoryview]:
        """Return the offset and the content of a part of the file that includes the bytes from ``begin`` to ``end``."""
        if self._threads is None:
            return begin, self._stream.read(begin, end - begin)
        if begin < self._start or end > self._start + len(self._data):
            self._fetch(begin, end)
        return self._start, self._data

    def _fetch(self, begin: int, end: int) -> None:
        assert self._threads is not None
        parts, at = [], begin
        if self._start <= begin < self._start + len(self._data):
            parts.append(self._data[begin - self._start :])
            at += len(parts[0])
        if self._next is not None and self._next[0] == at:
            parts.append(self._next[1].result())
            at += len(parts[-1])
        self._next = None
        if at < end:
            parts.append(self._stream.read(at, end - at))
            at = end
        self._start, self._data = begin, parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        size = min(self._ahead, self._end - at)
        if size > 0:
            self._next = (at, self._threads.submit(copy_context().run, self._stream.read, at, size))
