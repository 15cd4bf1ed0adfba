"""The encode kernel: one compiled loop that runs a flat program over the rows of a batch and writes their bytes.

The mirror image of :mod:`state_processor.serializers.kernel.decode`. A row is either written whole or not at all: where the
output has no room left, the run ends with ``FULL`` at the begin of that row, and the caller goes on with more room.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel import encode_ops as ops
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.encode_columns import DATA, LEVEL, VALIDITY, VAR
from state_processor.serializers.kernel.encode_text import code_point, put_string, put_varint, utf8_size
from state_processor.serializers.kernel.memory import (
    load_i16,
    load_i32,
    load_i64,
    store_be_i16,
    store_be_i32,
    store_be_i64,
)
from state_processor.serializers.kernel.text import civil_from_days

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
ROW: Final = 2  # position in the order of rows
ENTRY_FIELDS: Final = 3

_MIN_I64: Final = -(2**63)
_MIN_I32: Final = -(2**31)
_LARGEST_FIXED: Final = 16


@kernel
def _is_null(arena, cols, col, slot):  # type: ignore[no-untyped-def]
    validity = cols[col, VALIDITY]
    return validity >= 0 and arena[validity + slot] == 0


@kernel
def _copy(source, begin, end, out, pos):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        out[pos + i - begin] = source[i]
    return pos + end - begin


@kernel
def _same(arena, begin, size, consts, at):  # type: ignore[no-untyped-def]
    for i in range(size):  # noqa: SIM110
        if arena[begin + i] != consts[at + i]:
            return False
    return True


@kernel
def _named(arena, begin, end, aux, first, rows, at, size, consts):  # type: ignore[no-untyped-def]
    """The number of the row of names (offset in field ``at``, size in field ``size``) that a text equals, or -1."""
    for r in range(rows):
        if aux[first + r, size] == end - begin and _same(arena, begin, end - begin, consts, aux[first + r, at]):
            return r
    return -1


@kernel
def _mask(aux, first, rows, kind_bits, kind_col, names, consts, arena, cols, idx, out, pos):  # type: ignore[no-untyped-def]
    """A row's bit mask: two bits of the kind where rows have one, then a bit for each null field; -1 for an unknown kind."""
    for i in range((kind_bits + rows + 7) // 8):
        out[pos + i] = 0
    if kind_bits and kind_col >= 0:
        slot = idx[cols[kind_col, LEVEL]]
        if not _is_null(arena, cols, kind_col, slot):
            at = cols[kind_col, VAR] + load_i32(arena, cols[kind_col, DATA] + 4 * slot)
            kind = -1
            for k in range(4):
                if arena[at] == consts[names + 2 * k] and arena[at + 1] == consts[names + 2 * k + 1]:
                    kind = k
            if kind < 0 or cols[kind_col, VAR] + load_i32(arena, cols[kind_col, DATA] + 4 * slot + 4) - at != 2:
                return -1
            out[pos] = ((kind & 1) << 7) | ((kind >> 1) << 6)
    for r in range(rows):
        col = aux[first + r, 0]
        if _is_null(arena, cols, col, idx[cols[col, LEVEL]]):
            bit = kind_bits + r
            out[pos + (bit >> 3)] |= 0x80 >> (bit & 7)
    return pos + (kind_bits + rows + 7) // 8


@kernel
def _temporal(op, value, null, out, pos):  # type: ignore[no-untyped-def]
    """A date or time from days or microseconds; the offset after it, or -1 where milliseconds can't hold it."""
    if op == ops.LOCAL_DATE or op == ops.LOCAL_DATE_TIME:
        if null:
            store_be_i32(out, pos, _MIN_I32)
            store_be_i16(out, pos + 4, -32768)
            if op == ops.LOCAL_DATE:
                return pos + 6
            out[pos + 6] = 0x80
            store_be_i16(out, pos + 7, -32768)
            store_be_i32(out, pos + 9, _MIN_I32)
            return pos + 13
        days = value
        if op == ops.LOCAL_DATE_TIME:
            days = value // 86400000000
        year, month, day = civil_from_days(days)
        store_be_i32(out, pos, year)
        out[pos + 4] = month
        out[pos + 5] = day
        if op == ops.LOCAL_DATE:
            return pos + 6
        micros = value - days * 86400000000
        seconds = micros // 1000000
        out[pos + 6] = seconds // 3600
        out[pos + 7] = seconds // 60 % 60
        out[pos + 8] = seconds % 60
        store_be_i32(out, pos + 9, micros % 1000000 * 1000)
        return pos + 13
    if op == ops.INSTANT or op == ops.SQL_TIMESTAMP:
        if null:
            store_be_i64(out, pos, _MIN_I64)
            store_be_i32(out, pos + 8, _MIN_I32 if op == ops.INSTANT else 0)
            return pos + 12
        seconds = value // 1000000
        store_be_i64(out, pos, seconds if op == ops.INSTANT else value // 1000)
        store_be_i32(out, pos + 8, (value - seconds * 1000000) * 1000)
        return pos + 12
    if null:
        store_be_i64(out, pos, _MIN_I64)
        return pos + 8
    if op == ops.SQL_DATE:
        store_be_i64(out, pos, value * 86400000)
        return pos + 8
    if value % 1000 != 0:
        return -1
    store_be_i64(out, pos, value // 1000)
    return pos + 8


@kernel
def run(prog, aux, consts, arena, cols, order, groups, at, pos, found, idx, stop, regs, out, entries, result):  # type: ignore[no-untyped-def]
    """Write the rows ``order[at:]`` and describe in ``result`` how it ended.

    ``prog``, ``aux`` and ``consts`` are a program's tables, ``arena`` and ``cols`` a batch's. ``groups`` has the key group of
    each row of the batch. Writing goes on at ``pos`` of ``out`` and at line ``found`` of ``entries``.
    """
    done = at
    row_pos = pos
    row_found = found
    begin = pos
    status = ops.OK
    pc = 0
    limit = len(out)
    while done < len(order):
        if pc == 0:
            idx[0] = order[done]
            row_pos = pos
            row_found = found
            begin = pos
        op = prog[pc, 0]
        col = prog[pc, 1]
        slot = np.int64(0)
        null = False
        if col >= 0:
            slot = idx[cols[col, LEVEL]]
            null = _is_null(arena, cols, col, slot)
        if pos + _LARGEST_FIXED > limit:
            status = ops.FULL
            break
        if op == ops.INT64 or op == ops.INT32 or op == ops.INT16 or op == ops.INT8:
            if null:
                status = ops.NULL_VALUE
                break
            data = cols[col, DATA]
            if op == ops.INT64:
                store_be_i64(out, pos, load_i64(arena, data + 8 * slot))
                pos += 8
            elif op == ops.INT32:
                store_be_i32(out, pos, load_i32(arena, data + 4 * slot))
                pos += 4
            elif op == ops.INT16:
                store_be_i16(out, pos, load_i16(arena, data + 2 * slot))
                pos += 2
            else:
                out[pos] = arena[data + slot]
                pos += 1
        elif op == ops.STRING or op == ops.BYTES or op == ops.RAW or op == ops.UTF8:
            a = prog[pc, 2]
            if null:
                if op == ops.STRING and a == 1:
                    out[pos] = 0
                    pos += 1
                elif op == ops.RAW and a >= 0:
                    if pos + prog[pc, 3] > limit:
                        status = ops.FULL
                        break
                    pos = _copy(consts, a, a + prog[pc, 3], out, pos)
                else:
                    status = ops.NULL_VALUE
                    break
            else:
                data = cols[col, DATA] + 4 * slot
                first = cols[col, VAR] + load_i32(arena, data)
                last = cols[col, VAR] + load_i32(arena, data + 4)
                if op == ops.STRING:
                    after = put_string(arena, first, last, a, out, pos)
                    if after < 0:
                        status = ops.FULL
                        break
                    pos = after
                else:
                    if pos + last - first + 4 > limit:
                        status = ops.FULL
                        break
                    if op != ops.RAW:
                        store_be_i32(out, pos, last - first)
                        pos += 4
                    pos = _copy(arena, first, last, out, pos)
        elif op == ops.FRAME:
            regs[prog[pc, 2]] = pos
            pos += 4
        elif op == ops.END_FRAME:
            start = regs[prog[pc, 2]]
            store_be_i32(out, start, pos - start - 4)
        elif op == ops.PREFIX:
            group = groups[idx[0]]
            if prog[pc, 2] == 2:
                store_be_i16(out, pos, group)
                pos += 2
            else:
                out[pos] = group
                pos += 1
        elif op == ops.CONST:
            if pos + prog[pc, 3] > limit:
                status = ops.FULL
                break
            pos = _copy(consts, prog[pc, 2], prog[pc, 2] + prog[pc, 3], out, pos)
        elif op == ops.ENTRY_END:
            if found == len(entries):
                status = ops.FULL
                break
            entries[found, BEGIN] = begin
            entries[found, END] = pos
            entries[found, ROW] = done
            found += 1
            begin = pos
        elif op == ops.ROW_END:
            done += 1
            pc = 0
            continue
        elif op == ops.SKIP_NULL:
            if null:
                pc = prog[pc, 5]
                continue
        elif op == ops.NULL_FLAG:
            means_null = prog[pc, 2]
            if null:
                if pos + prog[pc, 6] + 1 > limit:
                    status = ops.FULL
                    break
                out[pos] = means_null
                for i in range(prog[pc, 6]):
                    out[pos + 1 + i] = 0
                pos += 1 + prog[pc, 6]
                pc = prog[pc, 5]
                continue
            out[pos] = 1 - means_null
            pos += 1
        elif op == ops.POJO:
            if null or prog[pc, 2] == 0:
                out[pos] = 1 if null else 2
                pos += 1
            if null:
                pc = prog[pc, 5]
                continue
        elif op == ops.REQUIRE:
            if null:
                status = ops.NULL_VALUE
                break
        elif op == ops.LIST or op == ops.SKIP_EMPTY:
            count = np.int64(0)
            if not null:
                first = np.int64(load_i32(arena, cols[col, DATA] + 4 * slot))
                count = load_i32(arena, cols[col, DATA] + 4 * slot + 4) - first
            if op == ops.SKIP_EMPTY:
                if count == 0:
                    pc = prog[pc, 5]
                    continue
            else:
                if null:
                    status = ops.NULL_VALUE
                    break
                form = prog[pc, 2]
                if form == ops.COUNTED:
                    store_be_i32(out, pos, count)
                    pos += 4
                elif form == ops.BLOCKS:
                    pos = put_varint(out, pos, count)
                if count == 0:
                    pc = prog[pc, 5]
                    continue
                idx[col + 1] = first
                stop[col + 1] = first + count
        elif op == ops.LIST_NEXT:
            idx[col + 1] += 1
            form = prog[pc, 2]
            if idx[col + 1] < stop[col + 1]:
                if form == ops.JOINED:
                    out[pos] = 0x2C
                    pos += 1
                pc = prog[pc, 5]
                continue
            if form == ops.BLOCKS:
                out[pos] = 0
                pos += 1
        elif op == ops.JUMP:
            pc = prog[pc, 2]
            continue
        elif op == ops.MARK:
            regs[prog[pc, 2]] = pos
        elif op == ops.SUFFIX:
            length = pos - regs[prog[pc, 2]]
            out[pos] = length & 0xFF
            pos += 1
            while length > 255:
                length >>= 8
                out[pos] = length & 0xFF
                pos += 1
        elif op == ops.SIGN_FLIPPED_INT64:
            if null:
                status = ops.NULL_VALUE
                break
            store_be_i64(out, pos, load_i64(arena, cols[col, DATA] + 8 * slot) ^ _MIN_I64)
            pos += 8
        elif op == ops.MASK:
            if pos + (prog[pc, 3] + prog[pc, 4] + 7) // 8 > limit:
                status = ops.FULL
                break
            bits, kind_col, names = prog[pc, 4], prog[pc, 6], prog[pc, 7]
            after = _mask(aux, prog[pc, 2], prog[pc, 3], bits, kind_col, names, consts, arena, cols, idx, out, pos)
            if after < 0:
                status = ops.BAD_NAME
                break
            pos = after
        elif op == ops.SUBCLASS:
            if not null:
                data = cols[col, DATA] + 4 * slot
                first = cols[col, VAR] + load_i32(arena, data)
                last = cols[col, VAR] + load_i32(arena, data + 4)
                r = _named(arena, first, last, aux, prog[pc, 2], prog[pc, 3], 1, 2, consts)
                if r < 0:
                    status = ops.BAD_CLASS
                    break
                pc = aux[prog[pc, 2] + r, 3]
                continue
        elif op == ops.EITHER:
            left = prog[pc, 2]
            right = prog[pc, 3]
            no_left = _is_null(arena, cols, left, idx[cols[left, LEVEL]])
            if null or no_left == _is_null(arena, cols, right, idx[cols[right, LEVEL]]):
                status = ops.NULL_VALUE if null else ops.BAD_EITHER
                break
            out[pos] = prog[pc, 7] if no_left else prog[pc, 6]
            pos += 1
            if no_left:
                pc = prog[pc, 5]
                continue
        elif op == ops.ENUM or op == ops.CHAR:
            if null:
                status = ops.NULL_VALUE
                break
            data = cols[col, DATA] + 4 * slot
            first = cols[col, VAR] + load_i32(arena, data)
            last = cols[col, VAR] + load_i32(arena, data + 4)
            if op == ops.ENUM:
                r = _named(arena, first, last, aux, prog[pc, 2], prog[pc, 3], 0, 1, consts)
                if r < 0:
                    status = ops.BAD_NAME
                    break
                store_be_i32(out, pos, r)
                pos += 4
            else:
                if first == last or utf8_size(arena[first]) != last - first or last - first > 3:
                    status = ops.BAD_CHAR
                    break
                store_be_i16(out, pos, code_point(arena, first, last - first))
                pos += 2
        elif op >= ops.DATE_MS and op <= ops.MILLIS:
            if op == ops.MILLIS and null:
                if prog[pc, 2] < 0:
                    status = ops.NULL_VALUE
                    break
                pos = _copy(consts, prog[pc, 2], prog[pc, 2] + 8, out, pos)
            else:
                value = np.int64(0)
                if not null:
                    if op == ops.SQL_DATE or op == ops.LOCAL_DATE:
                        value = np.int64(load_i32(arena, cols[col, DATA] + 4 * slot))
                    else:
                        value = load_i64(arena, cols[col, DATA] + 8 * slot)
                after = _temporal(op, value, null, out, pos)
                if after < 0:
                    status = ops.LOST_DIGITS
                    break
                pos = after
        else:
            status = ops.BAD_PROGRAM
            break
        pc += 1
    result[STATUS] = status
    result[ROWS] = done
    result[POSITION] = row_pos if status != ops.OK else pos
    result[ENTRIES] = row_found if status != ops.OK else found
    result[INSTRUCTION] = pc
