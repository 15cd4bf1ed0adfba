"""Rows as an iterator of batches that is also a stream of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.backends.read.schema_text import comments_of
from state_processor.support.errors import StateProcessorError
from state_processor.support.late import require

if TYPE_CHECKING:
    import pandas as pd

_AT_END: Final = "these rows were read to their end by iteration"
_FIRST_ROWS: Final = 10
"""Rows that a terminal or a notebook shows."""


class Rows(Iterator[pa.RecordBatch]):
    """Rows of a snapshot that are read on demand.

    Rows are an iterator of record batches, of at least one, which may be empty. They are also a stream of Arrow
    (``__arrow_c_stream__``): Polars, DuckDB and pyarrow take them wherever they take tables. Each stream, and each call of
    :meth:`read_all` and :meth:`to_pandas`, reads the snapshot from its start. An iterator can't go back: once a batch was
    taken by iteration, a stream and a second loop are errors. Memory holds a few batches for each thread. :meth:`close` ends an
    iteration early, with its threads.

    Parameters
    ----------
    schema
        The columns.
    batches
        Starts a read.
    notes
        What the rows leave out, if no comment of a column has it.
    """

    starts_again: Final = True
    """Each stream of these rows reads them from their start."""

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]], notes: Iterable[str] = ()) -> None:
        self._schema = schema
        self._batches = batches
        self._notes = tuple(notes)
        self._iterated: Iterator[pa.RecordBatch] | None = None
        self._end: str | None = None  # how the iteration ended

    @property
    def schema(self) -> pa.Schema:
        """The columns of all batches."""
        return self._schema

    @property
    def notes(self) -> tuple[str, ...]:
        """What the rows leave out, such as states of windows, and the time zones of their columns: the comments of columns."""
        comments = tuple(comments_of(self._schema).values())
        further = [note for note in self._notes if not any(note in comment for comment in comments)]
        return tuple(dict.fromkeys([*comments, *further]))

    def __iter__(self) -> Rows:
        if self._end is not None:
            raise StateProcessorError(f"{self._end}, and can't be iterated twice: read them again")
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._end not in (None, _AT_END):
            raise StateProcessorError(f"{self._end}: read them again")
        if self._iterated is None:
            self._iterated = self._batches()
        try:
            return next(self._iterated)
        except StopIteration:
            self._end = _AT_END
            raise
        except BaseException as problem:  # an iterator that failed is at its end: the rest would be missing without a word
            self._end = f"the iteration of these rows ended with {type(problem).__name__}"
            raise

    def close(self) -> None:
        """End the iteration. Its threads end after the batches that they decode."""
        self._end = self._end or "these rows were closed"
        if isinstance(self._iterated, Generator):
            self._iterated.close()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a new read of all rows as a stream of the Arrow C data interface."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> pa.RecordBatchReader:
        """Return a new read of all rows as a reader of pyarrow.

        Raises
        ------
        StateProcessorError
            If a batch was taken by iteration.
        """
        return pa.RecordBatchReader.from_batches(self._schema, self._started())

    def read_all(self) -> pa.Table:
        """Read all rows into a table.

        Raises
        ------
        StateProcessorError
            If a batch was taken by iteration.
        """
        return pa.Table.from_batches(self._started(), self._schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Read all rows into a frame of pandas.

        Parameters
        ----------
        **options
            Arguments of :meth:`pyarrow.Table.to_pandas`. By default numbers and booleans have the types of pandas that know
            missing values (``Int64``, ``Float64``, ``boolean``): NumPy's have NaN where a value is null.

        Raises
        ------
        OptionError
            If pandas is not installed.
        StateProcessorError
            If a batch was taken by iteration.
        """
        if "types_mapper" not in options:
            options["types_mapper"] = _nullable_types().get
        return self.read_all().to_pandas(**options)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse conversions by NumPy, which ``pandas.DataFrame(rows)`` asks for: they lose the names and types of columns."""
        raise TypeError("these rows are not an array: rows.to_pandas() returns a frame of pandas, rows.read_all() a table")

    def __repr__(self) -> str:
        from state_processor.display.text_tables import render_records

        return "\n".join([f"{self._columns()}{self._beginning(render_records)}", *self.notes])

    def _repr_html_(self) -> str:
        from html import escape

        from state_processor.display.showing import html_table

        table = self._beginning(html_table) or f"<p>{escape(self._columns())}</p>"
        return "\n".join([table, *(f"<p>{escape(note)}</p>" for note in self.notes)])

    def _columns(self) -> str:
        return f"Rows({', '.join(f'{field.name}: {field.type}' for field in self._schema)})"

    def _beginning(self, table: Callable[[Sequence[str], list[dict[str, Any]]], str]) -> str:
        """Return a table of the first rows, by a read of their own; nothing once a batch was taken by iteration."""
        if self._iterated is not None:
            return ""
        try:
            rows = next(self._batches()).slice(0, _FIRST_ROWS + 1).to_pylist()
        except StateProcessorError as error:
            return f"\n{error}"
        rest = "…" if len(rows) > _FIRST_ROWS else ""
        return "\n".join(["", table(self._schema.names, rows[:_FIRST_ROWS]), *([rest] if rest else [])])

    def _started(self) -> Iterator[pa.RecordBatch]:
        if self._iterated is not None:
            raise StateProcessorError(
                "batches of these rows were taken by iteration. A stream would miss or repeat them: read the rows again"
            )
        return self._batches()


def _nullable_types() -> dict[pa.DataType, Any]:
    pd = require("pandas", "pandas", "data frames of pandas")
    numbers = {pa.int8(): pd.Int8Dtype, pa.int16(): pd.Int16Dtype, pa.int32(): pd.Int32Dtype, pa.int64(): pd.Int64Dtype}
    numbers |= {pa.float32(): pd.Float32Dtype, pa.float64(): pd.Float64Dtype}
    return {type_: dtype() for type_, dtype in (*numbers.items(), (pa.bool_(), pd.BooleanDtype))}
