"""Record batches of bounded size from the bytes of a snapshot, by a decode program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import BATCH_MEMORY
from state_processor.serializers.io import DataInput
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import Addresses, OnDemand
from state_processor.serializers.kernel.decode import loop as k
from state_processor.serializers.kernel.decode.arena import COUNT, VAR_SIZE, Arena, estimate_bytes
from state_processor.serializers.kernel.decode.program import CONTEXT, DecodeProgram
from state_processor.serializers.kernel.families import addresses
from state_processor.support.doors import reading_as_bytes, registering, spelled
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UndecodableValueError
from state_processor.support.recycled_memory import numbers_apart

Locate = Callable[[int, int, int], str]
"""Words for an error message, from the position in the buffer, the index of the entry (-1 without) and the row's begin."""

LocateAmong = Callable[[npt.NDArray[np.int64]], Locate]
"""Returns the function for a table of entries."""


class Feed(Protocol):
    """Bytes whose entries are found while they are decoded; see :func:`~state_processor.serializers.kernel.decode.loop.run`."""

    @property
    def feed(self) -> OnDemand:
        """The function that fills the table, and returns the number of entries."""

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The bytes."""

    @property
    def blocks(self) -> npt.NDArray[np.int64]:
        """Numbers that the function reads."""

    @property
    def walk(self) -> npt.NDArray[np.int64]:
        """Where the function is. A field is the number of entries in the table, of which none is decoded."""

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """The entries."""

    def tables(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield all entries."""


_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 1 << 19
_LEAST_ROOM: Final = 1 << 12
_ROOM_PER_ROW: Final = 64
"""Capacity of a batch in rows, for each row so far, so that a few entries do not take the memory of half a million."""
_LARGEST: Final = 2**31 - 1024
_FIRST_ELEMENTS: Final = 4.0
_MOST_FIRST_ELEMENTS: Final = 64.0
"""Limit of the first estimate for elements of lists in lists; otherwise it would grow exponentially with the depth."""
_FAST_GROWTH: Final = 4.0
_CAREFUL_GROWTH: Final = 1.25
_LARGE_ROW: Final = 64
"""Part of the memory limit from which on the estimate for a row grows carefully."""
_FIRST_TEXT: Final = 16.0
_LEAST: Final = 0.1
_NO_ENTRIES: Final = np.zeros((0, 5), dtype=np.int64)
_NO_FEED: Final = _NO_ENTRIES, np.zeros(1, dtype=np.int64), _NO_ENTRIES
_BYTES_OF_ENTRY: Final = 32
"""Bytes of an entry that is not found yet, about."""
_BY_NAME: Final = 4
_COLUMN: Final = 1
"""Position of the column that an instruction fills."""
_UNREPRESENTABLE: Final = {outcomes.BAD_TAG, outcomes.LOST_NANOS, outcomes.OUT_OF_RANGE}


