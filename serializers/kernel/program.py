"""From serializers to a flat program: the builder that every serializer's ``emit`` writes into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.kernel import ops
from state_processor.serializers.kernel.columns import DISCARD, Column, ColumnTree
from state_processor.serializers.options import DecodeOptions

CONTEXT: Final = 0
"""The register with the number that the caller gives for rows that come without entries (their key group)."""


class NotCompilableError(Exception):
    """A serializer's values can be decoded in Python only; the caller falls back to the reference decoder."""


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


class DecodeBuilder:
    """Collects the instructions of one kind of row.

    Parameters
    ----------
    schema
        The columns that a row fills. With an empty schema the program only steps over its input.
    options
        How values are represented.
    """

    def __init__(self, schema: pa.Schema, options: DecodeOptions) -> None:
        self.columns = ColumnTree(schema)
        self.options = options
        self._rows: list[list[int]] = []
        self._nulls: list[int] = []
        self._aux: list[tuple[int, int, int, int]] = []
        self._constants = bytearray()
        self._registers = CONTEXT + 1
        self._path: list[str] = []
        self._paths: list[str] = []

    def column(self, name: str | None) -> Column:
        """The column of a field of the schema; the discarding one for ``None`` or a name that the schema lacks."""
        if name is None or self.columns.schema.get_field_index(name) < 0:
            return DISCARD
        return self.columns.root(name)

    # Instructions

    @property
    def here(self) -> int:
        """Index of the next instruction."""
        return len(self._rows)

    def op(self, operation: int, column: Column = DISCARD, *operands: int) -> int:
        """Append an instruction and return its index."""
        self._rows.append([operation, column.index, *operands, *([0] * (ops.WIDTH - 2 - len(operands)))])
        self._paths.append(".".join(self._path))
        return self.here - 1

    def patch(self, index: int, operand: int, value: int) -> None:
        """Set operand 0 to 5 of an instruction that was appended before."""
        self._rows[index][2 + operand] = value

    def register(self) -> int:
        """A register that no other instruction uses."""
        self._registers += 1
        return self._registers - 1

    def constant(self, data: bytes) -> int:
        """Offset of ``data`` among the constants."""
        found = self._constants.find(data)
        if found >= 0:
            return found
        self._constants += data
        return len(self._constants) - len(data)

    def aux(self, rows: Sequence[tuple[int, int, int, int]]) -> int:
        """Append rows to the auxiliary table and return the index of the first."""
        self._aux += rows
        return len(self._aux) - len(rows)

    def patch_aux(self, row: int, values: tuple[int, int, int, int]) -> None:
        """Replace a row of the auxiliary table."""
        self._aux[row] = values

    def null_range(self, *columns: Column) -> tuple[int, int]:
        """A range of the null table that holds every column to fill where these values are null."""
        first = len(self._nulls)
        for column in columns:
            self._nulls += column.null_slots()
        return first, len(self._nulls)

    # Patterns that serializers share

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Name what is emitted inside, for error messages."""
        self._path.append(name)
        yield
        self._path.pop()

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
            instructions=np.array(self._rows, dtype=np.int64).reshape(-1, ops.WIDTH),
            nulls=np.array(self._nulls or [0], dtype=np.int64),
            aux=np.array(self._aux or [(0, 0, 0, 0)], dtype=np.int64),
            constants=_readonly(np.frombuffer(bytes(self._constants) or b"\0", dtype=np.uint8)),
            registers=self._registers,
            columns=self.columns,
            paths=tuple(self._paths),
        )


def _readonly(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    array.flags.writeable = False
    return array
