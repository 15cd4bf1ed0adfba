"""Tables and columns that users give as keys or rows.

Tables are of Spark, pandas, Arrow, or another library with a stream of Arrow batches. They get the types that Spark and the
encoder know. Polars gives text as views and categories as dictionaries; pandas gives nanoseconds and unsigned numbers. No value
changes: values that the plain type can't hold are refused. A stream that can be read once is remembered, and refused the second
time.

Columns are of dictionaries, and pandas' columns of objects. Arrow infers the type of a column, and then takes a value of another
type for one of this type: a date and time for a date, a point in time for a local time, a dictionary without a field for one with
null. Such values are refused here.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from state_processor.support.arrow_types import with_inner_types
from state_processor.support.errors import OptionError
from state_processor.support.late import pc

KEY: Final = "key"

_PLAIN: Final = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
}


def as_key_table(keys: Any) -> pa.Table | None:
    """Return keys as a table with a row for each; ``None`` if they are not a table. They may be a list.

    The rows of a Spark DataFrame are collected in the driver.
    """
    if hasattr(keys, "toArrow"):  # a DataFrame of Spark, or of Spark Connect
        return keys.toArrow()
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return with_plain_columns(pa.table({KEY: keys}))
    return as_table(keys) if _is_pandas(keys) or hasattr(keys, "columns") else None


def as_table(rows: Any) -> pa.Table | None:
    """Return rows of pandas, or of a library with a stream of Arrow batches, as a plain table; ``None`` for others."""
    if _is_pandas(rows):
        # Arrow shares the memory of numbers: later changes to the frame would change the rows
        return with_plain_columns(_of_pandas(rows.copy()))
    if isinstance(rows, pa.RecordBatch):
        return with_plain_columns(pa.Table.from_batches([rows]))
    if not hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.ChunkedArray):
        return None
    return with_plain_columns(open_stream(rows).read_all())


def _is_pandas(rows: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def _of_pandas(frame: Any) -> pa.Table:
    """Return a frame of pandas as a table. Arrow's own conversion makes null of the number NaN."""
    columns = []
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position]
        if series.dtype == object:
            columns.append(column_of_values(str(name), series.tolist()))
            continue
        try:
            columns.append(pa.array(series, from_pandas=False))
        except (*NO_COLUMN, TypeError) as problem:
            raise OptionError(f"column {str(name)!r} of pandas is of type {series.dtype}: {problem}; cast it") from problem
    return pa.Table.from_arrays(columns, names=list(map(str, frame.columns)))


_READ: Final[dict[int, object]] = {}
"""By identity, streams that were read: weak references, or the streams themselves."""


def open_stream(rows: Any) -> pa.RecordBatchReader:
    """Return a reader of a stream of Arrow batches. Whatever can be read once is refused the second time.

    An iterator, such as a reader of pyarrow, is remembered when it is opened. Another stream may begin again; it is refused if it
    had rows, and does not have any now.
    """
    if getattr(rows, "starts_again", False):
        reader: pa.RecordBatchReader = rows.reader()  # an error of a read here stays as it is; a stream of C makes text of it
        return reader
    starts_again = hasattr(rows, "__len__")
    is_iterator = hasattr(rows, "__next__")
    if is_iterator and not starts_again:
        _refuse_read(rows)
        _remember(rows)
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
    except Exception as problem:
        raise OptionError(
            f"the rows, a {type(rows).__name__}, can't be read as a stream of Arrow: {problem}. If another result of the same "
            "connection is open, read that to its end, or use a connection for each"
        ) from problem
    return reader if starts_again or is_iterator else pa.RecordBatchReader.from_batches(reader.schema, _batches(rows, reader))


