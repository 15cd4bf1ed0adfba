"""States as data sets of pyarrow, which DuckDB asks for columns and a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from state_processor.read.key_conditions import ArrowCondition
from state_processor.read.scans import StateScan, columns_of
from state_processor.serializers.errors import StateProcessorError
from state_processor.serializers.late import pc


class StateDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A state as a data set.

    ``scan``: reads the state. ``schema``: the columns to offer. A struct may lack fields of the state. ``failed``: gets the
    errors of reading; DuckDB has only their text.
    """

    def __init__(self, scan: StateScan, schema: pa.Schema, failed: Callable[[StateProcessorError], None]) -> None:
        self._scan = scan
        self._offered = schema
        self._failed = failed

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._offered

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> StateScanner:
        """Return a scanner of some columns of the rows that fulfil a condition; other arguments are hints about batches."""
        names = list(columns) if columns else self._offered.names
        return StateScanner(columns_of(self._offered, names), self._batches(names, filter))

    def _batches(self, names: Sequence[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            if condition is None:
                yield from self._scan.read(columns_of(self._offered, names))
                return
            filter_ = ArrowCondition(condition)
            decoded = columns_of(self._offered, [*names, *sorted(filter_.columns.difference(names))])
            for batch in self._scan.read(decoded, self._scan.narrowing_keys(filter_.keys)):
                yield batch.filter(condition).select(names)
        except StateProcessorError as error:
            self._failed(error)
            raise


class StateScanner:
    """A scanner. DuckDB takes its reader."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.projected_schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches)
