from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from state_processor.display.histograms import Bin, TimeHistogram, count_times

LAST = 253_402_300_799_999
times = st.lists(st.integers(-(10**13), 10**13) | st.sampled_from([2**63 - 1, -(2**63), LAST, LAST + 1]), max_size=40)


def counted(values: list[int]) -> TimeHistogram:
    histogram = TimeHistogram()
    histogram.add(pa.array(values, pa.int64()))
    return histogram


@given(times, times)
def test_every_point_is_in_its_bin_or_outside(one: list[int], other: list[int]) -> None:
    histogram = counted(one)
    histogram.merge(counted(other))
    inside = [t for t in one + other if abs(t) < 2**62 and t <= LAST]
    assert (histogram.total, histogram.outside) == (len(inside), len(one + other) - len(inside))
    bins = histogram.bins(7, before=3, behind=5)
    assert len(bins) <= 7
    assert [b.points for b in bins] == [sum(b.start <= t < b.end for t in inside) for b in bins]
    assert sum(b.points for b in bins) == len(inside)
    assert all(a.end == b.start for a, b in pairwise(bins))


def test_bins_widen_with_the_range_and_memory_does_not() -> None:
    histogram = counted([1000 * i for i in range(10_000)])
    histogram.merge(counted([10**12]))
    assert (histogram.total, histogram.step, len(histogram.counts) <= 4096) == (10_001, 4000, True)
    assert histogram.last == 10**12 + 4000


def test_few_points_get_empty_bins_beside_them() -> None:
    assert counted([5000]).bins(before=2) == [Bin(4000, 5000, 0), Bin(5000, 6000, 1)]
    assert counted([5000]).bins(behind=3) == [Bin(5000, 6000, 1), Bin(6000, 7000, 0), Bin(7000, 8000, 0)]
    assert counted([]).bins(before=3) == []


def test_columns_of_batches_by_another_column() -> None:
    found: dict[str, TimeHistogram] = defaultdict(TimeHistogram)
    stamps = pa.array([1_500_000, None, 2_000_000], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"by": pa.array(["a", "a", "b"]), "at": stamps, "ms": pa.array([0, 1, 2**63 - 1])})
    count_times(batch, "by", "at", found)
    assert {by: h.counts for by, h in found.items()} == {"a": Counter({1: 1}), "b": Counter({2: 1})}
    count_times(batch, None, "ms", found)
    assert (found[""].counts, found[""].outside) == (Counter({0: 2}), 1)
