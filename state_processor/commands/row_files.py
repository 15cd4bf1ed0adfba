"""Rows from files and from standard input, in the types of a state: what ``export`` writes is read back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from state_processor.commands.new_files import STANDARD_OUTPUT
from state_processor.commands.row_formats import format_of
from state_processor.serializers.errors import InvalidRowError, MissingFileError, OptionError

STANDARD_INPUT: Final = STANDARD_OUTPUT


FLAGS: Final = ("--rows", "--rows-format")
"""The flags of the file and of its format."""


def read_rows(path: str, form: str | None, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read the rows of a CSV, JSON, Parquet or Arrow file.

    ``path``: the file; ``-`` for standard input. ``form``: the format, if the name of the file does not have its suffix.
    ``types``: types of columns, for formats that have text in place of them: times, bytes, and nested values as JSON.
    """
    if path == STANDARD_INPUT and form is None:
        raise OptionError(f"standard input needs a format; choose the format with {FLAGS[1]}")
    name, compression = (form or "", None) if path == STANDARD_INPUT else format_of(path, form, FLAGS)
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else _content(path, compression)
        if name == "parquet":
            return pyarrow.parquet.read_table(BytesIO(data))
        if name == "feather":
            return pyarrow.feather.read_table(BytesIO(data))
        return _csv(data, types) if name == "csv" else _json(data.decode(), name, types)
    except OSError as problem:
        raise MissingFileError(f"{path} can't be read: {problem.strerror or problem}") from None
    except (pa.ArrowException, ValueError) as problem:
        raise InvalidRowError(f"{path}: expected rows in the format {name}: {problem}") from None


def _content(path: str, compression: str | None) -> bytes:
    with pa.input_stream(os.fspath(path), compression=compression) as stream:
        return bytes(stream.read())


def _csv(data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read CSV. An empty field is null, quoted empty text is text."""
    names = pyarrow.csv.open_csv(BytesIO(data)).schema.names
    column_types = {name: pa.string() for name in names if name in types}
    options = pyarrow.csv.ConvertOptions(
        column_types=column_types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    table = pyarrow.csv.read_csv(BytesIO(data), convert_options=options)
    columns = [_of_text(n, column, types[n]) if n in types else column for n, column in zip(names, table.columns, strict=True)]
    return pa.Table.from_arrays(columns, names=names)


def _of_text(name: str, column: pa.ChunkedArray, type_: pa.DataType) -> Any:
    """Return a column of text in another type: nested values are JSON."""
    if pa.types.is_string(type_):
        return column
    if pa.types.is_nested(type_):
        return _array(name, (None if text is None else json.loads(text) for text in column.to_pylist()), type_)
    if pa.types.is_binary(type_):
        return _array(name, column.to_pylist(), type_)
    return column.cast(type_)


def _json(text: str, name: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    lines = (line for line in text.splitlines() if line.strip())
    rows = json.loads(text) if name == "json" else [json.loads(line) for line in lines]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("expected a list of objects" if name == "json" else "expected an object in each line")
    names = list(dict.fromkeys(column for row in rows for column in row))
    columns = {n: [row.get(n) for row in rows] for n in names}
    return pa.table({n: _array(n, v, types[n]) if n in types else pa.array(v) for n, v in columns.items()})


def _array(name: str, values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array([_value(value, type_) for value in values], type_)
    except (pa.ArrowException, ValueError, TypeError, AttributeError) as problem:
        raise ValueError(f"column {name!r} of type {type_}: {problem}") from None


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a value of JSON as Arrow takes it; see :func:`~state_processor.display.text_tables.json_value`."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        names = [field.name for field in type_]
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}; there are {', '.join(names)}")
        return {field.name: _value(value.get(field.name), field.type) for field in type_}
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_value(k, type_.key_type), _value(v, type_.item_type)) for k, v in pairs]
    if pa.types.is_list(type_):
        return [_value(element, type_.value_type) for element in value]
    return _scalar(value, type_)


def _scalar(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_binary(type_):
        return bytes.fromhex(value)
    if pa.types.is_decimal(type_):
        return Decimal(str(value))
    if pa.types.is_floating(type_):
        return float(value)
    return pa.scalar(value, pa.string()).cast(type_).as_py() if pa.types.is_temporal(type_) else value
