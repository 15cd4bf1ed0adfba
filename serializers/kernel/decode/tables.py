"""The tables that the decode kernel's loop hands over to families of instructions."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel.families import caller, tables_in_memory
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

PROGRAM: Final = read(int64, 2)
NUMBERS: Final = read(int64)
AUX: Final = read(int64, 2)
BYTES: Final = read(uint8)
REGISTERS: Final = written(int64)
ARENA: Final = written(uint8)
COLUMNS: Final = written(int64, 2)

store_tables, load_tables = tables_in_memory(PROGRAM, NUMBERS, AUX, BYTES, BYTES, REGISTERS, ARENA, COLUMNS)
"""prog, nulls, aux, consts, buf, regs, arena, cols"""

run_family: Final = caller(4)
"""Returns the index of the next instruction, the position after it, and the status with the column that has no room."""
