"""From serializers to a flat program that writes: the builder that every serializer's ``emit_encode`` writes into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.kernel.builder import ProgramBuilder
from state_processor.serializers.kernel.columns import Column, ColumnTree
from state_processor.serializers.kernel.encode import ops
from state_processor.serializers.kernel.encode.contracts import ColumnLimit, ValueWriter
from state_processor.serializers.kernel.encode.distinct_keys import Distinct


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """What columns do not say.

    Parameters
    ----------
    last_access
        Milliseconds since 1970 that values with TTL get as the time of their last access, where no column has it.
    """

    last_access: int = 0


@dataclass(frozen=True, slots=True)
class PreparedColumn:
    """A column whose values a serializer writes in Python, and the type that it takes them in."""

    serializer: ValueWriter
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class EncodeProgram:
    """What the kernel runs: instructions, auxiliary table, constants, how many registers they use, and the columns.

    ``prepared`` holds the columns (by number) whose values a serializer writes in Python before the kernel copies them,
    ``limits`` what columns are held to before the kernel sees them, ``distinct`` what tells keys of maps and elements of sets
    apart, by the column of the map or set.
    """

    instructions: npt.NDArray[np.int64]
    aux: npt.NDArray[np.int64]
    constants: npt.NDArray[np.uint8]
    registers: int
    columns: ColumnTree
    paths: tuple[str, ...]
    prepared: dict[int, PreparedColumn]
    limits: dict[int, tuple[ColumnLimit, ...]]
    distinct: dict[int, Distinct]


class EncodeBuilder(ProgramBuilder):
    """Collects the instructions that write one kind of row.

    Parameters
    ----------
    schema
        The columns of the input, of types that :func:`~state_processor.serializers.kernel.encode.conversion.bind` gave.
    options
        What columns do not say.
    last_access
        The timestamp column with the time of the last access of values with TTL, if there is one.
    """

    def __init__(self, schema: pa.Schema, options: EncodeOptions | None = None, last_access: str | None = None) -> None:
        super().__init__(schema)
        self.options = options or EncodeOptions()
        self.last_access = None if last_access is None else self.columns.root(last_access)
        self._prepared: dict[int, PreparedColumn] = {}
        self._limits: dict[int, tuple[ColumnLimit, ...]] = {}
        self._distinct: dict[int, Distinct] = {}

    def column(self, name: str) -> Column:
        """The column of a field of the schema."""
        return self.columns.root(name)

    # Patterns that serializers share

    @contextmanager
    def unless(self, operation: int, column: Column, *operands: int) -> Iterator[None]:
        """An instruction that jumps over what is emitted inside: its operand ``d`` becomes the target."""
        head = self.op(operation, column, *operands)
        yield
        self.patch(head, 3, self.here)

    @contextmanager
    def null_flag(self, column: Column, *, null_when: bool, padding: int = 0) -> Iterator[None]:
        """A byte that says whether a value follows; ``null_when`` is its value for null."""
        with self.unless(ops.NULL_FLAG, column, int(null_when), 0, 0, 0, padding):
            yield

    @contextmanager
    def elements(self, column: Column, form: int) -> Iterator[None]:
        """The elements of a list or map column, in one of the forms of lists."""
        with self.unless(ops.LIST, column, form):
            first = self.here
            yield
            self.op(ops.LIST_NEXT, column, form, 0, 0, first)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """An int with the number of bytes that are emitted inside, before them."""
        register = self.register()
        self.op(ops.FRAME, None, register)
        yield
        self.op(ops.END_FRAME, None, register)

    def bytes(self, data: bytes) -> None:
        """Bytes that are the same for each row."""
        self.op(ops.CONST, None, self.constant(data), len(data))

    def prepare(self, serializer: ValueWriter, column: Column) -> None:
        """Let a serializer write the column's values in Python; the kernel copies what comes out."""
        self._prepared[column.index] = PreparedColumn(serializer, column.type)
        if serializer.writes_null:
            null = serializer.serialize(None)
            self.op(ops.RAW, column, self.constant(null), len(null))
        else:
            self.op(ops.RAW, column, -1)

    def distinct(self, column: Column, distinct: Distinct) -> None:
        """Let the maps or sets of a column have each key or element once."""
        self._distinct[column.index] = distinct

    def limit(self, column: Column, limits: tuple[ColumnLimit, ...]) -> None:
        """Hold the column's values to limits."""
        if limits:
            self._limits[column.index] = limits

    def build(self) -> EncodeProgram:
        """The finished program.

        The columns of prepared values are binary in it, whatever they are in the schema.
        """
        tree = ColumnTree(pa.schema([(c.name, _prepared_type(c, self._prepared)) for c in self.columns.roots]))
        moved = _renumber(self.columns, tree, self._prepared)
        instructions = self._instruction_table()
        instructions[:, 1] = moved[instructions[:, 1]]
        for row in instructions:
            for operand in _COLUMN_OPERANDS.get(int(row[0]), ()):
                row[operand] = moved[row[operand]]
        aux = self._aux_table()
        for row in instructions[np.isin(instructions[:, 0], (ops.MASK, ops.UNION))]:
            aux[row[2] : row[2] + row[3], 0] = moved[aux[row[2] : row[2] + row[3], 0]]
        return EncodeProgram(
            instructions=instructions,
            aux=aux,
            constants=self._constant_bytes(),
            registers=max(self._registers, 1),
            columns=tree,
            paths=tuple(self._paths),
            prepared={int(moved[index]): s for index, s in self._prepared.items()},
            limits={int(moved[index]): s for index, s in self._limits.items()},
            distinct={int(moved[index]): s for index, s in self._distinct.items()},
        )


_COLUMN_OPERANDS = {
    ops.MASK: (6,),
    ops.EITHER: (2, 3),
    ops.NULL_BITS: (2,),
    ops.SLOT_VARIANT: (5, 6),
    ops.VARIANT: (5, 6),
}
"""Positions in an instruction, besides the second, that hold a column."""


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
    """The new number of each old column; the last element is that of no column, -1."""
    moved = np.full(len(old.all) + 1, -1, dtype=np.int64)

    def walk(before: Column, after: Column) -> None:
        moved[before.index] = after.index
        if before.index not in prepared:
            for one, other in zip(before.children, after.children, strict=True):
                walk(one, other)

    for one, other in zip(old.roots, new.roots, strict=True):
        walk(one, other)
    return moved
