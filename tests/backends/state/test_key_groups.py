from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.state.key_groups import (
    key_group,
    murmur,
    range_of_subtask,
)
from state_processor.support.errors import OptionError

HASHES = np.array([0, 1, -1, 42, 2147483647, -2147483648], dtype=np.int32)
MURMURS = [593689054, 68075478, 1982413648, 1134849565, 1653689534, 1718298732]


def java_string_hash(text: str) -> int:
    h = 0
    for character in text:
        h = (31 * h + ord(character)) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


def test_murmur_vectors():
    assert murmur(HASHES).tolist() == MURMURS
    assert murmur(HASHES).dtype == np.int32


def test_murmur_keeps_the_shape_and_its_input():
    kept = HASHES.copy()
    assert murmur(HASHES.reshape(2, 3)).tolist() == [MURMURS[:3], MURMURS[3:]]
    assert murmur(42).shape == ()
    assert int(murmur(42)) == 1134849565
    assert murmur(np.array([], dtype=np.int32)).tolist() == []
    assert HASHES.tolist() == kept.tolist()


@pytest.mark.parametrize(
    ("key", "max_parallelism", "expected"),
    [("key-0", 128, 31), ("key-1", 128, 54), ("a", 128, 81), ("", 128, 94), ("key-0", 1000, 919), ("key-1", 1000, 534)],
)
def test_key_group_of_strings(key, max_parallelism, expected):
    assert key_group([java_string_hash(key)], max_parallelism).tolist() == [expected]


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.integers(1, 32768))
def test_key_groups_are_in_range(hashes, max_parallelism):
    groups = key_group(np.array(hashes, dtype=np.int32), max_parallelism)
    assert groups.dtype == np.int32
    assert all(0 <= group < max_parallelism for group in groups.tolist())


@given(st.integers(1, 300), st.integers(0, 700))
def test_subtasks_share_all_key_groups(parallelism, more):
    max_parallelism = parallelism + more
    ranges = [range_of_subtask(i, parallelism, max_parallelism) for i in range(parallelism)]
    assert [k for r in ranges for k in r] == list(range(max_parallelism))


def test_range_of_subtask():
    assert [range_of_subtask(i, 3, 128) for i in range(3)] == [
        KeyGroupRange(0, 42),
        KeyGroupRange(43, 85),
        KeyGroupRange(86, 127),
    ]


@pytest.mark.parametrize(
    ("subtask", "parallelism", "max_parallelism"),
    [(3, 3, 128), (-1, 3, 128), (0, 0, 1), (0, 2, 1), (0, 1, 32769)],
)
def test_wrong_parallelism(subtask, parallelism, max_parallelism):
    with pytest.raises(OptionError):
        range_of_subtask(subtask, parallelism, max_parallelism)
