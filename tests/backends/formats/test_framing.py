from __future__ import annotations

import struct

import numpy as np
import pytest

from state_processor.backends.formats import framing
from state_processor.serializers.kernel.decode.arena import FOUND, fill_table
from tests.backends.state_files import END_OF_KEY_GROUP


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value


TWO_STATES = b"\0\0" + entry(b"\x05k1", b"v1") + entry(b"\x85k2", b"") + b"\0\1" + entry(b"\x85k3", b"v3") + END_OF_KEY_GROUP
"""Key group 5: two entries of state 0, one of state 1."""


def walk_over(data: bytes, blocks: list[tuple[int, int, int]], wanted: int, prefix: int = 1, rows: int = 64, window: int = 0):
    """Keys, values and key groups of a state, and the status of the last step; windows begin where the walk stands."""
    walk = framing.new_walk(blocks[0][0], len(data), 2, wanted, prefix, len(data))
    size = window or len(data)
    found = []
    while True:
        base = int(walk[framing.POSITION])
        raw = data[base : base + size]
        table = np.empty((rows, framing.ENTRY_FIELDS), dtype=np.int64)
        part = framing.Window(np.frombuffer(raw, dtype=np.uint8), base, np.array(blocks, dtype=np.int64), walk, table)
        while fill_table(framing._INDEX, part.buffer, part.blocks, walk, table):
            found += [(raw[a:b], raw[c:d], kg) for a, b, c, d, kg in table[: walk[FOUND]].tolist()]
        status = int(walk[framing.STATUS])
        if status == framing.MORE_INPUT and base + len(raw) < len(data):
            size = max(window, int(walk[framing.NEEDED]))
        else:
            return found, status


def test_entries_of_each_state() -> None:
    blocks = [(0, len(TWO_STATES), 5)]
    assert walk_over(TWO_STATES, blocks, 0) == ([(b"k1", b"v1", 5), (b"k2", b"", 5)], framing.DONE)
    assert walk_over(TWO_STATES, blocks, 1) == ([(b"k3", b"v3", 5)], framing.DONE)
    assert walk_over(TWO_STATES, blocks, -2) == ([], framing.DONE)


def test_two_bytes_of_key_group() -> None:
    data = b"\0\0" + entry(b"\x01\x2ck", b"v") + entry(b"\x81\x2cl", b"w") + END_OF_KEY_GROUP
    assert walk_over(data, [(0, len(data), 300)], 0, prefix=2) == ([(b"k", b"v", 300), (b"l", b"w", 300)], framing.DONE)


def test_blocks_follow_one_another_and_the_first_may_start_late() -> None:
    data = b"head" + TWO_STATES + TWO_STATES.replace(b"\x05k", b"\x06k").replace(b"\x85k", b"\x86k")
    half = 4 + len(TWO_STATES)
    found, status = walk_over(data, [(4, half, 5), (half, len(data), 6)], 1)
    assert (found, status) == ([(b"k3", b"v3", 5), (b"k3", b"v3", 6)], framing.DONE)


@pytest.mark.parametrize("window", range(1, len(TWO_STATES) + 1))
@pytest.mark.parametrize("rows", [1, 2, 64])
def test_windows_and_tables_of_any_size_give_the_same(window: int, rows: int) -> None:
    data = TWO_STATES + TWO_STATES.replace(b"\x05k", b"\x06k").replace(b"\x85k", b"\x86k")
    blocks = [(0, len(TWO_STATES), 5), (len(TWO_STATES), len(data), 6)]
    expected = [(b"k1", b"v1", 5), (b"k2", b"", 5), (b"k1", b"v1", 6), (b"k2", b"", 6)]
    assert walk_over(data, blocks, 0, rows=rows, window=window) == (expected, framing.DONE)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\0\0" + struct.pack(">i", 2**31 - 1) + b"\x05k", framing.BAD_LENGTH),
        (b"\0\0" + struct.pack(">i", -1) + b"\x05k" + bytes(20), framing.BAD_LENGTH),
        (b"\0\0" + struct.pack(">i", 0) + bytes(20), framing.BAD_LENGTH),  # not even a key group
        (b"\0\0" + struct.pack(">i", 2) + b"\x05k" + struct.pack(">i", -1) + bytes(20), framing.BAD_LENGTH),
        (b"\0\0" + struct.pack(">i", 2) + b"\x05k" + struct.pack(">i", 2**30) + bytes(20), framing.BAD_LENGTH),
        (b"\0\2" + entry(b"\x85k", b"v") + END_OF_KEY_GROUP, framing.BAD_STATE),
        (b"\0\0" + entry(b"\x85k", b"v") + b"\0\7" + entry(b"\x85k", b"v") + END_OF_KEY_GROUP, framing.BAD_STATE),
        (b"\0\0" + entry(b"\x86k", b"v") + END_OF_KEY_GROUP, framing.BAD_KEY_GROUP),
        (b"\0\0" + entry(b"\x85k", b"v") + END_OF_KEY_GROUP + b"x", framing.BAD_END),
        (b"\0\0" + entry(b"\x05k", b"v") + b"\0", framing.BAD_LENGTH),
        (b"\0\0" + entry(b"\x05k", b"v") + b"\0\0", framing.MORE_INPUT),
        (b"\0", framing.MORE_INPUT),
    ],
)
def test_damage(data: bytes, status: int) -> None:
    assert walk_over(data, [(0, len(data), 5)], 0)[1] == status


def test_a_block_that_runs_into_the_next_is_damage() -> None:
    at = len(TWO_STATES) - 1
    found, status = walk_over(TWO_STATES, [(0, at, 5), (at, len(TWO_STATES), 6)], 1)
    assert (found, status) == ([(b"k3", b"v3", 5)], framing.BAD_END)


@pytest.mark.parametrize("window", range(len(TWO_STATES) // 2, len(TWO_STATES) + 1))
def test_entries_are_counted_without_their_values(window: int) -> None:
    walk = framing.new_walk(0, len(TWO_STATES), 2, 0, 1, 1)
    counts: list[int] = []
    while walk[framing.STATUS] != framing.DONE or not counts:
        base = int(walk[framing.POSITION])
        buffer = np.frombuffer(TWO_STATES[base : base + window], dtype=np.uint8)
        blocks, table = np.array([(0, len(TWO_STATES), 5)], dtype=np.int64), np.empty((4, framing.ENTRY_FIELDS), dtype=np.int64)
        counts.append(framing.Window(buffer, base, blocks, walk, table).count())
    assert sum(counts) == 2
