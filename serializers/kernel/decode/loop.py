"""The decode kernel: one compiled loop that runs a flat program over many entries and fills columns in an arena.

A row is either decoded whole or not at all: where a column has no room left, the run ends with ``FULL`` and the caller
cuts every column back to the last whole row, emits the batch and goes on with more room (see
:mod:`state_processor.serializers.kernel.decode.decoder`). That one mechanism bounds memory and needs no size to be known ahead.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.io import MOST_EMPTY
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode import ops
from state_processor.serializers.kernel.decode.binary import binary
from state_processor.serializers.kernel.decode.slots import (
    CAPACITY,
    COUNT,
    DATA,
    VAR,
    VAR_SIZE,
    end_text,
    fill_nulls,
    put_bytes,
    put_fixed,
    put_offset,
    room,
)
from state_processor.serializers.kernel.decode.text import (
    put_code_point,
)
from state_processor.serializers.kernel.decode.times import epoch, temporal
from state_processor.serializers.kernel.decode.values import big_number, java_string, pojo_target, varint
from state_processor.serializers.kernel.memory import (
    load_be_i16,
    load_be_i32,
    load_be_i64,
    load_be_u16,
    store_i32,
    store_i64,
)

# Fields of the result of a run
STATUS: Final = 0
ROWS: Final = 1
POSITION: Final = 2
INSTRUCTION: Final = 3
COLUMN: Final = 4
ROW_START: Final = 5
RESULT_FIELDS: Final = 6

_MIN_I64: Final = -(2**63)


@kernel
def run(prog, start, nulls, aux, consts, buf, entries, entry, rows, pos, end, regs, arena, cols, result):  # type: ignore[no-untyped-def]
    """Decode up to ``rows`` rows and describe in ``result`` how it ended.

    ``prog``, ``nulls``, ``aux`` and ``consts`` are a program's tables and ``start`` its first instruction. With framed
    input, row i takes the parts of ``entries[entry + i]``; without, rows lie back to back from ``pos`` on.
    """
    done = 0
    pc = start
    row_start = pos
    part = pos
    status = ops.OK
    col = -1
    while done < rows:
        op = prog[pc, 0]
        col = prog[pc, 1]
        if op == ops.SEEK:
            part = prog[pc, 2]
            pos = entries[entry, 2 * part]
            end = entries[entry, 2 * part + 1]
        elif op == ops.INT64:
            if pos + 8 > end:
                status = ops.TRUNCATED
                break
            if col >= 0:
                n = cols[col, COUNT]
                if n >= cols[col, CAPACITY]:
                    status = ops.FULL
                    break
                store_i64(arena, cols[col, DATA] + 8 * n, load_be_i64(buf, pos))
                cols[col, COUNT] = n + 1
            pos += 8
        elif op == ops.END:
            if pos != end:
                status = ops.TRAILING
                break
        elif op == ops.ROW_END:
            done += 1
            entry += 1
            row_start = pos
            pc = start
            continue
        elif op == ops.STRING:
            pos, status = java_string(True, buf, pos, end, arena, cols, col)
            if status != ops.OK:
                break
        elif op == ops.NULL_FLAG:
            if pos >= end:
                status = ops.TRUNCATED
                break
            flag = np.int64(1) if buf[pos] != 0 else np.int64(0)
            pos += 1
            if flag == prog[pc, 2]:
                if pos + prog[pc, 6] > end:
                    status = ops.TRUNCATED
                    break
                pos += prog[pc, 6]
                col = fill_nulls(arena, cols, nulls, prog[pc, 3], prog[pc, 4])
                if col >= 0:
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
        elif op == ops.INT32:
            if pos + 4 > end:
                status = ops.TRUNCATED
                break
            if col >= 0:
                n = cols[col, COUNT]
                if n >= cols[col, CAPACITY]:
                    status = ops.FULL
                    break
                store_i32(arena, cols[col, DATA] + 4 * n, load_be_i32(buf, pos))
                cols[col, COUNT] = n + 1
            pos += 4
        elif op == ops.INT16 or op == ops.INT8:
            width = 2 if op == ops.INT16 else 1
            if pos + width > end:
                status = ops.TRUNCATED
                break
            number = load_be_i16(buf, pos) if width == 2 else np.int64(buf[pos])
            if col >= 0 and not put_fixed(arena, cols, col, number):
                status = ops.FULL
                break
            pos += width
        elif op == ops.SIGN_FLIPPED_INT64:
            if pos + 8 > end:
                status = ops.TRUNCATED
                break
            if col >= 0 and not put_fixed(arena, cols, col, load_be_i64(buf, pos) ^ _MIN_I64):
                status = ops.FULL
                break
            pos += 8
        elif op == ops.POJO:
            if pos >= end:
                status = ops.TRUNCATED
                break
            flags = np.int64(buf[pos])
            pos += 1
            if flags == 1:
                col = fill_nulls(arena, cols, nulls, prog[pc, 3], prog[pc, 4])
                if col >= 0:
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
            if flags == 4 or flags == 8:
                target, pos = pojo_target(buf, pos, end, flags, aux, prog[pc, 2], prog[pc, 7], consts)
                if target < 0:
                    status = ops.BAD_TAG
                    break
                pc = target
                continue
            if flags != 2:
                status = ops.BAD_BYTE
                break
        elif op == ops.VALID:
            if col >= 0:
                n = cols[col, COUNT]
                if n >= cols[col, CAPACITY]:
                    status = ops.FULL
                    break
                cols[col, COUNT] = n + 1
        elif op == ops.SKIP:
            if pos + prog[pc, 2] > end:
                status = ops.TRUNCATED
                break
            pos += prog[pc, 2]
        elif op == ops.LIST:
            if pos + 4 > end:
                status = ops.TRUNCATED
                break
            count = load_be_i32(buf, pos)
            pos += 4
            if count < 0 or count * prog[pc, 6] > end - pos or (prog[pc, 6] == 0 and count > MOST_EMPTY):
                status = ops.BAD_COUNT
                break
            if count == 0:
                if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
            regs[prog[pc, 2]] = count
        elif op == ops.LIST_NEXT:
            reg = prog[pc, 2]
            regs[reg] -= 1
            if regs[reg] > 0:
                pc = prog[pc, 5]
                continue
            if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
                status = ops.FULL
                break
        elif op == ops.JOINED:
            if pos >= end:
                if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
        elif op == ops.JOINED_NEXT:
            if pos < end:
                if buf[pos] != 0x2C:
                    status = ops.BAD_BYTE
                    break
                pos += 1
                pc = prog[pc, 5]
                continue
            if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
                status = ops.FULL
                break
        elif op == ops.BLOCKS or op == ops.BLOCKS_NEXT:
            more = False
            if op == ops.BLOCKS_NEXT:
                regs[prog[pc, 2]] -= 1
                more = regs[prog[pc, 2]] > 0
            if not more:
                count, after = varint(buf, pos, end)
                if after < 0 or count > end - after:
                    status = ops.BAD_COUNT
                    break
                pos = after
                regs[prog[pc, 2]] = count
                if count == 0:
                    if col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, 3], COUNT]):
                        status = ops.FULL
                        break
                    if op == ops.BLOCKS:
                        pc = prog[pc, 5]
                    else:
                        pc += 1
                    continue
                more = op == ops.BLOCKS_NEXT
            if more:
                pc = prog[pc, 5]
                continue
        elif op == ops.BYTES or op == ops.FIXED_BYTES:
            size = prog[pc, 2]
            if op == ops.BYTES:
                if pos + 4 > end:
                    status = ops.TRUNCATED
                    break
                size = load_be_i32(buf, pos)
                pos += 4
            if size < 0 or size > end - pos:
                status = ops.BAD_COUNT
                break
            if col >= 0 and not put_bytes(arena, cols, col, buf, pos, size):
                status = ops.FULL
                break
            pos += size
        elif op == ops.REST:
            size = end - pos - prog[pc, 2]
            if size < 0:
                status = ops.TRUNCATED
                break
            if col >= 0 and not put_bytes(arena, cols, col, buf, pos, size):
                status = ops.FULL
                break
            pos += size
        elif op == ops.MASK:
            regs[prog[pc, 2]] = pos
            pos += (prog[pc, 3] + 7) // 8
            if pos > end:
                status = ops.TRUNCATED
                break
        elif op == ops.MASK_NULL:
            bit = prog[pc, 6]
            if buf[regs[prog[pc, 2]] + (bit >> 3)] & (0x80 >> (bit & 7)):
                col = fill_nulls(arena, cols, nulls, prog[pc, 3], prog[pc, 4])
                if col >= 0:
                    status = ops.FULL
                    break
                pc = prog[pc, 5]
                continue
        elif op == ops.ROW_KIND:
            bits = np.int64(buf[regs[prog[pc, 2]]])
            if col >= 0:
                kind = 2 * ((bits >> 7) + 2 * ((bits >> 6) & 1))
                if not put_bytes(arena, cols, col, consts, prog[pc, 3] + kind, 2):
                    status = ops.FULL
                    break
        elif op == ops.FILL_NULLS:
            col = fill_nulls(arena, cols, nulls, prog[pc, 3], prog[pc, 4])
            if col >= 0:
                status = ops.FULL
                break
        elif op == ops.ENTRY:
            if col >= 0 and not put_fixed(arena, cols, col, entries[entry, prog[pc, 2]]):
                status = ops.FULL
                break
        elif op == ops.REGISTER:
            if col >= 0 and not put_fixed(arena, cols, col, regs[prog[pc, 2]]):
                status = ops.FULL
                break
        elif op == ops.CAPTURE:
            begin = regs[prog[pc, 2]]
            if col >= 0 and not put_bytes(arena, cols, col, buf, begin, pos - begin):
                status = ops.FULL
                break
        elif op == ops.CONST:
            if col >= 0 and not put_bytes(arena, cols, col, consts, prog[pc, 2], prog[pc, 3]):
                status = ops.FULL
                break
        elif op == ops.CHOOSE_BYTE:
            if pos >= end:
                status = ops.TRUNCATED
                break
            index = np.int64(buf[pos])
            target = aux[prog[pc, 2] + index, 0] if index < prog[pc, 3] else np.int64(-1)
            if target < 0:
                status = ops.BAD_BYTE
                break
            pos += 1
            pc = target
            continue
        elif op == ops.ENUM or op == ops.CHOOSE:
            if pos + 4 > end:
                status = ops.TRUNCATED
                break
            index = load_be_i32(buf, pos)
            if index < 0 or index >= prog[pc, 3]:
                status = ops.BAD_INDEX
                break
            pos += 4
            if op == ops.CHOOSE:
                pc = aux[prog[pc, 2] + index, 0]
                continue
            if col >= 0:
                r = prog[pc, 2] + index
                if not put_bytes(arena, cols, col, consts, aux[r, 0], aux[r, 1]):
                    status = ops.FULL
                    break
        elif op == ops.CHAR:
            if pos + 2 > end:
                status = ops.TRUNCATED
                break
            if col >= 0:
                if not room(cols, col, 3):
                    status = ops.FULL
                    break
                unit = load_be_u16(buf, pos)
                if 0xD800 <= unit < 0xE000:
                    unit = 0xFFFD
                end_text(arena, cols, col, put_code_point(arena, cols[col, VAR] + cols[col, VAR_SIZE], unit))
            pos += 2
        elif op == ops.STRING_VALUE:
            pos, status = java_string(False, buf, pos, end, arena, cols, col)
            if status != ops.OK:
                break
        elif op == ops.BIG_DECIMAL or op == ops.BIG_INTEGER:
            pos, status = big_number(op, buf, pos, end, arena, cols, col)
            if status != ops.OK:
                break
        elif op >= ops.DATE_MS and op <= ops.MILLIS_NANOS:
            pos, status = temporal(op, prog[pc, 2], prog[pc, 3], buf, pos, end, arena, cols, col)
            if status != ops.OK:
                break
        elif op == ops.EPOCH_DAY or op == ops.EPOCH_UNITS:
            pos, status = epoch(prog[pc], buf, pos, end, arena, cols, col)
            if status != ops.OK:
                break
        elif op >= ops.REGION:
            pc, pos, status, col = binary(prog, pc, nulls, consts, buf, pos, end, regs, arena, cols)
            if status != ops.OK:
                break
            continue
        elif op == ops.JUMP:
            pc = prog[pc, 2]
            continue
        elif op == ops.BRANCH_ZERO:
            if pos >= end:
                status = ops.TRUNCATED
                break
            pos += 1
            if buf[pos - 1] == 0:
                pc = prog[pc, 2]
                continue
        elif op == ops.EXPECT:
            if pos >= end:
                status = ops.TRUNCATED
                break
            if buf[pos] != prog[pc, 2]:
                status = ops.BAD_BYTE
                break
            pos += 1
        elif op == ops.MARK:
            regs[prog[pc, 2]] = pos
        elif op == ops.SKIP_SUFFIX:
            length = pos - regs[prog[pc, 2]]
            pos += 1
            while length > 255:
                length >>= 8
                pos += 1
            if pos > end:
                status = ops.TRUNCATED
                break
        else:
            status = ops.BAD_BYTE
            break
        pc += 1
    result[STATUS] = status
    result[ROWS] = done
    result[POSITION] = row_start if status == ops.FULL else pos
    result[INSTRUCTION] = pc
    result[COLUMN] = col
    result[ROW_START] = row_start
