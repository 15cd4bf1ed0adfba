"""Readers that interpret the plan of a read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from state_processor.backends.formats.field_selection import Selection, applied
from state_processor.backends.read.read_plan import ReadPlan
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.serializers.column_type import can_have_nanos, plain_schema
from state_processor.serializers.locks import cached_property


class PlannedReader(ABC):
    """A reader of state of an operator. After unpickling it can read splits, but not plan them.

    Parameters
    ----------
    stored
        The operator that has the state.
    plan
        What the read gives.
    """

    def __init__(self, stored: StoredOperator, plan: ReadPlan) -> None:
        self._stored = stored
        self._plan = plan

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_plan": self._plan.for_tasks(), "schema": self.schema}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the batches of a read."""
        return plain_schema(self.described_schema)

    @property
    def described_schema(self) -> pa.Schema:
        """The schema, with the declarations of the types of columns (:mod:`~state_processor.serializers.column_type`)."""
        return applied(self._plan.selection, self._whole_schema())

    @property
    def can_have_nanos(self) -> bool:
        """Whether values can have nanoseconds that the columns do not hold."""
        return any(can_have_nanos(field.type) for field in self.described_schema)

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        return self._plan.finished(self._rows(split))

    @abstractmethod
    def _rows(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split, as the layout and its columns give them."""

    @abstractmethod
    def _whole_schema(self) -> pa.Schema:
        """Return the described schema of all columns."""

    def select(self, selection: Selection) -> Self:
        """Return a reader of some columns, and of some fields in them. Unknown names are ignored."""
        reader = type(self).__new__(type(self))  # copy.copy() would make the reader of a task
        vars(reader).update({name: value for name, value in vars(self).items() if name != "schema"})
        reader._plan = replace(self._plan, selection=selection)
        return reader
