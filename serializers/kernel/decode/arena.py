"""The memory that the decode kernel fills: regions of one arena, one for each column, and Arrow views of them.

The loop hands over its tables to families of instructions, and to functions that find its entries. Every function that appends a
value, a text or a null returns whether there was room. If not, the kernel stops, and the caller continues with more room.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.big_numbers import to_text
from state_processor.serializers.kernel.columns import OFFSETS, Column, ColumnTree
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.families import caller, tables_in_memory
from state_processor.serializers.kernel.memory import load_i32, store_i16, store_i32, store_i64
from state_processor.serializers.kernel.signatures import int64, partly_read, read, uint8, written
from state_processor.support.errors import UndecodableValueError
from state_processor.support.recycled_memory import allocate, numbers_apart

PROGRAM: Final = read(int64, 2)
NUMBERS: Final = read(int64)
AUX: Final = read(int64, 2)
BYTES: Final = read(uint8)
REGISTERS: Final = written(int64)
ARENA: Final = written(uint8)
COLUMNS: Final = written(int64, 2)

store_tables, load_tables = tables_in_memory(PROGRAM, NUMBERS, AUX, BYTES, BYTES, REGISTERS, ARENA, COLUMNS)
"""prog, nulls, aux, consts, buf, regs, arena, cols"""

run_family: Final = caller(4)
"""Returns the index of the next instruction, the position after it, and the status with the column that has no room."""

BLOCKS: Final = read(int64, 2)
WALK: Final = written(int64)
ENTRIES: Final = written(int64, 2)
FOUND: Final = 0
"""The field of a walk with the number of entries in the table."""

store_feed, load_feed = tables_in_memory(BYTES, BLOCKS, WALK, ENTRIES)
"""buf, blocks, walk, entries"""

next_entries: Final = caller(1)
"""Returns the number of entries of the next table; 0 behind the last one. A walk has the same number then."""


@entry_point(NUMBERS, partly_read(uint8), BLOCKS, WALK, ENTRIES)
def fill_table(functions, buf, blocks, walk, entries):  # type: ignore[no-untyped-def]
    """Fill the table with the next entries, by the function whose address is the only one; return their number."""
    (count,) = next_entries(functions[0], store_feed((buf, blocks, walk, entries)), 0, 0, 0)
    return count


# Fields of a row of the column table
COUNT: Final = 0  # slots written
CAPACITY: Final = 1  # capacity in slots
VALIDITY: Final = 2  # arena offset: one byte a slot, 1 until a null is written
DATA: Final = 3  # arena offset: values, or int32 offsets (one more than slots)
VAR: Final = 4  # arena offset of text and bytes
VAR_SIZE: Final = 5  # bytes written there
VAR_CAPACITY: Final = 6
NULLS: Final = 7  # nulls written
KIND: Final = 8
UNSPELLED: Final = 9  # 1 if the column contains a large number that must still become digits
FIELDS: Final = 10


@kernel
def put_offset(arena, cols, col, end):  # type: ignore[no-untyped-def]
    """Close a slot of a text, bytes or list column; False without room."""
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return False
    store_i32(arena, cols[col, DATA] + 4 * (n + 1), end)
    cols[col, COUNT] = n + 1
    return True


@kernel
def put_fixed(arena, cols, col, value):  # type: ignore[no-untyped-def]
    """Append a number to a column of any fixed width; False without room."""
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return False
    width = cols[col, KIND]
    if width == 8:
        store_i64(arena, cols[col, DATA] + 8 * n, value)
    elif width == 4:
        store_i32(arena, cols[col, DATA] + 4 * n, value)
    elif width == 2:
        store_i16(arena, cols[col, DATA] + 2 * n, value)
    else:
        arena[cols[col, DATA] + n] = value
    cols[col, COUNT] = n + 1
    return True


@kernel
def room(cols, col, size):  # type: ignore[no-untyped-def]
    """Return True if a text column has room for another slot of at most ``size`` bytes."""
    return cols[col, COUNT] < cols[col, CAPACITY] and cols[col, VAR_SIZE] + size <= cols[col, VAR_CAPACITY]


@kernel
def end_text(arena, cols, col, out):  # type: ignore[no-untyped-def]
    """Close a slot whose bytes end at ``out``; room was checked before."""
    cols[col, VAR_SIZE] = out - cols[col, VAR]
    put_offset(arena, cols, col, cols[col, VAR_SIZE])


@kernel
def put_bytes(arena, cols, col, source, pos, size):  # type: ignore[no-untyped-def]
    """Append a slot with a copy of bytes; False without room."""
    if not room(cols, col, size):
        return False
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    for i in range(size):
        arena[out + i] = source[pos + i]
    end_text(arena, cols, col, out + size)
    return True


@kernel
def put_null(arena, cols, col):  # type: ignore[no-untyped-def]
    """Append a null slot to one column; False without room."""
    n = cols[col, COUNT]
    if n >= cols[col, CAPACITY]:
        return False
    arena[cols[col, VALIDITY] + n] = 0
    cols[col, NULLS] += 1
    kind = cols[col, KIND]
    if kind > 0:
        data = cols[col, DATA] + kind * n
        for i in range(kind):
            arena[data + i] = 0
    elif kind < 0:
        store_i32(arena, cols[col, DATA] + 4 * (n + 1), load_i32(arena, cols[col, DATA] + 4 * n))
    cols[col, COUNT] = n + 1
    return True


@kernel
def fill_nulls(arena, cols, nulls, first, last):  # type: ignore[no-untyped-def]
    """Append a null slot to each column of a range of the null table; the first column without room, or -1."""
    for i in range(first, last):
        if not put_null(arena, cols, nulls[i]):
            return nulls[i]
    return -1


_ALIGNMENT: Final = 64
_MAX_OFFSET: Final = 2**31 - 1
UNSPELLED_MARK: Final = 0xFF
"""First byte of a large number among texts, whose digits are left to Python. No text in UTF-8 starts with it."""
_NUMBER: Final = struct.Struct("<qq")
_NUMBER_AT: Final = 1 + _NUMBER.size
ASCII_STORE: Final = 8
"""Number of bytes of ASCII that the kernel stores at a time; the same number is reserved after a column's text."""


