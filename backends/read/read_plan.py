"""The plan of a read: its rows, its columns and its values.

A plan is made once from the options, before any reader is opened. The reader of each layout interprets it: a keyed state, all
keyed states side by side, operator state, raw state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from state_processor.backends.formats.field_selection import Selection, applied
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.column_types import ColumnTypes, DeclaredNames
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.serializers.column_type import can_have_nanos, plain_schema
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.locks import cached_property

if TYPE_CHECKING:
    from state_processor.backends.read.read_options import ReadOptions
    from state_processor.backends.state.descriptions import StateDescription


_ENTRY_PER_MAP_KEY = ("canonical", "rocksdb", "forst")
"""Backends whose entries of maps have one key of the map each."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a read gives."""

    options: ReadOptions
    # how values are represented. Times of last access are decoded only if a column or the expiry needs them.
    values: DecodeOptions
    types: ColumnTypes  # types and names that states are read in
    # the columns to read, and the fields in them; ``None`` for all. ``columns`` of the options are columns of the whole read.
    selection: Selection | None = None

    @classmethod
    def of(cls, options: ReadOptions, names: Iterable[tuple[str, DeclaredNames]] = (), time_zone: str = "UTC") -> ReadPlan:
        """Return the plan for options.

        ``names``: names for the fields of rows, by state. ``time_zone``: the zone of the job's JVM, for values of ``java.sql``.
        """
        python = options.python_types if options.python_type is None else (("", options.python_type), *options.python_types)
        with_times = options.metadata or options.ttl is not None
        return cls(
            options,
            DecodeOptions(options.nanos, options.row_kind, with_times, batch_memory=options.batch_memory),
            ColumnTypes(options.types, options.undescribed, python, options.unpickle, tuple(names), time_zone),
        )

    @property
    def described(self) -> DecodeOptions:
        """The representation of values, for types of columns with descriptions."""
        return replace(self.values, describe="for_reading")

    def for_tasks(self) -> ReadPlan:
        """Return the plan without the keys. Each split has the keys in it."""
        return replace(self, options=replace(self.options, keys=None))

    def has_row_per_entry(self, state: KeyedDescription, backend: str) -> bool:
        """Return whether each entry of a state in files of a backend is a row, whatever its bytes are."""
        if self.options.expired == "only" or (state.has_ttl and (self.options.newest_expired is not None or state.kind == MAP)):
            return False
        if state.kind == LIST:
            return not self.options.flatten
        # an entry of the heap is a whole map, and a changelog may begin with files of the heap
        return state.kind != MAP or (self.options.flatten and backend in _ENTRY_PER_MAP_KEY)

    def finished(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of one split as the read gives them. An option that acts on the rows of any state acts here.

        ``batches``: the rows of the split, in the columns of the reader; some batches may be empty.
        """
        return filter(attrgetter("num_rows"), batches)  # unlike a loop, it does not keep a batch while the next one is decoded


def plan_read(stored: StoredOperator, states: Sequence[StateDescription], options: ReadOptions) -> ReadPlan:
    """Return the plan of a read of some states.

    Names of the fields of rows come from the user and from the plan of the query, and the time zone from the snapshot.
    """
    snapshot = stored.snapshot
    if snapshot.query_plan is None and not options.fields:
        return ReadPlan.of(options, time_zone=snapshot.time_zone)
    from state_processor.backends.sql.naming import state_names  # only states of queries need it

    return ReadPlan.of(options, state_names(snapshot, stored.operator, states, dict(options.fields)), snapshot.time_zone)


class PlannedReader(ABC):
    """A reader of state of an operator. After unpickling it can read splits, but not plan them.

    ``stored``: the operator that has the state. ``plan``: the plan of the read.
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