def _batches(stream: Any, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream that may begin again."""
    count = 0
    for batch in reader:
        count += batch.num_rows
        yield batch
    if count:
        _remember(stream)
    else:
        _refuse_read(stream)


def _refuse_read(stream: Any) -> None:
    if id(stream) in _READ:
        raise OptionError(
            f"these rows, a {type(stream).__name__}, are a stream that was given before. A stream can be read once: the second "
            "use would find no rows. Give the rows as a table, or open the stream again"
        )


def _remember(stream: Any) -> None:
    number = id(stream)
    try:
        _READ[number] = weakref.ref(stream, lambda _: _READ.pop(number, None))
    except TypeError:  # the class of the stream has no place for weak references
        _READ[number] = stream


def rows_of(table: pa.Table) -> list[Any]:
    """Return the keys of a table as Python values: the values of its one column ``key``, or a dictionary for each row."""
    if table.column_names == [KEY]:
        return list(table.column(KEY).to_pylist())
    return list(table.to_pylist())


def with_plain_columns(table: pa.Table) -> pa.Table:
    """Return a table whose columns have plain types, without views, dictionaries, runs, unsigned numbers and nanoseconds."""
    columns = [_plain_column(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    fields = [pa.field(f.name, column.type, metadata=f.metadata) for f, column in zip(table.schema, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _plain_column(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = _plain(column.type)
    if type_ == column.type:
        return column
    try:
        return pa.chunked_array([_decoded(chunk).cast(type_) for chunk in column.chunks], type_)
    except pa.ArrowException as problem:
        raise OptionError(
            f"column {name!r} is of Arrow type {column.type}. A value does not fit {type_}: {problem}; cast the column"
        ) from problem


def _decoded(array: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        return _decoded(pc.run_end_decode(array))
    if pa.types.is_dictionary(array.type):  # Arrow can't take elements of views
        values = _decoded(array.dictionary).cast(_plain(array.type.value_type))
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    return array


def _plain(type_: pa.DataType) -> pa.DataType:
    tests = pa.types
    if tests.is_dictionary(type_) or tests.is_run_end_encoded(type_):
        return _plain(type_.value_type)
    if tests.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("us", type_.tz)
    return _PLAIN[type_] if type_ in _PLAIN else with_inner_types(type_, _plain)


NO_COLUMN: Final = (pa.ArrowException, OverflowError, UnicodeError, ValueError)
"""Errors of values that can't be a column of Arrow. Some of pandas' values raise a plain ``ValueError``."""


def columns_of_dictionaries(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the columns of rows."""
    if not rows:
        raise OptionError("the list of rows is empty, so that the types of its columns are unknown; give an empty table of Arrow")
    names = dict.fromkeys(chain.from_iterable(rows))
    for number, row in enumerate(rows):
        lacking = next((name for name in names if name not in row), None)
        if lacking is not None:
            raise OptionError(f"row {number} does not have the column {lacking!r} of other rows. Write None for a null")
    for name in names:
        if not isinstance(name, str):
            raise OptionError(f"the rows have a column {name!r}; expected text as the name of a column")
    columns = {}
    for name in names:
        values = [row[name] for row in rows]
        columns[name] = column_of_values(name, values)
    return pa.table(columns)


def column_of_values(name: str, values: Sequence[Any]) -> pa.Array:
    """Return a column of values. ``None`` and pandas' ``NA`` and ``NaT`` are null, a floating NaN is a number."""
    missing = set(map(id, _missing_values()))
    if missing:
        values = [None if id(value) in missing else value for value in values]
    try:
        column = pa.array(values, from_pandas=False)
    except NO_COLUMN as problem:
        number = _first_unfitting(values)
        raise OptionError(
            f"column {name!r} of row {number} can't become a value of Arrow: found {values[number]!r} of type "
            f"{type(values[number]).__name__}: {problem}. All rows need values of one type that Arrow has"
        ) from problem
    check_values(column.type, values, name, _INFERRED_CHECKS)
    return column


def _missing_values() -> tuple[Any, ...]:
    """Return the objects that mean null in pandas; none if it is not imported."""
    pandas = sys.modules.get("pandas")
    return () if pandas is None else (pandas.NA, pandas.NaT)


def _first_unfitting(values: Sequence[Any]) -> int:
    """Return the number of the first value that is not of one type with the values before it; one is not."""
    fitting, unfitting = 0, len(values)  # numbers of leading values
    while unfitting - fitting > 1:
        middle = (fitting + unfitting) // 2
        try:
            pa.array(values[:middle], from_pandas=False)
            fitting = middle
        except NO_COLUMN:
            unfitting = middle
    return fitting


Check = Callable[[pa.DataType, Any], str | None]
"""Function that returns why a value is not of a type, although Arrow takes it for one; ``None`` if it is of the type."""


def _not_this_timestamp(type_: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, datetime):
        return None  # of numpy, which Arrow does not mix with others
    if (value.tzinfo is None) is not (type_.tz is None):
        words = ("without", "with") if type_.tz else ("with", "without")
        return f"a time {words[0]} a time zone, in a column of times {words[1]} one"
    return "it has nanoseconds, which microseconds can't hold" if getattr(value, "nanosecond", 0) else None


def _not_a_date(_: pa.DataType, value: Any) -> str | None:
    return "it has a time of day, in a column of dates" if isinstance(value, datetime) else None


def _not_a_local_time(_: pa.DataType, value: Any) -> str | None:
    return "a time of day with a time zone" if getattr(value, "tzinfo", None) is not None else None


def _not_bytes(_: pa.DataType, value: Any) -> str | None:
    return "text, in a column of bytes" if isinstance(value, str) else None


def _not_this_scale(type_: pa.DataType, value: Any) -> str | None:
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    scale = -exponent if isinstance(exponent, int) else 0
    if scale == type_.scale:
        return None
    return (
        f"it has the scale {scale}, in a column of decimals with the scale {type_.scale}; java.math.BigDecimal distinguishes "
        "them. Write all decimals with one scale, or as text"
    )


_CHECKS: Final[tuple[tuple[Callable[[pa.DataType], bool], Check], ...]] = (
    (pa.types.is_timestamp, _not_this_timestamp),
    (pa.types.is_date, _not_a_date),
    (pa.types.is_time, _not_a_local_time),
    (pa.types.is_binary, _not_bytes),
)
_INFERRED_CHECKS: Final = (*_CHECKS, (pa.types.is_decimal, _not_this_scale))


def check_values(
    type_: pa.DataType,
    values: Sequence[Any],
    name: str,
    checks: Sequence[tuple[Callable[[pa.DataType], bool], Check]] = _CHECKS,
) -> None:
    """Refuse values that Arrow takes for values of a type, and that are not.

    ``type_`` and ``values``: the type of a column, and the values that it is made of. ``name``: the column, for messages.
    ``checks``: the checks of types without fields or elements.
    """
    _check(type_, list(enumerate(values)), name, checks)


def _check(
    type_: pa.DataType,
    values: Iterable[tuple[int, Any]],
    path: str,
    checks: Sequence[tuple[Callable[[pa.DataType], bool], Check]],
) -> None:
    """Check values with the numbers of their rows."""
    present = [(row, value) for row, value in values if value is not None]
    if pa.types.is_struct(type_):
        for field in type_:
            lacking = next((row for row, value in present if isinstance(value, Mapping) and field.name not in value), None)
            if lacking is not None:
                raise OptionError(
                    f"column {path!r} of row {lacking} does not have the field {field.name!r} of other values. Write None for a "
                    "null"
                )
            if _is_checked(field.type, checks):
                fields = [(row, value[field.name]) for row, value in present if isinstance(value, Mapping)]
                _check(field.type, fields, f"{path}.{field.name}", checks)
        return
    if pa.types.is_list(type_):
        if _is_checked(type_.value_type, checks):
            elements: list[tuple[int, Any]] = []
            for row, value in present:
                elements += ((row, element) for element in value)
            _check(type_.value_type, elements, f"{path}.element", checks)
        return
    for is_kind, check in checks:
        if is_kind(type_):
            for row, value in present:
                problem = check(type_, value)
                if problem is not None:
                    raise OptionError(f"column {path!r} of row {row} does not fit: {value!r}: {problem}")


def _is_checked(type_: pa.DataType, checks: Sequence[tuple[Callable[[pa.DataType], bool], Check]]) -> bool:
    """Return whether values of a type are looked at one by one: few types need it."""
    if pa.types.is_struct(type_) or pa.types.is_list(type_):
        return True
    return any(is_kind(type_) for is_kind, _ in checks)
