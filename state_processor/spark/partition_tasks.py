"""Operations on tables of Arrow, run by the workers of Spark on partitions of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.write.row_protocol import Operation

HASH: Final = "__key_hash"
"""The column with a hash code of the key. Rows of a key are next to each other."""
_ROWS_TOGETHER: Final = 1 << 17

Step = Callable[[Iterator[pa.Table]], Iterator[pa.Table]]


@dataclass(frozen=True)
class OnBatches:
    """Run an operation on each batch."""

    operation: Operation

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the results."""
        return map(self.operation, tables)


@dataclass(frozen=True)
class OnKeys:
    """Run an operation on all rows of some keys together."""

    operation: Operation
    # whether it may run on some rows of a key, and then on its results with more rows: a key may have any number of rows
    combines: bool

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the results."""
        held: list[pa.Table] = []
        last, most = None, _ROWS_TOGETHER
        for table in tables:
            hashes, rows = np.asarray(table.column(HASH)), table.drop_columns(HASH)
            begin = int(np.searchsorted(hashes, hashes[-1]))
            if held and (begin or hashes[0] != last):
                yield self.operation(pa.concat_tables([*held, rows.slice(0, begin)]))
                held, most = [], _ROWS_TOGETHER
            elif begin:
                yield self.operation(rows.slice(0, begin))
            held.append(rows.slice(begin))
            last = hashes[-1]
            if self.combines and sum(map(len, held)) > most:
                held = [self.operation(pa.concat_tables(held))]
                most = max(most, 2 * len(held[0]))  # a result may have as many rows, and they are not worth many passes
        if held:
            yield self.operation(pa.concat_tables(held))


@dataclass(frozen=True)
class PartitionTask:
    """Steps over the rows of a partition.

    ``given`` and ``result``: the columns before and after.
    """

    given: pa.Schema
    steps: tuple[Step, ...]
    result: pa.Schema

    @property
    def __name__(self) -> str:
        """Spark shows it in plans and in its user interface."""
        return "rows"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows after all steps. Spark gives columns by number, and times in the zone of the session."""
        names = self.given.names
        tables: Iterator[pa.Table] = (pa.Table.from_arrays(b.columns, names).cast(self.given) for b in batches if b.num_rows)
        for step in self.steps:
            tables = step(tables)
        for table in tables:
            yield from table.cast(self.result).to_batches()
