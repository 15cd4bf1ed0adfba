"""Tasks over numbered parts, and the batches that carry their results to the driver.

A task is a function from the batches of a partition to others; it can be pickled. Starting a task costs more than a
small part, so that several parts share a task.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from state_processor.backends.write.arrays import numbers, repeated
from state_processor.serializers.records import dataclass

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]

TASK_RESULTS: Final = pa.schema(
    [
        pa.field("number", pa.int32(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""Results of tasks, by number of the part or file: a pickled value."""


class Part(Protocol):
    """Part of the source savepoint; it can be pickled."""

    @property
    def size(self) -> int:
        """Bytes to read."""


@dataclass(frozen=True)
class RunParts:
    """Task that returns a result for each part. Input rows are numbers of ``groups``, which consist of numbered parts."""

    task: Callable[[Any], Any]
    groups: tuple[tuple[tuple[int, Any], ...], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the results, :data:`TASK_RESULTS`."""
        for group in part_numbers(batches):
            for number, part in self.groups[group]:
                yield task_result(number, self.task(part))


def part_numbers(batches: Batches) -> Iterator[int]:
    """Yield the numbers of parts that a task is given: the values of the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def task_result(number: int, value: Any) -> pa.RecordBatch:
    """Return a row of :data:`TASK_RESULTS`."""
    columns = [numbers(np.array([number], np.int32)), repeated(pickle.dumps(value), 1, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=TASK_RESULTS)


def results_by_number(batches: Batches) -> dict[int, Any]:
    """Return the values of :data:`TASK_RESULTS`; of a task that ran more than once, one attempt."""
    return {row["number"]: pickle.loads(row["value"]) for batch in batches for row in batch.to_pylist()}
