"""Lists with a bit for each element, as PyFlink writes them, in the decode kernel."""

from __future__ import annotations

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.decode.slots import COUNT, fill_nulls, put_offset
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, C, D, Op


@family
def masked(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Begin or continue a list, or look whether an element is null."""
    prog, nulls, _, _, buf, regs, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    reg = prog[pc, A]
    if op == Op.MASKED_NULL:
        index = regs[reg + 1]
        if (buf[regs[reg + 2] + (index >> 3)] >> (7 - (index & 7))) & 1:
            col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
            return (pc, pos, outcomes.FULL, col) if col >= 0 else (prog[pc, D], pos, outcomes.OK, col)
        return pc + 1, pos, outcomes.OK, col
    if op == Op.MASKED:
        if pos + 4 > end:
            return pc, pos, outcomes.TRUNCATED, col
        count = load_be_i32(buf, pos)
        if count < 0 or (count + 7) // 8 > end - pos - 4:
            return pc, pos, outcomes.BAD_COUNT, col
        regs[reg] = count
        regs[reg + 1] = 0
        regs[reg + 2] = pos + 4
        pos += 4 + (count + 7) // 8
    elif op == Op.MASKED_NEXT:
        regs[reg] -= 1
        regs[reg + 1] += 1
    else:
        return pc, pos, outcomes.UNKNOWN_INSTRUCTION, col
    if regs[reg] == 0 and col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, B], COUNT]):
        return pc, pos, outcomes.FULL, col
    jumps = (regs[reg] == 0) == (op == Op.MASKED)
    return prog[pc, D] if jumps else pc + 1, pos, outcomes.OK, col
