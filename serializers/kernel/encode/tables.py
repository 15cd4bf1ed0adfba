"""The tables that the encode kernel's loop hands over to families of instructions."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel.families import caller, tables_in_memory
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

PROGRAM: Final = read(int64, 2)
BYTES: Final = read(uint8)
COLUMNS: Final = read(int64, 2)
REGISTERS: Final = written(int64)
OUTPUT: Final = written(uint8)

LARGEST_FIXED: Final = 16
"""Bytes that the loop finds room for before each instruction, so that instructions of a fixed size need no check."""

store_tables, load_tables = tables_in_memory(PROGRAM, BYTES, BYTES, COLUMNS, REGISTERS, REGISTERS, REGISTERS, OUTPUT)
"""prog, consts, arena, cols, idx, stop, regs, out"""

run_family: Final = caller(3)
"""Returns the index of the next instruction, the position after it, and the status. The end is that of the output."""
