"""The entries of a column family in the order of their keys. Runs are decoded and merged in rounds of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np

from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.block_format import LARGEST_BLOCK, Bytes, Numbers
from state_processor.backends.formats.sst.key_set import KeySet
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.merge_kernel import SHORT_KEY, merge_runs, newest_of_runs
from state_processor.backends.formats.sst.range_deletions import Deletion, bounds, fragments, within
from state_processor.backends.formats.sst.runs import OpenTable, Piece, RunScan, TableScan, runs_of
from state_processor.backends.formats.sst.table import Table, padded
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)

_COMPRESSED: Final = 1 << 19
"""Bytes of a round as they lie in files, divided among the runs."""
_PLAIN: Final = 2 << 20
"""Bytes of a round when decompressed, divided among the runs; a single block may have more."""
_BEHIND_ALL: Final = b"\xff"
"""A key behind all keys: they begin with a key group."""
_LEAST_SHARE: Final = 64 << 10
_MOST_ROWS: Final = 1 << 16
_MOST_KEYS: Final = 512 << 20
_MOST_VERSIONS: Final = 1 << 25
"""Maximum number of entries of one key that are merged, in all runs."""
_TYPES: Final = {
    3: "log data", 0x0F: "a range deletion", 0x11: "a reference to a blob file", 0x14: "a deletion with a timestamp",
    0x16: "a wide column", 0x18: "a value with a preferred sequence number",
}  # fmt: skip


_Result = TypeVar("_Result")


class _NoRoom(Exception):
    """The entries up to a key fit the round."""

    def __init__(self, upper: bytes | None, more: _Room) -> None:
        super().__init__()
        self.upper = upper
        self.more = more


class _Room(NamedTuple):
    """How many times the usual room the keys and the table of entries have."""

    keys: int = 1
    rows: int = 1


@dataclass(frozen=True, slots=True)
class FamilyScan:
    """A scan of a column family.

    Parameters
    ----------
    files
        The tables of the column family.
    open_table
        Opens a table.
    prefix
        Bytes of the key group in front of each key.
    where
        Operator, subtask, store and state, for messages.
    threads
        Threads that read ahead; ``None`` reads when bytes are needed.
    keys
        The keys to read; ``None`` reads all.
    newest
        Whether the newest entry of each key is read as it is in the tables, deletions included, regardless of range
        deletions. Its key ends with its tag.
    """

    files: Sequence[TableFile]
    open_table: OpenTable
    prefix: int
    where: str
    threads: ThreadPoolExecutor | None = None
    keys: KeySet | None = None
    newest: bool = False

    def blocks(self, lower: bytes, upper: bytes) -> Iterator[tuple[Bytes, Numbers]]:
        """Yield the entries from ``lower`` to before ``upper``: bytes, and entries in the form of :mod:`framing`.

        Raises
        ------
        CorruptSnapshotError
            If a table is damaged.
        UnsupportedFormatError
            If a table has an unsupported feature.
        """
        files, choose = self.files, None
        if self.keys is not None:
            files, choose = self.keys.files(files), self.keys.blocks
        runs = [RunScan(run, self.open_table, lower, upper, self.threads, choose) for run in runs_of(files, lower, upper)]
        share = max(_LEAST_SHARE, _COMPRESSED // max(1, len(runs)))
        while runs and lower < upper:
            reached = self._of_each(runs, lambda run: run.reach(lower, share))  # noqa: B023 - called at once
            end = min([upper, *(key for key in reached if key is not None)])
            pieces = self._of_each(runs, lambda run: run.pieces(lower, end))  # noqa: B023
            end = min([end, *_plain_reaches(pieces, max(_LEAST_SHARE, _PLAIN // len(runs)))])
            (data, entries), end = self._round(pieces, lower, end)
            if self.keys is not None:
                entries = self.keys.entries(data, entries, self.prefix)
            if len(entries):
                yield data, entries
            lower = end

    def _of_each(self, runs: Sequence[RunScan], function: Callable[[RunScan], _Result]) -> list[_Result]:
        """Return the results of a function of each run; requests of several runs are sent at the same time."""
        if self.threads is None or len(runs) == 1:
            return [function(run) for run in runs]
        return [future.result() for future in [self.threads.submit(copy_context().run, function, run) for run in runs]]

    def _round(self, pieces: list[list[Piece]], lower: bytes, upper: bytes) -> tuple[tuple[Bytes, Numbers], bytes]:
        """Return the entries of a round, and the key that ends it."""
        room = _Room()
        while True:
            pieces = [[piece.cut(upper) for piece in run] for run in pieces]
            try:
                return self._merged(_Decoding(pieces, lower, upper, room, self.where)), upper
            except _NoRoom as full:
                if full.upper is not None and lower < full.upper < upper:
                    upper = full.upper
                else:
                    room = full.more

    def _merged(self, decoding: _Decoding) -> tuple[Bytes, Numbers]:
        runs = decoding.decoded()
        rows = int(runs[-1, 1]) if len(runs) else 0
        result = np.zeros(2, dtype=np.int64)
        out = np.empty((rows, k.ENTRY_FIELDS), dtype=np.int64)
        heap = np.empty(len(runs) + 1, dtype=np.int64)
        if self.newest:
            data = decoding.data
            newest_of_runs(data, decoding.table, runs, heap, self.prefix, out, result)
        else:
            data, joined = decoding.with_room_for_values()
            parts = _deletions(decoding.pieces, decoding.lower, decoding.upper)
            stack = np.empty(rows if decoding.merges else 1, dtype=np.int64)
            merge_runs(data, decoding.table, runs, heap, *bounds(parts), self.prefix, joined, stack, out, result)
        if result[0] == SHORT_KEY:
            raise CorruptSnapshotError(f"{self.where}: a key is shorter than its key group prefix")
        return data, out[: result[1]]


def plain_content(table: Table) -> Iterator[Bytes]:
    """Yield all bytes of a table, decompressed, and its keys as a whole: keys in blocks share bytes with the keys before.

    Deleted and replaced entries, range deletions, the index and properties are included.
    """
    scan = TableScan(table, b"", _BEHIND_ALL, None)
    first = 0
    while first < len(scan.blocks):
        behind = max(first + 1, int(np.searchsorted(scan.sizes, scan.sizes[first] + _COMPRESSED)) - 1)
        piece, room = Piece(scan, first, behind, scan.raw(first, behind)), _Room()
        while True:
            decoding = _Decoding([[piece]], b"", _BEHIND_ALL, room, table.where)
            try:
                decoding.decoded()
                break
            except _NoRoom as full:
                room = full.more
        yield decoding.content
        first = behind
    yield np.frombuffer(b"\0".join(map(scan.blocks.separator, range(len(scan.blocks)))), dtype=np.uint8)
    yield from table.plain_metadata()


class _Decoding:
    """The entries of the blocks of a round, run after run."""

    def __init__(self, pieces: list[list[Piece]], lower: bytes, upper: bytes, room: _Room, where: str) -> None:
        self.pieces = pieces
        self.lower = lower
        self.upper = upper
        self._where = where
        plain = sum(int(piece.raw.plain_sizes.sum()) for run in pieces for piece in run if piece.raw is not None)
        if plain > LARGEST_BLOCK:
            raise UndecodableValueError(
                f"{where}: blocks of entries with one key, or of several files, have {plain} bytes when decompressed; up to "
                f"{LARGEST_BLOCK} are read at a time"
            )
        self._keys_at = plain
        self._keys_end = plain + room.keys * (min(plain, 4 << 20) + 4096)
        if self._keys_end - plain > _MOST_KEYS:
            raise CorruptSnapshotError(f"{where}: the keys of one block take more than {_MOST_KEYS} bytes")
        rows = room.rows * min(plain // 4 + 16, _MOST_ROWS)
        if room.rows > 1 and rows > _MOST_VERSIONS:
            raise UndecodableValueError(
                f"{where}: a key has more than about {_MOST_VERSIONS // 4} entries that were not compacted"
            )
        self._room = room
        self.data = np.empty(self._keys_end + k.SLACK, dtype=np.uint8)
        self.table = np.empty((rows, k.ENTRY_FIELDS), dtype=np.int64)
        self.merges = 0
        self._value_bytes = 0
        self._rows = 0
        self._at = 0

    def decoded(self) -> Numbers:
        """Decompress and decode the blocks; return where the entries of each run begin and end."""
        runs = np.empty((len(self.pieces), 2), dtype=np.int64)
        for number, run in enumerate(self.pieces):
            runs[number, 0] = self._rows
            for piece in run:
                if piece.raw is not None and piece.first < piece.behind:
                    self._decode(piece, int(runs[number, 0]))
            runs[number, 1] = self._rows
        return runs

    @property
    def content(self) -> Bytes:
        """The decompressed blocks, and the keys that share bytes with others."""
        return self.data[: self._keys_at]

    def with_room_for_values(self) -> tuple[Bytes, int]:
        """Return the bytes, with room behind them for values that are merged, and where that begins."""
        if not self.merges:
            return self.data, self._keys_at
        room = self._value_bytes + self._rows
        grown = np.empty(self._keys_at + room + k.SLACK, dtype=np.uint8)
        grown[: self._keys_at] = self.data[: self._keys_at]
        return grown, self._keys_at

    def _decode(self, piece: Piece, first_row: int) -> None:
        table, raw = piece.scan.table, piece.raw
        assert raw is not None
        ends = self._at + np.cumsum(raw.plain_sizes)
        spans = np.stack([ends - raw.plain_sizes, ends], axis=1)
        self._at = table.format.decompress(raw, self.data, self._at, table.where)
        bounded_from = piece.scan.blocks.first_from(self.upper) - piece.first
        result = np.zeros(k.RESULT_FIELDS, dtype=np.int64)
        k.decode_blocks(
            *(self.data, spans, padded(self.lower), padded(self.upper), len(self.lower), len(self.upper)),
            *(bounded_from, table.sequence, self.table, first_row, self._rows, self._keys_at, self._keys_end, result),
        )
        status, rows, keys_at, merges, where, value_bytes = result.tolist()
        if status == k.FULL:
            keys, lines = self._room
            more = _Room(keys, 4 * lines) if rows == len(self.table) else _Room(4 * keys, lines)
            raise _NoRoom(self._key((first_row + rows) // 2) if rows > first_row else None, more)
        if status != k.DONE:
            raise _problem(
                status,
                where,
                f"{table.where}, block at {int(raw.offsets[max(0, min(where, len(spans) - 1))])}",
                table.where,
            )
        self._rows, self._keys_at = rows, keys_at
        self.merges += merges
        self._value_bytes += value_bytes

    def _key(self, row: int) -> bytes:
        begin, end = self.table[row, k.KEY], self.table[row, k.KEY_END]
        return self.data[begin:end].tobytes()


def _problem(status: int, where: int, block: str, table: str) -> StateProcessorError:
    if status == k.BAD_TYPE:
        what = _TYPES.get(where, f"an entry of the unknown type {where}")
        return UnsupportedFormatError(f"{table}: it has {what}. Flink does not write this; write a canonical savepoint")
    if status == k.BAD_ORDER:
        return CorruptSnapshotError(f"{block}: its keys are not in order")
    if status == k.NEWER_BLOCK:
        return UnsupportedFormatError(f"{block}: it is of a newer format than RocksDB has up to table format version 6")
    return CorruptSnapshotError(f"{block}: its entries are damaged")


def _plain_reaches(pieces: Iterable[Sequence[Piece]], budget: int) -> Iterator[bytes]:
    """Yield a key for each run with more than ``budget`` decompressed bytes: about ``budget`` bytes precede it."""
    for run in pieces:
        left, reached = budget, b""
        for piece in run:
            if piece.raw is None:
                continue
            sums = np.cumsum(piece.raw.plain_sizes)
            fitting = int(np.searchsorted(sums, left, side="right"))
            if fitting < len(sums):
                yield (
                    piece.scan.blocks.separator(piece.first + max(0, fitting - 1)) + b"\0" if fitting or not reached else reached
                )
                break
            left -= int(sums[-1])
            reached = piece.scan.table.largest + b"\0"


def _deletions(pieces: Iterable[Sequence[Piece]], lower: bytes, upper: bytes) -> Sequence[Deletion]:
    """Return the newest range deletion of each key from ``lower`` to before ``upper``."""
    tables = [piece.scan.table for run in pieces for piece in run]
    parts = [part for table in tables if table.deletions for part in within(table.deletions, lower, upper)]
    return fragments(parts) if len(tables) > 1 else parts
