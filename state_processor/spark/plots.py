"""Plots of a snapshot with matplotlib (``pip install 'state-processor[plots]'``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from state_processor.backends.analysis.entry_sizes import SIZE_IN_BYTES
from state_processor.backends.formats.row_layout import TIMESTAMP
from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.read.keyed_reader import DOMAIN
from state_processor.display.histograms import (
    FEWEST_BARS,
    TimeHistogram,
    count_times,
    new_axes,
    pyplot,
    show_dates,
    show_whole_numbers,
    unit_of,
)
from state_processor.display.text_tables import size_text
from state_processor.spark.task_errors import unwrap_spark_errors
from state_processor.support.errors import NotFoundError
from state_processor.support.mappings import attributes
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCHEMA: Final = pa.schema(
    [
        ("by", pa.string()),
        ("step", pa.int64()),
        ("outside", pa.int64()),
        ("bins", pa.list_(pa.int64())),
        ("counts", pa.list_(pa.int64())),
    ]
)
_DDL: Final = "by string, step bigint, outside bigint, bins array<bigint>, counts array<bigint>"


@dataclass(frozen=True)
class CountTimes:
    """A task that counts points in time."""

    by: str | None  # the column to group by; ``None`` to count all together
    column: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return a row for each histogram."""
        histograms: dict[str, TimeHistogram] = defaultdict(TimeHistogram)
        for batch in batches:
            count_times(batch, self.by, self.column, histograms)
        rows = []
        for by, histogram in histograms.items():
            bins, counts = list(histogram.counts), list(histogram.counts.values())
            rows.append({"by": by, **attributes(histogram, ("step", "outside")), "bins": bins, "counts": counts})
        yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def time_counts(frame: DataFrame, by: str | None, column: str) -> dict[str, TimeHistogram]:
    """Return histograms of a column, by the values of another; ``""`` for all together."""
    chosen = frame.select(*([by] if by else []), column)
    histograms: dict[str, TimeHistogram] = defaultdict(TimeHistogram)
    with unwrap_spark_errors():
        for row in chosen.mapInArrow(CountTimes(by, column), _DDL).collect():
            counts: Counter[int] = Counter(dict(zip(row.bins, row.counts, strict=True)))
            histograms[row.by].merge(TimeHistogram(row.step, counts, row.outside))
    return dict(histograms)


Uid = str | OperatorIdentifier

_BAR_INCHES: Final = 0.28
_DAY: Final = 24 * 60 * 60 * 1000


class SnapshotPlots:
    """Plots of a reader. Each method counts or measures with a job of Spark, and returns the axes, to be changed or saved."""

    if TYPE_CHECKING:
        size_report: Any
        read_timers: Any
        read_keyed_state: Any

    def plot_sizes(self, uid: Uid | None = None, top: int | None = 20) -> Axes:
        """Plot the bytes of keyed states and timers, largest first.

        Parameters
        ----------
        uid
            One operator; ``None`` for all.
        top
            Number of states; ``None`` for all.

        Raises
        ------
        NotFoundError
            The operator does not exist, or does not have keyed state.
        OptionError
            matplotlib is not installed.
        """
        pyplot()  # a missing package is an error before a job runs
        rows = self.size_report(uid, "state", top).collect()
        names = [f"{row.operator_uid or row.operator_uid_hash}\n{row.state_name}" for row in rows]
        axes = new_axes(1 + 2 * _BAR_INCHES * max(2, len(rows)))
        bars = axes.barh(range(len(rows)), [row[SIZE_IN_BYTES] for row in rows])
        axes.bar_label(bars, [f" {size_text(row[SIZE_IN_BYTES])}, {row.entries} entries" for row in rows])
        axes.set_yticks(range(len(rows)), names)
        axes.invert_yaxis()
        axes.margins(x=0.3)
        axes.xaxis.set_visible(False)  # bars have labels
        axes.set_title("Size of keyed state")
        return axes

    def plot_key_groups(self, uid: Uid) -> Axes:
        """Plot the bytes of an operator's key groups, with their mean.

        Parameters
        ----------
        uid
            The operator.

        Raises
        ------
        NotFoundError
            The operator does not exist, or does not have keyed state.
        OptionError
            matplotlib is not installed.
        """
        axes = new_axes()
        rows = self.size_report(uid, "key_group", None).collect()
        sizes = np.zeros(1 + max((row.key_group for row in rows), default=0), dtype=np.int64)
        for row in rows:
            sizes[row.key_group] = row[SIZE_IN_BYTES]
        axes.bar(np.arange(len(sizes)), sizes, width=1.0)
        axes.axhline(float(sizes.mean()), linestyle="--", color="gray", label=f"mean {size_text(int(sizes.mean()))}")
        axes.yaxis.set_major_formatter(lambda size, _: size_text(int(size)))
        axes.set_xlabel("key group")
        axes.set_title(f"Size of key groups of {uid}")
        axes.legend()
        return axes

    def plot_timers(self, uid: Uid) -> Axes:
        """Plot when an operator's timers fire, in UTC, by domain.

        Parameters
        ----------
        uid
            The operator.

        Raises
        ------
        NotFoundError
            The operator does not exist, or does not have timers.
        OptionError
            matplotlib is not installed.
        """
        axes = new_axes()
        counts = time_counts(self.read_timers(uid), DOMAIN, TIMESTAMP)
        for domain, times in sorted(counts.items()):
            bins = times.bins()
            starts = [b.start / _DAY for b in bins]
            width = (bins[0].end - bins[0].start) / _DAY if bins else 0.0
            named = f"{domain.replace('_', ' ')}: {times.total}" + (f", {times.outside} without a date" if times.outside else "")
            axes.bar(starts, [b.points for b in bins], width=width, align="edge", alpha=0.8, label=named)
        show_dates(axes)
        show_whole_numbers(axes)
        axes.set_ylabel("timers")
        axes.set_title(f"Timers of {uid} (UTC)")
        axes.margins(y=0.25)
        if counts:
            axes.legend(loc="upper right")
        return axes

    def plot_ttl(self, uid: Uid, state: str) -> Axes:
        """Plot the ages of a state's values: the time from their last access to the latest of all.

        Parameters
        ----------
        uid, state
            A state with time-to-live.

        Raises
        ------
        NotFoundError
            The operator or the state does not exist, or the state does not have time-to-live.
        OptionError
            matplotlib is not installed.
        """
        axes = new_axes()
        frame = self.read_keyed_state(uid, state, metadata=True, nanos="string")
        times = time_counts(frame, None, LAST_ACCESS).get("", TimeHistogram())
        if not times.total and frame.limit(1).count():
            raise NotFoundError(
                f"operator {uid}, state {state!r} is declared without time-to-live: snapshots do not record accesses"
            )
        bins = times.bins(before=FEWEST_BARS)
        name, unit = unit_of((times.last - bins[0].start) // 2 if bins else 0)
        if bins:
            width = (bins[0].end - bins[0].start) / unit
            axes.bar([(times.last - b.end) / unit for b in bins], [b.points for b in bins], width=width, align="edge")
        show_whole_numbers(axes)
        axes.set_xlabel(f"{name}s since the last access")
        axes.set_ylabel("values")
        axes.set_title(f"Ages of {state} of {uid}")
        return axes
