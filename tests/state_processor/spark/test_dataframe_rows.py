"""Tests of :mod:`state_processor.spark.dataframe_rows`: all rows of a key come together, and few of them are in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from state_processor.spark import dataframe_rows
from state_processor.spark.dataframe_rows import HASH, OnBatches, OnKeys, PartitionTask

TOTALS = pa.schema([("key", pa.int64()), ("total", pa.int64())])
SIZES = (1, 3, 40, 2, 2, 500, 1)
"""The number of rows of each key."""


def batches(rows_of_batch: int) -> Iterator[pa.RecordBatch]:
    keys = np.repeat(np.arange(len(SIZES)), SIZES)
    table = pa.table({"column0": keys, "column1": np.ones(len(keys), np.int64), "column2": keys // 2 - 2})
    yield from table.to_batches(rows_of_batch)


@pytest.mark.parametrize("combines", [True, False])
@pytest.mark.parametrize("rows_of_batch", [1, 2, 7, 1000])
def test_rows_of_a_key_come_together(rows_of_batch: int, combines: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataframe_rows, "_ROWS_TOGETHER", 10)
    given = []

    def totals(rows: pa.Table) -> pa.Table:
        given.append(len(rows))
        grouped = rows.group_by("key").aggregate([("total", "sum")])
        return pa.table([grouped.column("key"), grouped.column("total_sum")], schema=TOTALS)

    task = PartitionTask(
        TOTALS.append(pa.field(HASH, pa.int64())), (OnKeys(totals, combines), OnBatches(lambda rows: rows)), TOTALS
    )
    rows = [(row["key"], row["total"]) for batch in task(batches(rows_of_batch)) for row in batch.to_pylist()]
    assert sorted(rows) == list(enumerate(SIZES))
    assert (max(given) < max(SIZES)) == (combines and rows_of_batch < 1000)


def test_rows_of_a_key_that_do_not_become_fewer_are_combined_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataframe_rows, "_ROWS_TOGETHER", 10)
    given = []

    def same(rows: pa.Table) -> pa.Table:
        given.append(len(rows))
        return rows

    count = 1000
    table = pa.table({"column0": np.zeros(count, np.int64), "column1": np.arange(count), "column2": np.zeros(count, np.int64)})
    task = PartitionTask(TOTALS.append(pa.field(HASH, pa.int64())), (OnKeys(same, True),), TOTALS)
    rows = pa.Table.from_batches(task(iter(table.to_batches(5))))
    assert rows.column("total").to_pylist() == list(range(count))
    assert sum(given) < 4 * count
