"""What the readers of all layouts have in common: a keyed state, all keyed states side by side, operator state, raw state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from state_processor.backends.formats.field_selection import Selection, applied
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.serializers.decode_options import can_have_nanos, plain_schema
from state_processor.support.locks import cached_property

if TYPE_CHECKING:
    from state_processor.backends.read.read_options import ReadOptions
    from state_processor.backends.state.descriptions import StateDescription


def plan_read(stored: StoredOperator, states: Sequence[StateDescription], options: ReadOptions) -> ReadOptions:
    """Return the options of a read with what some states add.

    Names of the fields of rows come from the user and from the plan of the query, and the time zone from the snapshot.
    """
    snapshot = stored.snapshot
    if snapshot.query_plan is None and not options.types.fields:
        return options.of_states(time_zone=snapshot.time_zone)
    from state_processor.backends.read.field_names import state_names  # most reads omit names

    return options.of_states(state_names(snapshot, stored.operator, states, dict(options.types.fields)), snapshot.time_zone)


class PlannedReader(ABC):
    """A reader of state of an operator. After unpickling it can read splits, but not plan them.

    ``stored``: the operator that has the state. ``options``: the read, with the names and the time zone of the states.
    """

    def __init__(self, stored: StoredOperator, options: ReadOptions) -> None:
        self._stored = stored
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_options": self._options.for_tasks(), "schema": self.schema}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the batches of a read."""
        return plain_schema(self.described_schema)

    @property
    def described_schema(self) -> pa.Schema:
        """The schema, with the declarations of the types of columns (:mod:`~state_processor.serializers.decode_options`)."""
        return applied(self._options.selection, self._whole_schema())

    @property
    def can_have_nanos(self) -> bool:
        """Whether values can have nanoseconds that the columns do not hold."""
        return any(can_have_nanos(field.type) for field in self.described_schema)

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        return self._options.finished(self._rows(split))

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
        reader._options = replace(self._options, selection=selection)
        return reader
