"""Points in time in the decode kernel: Java's fields to Arrow's days and microseconds, or to the text that Java prints.

Fields that Java refuses (a negative nanosecond) are damaged bytes.
"""

from __future__ import annotations

import numpy as np

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.calendar import (
    DAY_MS,
    GREGORIAN_SECOND,
    INSTANT_MAX,
    INSTANT_MIN,
    NANOS,
    NO_DAY,
    to_gregorian,
    zone_offset,
)
from state_processor.serializers.kernel.compiler import inlined_kernel
from state_processor.serializers.kernel.decode.slots import put_null
from state_processor.serializers.kernel.decode.tables import load_tables
from state_processor.serializers.kernel.decode.time_columns import (
    TEXTUAL,
    put_clock,
    put_day_number,
    put_instant,
    put_instant_text,
    put_java_day_text,
)
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import MIN_I32, MIN_I64, load_be_i32, load_be_i64
from state_processor.serializers.kernel.opcodes import CODE, COL, A, B, Op


@inlined_kernel
def _millis(op, mode, utc, consts, zone, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    if pos + 8 > end:
        return pos, outcomes.TRUNCATED
    ms = load_be_i64(buf, pos)
    pos += 8
    if col < 0:
        return pos, outcomes.OK
    if ms == MIN_I64 and op != Op.MILLIS:
        return pos, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if op == Op.SQL_DATE:
        day = (ms + zone_offset(consts, zone, ms, False)) // DAY_MS
        if mode == TEXTUAL:
            return pos, put_java_day_text(arena, cols, col, day)
        return pos, put_day_number(arena, cols, col, to_gregorian(day))
    if op == Op.SQL_TIME:
        of_day = (ms + zone_offset(consts, zone, ms, False)) % DAY_MS
        return pos, put_clock(arena, cols, col, of_day // 1000, of_day % 1000 * 1000000, True)
    if mode == TEXTUAL and not utc:
        return pos, put_instant_text(arena, cols, col, ms // 1000, ms % 1000 * 1000000, False)
    return pos, put_instant(arena, cols, col, ms // 1000, ms % 1000 * 1000000, mode)


@inlined_kernel
def _with_nanos(op, mode, consts, zone, buf, pos, end, arena, cols, col):  # type: ignore[no-untyped-def]
    if pos + 12 > end:
        return pos, outcomes.TRUNCATED
    whole = load_be_i64(buf, pos)
    nano = load_be_i32(buf, pos + 8)
    pos += 12
    if col < 0:
        return pos, outcomes.OK
    if whole == MIN_I64 and ((op == Op.INSTANT and nano == MIN_I32) or op == Op.SQL_TIMESTAMP):
        return pos, outcomes.OK if put_null(arena, cols, col) else outcomes.FULL
    if op == Op.SQL_TIMESTAMP:
        if whole < GREGORIAN_SECOND * 1000:
            day = (whole + zone_offset(consts, zone, whole, False)) // DAY_MS
            shown = to_gregorian(day)
            if shown == NO_DAY:
                return pos - 12, outcomes.OUT_OF_RANGE
            whole += (shown - day) * DAY_MS
        whole = whole // 1000
    elif whole < INSTANT_MIN or whole > INSTANT_MAX:
        return pos - 12, outcomes.BAD_TIME
    if nano < 0 or nano >= NANOS:
        return pos - 12, outcomes.BAD_TIME
    return pos, put_instant(arena, cols, col, whole, nano, mode)


@family
def temporal(tables, pc, pos, end):  # type: ignore[no-untyped-def]
    """Read one date or time.

    The operand ``utc`` belongs to ``MILLIS`` alone: 1 if its text ends with the ``Z`` of UTC, as the text of the others does. The
    operand ``zone`` belongs to the others.
    """
    prog, _, _, consts, buf, _, arena, cols = load_tables(tables)
    op = prog[pc, CODE]
    col = prog[pc, COL]
    mode = prog[pc, A]
    status = outcomes.UNKNOWN_INSTRUCTION
    if op == Op.SQL_TIMESTAMP or op == Op.INSTANT:
        pos, status = _with_nanos(op, mode, consts, prog[pc, B], buf, pos, end, arena, cols, col)
    elif op == Op.DATE_MS or op == Op.SQL_DATE or op == Op.SQL_TIME or op == Op.MILLIS:
        zone = np.int64(-1) if op == Op.MILLIS else prog[pc, B]
        utc = prog[pc, B] != 0 or op != Op.MILLIS
        pos, status = _millis(op, mode, utc, consts, zone, buf, pos, end, arena, cols, col)
    return pc + 1 if status == outcomes.OK else pc, pos, status, col
