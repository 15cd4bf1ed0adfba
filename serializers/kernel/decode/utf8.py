"""UTF-8 in the decode kernel, in the slots of binary rows and outside of them."""

from __future__ import annotations

from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.decode.slots import VAR, VAR_SIZE, end_text, put_bytes, room
from state_processor.serializers.kernel.memory import NOT_ASCII, load_i64


@kernel
def _sequence(buf, pos, end):  # type: ignore[no-untyped-def]
    """Return the size of the UTF-8 sequence at ``pos``; of an invalid one, the size of its longest valid prefix, negated."""
    lead = buf[pos]
    if lead < 0x80:
        return 1
    low, high, size = 0x80, 0xBF, 0
    if 0xC2 <= lead <= 0xDF:
        size = 2
    elif 0xE0 <= lead <= 0xEF:
        size = 3
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        size = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    for i in range(1, size):
        if pos + i >= end or buf[pos + i] < low or buf[pos + i] > high:
            return -i
        low, high = 0x80, 0xBF
    return size if size else -1


@kernel
def put_text(buf, pos, size, arena, cols, col):  # type: ignore[no-untyped-def]
    """Append UTF-8 text, with U+FFFD for invalid sequences as in Java. Return 0, or the status that stops the run."""
    end = pos + size
    at = pos
    needed = 0
    while at < end:
        while at + 8 <= end and not load_i64(buf, at) & NOT_ASCII:
            at += 8
            needed += 8
        if at < end:
            length = _sequence(buf, at, end)
            needed += length if length > 0 else 3
            at += abs(length)
    if needed == size and at == end:
        # Wrong sequences of three bytes have the size of their replacement, but not its bytes: they take the long way.
        at = pos
        while at < end:
            while at + 8 <= end and not load_i64(buf, at) & NOT_ASCII:
                at += 8
            if at < end:
                length = _sequence(buf, at, end)
                if length < 0:
                    break
                at += length
        if at == end:
            return outcomes.OK if put_bytes(arena, cols, col, buf, pos, size) else outcomes.FULL
    if not room(cols, col, needed):
        return outcomes.FULL
    out = cols[col, VAR] + cols[col, VAR_SIZE]
    at = pos
    while at < end:
        length = _sequence(buf, at, end)
        if length < 0:
            arena[out] = 0xEF
            arena[out + 1] = 0xBF
            arena[out + 2] = 0xBD
            out += 3
        for i in range(length):
            arena[out] = buf[at + i]
            out += 1
        at += abs(length)
    end_text(arena, cols, col, out)
    return outcomes.OK
