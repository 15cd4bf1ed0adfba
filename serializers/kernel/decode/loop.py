"""The decode kernel: one compiled loop that runs a flat program over many entries and fills columns in an arena.

A row is either decoded whole or not at all: if a column has no room left, the run ends with ``FULL`` and the caller
cuts every column back to the last whole row, emits the batch and goes on with more room (see
:mod:`state_processor.serializers.kernel.decode.decoder`). That one mechanism bounds memory and needs no size to be known ahead.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.io import MOST_EMPTY
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import OnDemand, entry_point, kernel
from state_processor.serializers.kernel.decode.arena import (
    ARENA,
    AUX,
    BLOCKS,
    BYTES,
    CAPACITY,
    COLUMNS,
    COUNT,
    DATA,
    ENTRIES,
    FOUND,
    NUMBERS,
    PROGRAM,
    REGISTERS,
    WALK,
    fill_nulls,
    next_entries,
    put_bytes,
    put_fixed,
    put_offset,
    run_family,
    store_feed,
    store_tables,
)
from state_processor.serializers.kernel.decode.binary import binary
from state_processor.serializers.kernel.decode.misc import masked, misc
from state_processor.serializers.kernel.decode.numbers import decimal, number
from state_processor.serializers.kernel.decode.text import avro, put_short_ascii, string
from state_processor.serializers.kernel.decode.times import epoch, java_local_time, sql_time, sql_time_text, temporal
from state_processor.serializers.kernel.interpreter import interpreter
from state_processor.serializers.kernel.memory import (
    MIN_I64,
    load_be_i16,
    load_be_i32,
    load_be_i64,
    load_be_u16,
    store_i32,
    store_i64,
)
from state_processor.serializers.kernel.opcodes import (
    AVRO,
    CODE,
    COL,
    DECIMALS,
    EPOCHS,
    FAMILY,
    FAMILY_SHIFT,
    JAVA_LOCAL_TIMES,
    MASKS,
    MISC,
    NUMBER,
    SQL_TIME_TEXTS,
    SQL_TIMES,
    STRINGS,
    TABLE,
    TIME,
    A,
    B,
    C,
    D,
    E,
    F,
    Op,
)
from state_processor.serializers.kernel.signatures import int64, read, written

# Fields of the result of a run
STATUS: Final = 0
ROWS: Final = 1
POSITION: Final = 2
INSTRUCTION: Final = 3
COLUMN: Final = 4
ROW_START: Final = 5
ENTRY: Final = 6
RESULT_FIELDS: Final = 7


FAMILIES: Final[dict[int, OnDemand]] = {
    AVRO: avro,
    STRINGS: string,
    MISC: misc,
    TIME: temporal,
    EPOCHS: epoch,
    NUMBER: number,
    DECIMALS: decimal,
    SQL_TIMES: sql_time,
    SQL_TIME_TEXTS: sql_time_text,
    TABLE: binary,
    JAVA_LOCAL_TIMES: java_local_time,
    MASKS: masked,
}
"""The instructions that are not part of the loop."""


@kernel
def _pojo_target(buf, pos, end, flags, aux, first, rows, consts):  # type: ignore[no-untyped-def]
    """Return the start of a subclass's program and the position of the flags after its tag; -1 for a class not described."""
    if flags == 8:
        if pos >= end:
            return -1, pos
        tag = np.int64(buf[pos])
        for r in range(first, first + rows):
            if aux[r, 0] == 8 and aux[r, 1] == tag:
                return aux[r, 3], pos + 1
        return -1, pos
    if pos + 2 > end:
        return -1, pos
    size = load_be_u16(buf, pos)
    if pos + 2 + size > end:
        return -1, pos
    for r in range(first, first + rows):
        if aux[r, 0] != 4 or aux[r, 2] != size:
            continue
        same = True
        for i in range(size):
            if buf[pos + 2 + i] != consts[aux[r, 1] + i]:
                same = False
                break
        if same:
            return aux[r, 3], pos + 2 + size
    return -1, pos


