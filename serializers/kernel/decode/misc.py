"""Instructions that few programs have: constants, enumerations, choices by a byte, parts of an entry's bytes."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.decode.arena import COUNT, fill_nulls, load_tables, put_bytes, put_offset
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.opcodes import CODE, COL, FAMILY, MISC, A, B, C, D, Op


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


@family
def misc(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Run instructions while they are of ``MISC``."""
    prog, _, aux, consts, buf, regs, arena, cols = load_tables(tables)
    status = outcomes.OK
    col = np.int64(-1)
    while True:
        op = prog[pc, CODE]
        if op & FAMILY != MISC:
            break
        col = prog[pc, COL]
        if op == Op.FIXED_BYTES or op == Op.REST:
            size = prog[pc, A] if op == Op.FIXED_BYTES else end - pos - prog[pc, A]
            if size < 0 or size > end - pos:
                status = outcomes.TRUNCATED if op == Op.REST else outcomes.BAD_COUNT
                break
            if col >= 0 and not put_bytes(arena, cols, col, buf, pos, size):
                status = outcomes.FULL
                break
            pos += size
        elif op == Op.ROW_KIND:
            bits = np.int64(buf[regs[prog[pc, A]]])
            if col >= 0:
                kind = 2 * ((bits >> 7) + 2 * ((bits >> 6) & 1))
                if not put_bytes(arena, cols, col, consts, prog[pc, B] + kind, 2):
                    status = outcomes.FULL
                    break
        elif op == Op.CAPTURE:
            begin = regs[prog[pc, A]]
            if col >= 0 and not put_bytes(arena, cols, col, buf, begin, pos - begin):
                status = outcomes.FULL
                break
        elif op == Op.CONST:
            if col >= 0 and not put_bytes(arena, cols, col, consts, prog[pc, A], prog[pc, B]):
                status = outcomes.FULL
                break
        elif op == Op.CHOOSE_BYTE:
            if pos >= end:
                status = outcomes.TRUNCATED
                break
            index = np.int64(buf[pos])
            target = aux[prog[pc, A] + index, 0] if index < prog[pc, B] else np.int64(-1)
            if target < 0:
                status = outcomes.BAD_BYTE
                break
            pos += 1
            pc = target
            continue
        elif op == Op.ENUM:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            index = load_be_i32(buf, pos)
            if index < 0 or index >= prog[pc, B]:
                status = outcomes.BAD_INDEX
                break
            pos += 4
            if col >= 0:
                r = prog[pc, A] + index
                if not put_bytes(arena, cols, col, consts, aux[r, 0], aux[r, 1]):
                    status = outcomes.FULL
                    break
        elif op == Op.BRANCH_ZERO:
            if pos >= end:
                status = outcomes.TRUNCATED
                break
            pos += 1
            if buf[pos - 1] == 0:
                pc = prog[pc, A]
                continue
        elif op == Op.EXPECT:
            if pos >= end:
                status = outcomes.TRUNCATED
                break
            if buf[pos] != prog[pc, A]:
                status = outcomes.BAD_BYTE
                break
            pos += 1
        else:
            status = outcomes.UNKNOWN_INSTRUCTION
            break
        pc += 1
    return pc, pos, status, col
