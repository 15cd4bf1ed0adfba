"""The encode kernel: one compiled loop that runs a flat program over the rows of a batch and writes their bytes.

The inverse of :mod:`state_processor.serializers.kernel.decode.loop`. A row is either written whole or not at all: where the
output is full, the run ends with ``FULL`` at the begin of that row, and the caller goes on with more room.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import OnDemand, entry_point, kernel
from state_processor.serializers.kernel.encode.binary import binary
from state_processor.serializers.kernel.encode.input_arena import (
    BYTES,
    COLUMNS,
    DATA,
    LARGEST_FIXED,
    LEVEL,
    OUTPUT,
    PROGRAM,
    REGISTERS,
    copy,
    is_null,
    row_kind,
    run_family,
    store_tables,
    text_at,
)
from state_processor.serializers.kernel.encode.numbers import put_decimal, put_number
from state_processor.serializers.kernel.encode.text import code_point, put_string, put_varint, utf8_size
from state_processor.serializers.kernel.encode.times import put_epoch, put_java_local_time, put_sql_time, put_temporal
from state_processor.serializers.kernel.memory import (
    MAX_I64,
    MIN_I64,
    load_i16,
    load_i32,
    load_i64,
    store_be_i16,
    store_be_i32,
    store_be_i64,
)
from state_processor.serializers.kernel.opcodes import (
    BLOCKS,
    CODE,
    COL,
    COUNTED,
    DECIMALS,
    EPOCHS,
    FAMILY,
    FAMILY_SHIFT,
    JAVA_LOCAL_TIMES,
    JOINED,
    NUMBER,
    SQL_TIME_TEXTS,
    SQL_TIMES,
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
from state_processor.serializers.kernel.signatures import int32, int64, read, written

# Fields of the result of a run
STATUS: Final = 0
ROWS: Final = 1
POSITION: Final = 2
ENTRIES: Final = 3
INSTRUCTION: Final = 4
RESULT_FIELDS: Final = 5

# Fields of an entry
BEGIN: Final = 0
END: Final = 1
ROW: Final = 2
ENTRY_FIELDS: Final = 3

_MAX_I32: Final = np.int32(2**31 - 1)
_INFINITY_64: Final = 0x7FF0000000000000
_INFINITY_32: Final = np.int32(0x7F800000)
_NAN_64: Final = 0x7FF8000000000000  # the one that Java's doubleToLongBits makes of all
_NAN_32: Final = np.int32(0x7FC00000)


@kernel
def _same(arena, begin, size, consts, at):  # type: ignore[no-untyped-def]
    for i in range(size):  # noqa: SIM110
        if arena[begin + i] != consts[at + i]:
            return False
    return True


@kernel
def _named(arena, begin, end, aux, first, rows, at, size, consts):  # type: ignore[no-untyped-def]
    """Return the number of the name (offset in field ``at`` of its row, size in field ``size``) that a text equals, or -1."""
    for r in range(rows):
        if aux[first + r, size] == end - begin and _same(arena, begin, end - begin, consts, aux[first + r, at]):
            return r
    return -1


@kernel
def _mask(aux, first, rows, kind_bits, kind_col, names, consts, arena, cols, idx, out, pos):  # type: ignore[no-untyped-def]
    """Write a row's bit mask: two bits of the kind, if it has one, and one for each field. Return -1 for an unknown kind."""
    for i in range((kind_bits + rows + 7) // 8):
        out[pos + i] = 0
    if kind_bits:
        kind = row_kind(arena, cols, kind_col, idx, consts, names)
        if kind < 0:
            return -1
        out[pos] = ((kind & 1) << 7) | ((kind >> 1) << 6)
    for r in range(rows):
        col = aux[first + r, 0]
        if is_null(arena, cols, col, idx[cols[col, LEVEL]]):
            bit = kind_bits + r
            out[pos + (bit >> 3)] |= 0x80 >> (bit & 7)
    return pos + (kind_bits + rows + 7) // 8


@kernel
def _union(prog, pc, aux, arena, cols, idx):  # type: ignore[no-untyped-def]
    """Return the target of the only branch that is not null, or -1."""
    target = -1
    for r in range(prog[pc, A], prog[pc, A] + prog[pc, B]):
        if not is_null(arena, cols, aux[r, 0], idx[cols[aux[r, 0], LEVEL]]):
            if target >= 0:
                return -1
            target = aux[r, 1]
    return target


@kernel
def _put_fixed(size, arena, cols, col, slot, out, pos):  # type: ignore[no-untyped-def]
    """Write so many bytes. Return the offset after them and 0, or the status that stops the run."""
    first, last = text_at(arena, cols, col, slot)
    if last - first != size:
        return pos, outcomes.BAD_SIZE
    if pos + size > len(out):
        return pos, outcomes.FULL
    return copy(arena, first, last, out, pos), outcomes.OK


@kernel
def _null_bits(arena, cols, col, slot, elements, out, pos):  # type: ignore[no-untyped-def]
    """Write a bit for each element of a list, set for null. Return the offset after them, or -1 without room."""
    first = load_i32(arena, cols[col, DATA] + 4 * slot)
    count = load_i32(arena, cols[col, DATA] + 4 * slot + 4) - first
    size = (count + 7) // 8
    if pos + size > len(out):
        return -1
    for i in range(size):
        out[pos + i] = 0
    for i in range(count):
        if is_null(arena, cols, elements, first + i):
            out[pos + (i >> 3)] |= 0x80 >> (i & 7)
    return pos + size


FAMILIES: Final[dict[int, OnDemand]] = {
    TIME: put_temporal,
    EPOCHS: put_epoch,
    NUMBER: put_number,
    DECIMALS: put_decimal,
    SQL_TIMES: put_sql_time,
    SQL_TIME_TEXTS: put_sql_time,
    TABLE: binary,
    JAVA_LOCAL_TIMES: put_java_local_time,
}
"""The instructions that are not part of the loop."""


@entry_point(
    PROGRAM,
    read(int64),
    read(int64, 2),
    BYTES,
    BYTES,
    COLUMNS,
    int64,
    read(int32),
    int64,
    int64,
    int64,
    REGISTERS,
    REGISTERS,
    REGISTERS,
    OUTPUT,
    written(int64, 2),
    written(int64),
)
def run(  # type: ignore[no-untyped-def]
    prog, families, aux, consts, arena, cols, rows, groups, at, pos, entry_count, idx, stop, regs, out, entries, result
):
    """Write the rows from ``at`` to ``rows`` and describe in ``result`` how it ended.

    ``prog``, ``aux`` and ``consts`` are a program's tables, ``arena`` and ``cols`` a batch's, and ``families`` the addresses of
    :data:`FAMILIES`. ``groups`` has the key group of each row of the batch. Writing goes on at ``pos`` of ``out`` and at line
    ``entry_count`` of ``entries``.
    """
    tables = store_tables((prog, consts, arena, cols, idx, stop, regs, out))
    done = at
    row_pos = pos
    row_entry_count = entry_count
    begin = pos
    status = outcomes.OK
    pc = np.int64(0)
    limit = len(out)
    while done < rows:
        if pc == 0:
            idx[0] = done
            row_pos = pos
            row_entry_count = entry_count
            begin = pos
        if pos + LARGEST_FIXED > limit:
            status = outcomes.FULL
            break
        op = prog[pc, CODE]
        if op >= TIME:
            family = families[(op & FAMILY) >> FAMILY_SHIFT]
            if family == 0:
                status = outcomes.UNKNOWN_INSTRUCTION
                break
            pc, pos, status = run_family(family, tables, pc, pos, limit)
            if status != outcomes.OK:
                break
            continue
        col = prog[pc, COL]
        slot = np.int64(0)
        null = False
        if col >= 0:
            slot = idx[cols[col, LEVEL]]
            null = is_null(arena, cols, col, slot)
        if Op.INT8 <= op <= Op.FLOAT64:  # a list of the six numbers would take a register that the loop lacks
            if null:
                status = outcomes.NULL_VALUE
                break
            data = cols[col, DATA]
            if op == Op.INT64 or op == Op.FLOAT64:
                whole = load_i64(arena, data + 8 * slot)
                if op == Op.FLOAT64 and whole & MAX_I64 > _INFINITY_64:
                    whole = _NAN_64
                store_be_i64(out, pos, whole)
                pos += 8
            elif op == Op.INT32 or op == Op.FLOAT32:
                half = load_i32(arena, data + 4 * slot)
                if op == Op.FLOAT32 and half & _MAX_I32 > _INFINITY_32:
                    half = _NAN_32
                store_be_i32(out, pos, half)
                pos += 4
            elif op == Op.INT16:
                store_be_i16(out, pos, load_i16(arena, data + 2 * slot))
                pos += 2
            else:
                out[pos] = arena[data + slot]
                pos += 1
        elif op == Op.STRING or op == Op.STRING_VALUE or op == Op.BYTES or op == Op.RAW or op == Op.UTF8:
            a = prog[pc, A]
            if null:
                if op == Op.STRING:
                    out[pos] = 0
                    pos += 1
                elif op == Op.RAW and a >= 0:
                    if pos + prog[pc, B] > limit:
                        status = outcomes.FULL
                        break
                    pos = copy(consts, a, a + prog[pc, B], out, pos)
                else:
                    status = outcomes.NULL_VALUE
                    break
            else:
                first, last = text_at(arena, cols, col, slot)
                if op == Op.STRING or op == Op.STRING_VALUE:
                    after = put_string(arena, first, last, op == Op.STRING, out, pos)
                    if after < 0:
                        status = outcomes.FULL
                        break
                    pos = after
                else:
                    if pos + last - first + 4 > limit:
                        status = outcomes.FULL
                        break
                    if op != Op.RAW:
                        store_be_i32(out, pos, last - first)
                        pos += 4
                    pos = copy(arena, first, last, out, pos)
        elif op == Op.FRAME:
            regs[prog[pc, A]] = pos
            pos += 4
        elif op == Op.END_FRAME:
            start = regs[prog[pc, A]]
            store_be_i32(out, start, pos - start - 4)
        elif op == Op.PREFIX:
            group = groups[idx[0]]
            if prog[pc, A] == 2:
                store_be_i16(out, pos, group)
                pos += 2
            else:
                out[pos] = group
                pos += 1
        elif op == Op.CONST:
            if pos + prog[pc, B] > limit:
                status = outcomes.FULL
                break
            pos = copy(consts, prog[pc, A], prog[pc, A] + prog[pc, B], out, pos)
        elif op == Op.ENTRY_END:
            if entry_count == len(entries):
                status = outcomes.FULL
                break
            entries[entry_count, BEGIN] = begin
            entries[entry_count, END] = pos
            entries[entry_count, ROW] = done
            entry_count += 1
            begin = pos
        elif op == Op.ROW_END:
            done += 1
            pc = np.int64(0)
            continue
        elif op == Op.SKIP_NULL:
            if null:
                pc = prog[pc, D]
                continue
        elif op == Op.NULL_FLAG:
            means_null = prog[pc, A]
            if null:
                if pos + prog[pc, E] + 1 > limit:
                    status = outcomes.FULL
                    break
                out[pos] = means_null
                for i in range(prog[pc, E]):
                    out[pos + 1 + i] = 0
                pos += 1 + prog[pc, E]
                pc = prog[pc, D]
                continue
            out[pos] = 1 - means_null
            pos += 1
        elif op == Op.POJO:
            if null or prog[pc, A] == 0:
                out[pos] = 1 if null else 2
                pos += 1
            if null:
                pc = prog[pc, D]
                continue
        elif op == Op.REQUIRE:
            if null:
                status = outcomes.NULL_VALUE
                break
        elif op == Op.LIST or op == Op.SKIP_EMPTY:
            count = np.int64(0)
            if not null:
                first = np.int64(load_i32(arena, cols[col, DATA] + 4 * slot))
                count = load_i32(arena, cols[col, DATA] + 4 * slot + 4) - first
            if op == Op.SKIP_EMPTY:
                if count == 0:
                    pc = prog[pc, D]
                    continue
            else:
                if null:
                    status = outcomes.NULL_VALUE
                    break
                form = prog[pc, A]
                if form == COUNTED:
                    store_be_i32(out, pos, count)
                    pos += 4
                elif form == BLOCKS:
                    pos = put_varint(out, pos, count)
                if count == 0:
                    pc = prog[pc, D]
                    continue
                idx[col + 1] = first
                stop[col + 1] = first + count
        elif op == Op.LIST_NEXT:
            idx[col + 1] += 1
            form = prog[pc, A]
            if idx[col + 1] < stop[col + 1]:
                if form == JOINED:
                    out[pos] = 0x2C
                    pos += 1
                pc = prog[pc, D]
                continue
            if form == BLOCKS:
                out[pos] = 0
                pos += 1
        elif op == Op.JUMP:
            pc = prog[pc, A]
            continue
        elif op == Op.MARK:
            regs[prog[pc, A]] = pos
        elif op == Op.SUFFIX:
            length = pos - regs[prog[pc, A]]
            out[pos] = length & 0xFF
            pos += 1
            while length > 255:
                length >>= 8
                out[pos] = length & 0xFF
                pos += 1
        elif op == Op.SIGN_FLIPPED_INT64:
            if null:
                status = outcomes.NULL_VALUE
                break
            store_be_i64(out, pos, load_i64(arena, cols[col, DATA] + 8 * slot) ^ MIN_I64)
            pos += 8
        elif op == Op.MASK:
            if pos + (prog[pc, B] + prog[pc, C] + 7) // 8 > limit:
                status = outcomes.FULL
                break
            bits, kind_col, names = prog[pc, C], prog[pc, E], prog[pc, F]
            after = _mask(aux, prog[pc, A], prog[pc, B], bits, kind_col, names, consts, arena, cols, idx, out, pos)
            if after < 0:
                status = outcomes.BAD_NAME
                break
            pos = after
        elif op == Op.SUBCLASS:
            if not null:
                first, last = text_at(arena, cols, col, slot)
                r = _named(arena, first, last, aux, prog[pc, A], prog[pc, B], 1, 2, consts)
                if r < 0:
                    status = outcomes.BAD_CLASS
                    break
                pc = aux[prog[pc, A] + r, 3]
                continue
        elif op == Op.EITHER:
            left = prog[pc, A]
            right = prog[pc, B]
            no_left = is_null(arena, cols, left, idx[cols[left, LEVEL]])
            if null or no_left == is_null(arena, cols, right, idx[cols[right, LEVEL]]):
                status = outcomes.NULL_VALUE if null else outcomes.BAD_EITHER
                break
            out[pos] = prog[pc, F] if no_left else prog[pc, E]
            pos += 1
            if no_left:
                pc = prog[pc, D]
                continue
        elif op == Op.ENUM or op == Op.CHAR:
            if null:
                status = outcomes.NULL_VALUE
                break
            first, last = text_at(arena, cols, col, slot)
            if op == Op.ENUM:
                r = _named(arena, first, last, aux, prog[pc, A], prog[pc, B], 0, 1, consts)
                if r < 0:
                    status = outcomes.BAD_NAME
                    break
                store_be_i32(out, pos, r)
                pos += 4
            else:
                if first == last or utf8_size(arena[first]) != last - first or last - first > 3:
                    status = outcomes.BAD_CHAR
                    break
                store_be_i16(out, pos, code_point(arena, first, last - first))
                pos += 2
        elif op == Op.FIXED_BYTES:
            if null:
                status = outcomes.NULL_VALUE
                break
            pos, status = _put_fixed(prog[pc, A], arena, cols, col, slot, out, pos)
            if status != outcomes.OK:
                break
        elif op == Op.UNION:
            target = prog[pc, D] if null else _union(prog, pc, aux, arena, cols, idx)
            if target < 0:
                status = outcomes.NULL_VALUE if null else outcomes.BAD_UNION
                break
            pc = target
            continue
        elif op == Op.NULL_BITS:
            after = _null_bits(arena, cols, col, slot, prog[pc, A], out, pos)
            if after < 0:
                status = outcomes.FULL
                break
            pos = after
        else:
            status = outcomes.UNKNOWN_INSTRUCTION
            break
        pc += 1
    result[STATUS] = status
    result[ROWS] = done
    result[POSITION] = row_pos if status != outcomes.OK else pos
    result[ENTRIES] = row_entry_count if status != outcomes.OK else entry_count
    result[INSTRUCTION] = pc
