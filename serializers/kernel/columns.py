"""Columns of the kernels: numbered in the order of an Arrow schema, outer columns before nested ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.traversal import join_path
from state_processor.support.mappings import names_of

# Kinds of columns: bytes of a fixed-width slot, or
STRUCT: Final = 0
OFFSETS: Final = -1  # text or bytes
LIST: Final = -2


class ColumnValues(Protocol):
    """The values of a column in Python, and their bytes: what the kernels need of a serializer."""

    @property
    def writes_null(self) -> bool:
        """True if the bytes have a form for null."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the column."""

    def from_column(self, value: Any) -> Any:
        """Return a value from a cell of the column."""

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a value."""


@dataclass(slots=True, eq=False)
class Column:
    """One column of a kernel run.

    ``index`` is its row in the column table, -1 for :data:`DISCARD`. ``element_of`` is the list or map column whose
    elements this column's slots are; ``None`` at the row's own level. ``names`` are the names of all fields of a struct, which
    has as many ``children``. Fields that are not requested are :data:`DISCARD`, and missing in its ``type``.
    """

    index: int
    name: str
    type: pa.DataType
    children: list[Column] = field(default_factory=list)
    element_of: Column | None = None
    names: tuple[str, ...] = ()

    def child(self, position: int) -> Column:
        """Return the child at ``position``: a struct's field, a list's element, a map's key (0) or value (1)."""
        return self.children[position] if self.children else self

    def named(self, name: str) -> Column:
        """Return a struct's field by name; the discarding column has every field."""
        if self.index < 0:
            return self
        return self.children[self.names.index(name)]

    def find(self, name: str) -> Column | None:
        """Return a struct's field by name; ``None`` if the struct lacks it."""
        index = self.type.get_field_index(name) if pa.types.is_struct(self.type) else -1
        return self.children[index] if index >= 0 else None

    def null_slots(self) -> Iterator[int]:
        """Return the columns that need a slot if this value is null: itself and, for a struct, all at the same level."""
        if self.index < 0:
            return
        yield self.index
        if pa.types.is_struct(self.type):
            for child in self.children:
                yield from child.null_slots()


DISCARD: Final = Column(-1, "", pa.null())
"""The column of a value that is skipped."""


def _kind(type_: pa.DataType) -> int:
    if pa.types.is_struct(type_) or pa.types.is_null(type_):
        return STRUCT
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return LIST
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return OFFSETS
    if pa.types.is_boolean(type_):
        return 1
    return int(type_.bit_width // 8)


class ColumnTree:
    """All columns of one kind of row, numbered in pre-order so that a parent comes before its children.

    ``whole``: the same columns with all fields of the serializers; ``schema`` may lack some.
    """

    def __init__(self, schema: pa.Schema, whole: pa.Schema | None = None) -> None:
        self.schema = schema
        self.all: list[Column] = []
        self.roots = [self._add(f.name, f.type, w.type, None) for f, w in zip(schema, whole or schema, strict=True)]
        self.kinds = np.array([_kind(c.type) for c in self.all], dtype=np.int64)
        self.converters: Mapping[int, Callable[[pa.Array], pa.Array]] = {}

    def hold_bytes(self, converters: Mapping[int, Callable[[pa.Array], pa.Array]]) -> None:
        """Let columns, by number, hold bytes in the memory of the kernel; functions convert them to the columns' own types."""
        self.converters = converters
        self.kinds[list(converters)] = OFFSETS

    def _add(self, name: str, type_: pa.DataType, whole: pa.DataType, element_of: Column | None) -> Column:
        column = Column(len(self.all), name, type_, element_of=element_of)
        self.all.append(column)
        if pa.types.is_struct(type_):
            column.names = tuple(names_of(whole))
            column.children = list(self._fields(type_, whole, element_of))
        elif pa.types.is_map(type_):
            key = self._add("key", type_.key_type, whole.key_type, column)
            column.children = [key, self._add("value", type_.item_type, whole.item_type, column)]
        elif pa.types.is_list(type_):
            column.children = [self._add("element", type_.value_type, whole.value_type, column)]
        return column

    def _fields(self, type_: pa.StructType, whole: pa.StructType, element_of: Column | None) -> Iterator[Column]:
        fields_expected = iter(type_)
        field = next(fields_expected, None)
        for each in whole:
            if field is None or field.name != each.name:
                yield DISCARD
            else:
                yield self._add(field.name, field.type, each.type, element_of)
                field = next(fields_expected, None)

    def path(self, index: int) -> str:
        """Return the path of a column, such as ``value.id``; empty for the discarding column."""
        for root in self.roots:
            if root.index <= index and (path_of_column := _path(root, index)):
                return path_of_column
        return ""

    def root(self, name: str) -> Column:
        """Return the column of a field of the schema."""
        index: int = self.schema.get_field_index(name)
        return self.roots[index]


def _path(column: Column, index: int) -> str:
    if column.index == index:
        return column.name
    inner = next((path for child in column.children if child.index >= 0 and (path := _path(child, index))), "")
    return inner and join_path(column.name, inner)


LAST_ACCESS_FIELD: Final = "_last_access"
"""The field with the time of a value's last access."""


def timed(value: pa.DataType) -> pa.DataType:
    """Return the type of values, each with the time of its last access."""
    return pa.struct([(LAST_ACCESS_FIELD, pa.timestamp("us", tz="UTC")), ("value", value)])


def is_timed(type_: pa.DataType) -> bool:
    """Return True for a type of :func:`timed`."""
    return bool(pa.types.is_struct(type_)) and type_.names == [LAST_ACCESS_FIELD, "value"]
