"""Histograms of points in time in DataFrames, which tasks count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from state_processor.display.time_histogram import TimeHistogram, count_times
from state_processor.spark.task_errors import unwrap_spark_errors

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
        rows = [
            {"by": by, "step": h.step, "outside": h.outside, "bins": list(h.counts), "counts": list(h.counts.values())}
            for by, h in histograms.items()
        ]
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
