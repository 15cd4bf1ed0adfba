"""Flat programs that encode, and the builder that a serializer's ``emit_encode`` writes into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.builder import Program, ProgramBuilder
from state_processor.serializers.kernel.columns import Column, ColumnTree, ColumnValues
from state_processor.serializers.kernel.encode.distinct_keys import Distinct
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.kernel.outcomes import log_fallback

if TYPE_CHECKING:
    from state_processor.serializers.core.time_values import JavaZone

T = TypeVar("T")
ColumnWriter = Callable[[pa.Array, pa.DataType], pa.Array | None]
Bytes = bytes  # which is a method of the builder, too


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """Options that columns do not hold."""

    last_access: int = 0  # milliseconds since 1970: the time of last access of values with TTL, if no column has it


class ColumnLimit(Protocol):
    """A check of the values of a column before the kernel sees them."""

    @property
    def rule(self) -> str:
        """The rule, for messages."""

    def broken(self, array: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the values that break the rule."""


@dataclass(frozen=True, slots=True)
class PreparedColumn:
    """A column whose values a serializer writes in Python, and the type that it accepts.

    ``convert`` returns the bytes of a whole column; without it, or if it returns ``None``, values are written one by one.
    """

    serializer: ColumnValues
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array | None] | None = None


@dataclass(frozen=True, slots=True)
class EncodeProgram(Program):
    """A program of the encode kernel.

    ``prepared`` holds the columns (by number) whose values a serializer writes in Python before the kernel copies them,
    ``limits`` the checks of columns before the kernel sees them, ``distinct`` the comparison of the keys of maps and of the
    elements of sets, by the column of the map or set. ``numbers`` maps each big-number column to whether its
    values are integers.
    """

    prepared: dict[int, PreparedColumn]
    limits: dict[int, tuple[ColumnLimit, ...]]
    distinct: dict[int, Distinct]
    numbers: dict[int, bool]


