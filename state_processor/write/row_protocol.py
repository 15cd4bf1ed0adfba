"""Rows in the form that a writer needs: their columns, and operations on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

Replaced = Literal["", "keys", "entries"]
"""What a row replaces in the source savepoint: nothing, all entries of its key, or one entry of a map."""

TIMESTAMP_MS: Final = "timestamp_ms"
"""Another name for the column ``timestamp`` of timers, which says what its unit is."""


class OperatorRows(Protocol):
    """Rows of operator state, in the form that an :class:`~state_processor.write.engines.Engine` encodes."""

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

    def explode_map(self, columns: ColumnNames) -> tuple[Self, dict[str, str]]:
        """Return a row per entry of the map in the column of the value, and the columns of these rows."""

    def collect_lists(self, columns: ColumnNames) -> Self:
        """Return a row per key from a row per element of its list."""

    def once(self) -> Self:
        """Return the current rows, for several uses: they are evaluated here, and not again."""

    def without(self, columns: Sequence[str], others: Self, other_columns: Sequence[str]) -> Self:
        """Return the rows whose key does not occur in other rows."""

    def timers(self, key: str, *, has_namespaces: bool) -> tuple[Self, list[tuple[str, str]]]:
        """Return rows of timers with the columns ``timestamp``, ``domain`` and ``service``, and their services and domains."""
