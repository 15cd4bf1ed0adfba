"""Histograms of timestamps of any range in bounded memory, and axes of plots (``pip install 'state-processor[plots]'``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_shapes import instants
from state_processor.support.late import pc, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MOST_BINS: Final = 4096
_FINEST_MILLIS: Final = 1000
FEWEST_BARS: Final = 30
_UNITS: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


class Bin(NamedTuple):
    """Number of timestamps from ``start`` to ``end`` (exclusive), in epoch milliseconds."""

    start: int
    end: int
    points: int


@dataclass
class TimeHistogram:
    """Numbers of timestamps by bins of equal length; bins grow with the range."""

    step: int = _FINEST_MILLIS  # length of a bin in milliseconds
    counts: Counter[int] = field(default_factory=Counter)
    outside: int = 0  # number of values outside of the years 1 to 9999, such as ``Long.MAX_VALUE``

    def add(self, milliseconds: pa.Array) -> None:
        """Count timestamps in epoch milliseconds; nulls are ignored."""
        times = milliseconds.drop_null()
        inside = times.filter(pc.is_valid(instants(times)))
        self.outside += len(times) - len(inside)
        if not len(inside):
            return
        bins, counts = np.unique(inside.to_numpy() // self.step, return_counts=True)
        self.counts.update(dict(zip(bins.tolist(), counts.tolist(), strict=True)))
        while len(self.counts) > _MOST_BINS:
            self._widen(2 * self.step)

    def merge(self, histogram: TimeHistogram) -> None:
        """Add the timestamps of another histogram."""
        wider = max(self.step, histogram.step)
        self._widen(wider)
        self.outside += histogram.outside
        for number, count in histogram.counts.items():
            self.counts[number * histogram.step // wider] += count
        while len(self.counts) > _MOST_BINS:
            self._widen(2 * self.step)

    def _widen(self, step: int) -> None:
        counts: Counter[int] = Counter()
        for number, count in self.counts.items():
            counts[number * self.step // step] += count
        self.step, self.counts = step, counts

    @property
    def total(self) -> int:
        """Number of all timestamps in the years 1 to 9999."""
        return sum(self.counts.values())

    @property
    def last(self) -> int:
        """End of the last non-empty bin; 0 if all bins are empty."""
        return (max(self.counts) + 1) * self.step if self.counts else 0

    def bins(self, most: int = 60, *, before: int = 0, behind: int = 0) -> list[Bin]:
        """Return bins of equal length from the first to the last timestamp; an empty list without timestamps.

        ``most``: the largest number of bins. ``before`` and ``behind``: fill up to this number of bins with empty bins before the
        first timestamp, or after the last.
        """
        return list(self._bins(most, before, behind)) if self.counts else []

    def _bins(self, most: int, before: int, behind: int) -> Iterator[Bin]:
        first, last = min(self.counts), max(self.counts)
        first, last = min(first, last + 1 - before), max(last, first - 1 + behind)
        width = -(-(last - first + 1) // most)
        counts: Counter[int] = Counter()
        for number, count in self.counts.items():
            counts[(number - first) // width] += count
        for i in range((last - first) // width + 1):
            start = (first + i * width) * self.step
            yield Bin(start, start + width * self.step, counts[i])


def count_times(batch: pa.RecordBatch, by: str | None, column: str, histograms: dict[str, TimeHistogram]) -> None:
    """Add the timestamps of a batch, in milliseconds or as timestamps, to histograms by the values of another column."""
    times = batch.column(column)
    if pa.types.is_timestamp(times.type):
        times = pc.cast(times, pa.timestamp("ms", tz=times.type.tz), safe=False).cast(pa.int64())
    for value in pc.unique(batch.column(by)).to_pylist() if by else [""]:
        chosen = times.filter(pc.equal(batch.column(by), value)) if by else times
        histograms[value].add(chosen)


def unit_of(milliseconds: int) -> tuple[str, int]:
    """Return the largest unit within a duration, and its length in milliseconds."""
    return next(((name, unit) for name, unit in _UNITS if milliseconds >= unit), _UNITS[-1])


def show_dates(axes: Axes) -> None:
    """Label days since 1970 as dates."""
    from matplotlib import dates

    untyped: Any = dates
    locator = untyped.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))


def show_whole_numbers(axes: Axes) -> None:
    """Label only whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def new_axes(height: float = 4) -> Axes:
    """Return the axes of a new figure of 9 inches, with a height in inches."""
    _, axes = pyplot().subplots(figsize=(9, height), layout="constrained")
    new: Axes = axes
    return new


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``."""
    require("matplotlib", "plots", "plots")
    return import_module("matplotlib.pyplot")
