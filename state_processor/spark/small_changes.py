"""Small changes of large stores. The driver writes them: a job of Spark would cost more than the change.

What a change costs does not depend on the store then, whose files are copied by the file system or stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from state_processor.backends.write.staging import Staging
from state_processor.spark.dataframe_rows import SparkRows
from state_processor.spark.task_sizes import expected_bytes
from state_processor.write.blob_index import blob_indexes
from state_processor.write.engines import RowsPass, StateFiles, Written
from state_processor.write.local_engine import EncodedRows, LocalEngine
from state_processor.write.passes import FirstPass

_ROWS_BYTES: Final = 8 << 20
COPIED_BYTES: Final = 256 << 20
"""Copying so many bytes costs as much as a job; more are copied by tasks, which are on several machines."""


def are_small(files: Sequence[StateFiles]) -> bool:
    """Return whether files are stores with few rows above the files that they had, as far as Spark knows before it runs a job."""
    copied = [job.copied for job in files]
    if None in copied or sum(size or 0 for size in copied) > COPIED_BYTES or any(job.parts for job in files):
        return False
    frames = {id(rows_pass.rows.frame): rows_pass.rows.frame for job in files for rows_pass in job.rows}
    return sum(map(expected_bytes, frames.values())) <= _ROWS_BYTES


def write_in_driver(files: Sequence[StateFiles], staging: Staging) -> list[Written]:
    """Run both passes in threads of the driver, which collects the rows."""
    collected: dict[int, pa.Table] = {}
    encoded = [replace(job, rows=[_encoded(rows_pass, staging, collected) for rows_pass in job.rows]) for job in files]
    return LocalEngine().write_files(encoded, staging)


def _encoded(rows_pass: RowsPass, staging: Staging, collected: dict[int, pa.Table]) -> RowsPass:
    rows: SparkRows = rows_pass.rows
    table = collected.get(id(rows.frame))
    if table is None:
        table = collected[id(rows.frame)] = rows.to_arrow()
    first_pass = FirstPass(rows_pass.task, staging, spills=False)
    indexes = blob_indexes(first_pass(table.select(list(rows_pass.columns)).to_batches()))
    return replace(rows_pass, rows=EncodedRows(rows.schema, indexes))
