"""Programs and their builder: instructions, constants, registers and an auxiliary table, for decoding and for encoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.kernel.columns import DISCARD, Column, ColumnTree
from state_processor.serializers.kernel.opcodes import CODE, WIDTH, Op, Operand, OperandKind, Operands
from state_processor.support.mappings import only_keys


class Label:
    """A position in a program that instructions continue at; :meth:`ProgramBuilder.place` sets it, before or after its use."""

    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position = -1


Cell = int | Column | Label | None
"""One number of an instruction or of the auxiliary table; ``None`` is encoded as -1, for a missing column or target."""


@dataclass(frozen=True, slots=True)
class Program:
    """The tables that a kernel runs: instructions, auxiliary table, constants, and the number of registers.

    ``paths`` has the path of the field that each instruction belongs to, for messages.
    """

    instructions: npt.NDArray[np.int64]
    aux: npt.NDArray[np.int64]
    constants: npt.NDArray[np.uint8]
    registers: int
    columns: ColumnTree
    paths: tuple[str, ...]

    def unknown_instruction(self, index: int, direction: str) -> RuntimeError:
        """Return the error of an instruction that the kernel of a direction does not implement."""
        code = int(self.instructions[index, CODE])
        name = {int(op): op.name for op in Op}.get(code, str(code))
        return RuntimeError(f"the {direction} kernel does not implement instruction {name}, emitted for {self.paths[index]!r}")


class ProgramBuilder:
    """Collects the instructions of one kind of row.

    Columns and targets stay :class:`Column` and :class:`Label` objects until the program is built, so that they can't be mistaken
    for other numbers. All are numbered at once.

    ``registers``: number of registers that are already in use. ``whole``: the columns with all fields of the serializers, if
    ``schema`` lacks some.
    """

    direction: ClassVar[str]
    """``decode`` or ``encode``: which operands instructions have."""

    def __init__(self, schema: pa.Schema, registers: int = 0, whole: pa.Schema | None = None) -> None:
        self.columns = ColumnTree(schema, whole)
        self._rows: list[list[Cell]] = []
        self._aux: list[tuple[Cell, ...]] = []
        self._constants = bytearray()
        self._registers = registers
        self._path: list[str] = []
        self._paths: list[str] = []

    def op(self, op: Op, column: Column = DISCARD, **operands: Any) -> None:
        """Append an instruction.

        ``op``: the opcode. ``column``: the column that it fills or writes; ``DISCARD`` for none. ``operands``: all operands that
        :class:`~state_processor.serializers.kernel.opcodes.Op` lists for the direction, by name.
        """
        expected = self._operands_of(op)
        if operands.keys() != expected.keys():
            raise TypeError(f"{self.direction} {op.name} takes ({', '.join(expected)}), not ({', '.join(operands)})")
        row: list[Cell] = [int(op), column, *[0] * (WIDTH - 2)]
        for name, operand in expected.items():
            self._set(row, op, operand, operands[name])
        self._rows.append(row)
        self._paths.append(self.path)

    def _operands_of(self, op: Op) -> Operands:
        operands: Operands | None = getattr(op, self.direction)
        if operands is None:
            raise TypeError(f"{op.name} is not an instruction of the {self.direction} kernel")
        return operands

    def _set(self, row: list[Cell], op: Op, operand: Operand, value: Any) -> None:
        kind = operand.kind
        if kind is OperandKind.NULLS:
            value = self.null_range(*(value if isinstance(value, tuple) else (value,)))
        values = value if kind.positions > 1 else (value,)
        allowed = {OperandKind.COLUMN: (Column, type(None)), OperandKind.TARGET: (Label, type(None))}.get(kind, (int, np.integer))
        if len(values) != kind.positions or not all(isinstance(v, allowed) for v in values):
            raise TypeError(f"operand {operand.name} of {op.name} is a {kind.name.lower()}, not {value!r}")
        row[operand.position : operand.position + kind.positions] = values

    # Control flow

    @staticmethod
    def label() -> Label:
        """Return a label to place later."""
        return Label()

    def labels(self, count: int) -> list[Label]:
        """Return several labels to place later."""
        return [self.label() for _ in range(count)]

    def place(self, label: Label | None = None) -> Label:
        """Set a label, or a new one, to the next instruction, and return it."""
        label = label or Label()
        label.position = len(self._rows)
        return label

    def jump(self, target: Label) -> None:
        """Continue at a label."""
        self.op(Op.JUMP, target=target)

    @contextmanager
    def unless(self, op: Op, column: Column, **operands: Any) -> Iterator[None]:
        """Append an instruction that jumps over the instructions emitted inside."""
        end = self.label()
        self.op(op, column, **{self._target_of(op): end}, **operands)
        yield
        self.place(end)

    @contextmanager
    def loop(self, begin: Op, following: Op, column: Column, **operands: Any) -> Iterator[None]:
        """Append a pair of instructions around the instructions of one element; both get the operands that they declare."""
        end = self.label()
        self.op(begin, column, **{self._target_of(begin): end}, **operands)
        first = self.place()
        yield
        shared = only_keys(operands, self._operands_of(following))
        self.op(following, column, **{self._target_of(following): first}, **shared)
        self.place(end)

    def _target_of(self, op: Op) -> str:
        (name,) = (o.name for o in self._operands_of(op).values() if o.kind is OperandKind.TARGET)
        return name

    def enum(self, column: Column, names: Sequence[bytes]) -> None:
        """Read or write an int, the index of a name that the column holds."""
        self.op(Op.ENUM, column, names=self.names(names), count=len(names))

    # Operands of instructions

    def null_range(self, *columns: Column) -> tuple[int, int]:
        """Return a range of the null table with every column that gets a null where these do; decoding only."""
        raise NotImplementedError

    def register(self) -> int:
        """Return a register that no other instruction uses."""
        return self.registers(1)

    def registers(self, count: int) -> int:
        """Return the first of ``count`` new registers."""
        self._registers += count
        return self._registers - count

    def constant(self, data: bytes) -> int:
        """Return the offset of ``data`` among the constants."""
        position = self._constants.find(data)
        if position >= 0:
            return position
        self._constants += data
        return len(self._constants) - len(data)

    def names(self, names: Sequence[bytes]) -> int:
        """Append names to the auxiliary table, offset and size of each; return the index of the first row."""
        return self.aux([(self.constant(name), len(name)) for name in names])

    def aux(self, rows: Sequence[tuple[Cell, ...]]) -> int:
        """Append rows of up to four numbers to the auxiliary table and return the index of the first."""
        self._aux += rows
        return len(self._aux) - len(rows)

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Name the field of the instructions emitted inside, for error messages."""
        self._path.append(name)
        yield
        self._path.pop()

    @property
    def path(self) -> str:
        """The path of the field that is being emitted."""
        return ".".join(self._path)

    # The finished tables

    def _column_number(self, column: Column) -> int:
        return column.index

    def _number(self, cell: Cell) -> int:
        if cell is None:
            return -1
        if isinstance(cell, Column):
            return self._column_number(cell)
        if isinstance(cell, Label):
            if cell.position < 0:
                raise AssertionError("a label of the program was not placed")
            return cell.position
        return int(cell)

    def _instruction_table(self) -> npt.NDArray[np.int64]:
        return np.array([list(map(self._number, row)) for row in self._rows], dtype=np.int64).reshape(-1, WIDTH)

    def _aux_table(self) -> npt.NDArray[np.int64]:
        rows = [list(map(self._number, row)) + [0] * (4 - len(row)) for row in self._aux]
        return np.array(rows or [[0] * 4], dtype=np.int64)

    def _constant_bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(bytes(self._constants) or b"\0", dtype=np.uint8)
