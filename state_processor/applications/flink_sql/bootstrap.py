"""Contents of states that are computed from the input rows of an operator. The description of an operator chooses its content."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from state_processor.applications.flink_sql.accumulators import AccumulatorField, DistinctValues
from state_processor.applications.flink_sql.fields import PlanFields, distinct_names, is_time
from state_processor.errors import OptionError
from state_processor.types import MAP_VIEW, LogicalType, RowField, RowType


@dataclass(frozen=True)
class Input:
    """Rows at an input of an operator."""

    columns: Mapping[str, LogicalType]  # the columns, with distinct names from the plan
    shown: Mapping[str, str]  # the names of these columns when state is read: names of computed columns are their expressions
    key: tuple[str, ...]  # the columns of the operator's key

    @classmethod
    def of(cls, fields: PlanFields, shown: PlanFields, key: Any) -> Input:
        """Return the rows with some fields. ``shown``: their names when state is read. ``key``: the positions of the key."""
        columns: dict[str, LogicalType] = {}
        for field in distinct_names(fields):
            if field.type is None:
                raise OptionError(f"its input has the column {field.name!r} of a Java class that the plan does not describe")
            columns[field.name] = field.type
        names = tuple(columns)
        return cls(columns, dict(zip(names, (f.name for f in shown), strict=True)), tuple(names[int(i)] for i in key or ()))

    def times(self, kind: str) -> list[str]:
        """Return the columns with time attributes of a kind: ``ROWTIME`` or ``PROCTIME``."""
        return [name for name, type_ in self.columns.items() if is_time(type_, kind)]

    @property
    def processing_time(self) -> frozenset[str]:
        """The columns of processing time. They are null in state, and optional in given rows."""
        return frozenset(self.times("PROCTIME"))

    @property
    def row(self) -> RowType:
        """The type of the rows."""
        return self.type_of(tuple(self.columns))

    @property
    def key_type(self) -> RowType:
        """The type of the operator's key."""
        return self.type_of(self.key)

    def given_as(self, column: str, names: Collection[str]) -> str:
        """Return the given name of a column: its name in the plan, or the shown name."""
        return column if column in names else self.shown[column]

    def type_of(self, names: Sequence[str]) -> RowType:
        """Return the row type of some columns."""
        return RowType(tuple(RowField(name, self.columns[name]) for name in names))


@dataclass(frozen=True)
class Accumulators:
    """Accumulators of an aggregate: one for each key, in state ``accState``; distinct values are in other states."""

    rows: Input
    fields: tuple[AccumulatorField, ...]
    distinct: tuple[DistinctValues, ...]
    has_ttl: bool

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the fields for the states of distinct values."""
        return tuple(f"__view_{i}" for i in range(len(self.distinct)))

    @property
    def type(self) -> RowType:
        """The type of an accumulator."""
        computed = tuple(RowField(field.name, field.type) for field in self.fields)
        return RowType((*computed, *(RowField(name, MAP_VIEW) for name in self.views)))


@dataclass(frozen=True)
class KeptRow:
    """One row of each key, or a mark that the key had a row."""

    rows: Input
    state: str  # the name of the state
    time: str | None  # the column that selects the kept row; ``None`` for a mark
    last: bool  # whether the last row is kept; otherwise the first
    has_ttl: bool  # whether the state has time-to-live


@dataclass(frozen=True)
class JoinSide:
    """One side of a join."""

    rows: Input
    unique: tuple[str, ...]  # the columns of the smallest unique key; empty without a unique key
    outer: bool  # whether rows without a partner are part of the result. Then the state counts the partners.
    has_ttl: bool  # whether the state has time-to-live

    @property
    def is_single(self) -> bool:
        """Whether a key has at most one row."""
        return bool(self.unique) and set(self.unique) <= set(self.rows.key)


@dataclass(frozen=True)
class JoinedRows:
    """Rows of both sides of a join; ``matching_nulls`` are the positions in the key where null equals null."""

    left: JoinSide
    right: JoinSide
    matching_nulls: frozenset[int]


@dataclass(frozen=True)
class LastRows:
    """The last row of each key of an input that changes; the given rows are the last ones."""

    rows: Input
    has_ttl: bool


@dataclass(frozen=True, slots=True)
class Order:
    """A column that orders rows; ``nulls_last`` holds in both directions."""

    column: str
    ascending: bool
    nulls_last: bool


Ranks = Literal["count", "first", "append", "update", "retract"]


@dataclass(frozen=True)
class RankedRows:
    """The first rows of each key in an order. Rows that are equal in the order keep the order of the given rows."""

    rows: Input
    # what is stored: the number of rows (``count``); the first row (``first``); the ranked rows (``append``), by a unique key
    # (``update``); all rows (``retract``)
    kind: Ranks
    order: tuple[Order, ...]  # the columns with the order
    end: int  # the number of ranked rows
    unique: tuple[str, ...]  # the columns of the unique key
    has_ttl: bool  # whether states have time-to-live

    @property
    def order_type(self) -> RowType:
        """The type of the columns with the order."""
        return self.rows.type_of(tuple(sort.column for sort in self.order))


History = Accumulators | KeptRow | LastRows | RankedRows | JoinedRows
