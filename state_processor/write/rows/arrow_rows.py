"""Rows of Arrow in this process, as a writer takes them: tables, streams, data frames and lists of dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.options.user_tables import as_table, columns_of_dictionaries, open_stream, with_plain_columns
from state_processor.read.rows import with_metadata_of
from state_processor.support.arrow_types import with_inner_types
from state_processor.support.errors import InvalidRowError, OptionError
from state_processor.support.late import pc
from state_processor.support.mappings import unrenamed
from state_processor.write.rows.row_columns import later_message, named_later
from state_processor.write.rows.row_protocol import ColumnNames, Operation, check_comparable, shared_key_numbers

_BATCH_ROWS: Final = 1 << 19


class _Stream:
    """Batches that can be read once, unless they are kept as a table.

    ``schema``: the columns of the stream. ``opened``: opens the stream.
    """

    def __init__(self, schema: pa.Schema, opened: Callable[[], pa.RecordBatchReader]) -> None:
        self._open: Callable[[], pa.RecordBatchReader] | None = opened
        self._table: pa.Table | None = None
        self.schema = with_metadata_of(_plain(schema.empty_table()).schema, schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._table is not None:
            yield from self._table.to_batches(_BATCH_ROWS)
            return
        for batch in self._take_reader():
            yield from _plain(pa.Table.from_batches([batch])).to_batches(_BATCH_ROWS)

    def table(self) -> pa.Table:
        if self._table is None:
            self._table = _plain(self._take_reader().read_all())
        return self._table

    def _take_reader(self) -> pa.RecordBatchReader:
        opened, self._open = self._open, None
        if opened is None:
            raise OptionError("the rows are a stream that was read before; give the rows as a table, or open the stream again")
        return opened()


class SharedMemory:
    """Digest of the memory of a table, which its owner may change: arrays of NumPy are columns of Arrow without a copy.

    ``table``: the table as a user gives it.
    """

    def __init__(self, table: pa.Table) -> None:
        self._digest = _digest(table)
        self._message = later_message(
            "the rows were changed after they were given: the memory of the table, such as that of an array of NumPy, has other "
            "contents now. Give a copy, or change it when the savepoint is written"
        )

    def check(self, table: pa.Table) -> None:
        """Refuse a table with other contents."""
        if _digest(table) != self._digest:
            raise OptionError(self._message)


def _digest(table: pa.Table) -> bytes:
    """Return the digest of the buffers of a table: 20 GB in a second. Streams of Arrow do not tell which ones can change."""
    import xxhash

    buffers = {}
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    buffers[buffer.address] = buffer
    state = xxhash.xxh3_128()
    for buffer in buffers.values():
        state.update(buffer)
    return state.digest()


class ArrowRows:
    """Rows of a table or a stream; see :class:`~state_processor.write.rows.row_protocol.Rows`.

    Streams are read batch by batch when the savepoint is written. Rows with an element of a list each, timers, rows of broadcast
    state, and rows that later rows replace are held in memory.

    ``columns``: the columns to take, by the names that they get; by default all. ``memory``: what the memory of a table has to be
    when its rows are read; by default as it is now.
    """

    case_sensitive: Final = True

    def __init__(
        self, source: pa.Table | _Stream, columns: ColumnNames | None = None, memory: SharedMemory | None = None
    ) -> None:
        self._source = source
        self._columns = columns
        self._memory = SharedMemory(source) if memory is None and isinstance(source, pa.Table) else memory

    @classmethod
    def of(cls, source: Any) -> ArrowRows:
        """Return rows that a user gives.

        ``source``: an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, a data frame of pandas, or a list of
        dictionaries.
        """
        if isinstance(source, ArrowRows):
            return source
        if _is_query(source):
            schema = open_stream(source.limit(0)).schema
            return cls(_Stream(schema, lambda: open_stream(source)))
        if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "__len__"):
            reader = open_stream(source)
            return cls(_Stream(reader.schema, lambda: reader))
        if isinstance(source, list | tuple) and all(isinstance(row, Mapping) for row in source):
            return cls(_plain(columns_of_dictionaries(source)))
        if (
            hasattr(source, "__arrow_c_array__")
            and not hasattr(source, "__arrow_c_stream__")
            and not isinstance(source, pa.Array)
        ):
            source = pa.record_batch(source)
        table = as_table(source)
        if table is None:
            raise OptionError(
                "expected rows as a table of Arrow, a data frame of pandas or Polars, another object with __arrow_c_stream__, or "
                f"a list of dictionaries; found a {type(source).__name__}"
            )
        return cls(_plain(table))

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        schema = self._source.schema
        if self._columns is None:
            return schema
        return pa.schema([schema.field(column).with_name(name) for name, column in self._columns.items()])

    @property
    def count(self) -> int | None:
        """The number of rows; ``None`` for a stream."""
        return self._source.num_rows if isinstance(self._source, pa.Table) else None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of some columns, of at most half a million rows."""
        names = self._columns or unrenamed(columns)
        self._check_memory()
        batches = self._source.to_batches(_BATCH_ROWS) if isinstance(self._source, pa.Table) else self._source.batches()
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(names[column]) for column in columns], names=list(columns))

    def select(self, columns: ColumnNames) -> ArrowRows:
        """Return some columns under other names."""
        names = self._columns
        stored_columns = {n: names[c] for n, c in columns.items()} if names is not None else dict(columns)
        return ArrowRows(self._source, stored_columns, self._memory)

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        self._check_memory()
        table = self._source if isinstance(self._source, pa.Table) else self._source.table()
        if self._columns is None:
            return table
        return pa.Table.from_arrays(list(map(table.column, self._columns.values())), names=list(self._columns))

    def _check_memory(self) -> None:
        if self._memory is not None and isinstance(self._source, pa.Table):
            self._memory.check(self._source)

    def of_values(self, values: pa.Array) -> ArrowRows:
        """Return rows with one column ``value``."""
        return ArrowRows(pa.table({"value": values}))

    def on_batches(self, operation: Operation) -> ArrowRows:
        """Return the results of an operation: on a table now, on the batches of a stream when these are read."""
        if isinstance(self._source, pa.Table):
            return ArrowRows(operation(self.to_arrow()))
        schema, later = operation(self.schema.empty_table()).schema, named_later(operation)
        return ArrowRows(_Stream(schema, lambda: pa.RecordBatchReader.from_batches(schema, self._changed(later))))

    def _changed(self, operation: Operation) -> Iterator[pa.RecordBatch]:
        for batch in self.batches(self.schema.names):
            yield from operation(pa.Table.from_batches([batch], self.schema)).to_batches()

    def by_key(self, _columns: Sequence[str], operation: Operation, *, combines: bool = False) -> ArrowRows:
        """Return the result of an operation on all rows."""
        return ArrowRows(operation(self.to_arrow()))

    def numbered(self, name: str) -> ArrowRows:
        """Return the rows with their numbers in another column."""
        table = self.to_arrow()
        return ArrowRows(table.append_column(name, pa.array(np.arange(len(table)))))

    def once(self) -> ArrowRows:
        """Return the rows in memory."""
        return self if isinstance(self._source, pa.Table) else ArrowRows(self._source.table(), self._columns)

    def without(self, columns: Sequence[str], later_rows: ArrowRows, other_columns: Sequence[str]) -> ArrowRows:
        """Return the rows whose key does not occur in other rows."""
        earlier, later = self.to_arrow(), later_rows.to_arrow()
        for column, later_column in zip(columns, other_columns, strict=True):
            check_comparable(earlier.schema.field(column).type, later_column, later.schema.field(later_column).type)
        old, new = shared_key_numbers(list(map(earlier.column, columns)), list(map(later.column, other_columns)))
        return ArrowRows(earlier.filter(pa.array(~np.isin(old, new[new >= 0]))))

    def with_matches(
        self, name: str, key: Sequence[str], opposite: ArrowRows, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> ArrowRows:
        """Return rows with the number of other rows that have the same key."""
        rows, other_rows = self.to_arrow(), opposite.to_arrow()
        if key:
            columns = list(map(rows.column, key)), list(map(other_rows.column, other_key))
            numbers, other_numbers = shared_key_numbers(*columns, matching_nulls)
        else:
            numbers, other_numbers = np.zeros(len(rows), np.int64), np.zeros(len(other_rows), np.int64)
        counts = np.bincount(other_numbers[other_numbers >= 0], minlength=int(numbers.max(initial=-1)) + 2)
        counts[-1] = 0  # of rows whose key has a null
        return ArrowRows(rows.append_column(name, pa.array(counts[numbers], pa.int32())))


def _is_query(source: Any) -> bool:
    """Return whether rows are a query of DuckDB. It begins when its rows are encoded: a connection has one open result."""
    return type(source).__module__.partition(".")[0] in ("duckdb", "_duckdb") and hasattr(source, "limit")


def _plain(table: pa.Table) -> pa.Table:
    """Return columns in the types that Spark would hand to the encoder: one sort of text, lists and moments."""
    plain = _plain_columns(table)
    _refuse_infinity(plain)
    return pa.Table.from_arrays(plain.columns, schema=with_metadata_of(plain.schema, table.schema))


def _plain_columns(table: pa.Table) -> pa.Table:
    table = with_plain_columns(table)  # casts do not support dictionaries and views
    types = [_plain_type(field.type) for field in table.schema]
    if types == table.schema.types:
        return table
    columns = []
    for name, column, type_ in zip(table.column_names, table.columns, types, strict=True):
        try:
            columns.append(column.cast(type_))
        except pa.ArrowException as problem:
            raise OptionError(
                f"column {name!r} is of Arrow type {column.type}, and can't become {type_}: {problem}; cast it"
            ) from problem
    return with_plain_columns(pa.Table.from_arrays(columns, names=table.column_names))  # elements of lists of a fixed size


_INFINITY: Final = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64(), pa.timestamp("us", "UTC"): pa.int64()}
"""Types of dates and times, and of their numbers: the greatest and its negative are the infinity of DuckDB."""


