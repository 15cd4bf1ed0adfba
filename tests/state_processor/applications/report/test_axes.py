from __future__ import annotations

from itertools import pairwise

import pytest

from state_processor.applications.report.charts import count_ticks, size_ticks

KIB, MIB = 1024, 1 << 20


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (4, [0, 1, 2, 3, 4]),
        (7, [0, 2, 4, 6, 8]),
        (9, [0, 5, 10]),
        (12_345, [0, 5000, 10_000, 15_000]),
        (80_001, [0, 50_000, 100_000]),
    ],
)
def test_counts(highest: int, ticks: list[int]) -> None:
    assert count_ticks(highest) == ticks


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, [0, 1]),
        (670, [0, 200, 400, 600, 800]),
        (KIB + 1, [0, KIB, 2 * KIB]),
        (63 * MIB, [0, 20 * MIB, 40 * MIB, 60 * MIB, 80 * MIB]),
    ],
)
def test_sizes(highest: int, ticks: list[int]) -> None:
    assert size_ticks(highest) == ticks


def test_every_value_is_below_the_last_tick() -> None:
    for highest in (*range(3000), *(2**n + d for n in range(10, 63) for d in (-1, 0, 1))):
        for ticks in (count_ticks(highest), size_ticks(highest)):
            assert highest <= ticks[-1]
            assert 2 <= len(ticks) <= 5
            assert len({b - a for a, b in pairwise(ticks)}) == 1
