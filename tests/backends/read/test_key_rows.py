"""Results that are kept for later calls."""

from __future__ import annotations

from state_processor.backends.read.key_rows import RecentResults


def test_the_most_recent_results_are_kept() -> None:
    made: list[int] = []

    def double(key: int) -> int:
        made.append(key)
        return 2 * key

    kept: RecentResults[int, int] = RecentResults(2)
    assert [kept.get(key, double) for key in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert made == [1, 2, 3, 2]  # 3 replaced 2, because 1 was used after it
