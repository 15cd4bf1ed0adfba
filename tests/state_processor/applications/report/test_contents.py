"""The largest keys: of all key groups, and of the largest key groups within a limit. Distributions of bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import state_processor as sp
from state_processor.applications.report.contents import Distribution, LargestKeys, Places, Subtasks
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator
from tests.state_processor.samples import FIXTURES, expected_state

STATES = ("total", "session", "profile", "history", "items", "user-timers")


def operator(path: str) -> tuple[Any, ...]:
    snapshot = open_snapshot(path)
    found = find_operator(snapshot, "orders")
    sizes = np.zeros(found.max_parallelism, dtype=np.int64)
    for row in sp.arrow.size_report(path, "orders", by="key_group", top=None).to_pylist():
        sizes[row["key_group"]] = row["size_in_bytes"]
    return snapshot, found, Distribution(sizes)


@pytest.mark.parametrize("kind", ["hashmap-canonical", "hashmap-native", "rocksdb-canonical", "rocksdb-native"])
def test_all_keys_are_measured_where_the_limit_allows_it(kind: str) -> None:
    directory = FIXTURES / "2.3.0" / f"orders-{kind}"
    path = str(directory / "savepoint")
    found = LargestKeys.find(*operator(path), top=5)
    assert (found.compared, found.share, found.elsewhere) == (128, 1.0, 0)
    assert [row["size_in_bytes"] for row in found.rows] == [
        row["size_in_bytes"] for row in sp.arrow.size_report(path, "orders", by="key", top=5).to_pylist()
    ]
    entries = Counter[str]()
    for name in STATES:
        for entry in expected_state(directory, "orders", name)["entries"]:
            entries[entry["key"]] += len(entry["value"]) if name == "items" else 1
    assert {row["key"]: row["entries"] for row in found.rows} == {row["key"]: entries[row["key"]] for row in found.rows}
    assert len(LargestKeys.find(*operator(path), top=100).rows) == len(entries)


@pytest.mark.parametrize("kind", ["hashmap-canonical", "rocksdb-native"])
def test_only_the_largest_key_groups_are_read_where_the_limit_is_low(kind: str) -> None:
    path = str(FIXTURES / "2.3.0" / f"orders-{kind}" / "savepoint")
    snapshot, orders, groups = operator(path)
    every = {row["key"]: row for row in sp.arrow.size_report(path, "orders", by="key", top=None).to_pylist()}
    largest_first = np.sort(groups.sizes)[::-1]
    one = LargestKeys.find(snapshot, orders, groups, 100, most_bytes=1)
    assert (one.compared, one.elsewhere) == (1, largest_first[1])
    assert sum(row["size_in_bytes"] for row in one.rows) == groups.most
    assert one.share == pytest.approx(groups.most / groups.total)
    stored = sum(r["size_in_bytes"] for r in sp.arrow.handles(path).to_pylist() if r["slot"] == "managed keyed")
    some = LargestKeys.find(snapshot, orders, groups, 100, most_bytes=stored // 2)
    assert 1 < some.compared < 44
    assert some.elsewhere == largest_first[some.compared]
    assert some.share == pytest.approx(largest_first[: some.compared].sum() / groups.total)
    assert all(every[row["key"]] == row for row in some.rows)
    assert sum(row["size_in_bytes"] for row in some.rows) == largest_first[: some.compared].sum()


def test_skew_is_the_largest_part_by_the_mean() -> None:
    parts = Distribution(np.array([1, 0, 1, 6]))
    assert (parts.total, parts.most, parts.largest, parts.empty, parts.skew) == (8, 6, 3, 1, 3.0)
    assert [parts.multiple(n) for n in range(4)] == [0.5, 0.0, 0.5, 3.0]
    assert Distribution(np.zeros(2, dtype=np.int64)).skew == 0.0


def test_subtasks_sum_up_states_and_count_key_groups() -> None:
    places = Places(np.array([0, 0, 0, 2]), np.array([0, 0, 1, 7]), np.array([10, 5, 1, 1 << 60]), np.array([1, 2, 3, 4]))
    subtasks = Subtasks.of(3, 8, places)
    assert subtasks.sizes.sizes.tolist() == [16, 0, 1 << 60]
    assert subtasks.entries.tolist() == [6, 0, 4]
    assert subtasks.key_groups.tolist() == [3, 3, 2]
    assert subtasks.filled.tolist() == [2, 0, 1]
