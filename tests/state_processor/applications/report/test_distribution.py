from __future__ import annotations

import numpy as np

from state_processor.applications.report.contents import Distribution, Places, Subtasks


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
