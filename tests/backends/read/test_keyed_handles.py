from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from state_processor.backends.formats.heap import HeapSource
from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_splits import KeyedHandle, managed_handles
from state_processor.backends.read.snapshot_checks import StructureCheck
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError
from tests.backends import state_files as f
from tests.backends.state_files import LONG, STRING

HEADER = f.keyed_header(STRING, [f.keyed("a", LONG)])


def test_handles_of_all_subtasks() -> None:
    first, second = f.canonical(HEADER, (0, 63), {}), f.heap(HEADER, (64, 127), {}, 1)
    found = f.operator(first.handle(7), None, second.handle(12), max_parallelism=128)
    handles = list(managed_handles(found))
    assert [(x.subtask, x.key_groups, x.context, x.raw) for x in handles] == [
        (0, h.KeyGroupRange(0, 63), "operator 'op', subtask 0", False),
        (2, h.KeyGroupRange(64, 127), "operator 'op', subtask 2", False),
    ]
    snapshot = f.snapshot(found)
    assert [type(pickle.loads(pickle.dumps(x)).open(snapshot)) for x in handles] == [CanonicalSource, HeapSource]
    assert [x.open(snapshot).header.states[0].name for x in handles] == ["a", "a"]


def test_the_prefix_of_key_groups_follows_from_the_max_parallelism() -> None:
    wide = f.canonical(HEADER, (0, 300), {300: {0: [(f.string("k") + b"\0", f.long(1))]}}, prefix=2)
    found = f.operator(wide.handle(), max_parallelism=301)
    assert f.read_rows(found, "a") == [{"key": "k", "value": 1}]


def test_handles_that_do_not_stand_alone() -> None:
    changes = h.InMemoryChangelogStateHandle(h.KeyGroupRange(0, 1), 0, 1, (), "id")
    with pytest.raises(StateProcessorError, match=r"^context: InMemoryChangelogStateHandle"):
        KeyedHandle(changes, 0, 128, "context").open(f.snapshot())


@pytest.mark.parametrize("ranges", [[(0, 63), (0, 63)], [(0, 63), (63, 127)], [(64, 127), (0, 127)]])
def test_a_key_group_of_two_subtasks_is_damage(ranges: list[tuple[int, int]]) -> None:
    """Its keys would be read twice."""
    row = {ranges[0][0]: {0: [(f.string("k") + b"\0", f.long(1))]}}
    handles = [f.canonical(HEADER, range_, row if n == 0 else {}).handle(n) for n, range_ in enumerate(ranges)]
    found = f.operator(*handles, max_parallelism=128)
    with pytest.raises(CorruptSnapshotError, match=r"operator 'op': subtasks \d and \d both have key group \d+"):
        list(managed_handles(found))
    with pytest.raises(CorruptSnapshotError, match="both have key group"):
        f.read_rows(found, "a")
    check = StructureCheck()
    check.check(f.snapshot(found))
    assert "both have key group" in check.problems[0]


def test_empty_ranges_are_in_no_key_group() -> None:
    empty = h.KeyGroupRange(0, -1)
    handle = f.canonical(HEADER, (0, 127), {}).handle(1)
    found = f.operator(handle, replace(handle, key_groups=empty), max_parallelism=128)
    assert len(list(managed_handles(found))) == 2