class ColumnDecoder:
    """Feeds entries to the kernel and cuts its output into batches.

    Call :meth:`entries` or :meth:`rows` any number of times (each yields the batches that became full), then
    :meth:`finish` for the last one.

    ``program``: the program of one kind of row. ``batch_rows`` and ``batch_bytes``: upper bounds of a batch; a single row larger
    than ``batch_bytes`` is a batch by itself. ``memory_limit``: upper bound of the memory of a batch and of a single row.
    """

    def __init__(
        self,
        program: DecodeProgram,
        batch_rows: int = _BATCH_ROWS,
        batch_bytes: int = _BATCH_BYTES,
        memory_limit: int = BATCH_MEMORY,
    ) -> None:
        self._program = program
        self._batch_rows = batch_rows
        self._batch_bytes = min(batch_bytes, memory_limit)
        self._memory_limit = memory_limit
        self.position = 0
        self._families = addresses(k.FAMILIES, program.instructions)
        self._feeding: tuple[OnDemand | None, Addresses] = None, self._families
        self._registers = numbers_apart(program.registers).ravel()
        self._result = numbers_apart(k.RESULT_FIELDS).ravel()
        self._arena: Arena | None = None
        self._rows = 0
        self._rows_before = 0
        self._capacity = 0
        self._locate: Callable[[], str] = str
        size = len(program.columns.all)
        self._slots_per_row = np.ones(size)
        self._text_per_row = np.full(size, _FIRST_TEXT)
        for column in program.columns.all:
            if column.element_of is not None:
                elements = _FIRST_ELEMENTS * self._slots_per_row[column.element_of.index]
                self._slots_per_row[column.index] = min(elements, _MOST_FIRST_ELEMENTS)
                self._text_per_row[column.index] = _FIRST_TEXT * self._slots_per_row[column.index]

    def entries(self, buffer: npt.NDArray[np.uint8], entries: npt.NDArray[np.int64], locate: Locate) -> Iterator[pa.RecordBatch]:
        """Decode one row per entry of a framed block.

        ``entries`` has one line per row: begin and end of its first part, begin and end of its second, and a number
        that the program may put in a column.
        """
        entries = np.ascontiguousarray(entries)
        at = 0
        while at < len(entries):
            arena = self._open(len(entries) - at)
            row_count = min(self._capacity - self._rows, len(entries) - at)
            self._run(buffer, entries, at, row_count, 0, 0, arena)
            at += int(self._result[k.ROWS])
            yield from self._after(arena, locate, at, buffer)
            del arena  # before a larger one is made

    def fed(self, feed: Feed, locate: LocateAmong) -> Iterator[pa.RecordBatch]:
        """Decode one row per entry that a feed finds."""
        located = locate(feed.table)
        if self._feeding[0] is not feed.feed:
            self._feeding = feed.feed, addresses(k.FAMILIES, self._program.instructions, feed.feed)
        entry = 0
        is_behind = False
        while not is_behind:
            arena = self._open(len(feed.buffer) // _BYTES_OF_ENTRY + 1)
            rows = self._capacity - self._rows
            self._run(feed.buffer, feed.table, entry, rows, 0, 0, arena, self._feeding[1], (feed.blocks, feed.walk, feed.table))
            entry = int(self._result[k.ENTRY])
            is_behind = self._result[k.STATUS] == outcomes.OK and self._result[k.ROWS] < rows
            yield from self._after(arena, located, entry, feed.buffer)
            del arena

    def rows(
        self, buffer: npt.NDArray[np.uint8], position: int, count: int, locate: Locate, context: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Decode ``count`` rows that lie back to back from ``position`` on; :attr:`position` is the end afterwards.

        ``context`` is the number that the program finds in :data:`~state_processor.serializers.kernel.decode.program.CONTEXT`.
        """
        self.position = position
        self._registers[CONTEXT] = context
        while count:
            arena = self._open(count)
            self._run(buffer, _NO_ENTRIES, 0, min(self._capacity - self._rows, count), self.position, len(buffer), arena)
            count -= int(self._result[k.ROWS])
            self.position = int(self._result[k.POSITION])
            yield from self._after(arena, locate, -1, buffer)
            del arena

    def end_of_whole_rows(self, buffer: npt.NDArray[np.uint8]) -> int:
        """Step over rows of a program without columns, and return where the first begins that is cut off or damaged."""
        self._run(buffer, _NO_ENTRIES, 0, _LARGEST, 0, len(buffer), self._open(1))
        return int(self._result[k.ROW_START])

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the last batch, of the rows that no batch has yet."""
        if self._rows and self._arena is not None:
            yield self._close(self._arena)

    def _open(self, at_hand: int) -> Arena:
        if self._arena is None:
            tree = self._program.columns
            room = max(_LEAST_ROOM, _ROOM_PER_ROW * (self._rows_before + at_hand))
            self._capacity = max(1, min(room, self._batch_rows, int(self._batch_bytes / self._row_bytes())))
            slots = [ceil(n * self._capacity) + 8 for n in self._slots_per_row.tolist()]
            text = [ceil(n * self._capacity) + 64 for n in self._text_per_row.tolist()]
            self._arena = Arena(tree, self._capacity, slots, text)
            self._rows = 0
        return self._arena

    def _row_bytes(self) -> float:
        """Return what one row takes by the present estimates."""
        slots, text = self._slots_per_row.tolist(), self._text_per_row.tolist()
        return max(estimate_bytes(self._program.columns, slots, text), 1.0)

    def _run(
        self,
        buffer: npt.NDArray[np.uint8],
        entries: npt.NDArray[np.int64],
        entry: int,
        rows: int,
        position: int,
        end: int,
        arena: Arena,
        families: Addresses | None = None,
        feed: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] = _NO_FEED,
    ) -> None:
        p = self._program
        k.run(
            p.instructions,
            families or self._families,
            p.nulls,
            p.aux,
            p.constants,
            buffer,
            entries,
            entry,
            rows,
            position,
            end,
            self._registers,
            arena.memory,
            arena.table,
            self._result,
            *feed,
        )

    def _after(self, arena: Arena, locate: Locate, entry: int, buffer: npt.NDArray[np.uint8]) -> Iterator[pa.RecordBatch]:
        status = int(self._result[k.STATUS])
        last = max(entry - 1, -1)
        # not a function that refers to this decoder: a cycle would keep the buffer until the garbage collector runs
        self._locate = partial(locate, int(self._result[k.POSITION]), last, int(self._result[k.ROW_START]))
        self._rows += int(self._result[k.ROWS])
        if status == outcomes.OK:
            if self._rows == self._capacity:
                yield self._close(arena)
        elif status == outcomes.FULL:
            column = int(self._result[k.COLUMN])
            if self._rows:
                self._enlarge(column, _CAREFUL_GROWTH)
                yield self._close(arena)
            else:
                small = self._row_bytes() < self._memory_limit / _LARGE_ROW
                self._enlarge(column, _FAST_GROWTH if small else _CAREFUL_GROWTH)
                self._arena = None
                self._check_memory(column, locate, entry)
        else:
            raise self._error(status, locate, entry, buffer)

    def _enlarge(self, column: int, factor: float) -> None:
        self._slots_per_row[column] *= factor
        self._text_per_row[column] *= factor

    def _check_memory(self, column: int, locate: Locate, entry: int) -> None:
        """Refuse a row that doesn't fit the memory of a batch."""
        problem = ""
        if max(self._slots_per_row[column], self._text_per_row[column]) > 4 * _LARGEST:
            problem = "needs more than 2 GiB; an Arrow batch can't hold it"
        elif self._row_bytes() > self._memory_limit:
            problem = (
                f"needs more than the {self._memory_limit} bytes of memory that a batch may take; "
                f"raise {spelled('batch_memory')} if the snapshot is trusted"
            )
        if problem:
            context = locate(int(self._result[k.POSITION]), entry, int(self._result[k.ROW_START]))
            raise UndecodableValueError(
                f"{context}: one row with the column {self._program.columns.all[column].name!r} {problem}"
            )

    def _close(self, arena: Arena) -> pa.RecordBatch:
        try:
            batch = arena.to_batch(self._rows)
        except (CorruptSnapshotError, UndecodableValueError) as problem:
            raise type(problem)(f"{self._locate()}: in the {self._rows} rows up to here: {problem}") from problem
        for column in self._program.columns.all:
            used = arena.table[column.index]
            # Follow the needs of the data, a little ahead of them, so that the next batch is full. Never down to
            # nothing: a column that starts from zero could not grow.
            if column.element_of is not None:
                slots = self._slots_per_row[column.index] * 0.7
                self._slots_per_row[column.index] = max(slots, used[COUNT] / self._rows * 1.2, _LEAST)
            text = self._text_per_row[column.index] * 0.7
            self._text_per_row[column.index] = max(text, used[VAR_SIZE] / self._rows * 1.2, _LEAST)
        self._rows_before += self._rows
        self._arena = None
        self._rows = 0
        return batch

    def _error(self, status: int, locate: Locate, entry: int, buffer: npt.NDArray[np.uint8]) -> StateProcessorError:
        if status == outcomes.UNKNOWN_INSTRUCTION:
            raise self._program.unknown_instruction(int(self._result[k.INSTRUCTION]), "decode")
        path = self._program.paths[int(self._result[k.INSTRUCTION])]
        position = int(self._result[k.POSITION])
        context = locate(position, entry, int(self._result[k.ROW_START]))
        kind = UndecodableValueError if status in _UNREPRESENTABLE else CorruptSnapshotError
        column = self._program.columns.path(int(self._program.instructions[int(self._result[k.INSTRUCTION]), _COLUMN]))
        problem = outcomes.decoding_problem(status, column)
        if status == outcomes.BAD_TAG:
            problem += f": {_undescribed_class(DataInput(buffer.data, context, position))}; "
            problem += f"describe it with {registering('register_pojo_class()')}, or {reading_as_bytes()}"
        return kind(f"{context}: {problem} (in {path})" if path else f"{context}: {problem}")


def _undescribed_class(source: DataInput) -> str:
    """Return the class of a POJO's value as its bytes name it after the flags: a name, or the tag of a registered subclass."""
    if source.data[source.position - 1] == _BY_NAME:
        return f"class {source.read_utf()}"
    return f"registered subclass {source.read_unsigned_byte()}"
