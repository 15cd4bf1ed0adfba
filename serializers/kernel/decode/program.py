"""From serializers to a flat program: the builder that every serializer's ``emit`` writes into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.builder import ProgramBuilder
from state_processor.serializers.kernel.columns import DISCARD, Column, ColumnTree
from state_processor.serializers.kernel.decode import ops

CONTEXT: Final = 0
"""The register with the number that the caller gives for rows that come without entries (their key group)."""


@dataclass(frozen=True, slots=True)
class DecodeProgram:
    """What the kernel runs: instructions, null table, auxiliary table, constants, and how many registers they use."""

    instructions: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    aux: npt.NDArray[np.int64]
    constants: npt.NDArray[np.uint8]
    registers: int
    columns: ColumnTree
    paths: tuple[str, ...]


class DecodeBuilder(ProgramBuilder):
    """Collects the instructions of one kind of row.

    Parameters
    ----------
    schema
        The columns that a row fills. With an empty schema the program only steps over its input.
    options
        How values are represented.
    """

    def __init__(self, schema: pa.Schema, options: DecodeOptions) -> None:
        super().__init__(schema, registers=CONTEXT + 1)
        self.options = options
        self._nulls: list[int] = []

    def column(self, name: str | None) -> Column:
        """The column of a field of the schema; the discarding one for ``None`` or a name that the schema lacks."""
        if name is None or self.columns.schema.get_field_index(name) < 0:
            return DISCARD
        return self.columns.root(name)

    def null_range(self, *columns: Column) -> tuple[int, int]:
        """A range of the null table that holds every column to fill where these values are null."""
        first = len(self._nulls)
        for column in columns:
            self._nulls += column.null_slots()
        return first, len(self._nulls)

    # Patterns that serializers share

    @contextmanager
    def null_flag(self, column: Column, *, null_when: bool, padding: int = 0) -> Iterator[None]:
        """A byte that says whether a value follows; ``null_when`` is its value (0 or not) for null."""
        first, last = self.null_range(column)
        flag = self.op(ops.NULL_FLAG, column, int(null_when), first, last, 0, padding)
        yield
        self.patch(flag, 3, self.here)

    @contextmanager
    def counted(self, column: Column, *, smallest: int = 1) -> Iterator[None]:
        """An int count, then that many elements of at least ``smallest`` bytes, into a list or map column."""
        register, child = self.register(), column.child(0).index
        head = self.op(ops.LIST, column, register, child, 0, 0, smallest)
        yield
        self.op(ops.LIST_NEXT, column, register, child, 0, head + 1)
        self.patch(head, 3, self.here)

    @contextmanager
    def joined(self, column: Column) -> Iterator[None]:
        """Elements up to the end of the part with a comma between them (``ListDelimitedSerializer``)."""
        child = column.child(0).index
        head = self.op(ops.JOINED, column, 0, child)
        yield
        self.op(ops.JOINED_NEXT, column, 0, child, 0, head + 1)
        self.patch(head, 3, self.here)

    @contextmanager
    def blocks(self, column: Column) -> Iterator[None]:
        """Blocks of a varint count and that many elements, ended by an empty one (Avro arrays and maps)."""
        register, child = self.register(), column.child(0).index
        head = self.op(ops.BLOCKS, column, register, child)
        yield
        self.op(ops.BLOCKS_NEXT, column, register, child, 0, head + 1)
        self.patch(head, 3, self.here)

    def fill_nulls(self, *columns: Column) -> None:
        """Give each column a null."""
        first, last = self.null_range(*columns)
        if first < last:
            self.op(ops.FILL_NULLS, DISCARD, 0, first, last)

    def text(self, column: Column, value: str) -> None:
        """Give a string column a constant."""
        data = value.encode()
        self.op(ops.CONST, column, self.constant(data), len(data))

    def build(self) -> DecodeProgram:
        """The finished program."""
        return DecodeProgram(
            instructions=self._instruction_table(),
            nulls=np.array(self._nulls or [0], dtype=np.int64),
            aux=self._aux_table(),
            constants=self._constant_bytes(),
            registers=self._registers,
            columns=self.columns,
            paths=tuple(self._paths),
        )
