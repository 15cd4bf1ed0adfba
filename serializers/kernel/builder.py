"""What building a program has in common for decoding and encoding: instructions, constants, registers, an auxiliary table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.kernel.columns import Column, ColumnTree

WIDTH: Final = 8
"""Numbers in an instruction: operation, column, and up to six operands."""

_NO_COLUMN: Final = -1


class ProgramBuilder:
    """Collects the instructions of one kind of row.

    Parameters
    ----------
    schema
        The columns of a row.
    registers
        How many registers are taken already.
    """

    def __init__(self, schema: pa.Schema, registers: int = 0) -> None:
        self.columns = ColumnTree(schema)
        self._rows: list[list[int]] = []
        self._aux: list[tuple[int, int, int, int]] = []
        self._constants = bytearray()
        self._registers = registers
        self._path: list[str] = []
        self._paths: list[str] = []

    @property
    def here(self) -> int:
        """Index of the next instruction."""
        return len(self._rows)

    def op(self, operation: int, column: Column | None = None, *operands: int) -> int:
        """Append an instruction and return its index."""
        index = _NO_COLUMN if column is None else column.index
        self._rows.append([operation, index, *operands, *([0] * (WIDTH - 2 - len(operands)))])
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

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Name what is emitted inside, for error messages."""
        self._path.append(name)
        yield
        self._path.pop()

    def _instruction_table(self) -> npt.NDArray[np.int64]:
        return np.array(self._rows, dtype=np.int64).reshape(-1, WIDTH)

    def _aux_table(self) -> npt.NDArray[np.int64]:
        return np.array(self._aux or [(0, 0, 0, 0)], dtype=np.int64)

    def _constant_bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(bytes(self._constants) or b"\0", dtype=np.uint8)
