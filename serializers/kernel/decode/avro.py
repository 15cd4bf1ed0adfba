"""Instructions of Avro's formats in the decode kernel: UTF-8 with its size, choices, blocks."""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.decode.slots import COUNT, put_offset
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.utf8 import put_text
from state_processor.serializers.kernel.decode.values import varint
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.opcodes import AVRO, CODE, COL, FAMILY, A, B, D, Op


@family
def avro(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Run instructions while they are of ``AVRO``."""
    prog, _, aux, _, buf, regs, arena, cols = load_tables(tables)
    status = outcomes.OK
    col = np.int64(-1)
    while True:
        op = prog[pc, CODE]
        if op & FAMILY != AVRO:
            break
        col = prog[pc, COL]
        if op == Op.UTF8:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            size = load_be_i32(buf, pos)
            if size < 0 or size > end - pos - 4:
                status = outcomes.BAD_COUNT
                break
            if col >= 0:
                status = put_text(buf, pos + 4, size, arena, cols, col)
                if status != outcomes.OK:
                    break
            pos += 4 + size
        elif op == Op.BLOCKS or op == Op.BLOCKS_NEXT:
            more = False
            if op == Op.BLOCKS_NEXT:
                regs[prog[pc, A]] -= 1
                more = regs[prog[pc, A]] > 0
            if not more:
                count, after = varint(buf, pos, end)
                if after < 0 or count > end - after:
                    status = outcomes.BAD_COUNT
                    break
                pos = after
                regs[prog[pc, A]] = count
                if count == 0:
                    if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, B], COUNT]):
                        status = outcomes.FULL
                        break
                    if op == Op.BLOCKS:
                        pc = prog[pc, D]
                    else:
                        pc += 1
                    continue
                more = op == Op.BLOCKS_NEXT
            if more:
                pc = prog[pc, D]
                continue
        elif op == Op.CHOOSE:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            index = load_be_i32(buf, pos)
            if index < 0 or index >= prog[pc, B]:
                status = outcomes.BAD_INDEX
                break
            pos += 4
            pc = aux[prog[pc, A] + index, 0]
            continue
        else:
            status = outcomes.UNKNOWN_INSTRUCTION
            break
        pc += 1
    return pc, pos, status, col
