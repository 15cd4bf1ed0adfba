"""Splits of keyed state: ranges of key groups, with the keys to look up in them."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.formats.opening import open_source
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read import state_access
from state_processor.backends.read.key_lookup import KeyValues, WantedKeys, keys_of
from state_processor.backends.read.keyed_splits import KeyedHandle, plan_splits
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, find_operator
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
    many = plan_splits(handles, WantedKeys(state, keys_of(state, range(2000)), 128), split_bytes=500)
    assert [list(s.key_groups) for s in many] == [list(range(64)), list(range(64, 128))]
    assert sorted(k for s in many for k in s.keys.column.to_pylist()) == list(range(2000))
    assert all(group_of(LONG, k) in s.key_groups for s in many for k in s.keys.column.to_pylist())
    assert len(plan_splits(handles, WantedKeys(state, KeyValues(()), 128))) == 0


def test_splits_of_many_keys_leave_key_groups_without_keys_out() -> None:
    large = h.KeyGroupsStateHandle(7, h.KeyGroupRange(0, 127), h.Offsets.of([0] * 128), h.FileStateHandle(128 << 20, "f"))
    written = one(CANONICAL, LONG, [keyed("v", LONG)], {})
    state = open_source(snapshot(written), written.subtasks[0].managed_keyed, "", 128).describe("v")
    groups = [*range(10, 30), 31, 50]  # a gap of one key group has one megabyte
    keys = keys_of(state, [k for k in range(2000) if group_of(LONG, k) in groups])
    found = plan_splits([KeyedHandle(large, 0, 128, "")], WantedKeys(state, keys, 128), split_bytes=200 << 20)
    assert [list(split.key_groups) for split in found] == [list(range(10, 32)), [50]]
    assert sum(len(split.keys) for split in found) == len(keys)


def rows_of(reader: Any, split: Any) -> list[dict[str, Any]]:
    return [row for batch in reader.read(split) for row in batch.to_pylist()]


def test_large_stores_are_cut_at_keys(tmp_path: Path) -> None:
    """Key groups are cut, and the entries of a key of a flat map; a row with all entries of a key is not."""
    keys, entries = range(9000), [(i, -i) for i in range(4000)]
    maps = pa.array([entries if key < 2 else [] for key in keys], pa.map_(pa.int64(), pa.int64()))
    writer = sp.arrow.SavepointWriter.new(max_parallelism=2)
    types = {"v": sp.ValueState(sp.Types.LONG()), "m": sp.MapState(sp.Types.LONG(), sp.Types.LONG())}
    rows = pa.table({"key": keys, "v": keys, "m": maps})
    writer.with_keyed_state("u", rows, states=types, key_type=sp.Types.LONG(), parallelism=1)
    writer.write(tmp_path / "savepoint", format="native", backend="rocksdb")
    opened = open_snapshot(tmp_path / "savepoint")
    operator = find_operator(opened, "u")
    for name in types:
        reader = open_state(StoredOperator(opened, operator), name, options=ReadOptions())
        splits = reader.splits(4000)
        assert len(splits) > 8
        read = [
            [row for batch in reader.read(pickle.loads(pickle.dumps(split))) for row in batch.to_pylist()] for split in splits
        ]
        assert all(read)
        (whole,) = reader.splits()
        assert [row for part in read for row in part] == [row for batch in reader.read(whole) for row in batch.to_pylist()]
        assert max(map(len, read)) < 3 * sum(map(len, read)) / len(read)
        assert all(set(split.key_groups) <= {0, 1} for split in splits)
    nested = open_state(StoredOperator(opened, operator), "m", options=ReadOptions.of(flatten=False))
    assert [list(split.key_groups) for split in nested.splits(4000)] == [[0], [1]]
    beside = open_state(StoredOperator(opened, operator), None, options=ReadOptions())
    assert [list(split.key_groups) for split in beside.splits(4000)] == [[0], [1]]


def test_splits_read_what_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_access, "_CHUNK_BYTES", 50)
    entries = {g: {0: [void(long(g), long(g))], 1: [void(long(g), long(-g))]} for g in range(0, 128, 3)}
    found = one(CANONICAL, LONG, [keyed("a", LONG), keyed("b", LONG)], entries)
    expected = [{"key": g, "a": g, "b": -g} for g in range(0, 128, 3)]
    assert read_rows(found) == expected
    reader = open_state(StoredOperator(snapshot(found), found), "a", options=ReadOptions())
    splits = reader.splits(100)
    assert len(splits) > 5
    assert [r["key"] for s in splits for b in reader.read(s) for r in b.to_pylist()] == [e["key"] for e in expected]
