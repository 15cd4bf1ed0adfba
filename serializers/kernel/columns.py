"""Columns as the kernels see them: numbered regions of one arena, laid out from an Arrow type and turned back into Arrow.

The tree follows Arrow's physical layout: a struct has its children at the same level, a list or map has its children at
the level below. A map's entries struct has no buffers of its own and therefore no column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.errors import UndecodableValueError
from state_processor.serializers.kernel import slots as k

_ALIGNMENT: Final = 64
_MAX_OFFSET: Final = 2**31 - 1


@dataclass(slots=True, eq=False)
class Column:
    """One column of a kernel run.

    ``index`` is its row in the column table, -1 for :data:`DISCARD`. ``element_of`` is the list or map column whose
    elements this column's slots are; ``None`` at the row's own level.
    """

    index: int
    name: str
    type: pa.DataType
    children: list[Column] = field(default_factory=list)
    element_of: Column | None = None

    def child(self, position: int) -> Column:
        """The child at ``position``: a struct's field, a list's element, a map's key (0) or value (1)."""
        return self.children[position] if self.children else self

    def named(self, name: str) -> Column:
        """A struct's field by name; discarded columns have all of them."""
        if self.index < 0:
            return self
        index: int = self.type.get_field_index(name)
        return self.children[index]

    def find(self, name: str) -> Column | None:
        """A struct's field by name; ``None`` where it has none of that name."""
        index = self.type.get_field_index(name) if pa.types.is_struct(self.type) else -1
        return self.children[index] if index >= 0 else None

    def null_slots(self) -> Iterator[int]:
        """Columns that need a slot where this value is null: itself and, for a struct, all that lies at the same level."""
        if self.index < 0:
            return
        yield self.index
        if pa.types.is_struct(self.type):
            for child in self.children:
                yield from child.null_slots()


DISCARD: Final = Column(-1, "", pa.null())
"""Stands for the column of a value that is stepped over."""


def _kind(type_: pa.DataType) -> int:
    if pa.types.is_struct(type_) or pa.types.is_null(type_):
        return k.STRUCT
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return k.LIST
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return k.OFFSETS
    if pa.types.is_boolean(type_):
        return 1
    return int(type_.bit_width // 8)


class ColumnTree:
    """All columns of one kind of row, numbered in pre-order so that a parent comes before its children."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.all: list[Column] = []
        self.roots = [self._add(f.name, f.type, None) for f in schema]
        self.kinds = np.array([_kind(c.type) for c in self.all], dtype=np.int64)

    def _add(self, name: str, type_: pa.DataType, element_of: Column | None) -> Column:
        column = Column(len(self.all), name, type_, element_of=element_of)
        self.all.append(column)
        if pa.types.is_struct(type_):
            column.children = [self._add(f.name, f.type, element_of) for f in type_]
        elif pa.types.is_map(type_):
            column.children = [self._add("key", type_.key_type, column), self._add("value", type_.item_type, column)]
        elif pa.types.is_list(type_):
            column.children = [self._add("element", type_.value_type, column)]
        return column

    def root(self, name: str) -> Column:
        """The column of a field of the schema."""
        index: int = self.schema.get_field_index(name)
        return self.roots[index]


class Arena:
    """The memory of one batch: all columns' regions, the table that tells the kernel where they are, and Arrow views of them.

    Parameters
    ----------
    tree
        The columns.
    rows
        Rows that there is room for.
    slots, text
        Per column: slots (for elements of lists) and bytes of text that there is room for.
    """

    def __init__(self, tree: ColumnTree, rows: int, slots: npt.NDArray[np.int64], text: npt.NDArray[np.int64]) -> None:
        self.tree = tree
        self.table = np.zeros((max(len(tree.all), 1), k.FIELDS), dtype=np.int64)
        offset = 0
        for column in tree.all:
            entry = self.table[column.index]
            entry[k.CAPACITY] = rows if column.element_of is None else slots[column.index]
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
            if kind == k.OFFSETS:
                entry[k.VAR] = offset
                entry[k.VAR_CAPACITY] = min(int(text[column.index]), _MAX_OFFSET)
                offset += int(entry[k.VAR_CAPACITY]) + 8  # the kernel stores eight bytes of ASCII at a time
        self.memory = np.empty(max(offset, 1), dtype=np.uint8)
        self.memory[:validity_end] = 1
        for column in tree.all:
            if tree.kinds[column.index] < 0:
                data = self.table[column.index, k.DATA]
                self.memory[data : data + 4] = 0

    def _offset_at(self, index: int, position: int) -> int:
        start = int(self.table[index, k.DATA]) + 4 * position
        return int(self.memory[start : start + 4].view(np.int32)[0])

    def truncate(self, rows: int) -> None:
        """Cut every column back to what belongs to the first ``rows`` rows."""
        for column in self.tree.all:
            parent = column.element_of
            slots = rows if parent is None else self._offset_at(parent.index, int(self.table[parent.index, k.COUNT]))
            self.table[column.index, k.COUNT] = slots
            if self.tree.kinds[column.index] == k.OFFSETS:
                self.table[column.index, k.VAR_SIZE] = self._offset_at(column.index, slots)

    def to_batch(self, rows: int) -> pa.RecordBatch:
        """The first ``rows`` rows as a record batch over this memory, without a copy of values."""
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
            children = [self._array(c, whole) for c in column.children]
            return pa.Array.from_buffers(column.type, n, [validity], children=children)
        if kind > 0:
            if pa.types.is_boolean(column.type):
                values = pa.py_buffer(np.packbits(self.memory[data : data + n], bitorder="little"))
            else:
                values = whole.slice(data, kind * n)
            return pa.Array.from_buffers(column.type, n, [validity, values])
        offsets = whole.slice(data, 4 * (n + 1))
        if kind == k.OFFSETS:
            text = whole.slice(int(entry[k.VAR]), int(entry[k.VAR_SIZE]))
            return pa.Array.from_buffers(column.type, n, [validity, offsets, text])
        children = [self._array(c, whole) for c in column.children]
        if pa.types.is_map(column.type):
            if children[0].null_count:
                raise UndecodableValueError(f"a map in {column.name!r} has a null key, which Spark's map type can't hold")
            entries = column.type.field(0).type if column.type.num_fields else None
            children = [pa.Array.from_buffers(entries, len(children[0]), [None], children=children)]
        return pa.Array.from_buffers(column.type, n, [validity, offsets], children=children)


def estimate_bytes(tree: ColumnTree, slots: Sequence[float], text: Sequence[float]) -> float:
    """Bytes of arena that one row takes, given slots and text bytes per row of each column."""
    total = 0.0
    for c in tree.all:
        kind = int(tree.kinds[c.index])
        total += slots[c.index] * (1 + (kind if kind >= 0 else 4)) + (text[c.index] if kind == k.OFFSETS else 0)
    return total
