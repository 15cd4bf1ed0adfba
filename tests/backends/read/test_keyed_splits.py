"""Splits of keyed state: ranges of key groups, with the keys to look up in them."""

from __future__ import annotations

from functools import partial

import pytest

from state_processor.backends.formats.opening import open_source
from state_processor.backends.metadata import handles as h
from state_processor.backends.read import joined_states
from state_processor.backends.read.key_lookup import KeyValues, WantedKeys, keys_of
from state_processor.backends.read.keyed_handles import KeyedHandle
from state_processor.backends.read.keyed_splits import plan_splits
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from tests.backends.keyed_files import CANONICAL, one, void
from tests.backends.state_files import (
    LONG,
    group_of,
    keyed,
    long,
    read_rows,
    snapshot,
)


def test_splits_cover_every_key_group_once() -> None:
    big = h.KeyGroupsStateHandle(7, h.KeyGroupRange(10, 99), h.Offsets.of([0] * 90), h.FileStateHandle(1000, "f"))
    small = h.KeyGroupsStateHandle(7, h.KeyGroupRange(100, 100), h.Offsets.of([0]), h.FileStateHandle(10**9, "g"))
    handles = [KeyedHandle(x, 0, 128, "") for x in (big, small)]
    splits = plan_splits(handles, split_bytes=300)
    assert [g for s in splits for g in s.key_groups] == list(range(10, 101))
    assert len(splits) == 4
    assert sum(s.size for s in splits if s.handle.handle is big) == pytest.approx(1000, abs=3)


def test_splits_of_few_keys_have_a_key_group_each_and_those_of_many_the_usual_ranges() -> None:
    whole = h.KeyGroupsStateHandle(7, h.KeyGroupRange(0, 127), h.Offsets.of([0] * 128), h.FileStateHandle(1000, "f"))
    handles = [KeyedHandle(whole, 0, 128, "")]
    written = one(CANONICAL, LONG, [keyed("v", LONG)], {})
    state = open_source(snapshot(written), written.subtasks[0].managed_keyed, "", 128).describe("v")
    few = plan_splits(handles, WantedKeys(state, KeyValues((1, 2, 3, 4)), 128))
    assert [s.keys.values for s in few] == [(k,) for k in sorted((1, 2, 3, 4), key=partial(group_of, LONG))]
    assert [list(s.key_groups) for s in few] == [[group_of(LONG, s.keys.values[0])] for s in few]
    many = plan_splits(handles, WantedKeys(state, keys_of(state, range(500)), 128), split_bytes=500)
    assert [list(s.key_groups) for s in many] == [list(range(64)), list(range(64, 128))]
    assert sorted(k for s in many for k in s.keys.column.to_pylist()) == list(range(500))
    assert all(group_of(LONG, k) in s.key_groups for s in many for k in s.keys.column.to_pylist())
    assert len(plan_splits(handles, WantedKeys(state, KeyValues(()), 128))) == 0


def test_splits_read_what_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_states, "_CHUNK_BYTES", 50)
    entries = {g: {0: [void(long(g), long(g))], 1: [void(long(g), long(-g))]} for g in range(0, 128, 3)}
    found = one(CANONICAL, LONG, [keyed("a", LONG), keyed("b", LONG)], entries)
    expected = [{"key": g, "a": g, "b": -g} for g in range(0, 128, 3)]
    assert read_rows(found) == expected
    reader = open_state(snapshot(found), found, "a", options=ReadOptions())
    splits = reader.splits(100)
    assert len(splits) > 5
    assert [r["key"] for s in splits for b in reader.read(s) for r in b.to_pylist()] == [e["key"] for e in expected]
