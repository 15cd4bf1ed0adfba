"""The entries of a column family in the order of their keys. Runs are decoded and merged in rounds of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, TypeVar

import numpy as np

from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.block_format import LARGEST_BLOCK, Bytes, Numbers, RawBlocks
from state_processor.backends.formats.sst.crc32c import TABLES
from state_processor.backends.formats.sst.key_set import KeySet
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.merge_kernel import (
    IS_DISTINCT,
    RUN_FIELDS,
    RangeDeletion,
    bounds,
    fragments,
    merge_runs,
    newest_of_runs,
    within,
)
from state_processor.backends.formats.sst.plain_blocks import read_varint
from state_processor.backends.formats.sst.runs import OpenTable, Piece, RunScan, TableScan, runs_of
from state_processor.backends.formats.sst.table import Bound, Table
from state_processor.support.errors import (
    CorruptSnapshotError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from state_processor.support.mappings import without_none
from state_processor.support.recycled_memory import allocate

_COMPRESSED: Final = 1 << 20
"""Bytes of a round as they lie in files, divided among the runs."""
_PLAIN: Final = 2 << 20
"""Bytes of a round when decompressed, divided among the runs; a single block may have more."""
_BEHIND_ALL: Final = b"\xff" * 32
"""A key behind all keys: they begin with a key group."""
_HEAD: Final = 21
"""Bytes of an entry before its key, at most."""
_LEAST_SHARE: Final = 64 << 10
_MOST_ROWS: Final = 1 << 17
_MOST_KEYS: Final = 512 << 20
_MOST_VERSIONS: Final = 1 << 25
"""Maximum number of entries of one key that are merged, in all runs."""
_TYPES: Final = {
    3: "log data", 0x0F: "a range deletion", 0x11: "a reference to a blob file", 0x14: "a deletion with a timestamp",
    0x16: "a wide column", 0x18: "a value with a preferred sequence number",
}  # fmt: skip
_DAMAGES: Final = {
    k.BAD_BLOCK: "its entries are damaged",
    k.BAD_ORDER: "its keys are not in order",
    k.BAD_CHECKSUM: "its checksum is wrong; the file is damaged",
    k.BAD_COMPRESSION: "its compressed bytes are damaged",
    k.SHORT_KEY: "a key is shorter than its key group prefix",
    k.BAD_SEPARATOR: "its keys are not between the separators that the index has for it",
}

_Result = TypeVar("_Result")


class _NoRoom(Exception):
    """The entries up to a key fit the round."""

    def __init__(self, upper: bytes | None, next_room: _Room) -> None:
        super().__init__()
        self.upper = upper
        self.next_room = next_room


class _Room(NamedTuple):
    """How many times the usual room the keys and the table of entries have."""

    keys: int = 1
    rows: int = 1


@dataclass(frozen=True, slots=True)
class FamilyScan:
    """A scan of a column family."""

    files: Sequence[TableFile]
    open_table: OpenTable
    prefix: int  # bytes of the key group in front of each key
    context: str  # operator, subtask, store and state, for messages
    threads: ThreadPoolExecutor | None = None  # threads that read ahead; ``None`` reads when bytes are needed
    keys: KeySet | None = None  # the keys to read; ``None`` reads all
    # whether to read the newest entry of each key in the tables, also if it is a deletion, or if a range deletion covers it. The
    # key of such an entry ends with its tag.
    newest: bool = False

    def blocks(self, lower: bytes, upper: bytes) -> Iterator[tuple[Bytes, Numbers]]:
        """Yield the entries from ``lower`` to before ``upper``: bytes, and entries in the form of :mod:`framing`."""
        files, choose = self.files, None
        if self.keys is not None:
            files, choose = self.keys.files(files), self.keys.blocks
        runs = [RunScan(run, self.open_table, lower, upper, self.threads, choose) for run in runs_of(files, lower, upper)]
        compressed, plain = (max(_LEAST_SHARE, size // max(1, len(runs))) for size in (_COMPRESSED, _PLAIN))
        begin = Bound(lower)
        while runs and begin.key < upper:
            reached = self._of_each(runs, lambda run: run.reach(begin, compressed))  # noqa: B023 - called at once
            end = Bound(min([upper, *without_none(reached)]))
            pieces = self._of_each(runs, lambda run: run.pieces(end))  # noqa: B023
            nearer = min([end.key, *_plain_reaches(pieces, plain)])
            if nearer < end.key:
                end = Bound(nearer)
                pieces = [_cut(run, end) for run in pieces]
            (data, entries), end = self._round(pieces, begin, end)
            if self.keys is not None:
                entries = self.keys.entries(data, entries, self.prefix)
            if len(entries):
                yield data, entries
            del data, entries, pieces  # before more is decompressed
            begin = end

    def _of_each(self, runs: Sequence[RunScan], function: Callable[[RunScan], _Result]) -> list[_Result]:
        """Return the results of a function of each run; requests of several runs are sent at the same time."""
        if self.threads is None or len(runs) == 1:
            return list(map(function, runs))
        futures = [self.threads.submit(copy_context().run, function, run) for run in runs]
        return [future.result() for future in futures]

    def _round(self, pieces: list[list[Piece]], lower: Bound, upper: Bound) -> tuple[tuple[Bytes, Numbers], Bound]:
        """Return the entries of a round, and the key that ends it."""
        room = _Room()
        while True:
            try:
                return self._merged(_Decoding(pieces, lower, upper, room, self.prefix, self.context)), upper
            except _NoRoom as full:
                if full.upper is not None and lower.key < full.upper < upper.key:
                    upper = Bound(full.upper)
                    pieces = [_cut(run, upper) for run in pieces]
                else:
                    room = full.next_room

    def _merged(self, decoding: _Decoding) -> tuple[Bytes, Numbers]:
        runs = decoding.decoded()
        table, tags, rows = decoding.table, decoding.tags, decoding.rows
        deletions = _deletions(decoding.pieces, decoding.lower.key, decoding.upper.key)
        if len(runs) == 1 and runs[0, IS_DISTINCT] and not deletions and not self.newest:
            return decoding.data, table[:rows]
        out = allocate(8 * rows * ENTRY_FIELDS).view(np.int64).reshape(rows, ENTRY_FIELDS)
        heap = np.empty(len(runs) + 1, dtype=np.int64)
        if self.newest:
            merged_rows = newest_of_runs(decoding.data, table, tags, self.prefix, runs, heap, out)
            return decoding.data, out[:merged_rows]
        data, joined = decoding.with_room_for_values()
        stack = np.empty(rows if decoding.merges else 1, dtype=np.int64)
        merged_rows = merge_runs(data, table, tags, self.prefix, runs, heap, *bounds(deletions), joined, stack, out)
        return data, out[:merged_rows]


def plain_content(table: Table) -> Iterator[Bytes]:
    """Yield all bytes of a table, decompressed, and its keys as a whole: keys in blocks share bytes with the keys before.

    Deleted and replaced entries, range deletions, the index and properties are included.
    """
    for decoding in _decodings(table, 0):
        yield from decoding.contents
    yield table.blocks().keys
    yield from table.plain_metadata()


def stored_entries(table: Table, prefix: int) -> Iterator[tuple[Bytes, Numbers]]:
    """Yield all entries of a table, also replaced ones and deletions: bytes, and entries in the form of :mod:`framing`."""
    for decoding in _decodings(table, prefix):
        yield decoding.data, decoding.table[: decoding.rows]


def _decodings(table: Table, prefix: int) -> Iterator[_Decoding]:
    """Yield the decoded blocks of a table, some at a time."""
    scan = TableScan(table, b"", _BEHIND_ALL, None)
    lower, upper = Bound(b""), Bound(_BEHIND_ALL)
    first = 0
    while first < len(scan.blocks):
        behind = max(first + 1, int(np.searchsorted(scan.sizes, scan.sizes[first] + _COMPRESSED)) - 1)
        piece, room = Piece(scan, first, behind, len(scan.blocks), scan.raw(first, behind)), _Room()
        while True:
            decoding = _Decoding([[piece]], lower, upper, room, prefix, table.context)
            try:
                decoding.decoded()
                break
            except _NoRoom as full:
                room = full.next_room
        yield decoding
        first = behind


class _Decoding:
    """The entries of the blocks of a round, run after run."""

    def __init__(self, pieces: list[list[Piece]], lower: Bound, upper: Bound, room: _Room, prefix: int, context: str) -> None:
        self.pieces = pieces
        self.lower = lower
        self.upper = upper
        self._prefix = prefix
        self._context = context
        plain = sum(piece.plain_size for piece in chain.from_iterable(pieces))
        if plain > LARGEST_BLOCK:
            raise UndecodableValueError(
                f"{context}: blocks of entries with one key, or of several files, have {plain} bytes when decompressed; up to "
                f"{LARGEST_BLOCK} are read at a time"
            )
        self._keys_from = self._keys_at = plain + k.SLACK
        self._keys_end = self._keys_at + room.keys * (min(plain, 4 << 20) + 4096)
        if self._keys_end - plain > _MOST_KEYS:
            raise CorruptSnapshotError(f"{context}: the keys of one block take more than {_MOST_KEYS} bytes")
        rows = room.rows * min(plain // 4 + 16, _MOST_ROWS)
        if room.rows > 1 and rows > _MOST_VERSIONS:
            raise UndecodableValueError(
                f"{context}: a key has more than about {_MOST_VERSIONS // 4} entries that were not compacted"
            )
        self._room = room
        self.data = allocate(self._keys_end + k.SLACK)
        self.data[plain : self._keys_at] = 0
        self.table = allocate(8 * rows * ENTRY_FIELDS).view(np.int64).reshape(rows, ENTRY_FIELDS)
        self.tags = allocate(8 * rows).view(np.int64)
        self.merges = 0
        self.rows = 0
        self._value_bytes = 0
        self._at = 0

    def decoded(self) -> Numbers:
        """Decompress and decode the blocks; return the entries of each run, as :mod:`merge_kernel` has them."""
        runs = np.empty((len(self.pieces), RUN_FIELDS), dtype=np.int64)
        for number, run in enumerate(self.pieces):
            first, distinct = self.rows, True
            for piece in run:
                if piece.raw is not None:
                    distinct &= self._decode(piece, piece.raw, first)
            runs[number] = first, self.rows, distinct
        return runs

    @property
    def contents(self) -> tuple[Bytes, Bytes]:
        """The decompressed blocks, and the keys that share bytes with others.

        The additional space between both is left out: kernels copy more bytes than needed, of other content.
        """
        return self.data[: self._at], self.data[self._keys_from : self._keys_at]

    def with_room_for_values(self) -> tuple[Bytes, int]:
        """Return the bytes, with room behind them for values that are merged, and where that begins."""
        if not self.merges:
            return self.data, self._keys_at
        room = self._value_bytes + self.rows
        grown = np.empty(self._keys_at + room + k.SLACK, dtype=np.uint8)
        grown[: self._keys_at] = self.data[: self._keys_at]
        return grown, self._keys_at

    def _decode(self, piece: Piece, raw: RawBlocks, first_row: int) -> bool:
        """Add the entries of some blocks; return whether they are values of different keys."""
        table, lower, upper = piece.scan.table, self.lower, self.upper
        blocks = table.format.prepare(raw, self.data, self._at, table.context)
        result = np.zeros(k.RESULT_FIELDS, dtype=np.int64)
        k.decode_blocks(
            *(blocks.data, blocks.places, table.format.checksum, table.format.context, TABLES),
            *(self.data, self._at, lower.padded, upper.padded, lower.size, upper.size, piece.bounded_from - piece.first),
            *(*piece.separators, int(table.keys_are_exact)),
            *(table.sequence, self._prefix, self.table, self.tags, first_row, self.rows, self._keys_at, self._keys_end, result),
        )
        status, rows, keys_at, merges, detail, value_bytes, distinct, last, last_end, least_tag, largest_tag = result.tolist()
        if status == k.FULL:
            keys, lines = self._room
            next_room = _Room(keys, 4 * lines) if rows == len(self.table) else _Room(4 * keys, lines)
            raise _NoRoom(self._key((first_row + rows) // 2) if rows > first_row else None, next_room)
        if status != k.DONE:
            raise self._problem(status, detail, table, raw)
        self._check_keys(piece, self.rows, rows, self.data[last:last_end].tobytes() if last_end >= 0 else None)
        if rows > self.rows:
            table.check_sequences(least_tag >> 8, largest_tag >> 8)
        self._at += raw.plain_size
        self.rows, self._keys_at = rows, keys_at
        self.merges += merges
        self._value_bytes += value_bytes
        return bool(distinct)

    def _check_keys(self, piece: Piece, first_row: int, end_row: int, last_key: bytes | None) -> None:
        """Refuse a table with other keys than the manifest says: another file may have its name."""
        table = piece.scan.table
        keys = [self._first_of_block(), *(self._key(row) for row in (first_row, end_row - 1) if first_row < end_row)]
        if min(keys) < table.smallest or max(*keys, last_key or keys[0]) > table.largest:
            raise table.has_other_keys()
        if not piece.scan.has_all_blocks or table.has_range_deletions:
            return
        for key, is_here, row in (
            (table.smallest, piece.first == 0, first_row),
            (table.largest, piece.behind == len(piece.scan.blocks), end_row - 1),
        ):
            if is_here and self.lower.key <= key < self.upper.key and (first_row == end_row or self._key(row) != key):
                raise table.has_other_keys()

    def _first_of_block(self) -> bytes:
        """Return the first key of the first block that was decoded last; it does not share bytes with another key."""
        head = self.data[self._at : self._at + _HEAD].tobytes()
        size, at = read_varint(head[1:]), 1
        for _ in range(2):
            at += next((i for i, byte in enumerate(head[at:], 1) if byte < 0x80), 0)
        return self.data[self._at + at : self._at + at + size - k.TAG_BYTES].tobytes()

    @staticmethod
    def _problem(status: int, detail: int, table: Table, raw: RawBlocks) -> StateProcessorError:
        if status == k.BAD_TYPE:
            entry_type = _TYPES.get(detail, f"an entry of the unknown type {detail}")
            return UnsupportedFormatError(
                f"{table.context}: it has {entry_type}. Flink does not write this; write a canonical savepoint"
            )
        if status == k.BAD_CHECKSUM:
            table.format.verify(raw.first(detail + 1), table.context)  # its message has the checksums
        block = f"{table.context}, block at {raw.offset(detail)}"
        if status == k.NEWER_BLOCK:
            return UnsupportedFormatError(f"{block}: it is of a newer format than RocksDB has up to table format version 6")
        return CorruptSnapshotError(f"{block}: {_DAMAGES[status]}")

    def _key(self, row: int) -> bytes:
        begin, end = self.table[row, k.KEY] - self._prefix, self.table[row, k.KEY_END]
        return self.data[begin:end].tobytes()


def _cut(run: Iterable[Piece], upper: Bound) -> list[Piece]:
    """Return the pieces of a run up to a key."""
    return [piece.cut(upper) for piece in run]


def _plain_reaches(pieces: Iterable[Sequence[Piece]], budget: int) -> Iterator[bytes]:
    """Yield a key for each run with more than ``budget`` decompressed bytes: about ``budget`` bytes precede it."""
    for run in pieces:
        budget_left, reached = budget, b""
        for piece in run:
            if piece.raw is None:
                continue
            if piece.raw.plain_size > budget_left:
                fitting = int(np.searchsorted(np.cumsum(piece.raw.plain_sizes), budget_left, side="right"))
                last = piece.first + max(0, fitting - 1)
                yield piece.scan.blocks.separator(last) + b"\0" if fitting or not reached else reached
                break
            budget_left -= piece.raw.plain_size
            reached = piece.scan.table.largest + b"\0"


def _deletions(pieces: Iterable[Sequence[Piece]], lower: bytes, upper: bytes) -> Sequence[RangeDeletion]:
    """Return the newest range deletion of each key from ``lower`` to before ``upper``."""
    tables = [piece.scan.table for piece in chain.from_iterable(pieces)]
    parts: list[RangeDeletion] = []
    for table in tables:
        parts += within(table.deletions, lower, upper)
    return fragments(parts) if len(tables) > 1 else parts
