"""Framing of state files: kernels that find the boundaries of entries without decoding values.

The kernel fills a table with one row per entry: start and end of the key part, start and end of the value part, key group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.serializers.kernel.compiler import Addresses
from state_processor.serializers.kernel.decode.arena import FOUND, fill_table, load_feed
from state_processor.serializers.kernel.families import family
from state_processor.serializers.kernel.memory import load_be_i32, load_be_u16
from state_processor.support.recycled_memory import numbers_apart

ENTRY_FIELDS: Final = 5
KEY_GROUP: Final = 4

END_OF_KEY_GROUP: Final = 0xFFFF
LAST_OF_STATE: Final = 0x80

# Fields of the walk through a file: where it is, and the window that it is in
STATUS: Final = 1
POSITION: Final = 2
BLOCK: Final = 3
STATE: Final = 4
NEEDED: Final = 5
"""Bytes of the next window, at least; the line of a large entry in the table, behind the others."""
BASE: Final = 6
SIZE: Final = 7
"""Bytes of the file."""
STATES: Final = 8
WANTED: Final = 9
PREFIX: Final = 10
LARGEST: Final = 11
WALK_FIELDS: Final = 12
"""Number of these fields. The number of the last block with a state follows for each state; blocks are counted from 1."""

BETWEEN_STATES: Final = -1
_TABLE_ROWS: Final = 1 << 15

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

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


@family
def index_canonical(tables, _one, _two, _three):  # type: ignore[no-untyped-def]
    """Index the next entries of one state in a window of a canonical file; return their number.

    The tables are the window, then the offset, end and key group of each block in file order, the walk, and the table that
    receives the entries with positions in the window. Fields of the walk: the offset ``BASE`` of the window, the ``SIZE`` of the
    file, the number of ``STATES``, the id of the ``WANTED`` state, and the bytes of the ``PREFIX`` with the key group.

    A value of more than ``LARGEST`` bytes ends the walk with the status ``LARGE``; it may be outside of the window. Values of
    other states are skipped without reading them. Only a walk with the status ``TABLE_FULL`` goes on. A table without lines
    counts the entries, whose values are skipped.
    """
    buf, blocks, walk, table = load_feed(tables)
    if walk[STATUS] != TABLE_FULL:
        walk[FOUND] = 0
        return (np.int64(0),)
    base = walk[BASE]
    length = walk[SIZE]
    states = walk[STATES]
    wanted_state = walk[WANTED]
    prefix = walk[PREFIX]
    most = walk[LARGEST]
    counts = len(table) == 0
    end = base + len(buf)
    pos = walk[POSITION]
    block = walk[BLOCK]
    state = walk[STATE]
    count = np.int64(0)
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
        if count == len(table) and not counts:
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
        if state == wanted_state and counts:
            count += 1
        elif state == wanted_state:
            if value + value_size > end and not is_large:
                needed = value + value_size - pos
                status = MORE_INPUT
                break
            table[count, 0] = key + prefix - base
            table[count, 1] = key + key_size - base
            table[count, 2] = value - base
            table[count, 3] = value + value_size - base
            table[count, 4] = key_group
            if is_large:
                status = LARGE
            else:
                count += 1
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
    walk[NEEDED] = count if status == LARGE else needed
    return (count,)


_INDEX: Final = Addresses([index_canonical])


class Window:
    """The entries of one state in a window of a canonical file. They are found once, in one of three ways.

    A kernel that decodes them finds them by :data:`feed`, some at a time, while they are in the processor's cache. Other readers
    ask for :meth:`tables`, or for their :meth:`count`. ``buffer`` and ``place``: the window, and its offset for messages.
    ``blocks``, ``walk`` and ``table``: see :func:`index_canonical`.
    """

    feed: Final = index_canonical

    def __init__(self, buffer: Bytes, place: int, blocks: Numbers, walk: Numbers, table: Numbers) -> None:
        self.buffer = buffer
        self.place = place
        self.blocks = blocks
        self.walk = walk
        self.table = table
        walk[FOUND], walk[STATUS], walk[BASE] = 0, TABLE_FULL, walk[POSITION]

    def tables(self) -> Iterator[Numbers]:
        """Yield the entries, in tables that may be kept."""
        while self.walk[STATUS] == TABLE_FULL:
            self.table = np.empty((_TABLE_ROWS, ENTRY_FIELDS), dtype=np.int64)
            if count := fill_table(_INDEX, self.buffer, self.blocks, self.walk, self.table):
                yield self.table[:count]

    def count(self) -> int:
        """Return the number of entries; values may be outside of the window."""
        return int(fill_table(_INDEX, self.buffer, self.blocks, self.walk, self.table[:0]))


def new_walk(position: int, size: int, states: int, wanted_state: int, prefix: int, largest: int) -> Numbers:
    """Return a new walk through a file; see the fields of the same names."""
    walk = numbers_apart(WALK_FIELDS + states).ravel()
    walk[[POSITION, STATE, SIZE]] = position, BETWEEN_STATES, size
    walk[STATES:WALK_FIELDS] = states, wanted_state, prefix, largest
    return walk
