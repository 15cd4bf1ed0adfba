"""Framing of state files: kernels that find the boundaries of entries without decoding values.

Each kernel returns a table with one row per entry: start and end of the key part, start and end of the value part, key group.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.memory import load_be_i32, load_be_u16
from state_processor.serializers.kernel.signatures import int64, partly_read, read, uint8, written

ENTRY_FIELDS: Final = 5
KEY_GROUP: Final = 4

END_OF_KEY_GROUP: Final = 0xFFFF
LAST_OF_STATE: Final = 0x80

# Fields of the walker's state, for all windows of a file
POSITION: Final = 0
BLOCK: Final = 1
STATE: Final = 2
FOUND: Final = 3
STATUS: Final = 4
NEEDED: Final = 5
WALK_FIELDS: Final = 6
"""Number of these fields. The number of the last block with a state follows for each state; blocks are counted from 1."""

BETWEEN_STATES: Final = -1

# Values of STATUS
DONE: Final = 0
MORE_INPUT: Final = 1
TABLE_FULL: Final = 2
BAD_LENGTH: Final = 3
BAD_STATE: Final = 4
BAD_KEY_GROUP: Final = 5
BAD_END: Final = 6
LARGE: Final = 7
REPEATED_STATE: Final = 8


@entry_point(partly_read(uint8), int64, int64, read(int64, 2), int64, int64, int64, int64, written(int64), written(int64, 2))
def index_canonical(buf, base, length, blocks, states, wanted_state, prefix, most, walk, table):  # type: ignore[no-untyped-def]
    """Index the entries of one state in a window of a canonical file.

    Parameters
    ----------
    buf, base, length
        The window, its offset in the file, and the file's length.
    blocks
        Offset, end and key group of each block, in file order.
    states
        Number of states; state ids are smaller.
    wanted_state
        The state id to index.
    prefix
        Bytes of the key group before each key.
    most
        Maximum size of a value in the window. A larger value ends the table with the status ``LARGE``; it may be outside of the
        window. Values of other states are skipped without reading them.
    walk
        Position of the walk in file offsets; updated.
    table
        Receives the entries, with positions in ``buf``.
    """
    end = base + len(buf)
    pos = walk[POSITION]
    block = walk[BLOCK]
    state = walk[STATE]
    count = 0
    status = DONE
    needed = 0
    while block < len(blocks):
        if state == BETWEEN_STATES:
            pos = max(pos, blocks[block, 0])
            if pos + 2 > end:
                needed = 2
                status = MORE_INPUT
                break
            state = load_be_u16(buf, pos - base)
            if state < states:
                if walk[WALK_FIELDS + state] == block + 1:
                    status = REPEATED_STATE
                    break
                walk[WALK_FIELDS + state] = block + 1
            pos += 2
        if state == END_OF_KEY_GROUP:
            if pos != blocks[block, 1]:
                status = BAD_END
                break
            block += 1
            state = BETWEEN_STATES
            continue
        if state >= states:
            status = BAD_STATE
            break
        if count == len(table):
            status = TABLE_FULL
            break
        if pos + 4 > end:
            needed = 4
            status = MORE_INPUT
            break
        key_size = load_be_i32(buf, pos - base)
        key = pos + 4
        if key_size < prefix or key + key_size > length - 4:
            status = BAD_LENGTH
            break
        if key + key_size + 4 > end:
            needed = key_size + 8
            status = MORE_INPUT
            break
        key_group = np.int64(buf[key - base] & (LAST_OF_STATE - 1))
        for i in range(1, prefix):
            key_group = (key_group << 8) + buf[key + i - base]
        if key_group != blocks[block, 2]:
            status = BAD_KEY_GROUP
            break
        value_size = load_be_i32(buf, key + key_size - base)
        value = key + key_size + 4
        if value_size < 0 or value + value_size > length - 2:
            status = BAD_LENGTH
            break
        is_large = value_size > most
        if state == wanted_state:
            if value + value_size > end and not is_large:
                needed = value + value_size - pos
                status = MORE_INPUT
                break
            table[count, 0] = key + prefix - base
            table[count, 1] = key + key_size - base
            table[count, 2] = value - base
            table[count, 3] = value + value_size - base
            table[count, 4] = key_group
            count += 1
            if is_large:
                status = LARGE
        pos = value + value_size
        if buf[key - base] & LAST_OF_STATE:
            state = np.int64(BETWEEN_STATES)
        if status == LARGE:
            break
    walk[POSITION] = pos
    walk[BLOCK] = block
    walk[STATE] = state
    walk[FOUND] = count
    walk[STATUS] = status
    walk[NEEDED] = needed


def new_walk(states: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a new walk through a file with a number of states."""
    walk = np.zeros(WALK_FIELDS + states, dtype=np.int64)
    walk[STATE] = BETWEEN_STATES
    return walk
