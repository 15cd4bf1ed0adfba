"""The memory that the decode kernel fills: regions of one arena, one for each column, and Arrow views of them."""

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
from state_processor.serializers.kernel.decode import slots as k
from state_processor.serializers.kernel.decode.text import UNSPELLED_MARK
from state_processor.support.errors import UndecodableValueError
from state_processor.support.recycled_memory import allocate, numbers_apart

_ALIGNMENT: Final = 64
_MAX_OFFSET: Final = 2**31 - 1
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
        self.table = numbers_apart(max(len(tree.all), 1), k.FIELDS)
        offset = 0
        for column in tree.all:
            entry = self.table[column.index]
            entry[k.CAPACITY] = rows if column.element_of is None else min(slots[column.index], _MAX_OFFSET)
            entry[k.KIND] = tree.kinds[column.index]
            entry[k.VALIDITY] = offset
            offset += int(entry[k.CAPACITY])
        validity_end = offset
        for column in tree.all:
            entry = self.table[column.index]
            kind, capacity = int(entry[k.KIND]), int(entry[k.CAPACITY])
            offset = -(-offset // _ALIGNMENT) * _ALIGNMENT
            entry[k.DATA] = offset
            offset += kind * capacity if kind >= 0 else 4 * (capacity + 1)
            if kind == OFFSETS:
                entry[k.VAR] = offset
                entry[k.VAR_CAPACITY] = min(text[column.index], _MAX_OFFSET)
                offset += int(entry[k.VAR_CAPACITY]) + ASCII_STORE
        self.memory = allocate(max(offset, 1))
        self.memory[:validity_end] = 1
        for column in tree.all:
            if tree.kinds[column.index] < 0:
                data = self.table[column.index, k.DATA]
                self.memory[data : data + 4] = 0

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Begin and end of the bytes between the columns' regions, which the kernel must leave alone."""
        regions = [(0, int(self.table[:, k.CAPACITY].sum()))]
        for begin, var, capacity, text, kind in self.table[:, [k.DATA, k.VAR, k.CAPACITY, k.VAR_CAPACITY, k.KIND]].tolist():
            if kind == OFFSETS:
                regions.append((begin, var + text + ASCII_STORE))
            else:
                regions.append((begin, begin + (kind * capacity if kind >= 0 else 4 * (capacity + 1))))
        for (_, end), (begin, _) in pairwise(sorted(regions)):
            yield end, begin

    def _offset_at(self, index: int, position: int) -> int:
        start = int(self.table[index, k.DATA]) + 4 * position
        return int(self.memory[start : start + 4].view(np.int32)[0])

    def truncate(self, rows: int) -> None:
        """Cut every column back to the slots of the first ``rows`` rows."""
        for column in self.tree.all:
            parent = column.element_of
            slots = rows if parent is None else self._offset_at(parent.index, int(self.table[parent.index, k.COUNT]))
            self.table[column.index, k.COUNT] = slots
            if self.tree.kinds[column.index] == OFFSETS:
                self.table[column.index, k.VAR_SIZE] = self._offset_at(column.index, slots)

    def to_batch(self, rows: int) -> pa.RecordBatch:
        """Return the first ``rows`` rows as a record batch over this memory, without a copy of values."""
        self.truncate(rows)
        whole = pa.py_buffer(self.memory)
        arrays = [self._array(c, whole) for c in self.tree.roots]
        return pa.RecordBatch.from_arrays(arrays, schema=self.tree.schema)

    def _array(self, column: Column, whole: pa.Buffer) -> pa.Array:
        entry = self.table[column.index]
        n, kind, data = int(entry[k.COUNT]), int(entry[k.KIND]), int(entry[k.DATA])
        if pa.types.is_null(column.type):
            return pa.nulls(n)
        validity = None
        if entry[k.NULLS]:
            start = int(entry[k.VALIDITY])
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
            text = whole.slice(int(entry[k.VAR]), int(entry[k.VAR_SIZE]))
            if entry[k.UNSPELLED]:
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
