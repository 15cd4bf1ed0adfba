"""The tables that the decode kernel's loop hands over to families of instructions, and to functions that find its entries."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.families import caller, tables_in_memory
from state_processor.serializers.kernel.signatures import int64, partly_read, read, uint8, written

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

BLOCKS: Final = read(int64, 2)
WALK: Final = written(int64)
ENTRIES: Final = written(int64, 2)
FOUND: Final = 0
"""The field of a walk with the number of entries in the table."""

store_feed, load_feed = tables_in_memory(BYTES, BLOCKS, WALK, ENTRIES)
"""buf, blocks, walk, entries"""

next_entries: Final = caller(1)
"""Returns the number of entries of the next table; 0 behind the last one. A walk has the same number then."""


@entry_point(NUMBERS, partly_read(uint8), BLOCKS, WALK, ENTRIES)
def fill_table(functions, buf, blocks, walk, entries):  # type: ignore[no-untyped-def]
    """Fill the table with the next entries, by the function whose address is the only one; return their number."""
    (found,) = next_entries(functions[0], store_feed((buf, blocks, walk, entries)), 0, 0, 0)
    return found