class EncodeBuilder(ProgramBuilder):
    """Collects the instructions that write one kind of row.

    ``schema``: the columns of the input, of types that :func:`~state_processor.serializers.kernel.encode.conversion.bind` gave.
    ``options``: options that columns do not hold. ``last_access``: the timestamp column with the time of the last access of
    values with TTL; it is optional.
    """

    direction = "encode"

    def __init__(self, schema: pa.Schema, options: EncodeOptions | None = None, last_access: str | None = None) -> None:
        super().__init__(schema)
        self.options = options or EncodeOptions()
        self.last_access = None if last_access is None else self.columns.root(last_access)
        self._prepared: dict[int, PreparedColumn] = {}
        self._limits: dict[int, tuple[ColumnLimit, ...]] = {}
        self._distinct: dict[int, Distinct] = {}
        self._numbers: dict[int, bool] = {}

    def column(self, name: str) -> Column:
        """Return the column of a field of the schema."""
        return self.columns.root(name)

    # Patterns that serializers share

    @contextmanager
    def null_flag(self, column: Column, *, null_when: bool, padding: int = 0) -> Iterator[None]:
        """Write a byte that is ``null_when`` where no value follows, and then so many bytes of padding."""
        with self.unless(Op.NULL_FLAG, column, null_when=int(null_when), padding=padding):
            yield

    @contextmanager
    def elements(self, column: Column, form: int, nulls_of: Column | None = None) -> Iterator[None]:
        """Write the elements of a list or map column in one of the forms of lists, with the null bits of a column before them."""
        end = self.label()
        self.op(Op.LIST, column, form=form, empty=end)
        if nulls_of is not None:
            self.op(Op.NULL_BITS, column, elements=nulls_of)
        first = self.place()
        yield
        self.op(Op.LIST_NEXT, column, form=form, next=first)
        self.place(end)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Write an int with the number of bytes that are emitted inside, before them."""
        register = self.register()
        self.op(Op.FRAME, register=register)
        yield
        self.op(Op.END_FRAME, register=register)

    def time(self, op: Op, column: Column) -> None:
        """Write a date or time, from text if the column holds text."""
        self.op(op, column, text=int(pa.types.is_string(column.type)))

    def zoned_time(self, op: Op, column: Column, zone: JavaZone) -> None:
        """Write a date or time of ``java.sql`` in a time zone."""
        table = -1 if zone.is_utc else self.constant(zone.table())
        self.op(op, column, zone=table, text=int(pa.types.is_string(column.type)))

    def number(self, op: Op, column: Column) -> None:
        """Write a number of any size from its digits."""
        self._numbers[column.index] = op == Op.BIG_INTEGER
        self.op(op, column)

    def bytes(self, data: Bytes) -> None:
        """Write bytes that are the same for each row."""
        self.op(Op.CONST, constant=self.constant(data), size=len(data))

    def raw(self, column: Column, null: Bytes | None) -> None:
        """Write the bytes in a column unchanged, or ``null`` for null. If ``null`` is ``None``, null is an error."""
        self.op(Op.RAW, column, null=-1 if null is None else self.constant(null), size=0 if null is None else len(null))

    def prepare(self, serializer: ColumnValues, column: Column) -> None:
        """Let a serializer write the column's values in Python; the kernel copies the bytes."""
        log_fallback("encoded", serializer, self.path)
        self._prepared[column.index] = PreparedColumn(serializer, column.type)
        self.raw(column, serializer.serialize(None) if serializer.writes_null else None)

    def fixed(self, serializer: ColumnValues, column: Column, convert: ColumnWriter, null: Bytes | None) -> None:
        """Let ``convert`` write the values of each batch from the column and its own type; ``null`` are the bytes of null."""
        own_type = serializer.arrow_type(DecodeOptions())
        self._prepared[column.index] = PreparedColumn(serializer, column.type, lambda array: convert(array, own_type))
        self.raw(column, null)

    def distinct(self, column: Column, distinct: Distinct) -> None:
        """Require the keys of a column's maps, or the elements of its sets, to be distinct."""
        self._distinct[column.index] = distinct

    def limit(self, column: Column, limits: tuple[ColumnLimit, ...]) -> None:
        """Check the column's values before they are written."""
        if limits:
            self._limits[column.index] = self._limits.get(column.index, ()) + limits

    def build(self) -> EncodeProgram:
        """Return the finished program.

        The columns of prepared values are binary in it, whatever they are in the schema.
        """
        tree = ColumnTree(pa.schema([(c.name, _prepared_type(c, self._prepared)) for c in self.columns.roots]))
        self._moved = _renumber(self.columns, tree, self._prepared)
        return EncodeProgram(
            instructions=self._instruction_table(),
            aux=self._aux_table(),
            constants=self._constant_bytes(),
            registers=max(self._registers, 1),
            columns=tree,
            paths=tuple(self._paths),
            prepared=self._renumbered(self._prepared),
            limits=self._renumbered(self._limits),
            distinct=self._renumbered(self._distinct),
            numbers=self._renumbered(self._numbers),
        )

    def _column_number(self, column: Column) -> int:
        return int(self._moved[column.index])

    def _renumbered(self, by_column: dict[int, T]) -> dict[int, T]:
        return {int(self._moved[index]): part for index, part in by_column.items()}


def _prepared_type(column: Column, prepared: dict[int, PreparedColumn]) -> pa.DataType:
    if column.index in prepared:
        return pa.binary()
    if pa.types.is_struct(column.type):
        return pa.struct([(c.name, _prepared_type(c, prepared)) for c in column.children])
    if pa.types.is_map(column.type):
        return pa.map_(*(_prepared_type(c, prepared) for c in column.children))
    if pa.types.is_list(column.type):
        return pa.list_(_prepared_type(column.children[0], prepared))
    return column.type


def _renumber(old: ColumnTree, new: ColumnTree, prepared: dict[int, PreparedColumn]) -> npt.NDArray[np.int64]:
    """Return the new number of each old column; the last element, for no column, is -1."""
    moved = np.full(len(old.all) + 1, -1, dtype=np.int64)

    def walk(before: Column, after: Column) -> None:
        moved[before.index] = after.index
        if before.index not in prepared:
            for old_child, new_child in zip(before.children, after.children, strict=True):
                walk(old_child, new_child)

    for old_root, new_root in zip(old.roots, new.roots, strict=True):
        walk(old_root, new_root)
    return moved