class Arena:
    """The memory of one batch: all columns' regions, the table of their positions for the kernel, and Arrow views of them.

    ``rows``: capacity in rows. ``slots`` and ``text``: capacity per column, in slots (for elements of lists) and bytes of text.
    The numbers are not limited here: the caller has compared :func:`estimate_bytes` of them with its limit.
    """

    def __init__(self, tree: ColumnTree, rows: int, slots: Sequence[int], text: Sequence[int]) -> None:
        self.tree = tree
        self.table = numbers_apart(max(len(tree.all), 1), FIELDS)
        offset = 0
        for column in tree.all:
            entry = self.table[column.index]
            entry[CAPACITY] = rows if column.element_of is None else min(slots[column.index], _MAX_OFFSET)
            entry[KIND] = tree.kinds[column.index]
            entry[VALIDITY] = offset
            offset += int(entry[CAPACITY])
        validity_end = offset
        for column in tree.all:
            entry = self.table[column.index]
            kind, capacity = int(entry[KIND]), int(entry[CAPACITY])
            offset = -(-offset // _ALIGNMENT) * _ALIGNMENT
            entry[DATA] = offset
            offset += kind * capacity if kind >= 0 else 4 * (capacity + 1)
            if kind == OFFSETS:
                entry[VAR] = offset
                entry[VAR_CAPACITY] = min(text[column.index], _MAX_OFFSET)
                offset += int(entry[VAR_CAPACITY]) + ASCII_STORE
        self.memory = allocate(max(offset, 1))
        self.memory[:validity_end] = 1
        for column in tree.all:
            if tree.kinds[column.index] < 0:
                data = self.table[column.index, DATA]
                self.memory[data : data + 4] = 0

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Begin and end of the bytes between the columns' regions, which the kernel must leave alone."""
        regions = [(0, int(self.table[:, CAPACITY].sum()))]
        for begin, var, capacity, text, kind in self.table[:, [DATA, VAR, CAPACITY, VAR_CAPACITY, KIND]].tolist():
            if kind == OFFSETS:
                regions.append((begin, var + text + ASCII_STORE))
            else:
                regions.append((begin, begin + (kind * capacity if kind >= 0 else 4 * (capacity + 1))))
        for (_, end), (begin, _) in pairwise(sorted(regions)):
            yield end, begin

    def _offset_at(self, index: int, position: int) -> int:
        start = int(self.table[index, DATA]) + 4 * position
        return int(self.memory[start : start + 4].view(np.int32)[0])

    def truncate(self, rows: int) -> None:
        """Cut every column back to the slots of the first ``rows`` rows."""
        for column in self.tree.all:
            parent = column.element_of
            slots = rows if parent is None else self._offset_at(parent.index, int(self.table[parent.index, COUNT]))
            self.table[column.index, COUNT] = slots
            if self.tree.kinds[column.index] == OFFSETS:
                self.table[column.index, VAR_SIZE] = self._offset_at(column.index, slots)

    def to_batch(self, rows: int) -> pa.RecordBatch:
        """Return the first ``rows`` rows as a record batch over this memory, without a copy of values."""
        self.truncate(rows)
        whole = pa.py_buffer(self.memory)
        arrays = [self._array(c, whole) for c in self.tree.roots]
        return pa.RecordBatch.from_arrays(arrays, schema=self.tree.schema)

    def _array(self, column: Column, whole: pa.Buffer) -> pa.Array:
        entry = self.table[column.index]
        n, kind, data = int(entry[COUNT]), int(entry[KIND]), int(entry[DATA])
        if pa.types.is_null(column.type):
            return pa.nulls(n)
        validity = None
        if entry[NULLS]:
            start = int(entry[VALIDITY])
            validity = pa.py_buffer(np.packbits(self.memory[start : start + n], bitorder="little"))
        if pa.types.is_struct(column.type):
            children = [self._array(c, whole) for c in column.children if c.index >= 0]
            return pa.Array.from_buffers(column.type, n, [validity], children=children)
        if kind > 0:
            if pa.types.is_boolean(column.type):
                values = pa.py_buffer(np.packbits(self.memory[data : data + n], bitorder="little"))
            else:
                values = whole.slice(data, kind * n)
            return pa.Array.from_buffers(column.type, n, [validity, values])
        offsets = whole.slice(data, 4 * (n + 1))
        if kind == OFFSETS:
            text = whole.slice(int(entry[VAR]), int(entry[VAR_SIZE]))
            if entry[UNSPELLED]:
                offsets, text = spelled(np.frombuffer(offsets, dtype=np.int32), memoryview(text).cast("B"))
            convert = self.tree.converters.get(column.index)
            if convert is not None:
                return convert(pa.Array.from_buffers(pa.binary(), n, [validity, offsets, text]))
            return pa.Array.from_buffers(column.type, n, [validity, offsets, text])
        children = [self._array(c, whole) for c in column.children]
        if pa.types.is_map(column.type):
            if children[0].null_count:
                raise UndecodableValueError(f"a map in {column.name!r} has a null key; Spark's map type can't hold it")
            entries = column.type.field(0).type if column.type.num_fields else None
            children = [pa.Array.from_buffers(entries, len(children[0]), [None], children=children)]
        return pa.Array.from_buffers(column.type, n, [validity, offsets], children=children)


def spelled(offsets: npt.NDArray[np.int32], text: memoryview) -> tuple[pa.Buffer, pa.Buffer]:
    """Return the offsets and the text of a column with the bytes of its large numbers replaced by digits."""
    pieces = [text[begin:end] for begin, end in pairwise(offsets.tolist())]
    for i, piece in enumerate(pieces):
        if len(piece) and piece[0] == UNSPELLED_MARK:
            scale, size = _NUMBER.unpack_from(piece, 1)
            number = int.from_bytes(piece[_NUMBER_AT : _NUMBER_AT + size], "big", signed=True)
            pieces[i] = memoryview(to_text(number, scale).encode())
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    return pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))


def estimate_bytes(tree: ColumnTree, slots: Sequence[float], text: Sequence[float]) -> float:
    """Return the bytes of arena that one row takes, given slots and text bytes per row of each column."""
    total = 0.0
    for c in tree.all:
        kind = int(tree.kinds[c.index])
        total += slots[c.index] * (1 + (kind if kind >= 0 else 4)) + (text[c.index] if kind == OFFSETS else 0)
    return total
