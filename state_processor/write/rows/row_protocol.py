"""Rows in the form that a writer needs: their columns, and operations on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ArrowStream(Protocol):
    """A stream of Arrow batches: a DataFrame of pandas or Polars, a table or reader of Arrow, a result of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream."""


GivenRows: TypeAlias = "DataFrame | ArrowStream | Sequence[Mapping[str, Any]]"
"""Rows that users give. A writer with Spark takes data frames and streams; a writer without Spark, streams and dictionaries."""

ColumnNames = Mapping[str, str]
"""Columns of rows by the names that :mod:`~state_processor.backends.write.entry_encoder` has for them."""

Operation = Callable[[pa.Table], pa.Table]
"""A function of a table that can be pickled. The types of the table decide the types of its result. The table may be empty."""

Replaced = Literal["", "keys", "entries"]
"""What a row replaces in the source savepoint: nothing, all entries of its key, or one entry of a map."""

TIMESTAMP_MS: Final = "timestamp_ms"
"""Another name for the column ``timestamp`` of timers, which says what its unit is."""

DERIVED_FROM: Final = b"derived_from"
"""Metadata of a column: the one that its values come from. Whoever replaces the column, drops it."""


class OperatorRows(Protocol):
    """Rows of operator state, in the form that an :class:`~state_processor.write.tasks.passes.Engine` encodes."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def case_sensitive(self) -> bool:
        """True if names of columns may differ in case only."""

    def select(self, columns: ColumnNames) -> Self:
        """Return some columns under other names: new name to column."""

    def to_arrow(self) -> pa.Table:
        """Collect the rows."""

    def of_values(self, values: pa.Array) -> Self:
        """Return other rows with one column ``value``."""


class Rows(OperatorRows, Protocol):
    """Rows of keyed state as well."""

    def on_batches(self, operation: Operation) -> Self:
        """Return the results of an operation on parts of the rows."""

    def by_key(self, columns: Sequence[str], operation: Operation, *, combines: bool = False) -> Self:
        """Return the results of an operation on all rows that have the same values in some columns, of some keys at a time.

        ``columns``: the columns of the key; without any, all rows have the same. ``combines``: whether it may run on some rows of
        a key first, and then on its results with more rows. Else all rows of a key are in memory.
        """

    def numbered(self, name: str) -> Self:
        """Return the rows with numbers in their order, in another column."""

    def once(self) -> Self:
        """Return the current rows, for several uses: they are evaluated here, and not again."""

    def without(self, columns: Sequence[str], later_rows: Self, other_columns: Sequence[str]) -> Self:
        """Return the rows whose key does not occur in other rows."""

    def with_matches(
        self, name: str, key: Sequence[str], opposite: Self, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> Self:
        """Return rows with the number of other rows that have the same key, in another column.

        ``key``, ``opposite`` and ``other_key``: the columns of the key, the other rows, and the columns of their key.
        ``matching_nulls``: the positions in the key where null equals null; else null equals nothing.
        """
