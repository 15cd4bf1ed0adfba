from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.metadata import handles as h

INLINE = h.ByteStreamStateHandle("op", b"12345")
FILE = h.FileStateHandle(100, "file:/a/b")
RANGE = h.KeyGroupRange(0, 63)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_offsets_behave_like_a_tuple(values):
    offsets = h.Offsets.of(values)
    assert list(offsets) == values
    assert len(offsets) == len(values)
    assert [offsets[i] for i in range(len(values))] == values
    assert [offsets[-i - 1] for i in range(len(values))] == values[::-1]
    assert list(offsets[1:3]) == values[1:3]
    assert np.asarray(offsets).tolist() == values
    assert offsets.to_numpy().dtype == np.int64
    assert pickle.loads(pickle.dumps(offsets)) == offsets
    assert hash(h.Offsets.of(values)) == hash(offsets)


def test_offsets_differ():
    assert h.Offsets.of([1, 2]) != h.Offsets.of([1])
    assert h.Offsets.of([1]) != (1,)


@pytest.mark.parametrize("index", [2, -3])
def test_offset_out_of_range(index):
    with pytest.raises(IndexError):
        h.Offsets.of([1, 2])[index]


def test_offsets_repr_is_short():
    assert repr(h.Offsets.of(range(100))) == "Offsets(0, 1, 2, 3, 4, 5, …)"


@given(st.integers(0, 50), st.integers(-1, 50), st.integers(0, 50), st.integers(-1, 50))
def test_key_group_ranges_behave_like_sets(a, b, c, d):
    one, two = h.KeyGroupRange(a, b), h.KeyGroupRange(c, d)
    ones, twos = set(range(a, b + 1)), set(range(c, d + 1))
    assert set(one) == ones
    assert len(one) == len(ones)
    assert set(one.intersect(two)) == ones & twos
    assert all((k in one) == (k in ones) for k in range(-2, 55))
    assert (np.int64(a) in one) == (a in ones)


@pytest.mark.parametrize(
    ("handle", "size"),
    [
        (INLINE, 5),
        (FILE, 100),
        (h.RelativeFileStateHandle("x", 7), 7),
        (h.SegmentFileStateHandle(50, 11, 0, "file:/m", "id"), 11),
        (h.EmptySegmentFileStateHandle(), 0),
        (h.KeyGroupsStateHandle(7, RANGE, h.Offsets.of(range(64)), FILE), 100),
        (
            h.IncrementalRemoteKeyedStateHandle(
                11, 1, "id", RANGE, INLINE, (h.LocalFile("1.sst", FILE),), (h.LocalFile("CURRENT", INLINE),), 9, "x"
            ),
            110,
        ),
        (h.InMemoryChangelogStateHandle(RANGE, 0, 2, (h.StateChange(-1, b"ab"), h.StateChange(3, b"c")), "id"), 3),
        (h.ChangelogFileStateHandle(13, RANGE, ((1, FILE),), 40, 20, "id", "filesystem"), 40),
        (h.OperatorStreamStateHandle((), FILE), 100),
        (h.FileMergingOperatorStreamStateHandle((), "t", "s", False, INLINE), 5),
        (h.InputChannelStateHandle(0, 0, 0, h.Offsets(), 8, FILE), 8),
        (h.MergedResultSubpartitionStateHandle(0, 9, FILE, b""), 9),
    ],
)
def test_state_size(handle, size):
    assert handle.state_size == size


def test_changelog_size_is_of_both_parts():
    changes = h.InMemoryChangelogStateHandle(RANGE, 0, 1, (h.StateChange(0, b"abc"),), "id")
    base = h.KeyGroupsStateHandle(12, RANGE, h.Offsets.of(range(64)), FILE, "id")
    assert h.ChangelogStateBackendHandle(14, RANGE, 1, (base, base), (changes,), 1, 2, "id").state_size == 203


@pytest.mark.parametrize(("code", "expected"), [(3, False), (7, True), (12, False)])
def test_is_savepoint(code, expected):
    assert h.KeyGroupsStateHandle(code, RANGE, h.Offsets(), FILE).is_savepoint is expected
