"""The order of checkpoints whose numbers and times disagree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.metadata.checkpoint_order import Mark, in_order

DAY = 24 * 3600.0
MINUTE = 60.0
CASES = {
    "a job that runs": ([(1, 0), (2, 60), (3, 120)], "123", []),
    "fresh start": ([(900, 0), (5, 30 * DAY)], "900 5", ["900 began again"]),
    "fresh start with several checkpoints": (
        [(899, 0), (900, DAY), (1, 30 * DAY), (2, 31 * DAY)],
        "899 900 1 2",
        ["900 began again"],
    ),
    "two fresh starts": ([(9, 0), (5, DAY), (3, 2 * DAY)], "9 5 3", ["9 began again"]),
    "fresh start that passed the old number": ([(7, 0), (1, DAY), (8, 2 * DAY)], "7 1 8", []),
    "fresh start some minutes later": ([(40, 0), (3, 9 * MINUTE)], "3 40", ["3 close"]),
    "fresh start some minutes ago": ([(40, 0), (3, 9 * MINUTE), (4, 11 * MINUTE)], "3 40 4", ["40 began again"]),
    "a copied directory": ([(1, 2), (10, 3), (11, 4), (2, 5), (3, 6)], "1 2 3 10 11", ["3 close"]),
    "the same time": ([(2, 5), (1, 5), (3, 5)], "123", []),
    "an unknown time": ([(7, 0), (3, None)], "7 3", ["7 began again"]),
    "nothing": ([], "", []),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_and_times(case: str) -> None:
    checkpoints, expected, doubts = CASES[case]
    for listing in (checkpoints, checkpoints[::-1]):
        order = in_order([Mark(number, number, time) for number, time in listing], lambda _: ())
        assert order.checkpoints == list(map(int, expected.split() if " " in expected else expected))
        texts = [f"{doubt.rival} {'close' if doubt.is_close else 'began again'}" for doubt in order.doubts]
        assert sorted(texts) == sorted(doubts)


def files_of(shared: Sequence[set[int]]) -> dict[int, set[str]]:
    return {number: {str(i) for i, group in enumerate(shared) if number in group} for group in shared for number in group}


def test_numbers_decide_among_checkpoints_that_share_files() -> None:
    """Copies were written in another order, over days; 1 and 3 are related by 2."""
    marks = [Mark(1, 1, 9 * DAY), Mark(2, 2, 0.0), Mark(3, 3, 4 * DAY)]
    files = files_of([{1, 2}, {2, 3}])
    order = in_order(marks, files.__getitem__)
    assert (order.checkpoints, order.doubts) == ([1, 2, 3], [])


def test_a_run_after_a_lineage_of_higher_numbers() -> None:
    marks = [Mark(40, 40, 2 * DAY), Mark(41, 41, DAY), Mark(2, 2, 4 * DAY), Mark(3, 3, 3 * DAY)]
    order = in_order(marks, files_of([{40, 41}, {2, 3}]).__getitem__)
    assert order.checkpoints == [40, 41, 2, 3]
    assert [doubt.rival for doubt in order.doubts] == [41]


def test_files_are_asked_for_only_if_numbers_and_times_disagree() -> None:
    def files(number: int) -> set[str]:
        raise AssertionError(number)

    assert in_order([Mark(2, 2, 1.0), Mark(1, 1, 0.0)], files).checkpoints == [1, 2]


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 5.0, 700.0, 2000.0, None]), st.sets(st.integers(0, 6), max_size=2)), max_size=12
    )
)
def test_lineages_and_runs_are_those_of_a_comparison_of_all_pairs(checkpoints: list[tuple[float | None, set[int]]]) -> None:
    marks = [Mark(number, number, time) for number, (time, _) in enumerate(checkpoints)]
    order = in_order(marks, lambda number: {str(file) for file in checkpoints[number][1]})
    if any(earlier.by_time > later.by_time for earlier, later in pairwise(marks)):
        assert order.checkpoints == compared_by_pairs(checkpoints, marks)


def compared_by_pairs(checkpoints: list[tuple[float | None, set[int]]], marks: list[Mark[int]]) -> list[int]:
    lineages: list[list[Mark[int]]] = []
    for mark in marks:
        related = [ms for ms in lineages if any(checkpoints[m.number][1] & checkpoints[mark.number][1] for m in ms)]
        lineages = [ms for ms in lineages if ms not in related]
        lineages.append(sorted([*(m for ms in related for m in ms), mark], key=lambda m: m.number))
    runs: list[list[list[Mark[int]]]] = []
    times = {ms[-1].number: max(m.by_time for m in ms) for ms in lineages}
    for ms in sorted(lineages, key=lambda ms: times[ms[-1].number]):
        highest = max((ms for ms in runs[-1]), key=lambda ms: ms[-1].number) if runs else ms
        later = times[ms[-1].number][0] - times[highest[-1].number][0]
        if not runs or (ms[-1].number < highest[-1].number and later >= 10 * MINUTE):
            runs.append([])
        runs[-1].append(ms)
    return [m.number for run in runs for ms in sorted(run, key=lambda ms: ms[-1].number) for m in ms]