@entry_point(
    PROGRAM,
    NUMBERS,
    NUMBERS,
    AUX,
    BYTES,
    BYTES,
    read(int64, 2),
    int64,
    int64,
    int64,
    int64,
    REGISTERS,
    ARENA,
    COLUMNS,
    written(int64),
    BLOCKS,
    WALK,
    ENTRIES,
)
def run(  # type: ignore[no-untyped-def]
    prog, families, nulls, aux, consts, buf, entries, entry, rows, pos, end, regs, arena, cols, result, blocks, walk, table
):
    """Decode up to ``rows`` rows and describe in ``result`` how it ended.

    ``prog``, ``nulls``, ``aux`` and ``consts`` are a program's tables and ``families`` the addresses of :data:`FAMILIES`. With
    framed input, row i takes the parts of ``entries[entry + i]``; without, rows lie back to back from ``pos`` on. If ``families``
    has a function that finds entries, it fills ``table``, which is ``entries``, from ``blocks`` and ``walk`` whenever the table
    has no more entries; so the entries are in the processor's cache when they are decoded.
    """
    tables = store_tables((prog, nulls, aux, consts, buf, regs, arena, cols))
    feed = families[len(families) - 1]
    source = store_feed((buf, blocks, walk, table))
    behind = np.int64(-1)
    if feed != 0:
        behind = walk[FOUND]
        if entry == behind:
            (behind,) = next_entries(feed, source, 0, 0, 0)
            entry = np.int64(0)
            rows = rows if behind else np.int64(0)
    done = 0
    pc = np.int64(0)
    row_start = pos
    part = pos
    status = outcomes.OK
    col = -1
    while done < rows:
        op = prog[pc, CODE]
        col = prog[pc, COL]
        if op == Op.SEEK:
            part = prog[pc, A]
            pos = entries[entry, 2 * part]
            end = entries[entry, 2 * part + 1]
        elif op == Op.INT64 or op == Op.FLOAT64:
            if pos + 8 > end:
                status = outcomes.TRUNCATED
                break
            if col >= 0:
                n = cols[col, COUNT]
                if n >= cols[col, CAPACITY]:
                    status = outcomes.FULL
                    break
                store_i64(arena, cols[col, DATA] + 8 * n, load_be_i64(buf, pos))
                cols[col, COUNT] = n + 1
            pos += 8
        elif op == Op.END:
            if pos != end:
                status = outcomes.TRAILING
                break
        elif op == Op.ROW_END:
            done += 1
            entry += 1
            row_start = pos
            pc = np.int64(0)
            if entry == behind and done < rows:
                (behind,) = next_entries(feed, source, 0, 0, 0)
                entry = np.int64(0)
                if behind == 0:
                    break
            continue
        elif op == Op.NULL_FLAG:
            if pos >= end:
                status = outcomes.TRUNCATED
                break
            flag = np.int64(1) if buf[pos] != 0 else np.int64(0)
            pos += 1
            if flag == prog[pc, A]:
                if pos + prog[pc, E] > end:
                    status = outcomes.TRUNCATED
                    break
                pos += prog[pc, E]
                col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
                if col >= 0:
                    status = outcomes.FULL
                    break
                pc = prog[pc, D]
                continue
        elif op == Op.INT32 or op == Op.FLOAT32:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            if col >= 0:
                n = cols[col, COUNT]
                if n >= cols[col, CAPACITY]:
                    status = outcomes.FULL
                    break
                store_i32(arena, cols[col, DATA] + 4 * n, load_be_i32(buf, pos))
                cols[col, COUNT] = n + 1
            pos += 4
        elif op == Op.INT16 or op == Op.INT8 or op == Op.SIGN_FLIPPED_INT64:
            width = 2 if op == Op.INT16 else (1 if op == Op.INT8 else 8)
            if pos + width > end:
                status = outcomes.TRUNCATED
                break
            if width == 8:
                number = load_be_i64(buf, pos) ^ MIN_I64
            else:
                number = load_be_i16(buf, pos) if width == 2 else np.int64(buf[pos])
            if col >= 0 and not put_fixed(arena, cols, col, number):
                status = outcomes.FULL
                break
            pos += width
        elif op == Op.POJO:
            if pos >= end:
                status = outcomes.TRUNCATED
                break
            flags = np.int64(buf[pos])
            pos += 1
            if flags == 1:
                col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
                if col >= 0:
                    status = outcomes.FULL
                    break
                pc = prog[pc, D]
                continue
            if flags == 4 or flags == 8:
                target, pos = _pojo_target(buf, pos, end, flags, aux, prog[pc, A], prog[pc, F], consts)
                if target < 0:
                    status = outcomes.BAD_TAG
                    break
                pc = target
                continue
            if flags != 2:
                status = outcomes.BAD_BYTE
                break
        elif op == Op.VALID:
            if col >= 0:
                n = cols[col, COUNT]
                if n >= cols[col, CAPACITY]:
                    status = outcomes.FULL
                    break
                cols[col, COUNT] = n + 1
        elif op == Op.SKIP:
            if pos + prog[pc, A] > end:
                status = outcomes.TRUNCATED
                break
            pos += prog[pc, A]
        elif op == Op.LIST or op == Op.LIST_NEXT or op == Op.JOINED or op == Op.JOINED_NEXT:
            begins = op == Op.LIST or op == Op.JOINED
            if op == Op.LIST:
                if pos + 4 > end:
                    status = outcomes.TRUNCATED
                    break
                remaining = load_be_i32(buf, pos)
                pos += 4
                if remaining < 0 or remaining * prog[pc, E] > end - pos or (prog[pc, E] == 0 and remaining > MOST_EMPTY):
                    status = outcomes.BAD_COUNT
                    break
                regs[prog[pc, A]] = remaining
            elif op == Op.LIST_NEXT:
                remaining = regs[prog[pc, A]] - 1
                regs[prog[pc, A]] = remaining
            else:
                remaining = end - pos
                if op == Op.JOINED_NEXT and remaining > 0:
                    if buf[pos] != 0x2C:
                        status = outcomes.BAD_BYTE
                        break
                    pos += 1
            if remaining <= 0 and col >= 0 and not put_offset(arena, cols, col, cols[prog[pc, B], COUNT]):
                status = outcomes.FULL
                break
            if begins == (remaining <= 0):
                pc = prog[pc, D]
                continue
        elif op == Op.BYTES:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            size = load_be_i32(buf, pos)
            pos += 4
            if size < 0 or size > end - pos:
                status = outcomes.BAD_COUNT
                break
            if col >= 0 and not put_bytes(arena, cols, col, buf, pos, size):
                status = outcomes.FULL
                break
            pos += size
        elif op == Op.MASK:
            regs[prog[pc, A]] = pos
            pos += (prog[pc, B] + 7) // 8
            if pos > end:
                status = outcomes.TRUNCATED
                break
        elif op == Op.MASK_NULL:
            bit = prog[pc, E]
            if buf[regs[prog[pc, A]] + (bit >> 3)] & (0x80 >> (bit & 7)):
                col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
                if col >= 0:
                    status = outcomes.FULL
                    break
                pc = prog[pc, D]
                continue
        elif op == Op.FILL_NULLS:
            col = fill_nulls(arena, cols, nulls, prog[pc, B], prog[pc, C])
            if col >= 0:
                status = outcomes.FULL
                break
        elif op == Op.ENTRY or op == Op.REGISTER:
            number = entries[entry, prog[pc, A]] if op == Op.ENTRY else regs[prog[pc, A]]
            if col >= 0 and not put_fixed(arena, cols, col, number):
                status = outcomes.FULL
                break
        elif op == Op.JUMP:
            pc = prog[pc, A]
            continue
        elif op == Op.FRAME:
            if pos + 4 > end:
                status = outcomes.TRUNCATED
                break
            size = load_be_i32(buf, pos)
            if size < 0 or size > end - pos - 4:
                status = outcomes.BAD_COUNT
                break
            pos += 4
            regs[prog[pc, A]] = end
            end = pos + size
        elif op == Op.END_FRAME:
            if pos != end:
                status = outcomes.TRAILING
                break
            end = regs[prog[pc, A]]
        elif op == Op.UNTIL_END:
            if pos >= end:
                pc = prog[pc, D]
                continue
        elif op == Op.MOVE:
            pos = regs[prog[pc, A]]
        elif op == Op.INSIDE:
            regs[prog[pc, A]] = end
            pos = regs[prog[pc, B]]
            end = regs[prog[pc, B] + 1]
        elif op == Op.MARK:
            regs[prog[pc, A]] = pos
        elif op == Op.SUFFIX:
            length = pos - regs[prog[pc, A]]
            pos += 1
            while length > 255:
                length >>= 8
                pos += 1
            if pos > end:
                status = outcomes.TRUNCATED
                break
        else:
            if op == Op.STRING and col >= 0 and put_short_ascii(buf, pos, end, arena, cols, col):
                pos += np.int64(buf[pos])
                pc += 1
                continue
            family = families[(op & FAMILY) >> FAMILY_SHIFT]
            if family == 0:
                status = outcomes.UNKNOWN_INSTRUCTION
                break
            pc, pos, status, col = run_family(family, tables, pc, pos, end)
            if status != outcomes.OK:
                break
            continue
        pc += 1
    result[STATUS] = status
    result[ROWS] = done
    result[POSITION] = row_start if status == outcomes.FULL else pos
    result[INSTRUCTION] = pc
    result[COLUMN] = col
    result[ROW_START] = row_start
    result[ENTRY] = entry


def compile_reading() -> None:
    """Compile what reads values, so that no later read waits for it or runs in Python."""
    interpreter.stop()
    run.compile()