def _refuse_infinity(table: pa.Table) -> None:
    """Refuse infinite dates and times: Flink would have dates of remote years."""
    for field, column in zip(table.schema, table.columns, strict=True):
        numbers = _INFINITY.get(field.type)
        if numbers is None:
            continue
        greatest = (1 << (numbers.bit_width - 1)) - 1
        infinite = pc.is_in(column.cast(numbers), pa.array([greatest, -greatest], numbers))
        if pc.any(infinite).as_py():
            row = pc.index(infinite, True).as_py()
            raise InvalidRowError(
                f"column {field.name!r} of row {row} is infinite, and dates and times of Flink are finite: filter these rows, or "
                "write another date"
            )


_SHORT_OFFSETS: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.date64(): pa.date32()}


def _plain_type(type_: pa.DataType) -> pa.DataType:
    tests = pa.types
    if tests.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if tests.is_fixed_size_binary(type_):
        return pa.binary()
    if tests.is_large_list(type_) or tests.is_fixed_size_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    if tests.is_decimal256(type_) and type_.precision <= pa.decimal128(38, 0).precision:
        return pa.decimal128(type_.precision, type_.scale)
    return _SHORT_OFFSETS[type_] if type_ in _SHORT_OFFSETS else with_inner_types(type_, _plain_type)
