"""Tables that users give as keys or rows: of Spark, pandas, Arrow, or another library with a stream of Arrow batches.

They get the types that Spark and the encoder know. Polars gives text as views and categories as dictionaries; pandas gives
nanoseconds and unsigned numbers. No value changes: values that the plain type can't hold are refused.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.errors import OptionError
from state_processor.serializers.late import pc

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
        rows = rows.copy()  # Arrow shares the memory of numbers: later changes to the frame would change the rows
        return with_plain_columns(pa.Table.from_pandas(rows, preserve_index=False))
    if isinstance(rows, pa.RecordBatch):
        return with_plain_columns(pa.Table.from_batches([rows]))
    if not hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.ChunkedArray):
        return None
    return with_plain_columns(pa.RecordBatchReader.from_stream(rows).read_all())


def _is_pandas(rows: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def rows_of(table: pa.Table) -> list[Any]:
    """Return the keys of a table as Python values: the values of its one column ``key``, or a dictionary for each row."""
    if table.column_names == [KEY]:
        return list(table.column(KEY).to_pylist())
    return list(table.to_pylist())


def with_plain_columns(table: pa.Table) -> pa.Table:
    """Return a table whose columns have plain types, without views, dictionaries, runs, unsigned numbers and nanoseconds.

    Raises
    ------
    OptionError
        If a value is not one of the plain type; the message names the column and both types.
    """
    columns = [_plain_column(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    return pa.Table.from_arrays(columns, names=table.column_names)


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
    if tests.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if tests.is_struct(type_):
        return pa.struct([f.with_type(_plain(f.type)) for f in type_])
    if tests.is_large_list(type_):
        return pa.large_list(_plain(type_.value_type))
    if tests.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    return _PLAIN.get(type_, type_)
