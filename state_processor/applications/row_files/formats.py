"""Files of rows: their formats, recognized by the file name, writing of batches, and reading.

Batches are written one by one. CSV and JSON don't have bytes, nested values or timestamps: these become text by the rules of
:func:`~state_processor.command_line.json_value`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from state_processor.command_line import UnclosedFile, json_text, json_value
from state_processor.errors import InvalidRowError, MissingFileError, OptionError
from state_processor.support import by_each_key, pc

FormatWriter = Callable[[Any, pa.Schema], AbstractContextManager[Callable[[pa.RecordBatch], object]]]
"""Function that returns a context manager; its value writes a batch into a file."""

_COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
_OTHER_COMPRESSIONS: Final = frozenset({".bz2", ".xz", ".zip", ".lz4", ".snappy", ".br", ".lzo", ".7z"})
_ROWS: Final = 8192
"""Number of rows that are converted to Python objects at a time."""
_FORMULA: Final = r"^[=+\-@\t\r\n＝＋－＠]"
"""Start of text that a spreadsheet executes as a formula, unless the text is a number."""
_NUMBER: Final = r"^[+-]?[0-9]*[.]?[0-9]+(?:[eE][+-]?[0-9]+)?$"
_TEXT_IN_CSV: Final = (
    pa.types.is_nested,
    pa.types.is_temporal,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_large_string,
)


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format: suffixes, whether whole files may be compressed, and whether it escapes control characters."""

    suffixes: tuple[str, ...]
    opened: FormatWriter
    is_text: bool = True
    is_for_terminals: bool = False


@contextmanager
def _parquet(file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        yield writer.write_batch


@contextmanager
def _feather(file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    with pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        yield writer.write_batch


@contextmanager
def _csv(file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    with pyarrow.csv.CSVWriter(file, pa.schema([(f.name, _csv_type(f.type)) for f in schema])) as writer:
        yield lambda batch: [writer.write_batch(_csv_batch(piece)) for piece in _pieces(batch)]


@contextmanager
def _ndjson(file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    def write(batch: pa.RecordBatch) -> None:
        for piece in _pieces(batch):
            file.write("".join(f"{json_text(row)}\n" for row in piece.to_pylist()).encode())

    yield write


@contextmanager
def _json(file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    before = "[\n"

    def write(batch: pa.RecordBatch) -> None:
        nonlocal before
        for piece in _pieces(batch):
            file.write((before + ",\n".join(map(json_text, piece.to_pylist()))).encode())
            before = ",\n"

    yield write
    file.write(b"[]\n" if before == "[\n" else b"\n]\n")


FORMATS: Final = {
    "csv": RowFormat((".csv",), _csv),
    "feather": RowFormat((".feather", ".arrow"), _feather, is_text=False),
    "json": RowFormat((".json",), _json, is_for_terminals=True),
    "ndjson": RowFormat((".ndjson", ".jsonl"), _ndjson, is_for_terminals=True),
    "parquet": RowFormat((".parquet",), _parquet, is_text=False),
}
_BY_SUFFIX: Final = by_each_key((form.suffixes, name) for name, form in FORMATS.items())


def named_format(text: str) -> str:
    """Return the format of a name, or of a suffix without its dot."""
    return _BY_SUFFIX.get(f".{text.lower()}", text)


def format_of(path: str, asked: str | None, flags: tuple[str, str] = ("-o", "--format")) -> tuple[str, str | None]:
    """Return the format and the compression of a file.

    ``path``: the file; the suffix selects the format, in upper or lower case: ``.csv``, ``.csv.gz``. ``asked``: the format from
    the user, for files without a known suffix.
    """
    stem, suffix = os.path.splitext(os.path.basename(path).lower())
    compression = _COMPRESSIONS.get(suffix)
    named = _BY_SUFFIX.get(os.path.splitext(stem)[1] if compression else suffix)
    if suffix in _OTHER_COMPRESSIONS or (named is None and asked is None):
        suffixes = ", ".join(sorted(_BY_SUFFIX))
        problem = f"the suffix {suffix} is unknown" if suffix else "the name does not have a suffix"
        raise OptionError(
            f"{flags[0]} {path}: {problem}; use one of {suffixes} (csv and json also with .gz or .zst), or {flags[1]}"
        )
    if named is not None and asked not in (None, named):
        raise OptionError(
            f"{flags[0]} {path} {flags[1]} {asked}: the suffix selects {named}; choose another name, or leave out {flags[1]}"
        )
    name = named or asked or ""
    if compression and not FORMATS[name].is_text:
        raise OptionError(f"{flags[0]} {path}: {name} compresses its columns itself; leave out {suffix}")
    return name, compression


def write_rows(
    file: Any, name: str, compression: str | None, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, quote_formulas: bool
) -> int:
    """Write batches of one schema into a file, and return the number of rows.

    ``file``: an open file. ``name`` and ``compression``: the result of :func:`format_of`. ``quote_formulas``: whether to put an
    apostrophe before text that a spreadsheet would execute, including names of columns.
    """
    changed: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]] = _unchanged
    if quote_formulas:
        names = quoted_formulas(pa.array(schema.names, pa.string())).to_pylist()
        schema = pa.schema([(name, _csv_type(field.type)) for name, field in zip(names, schema, strict=True)])
        changed = partial(_without_formulas, schema)
    stream = pa.CompressedOutputStream(UnclosedFile(file), compression) if compression else nullcontext(file)
    rows = 0
    with stream as target, FORMATS[name].opened(target, schema) as write:
        for batch in batches:
            for piece in changed(batch):
                write(piece)
            rows += batch.num_rows
    return rows


def quoted_formulas(text: pa.Array) -> pa.Array:
    """Return text with an apostrophe before formulas; the apostrophe marks plain text in spreadsheets."""
    is_formula = pc.and_not(pc.match_substring_regex(text, _FORMULA), pc.match_substring_regex(text, _NUMBER))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", text, ""), text)


def _unchanged(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch]


def _without_formulas(schema: pa.Schema, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for piece in map(_csv_batch, _pieces(batch)):
        columns = [quoted_formulas(column) if pa.types.is_string(column.type) else column for column in piece.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, _ROWS) for start in range(0, batch.num_rows, _ROWS))


def _csv_type(column: pa.DataType) -> pa.DataType:
    """Return the type of a column in CSV; text for types without a CSV form."""
    kinds = (
        pa.types.is_nested,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_temporal,
    )
    if any(is_kind(column) for is_kind in kinds) or pa.types.is_large_string(column):
        return pa.string()
    return column


def _csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [c if _csv_type(c.type) == c.type else pa.array(map(_csv_text, c.to_pylist()), pa.string()) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _csv_text(value: Any) -> str | None:
    plain = json_value(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


STANDARD_INPUT: Final = "-"
_READ_FLAGS: Final = ("--rows", "--rows-format")
"""The flags of a file to read, and of its format."""


def read_rows(path: str, form: str | None, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read the rows of a CSV, JSON, Parquet or Arrow file.

    ``path``: the file; ``-`` for standard input. ``form``: the format, if the name of the file does not have its suffix.
    ``types``: types of columns, for formats that have text in place of them: times, bytes, and nested values as JSON.
    """
    if path == STANDARD_INPUT and form is None:
        raise OptionError(f"standard input needs a format; choose the format with {_READ_FLAGS[1]}")
    name, compression = (form or "", None) if path == STANDARD_INPUT else format_of(path, form, _READ_FLAGS)
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else _content(path, compression)
        if name == "parquet":
            return pyarrow.parquet.read_table(BytesIO(data))
        if name == "feather":
            return pyarrow.feather.read_table(BytesIO(data))
        return _read_csv(data, types) if name == "csv" else _read_json(data.decode(), name, types)
    except OSError as problem:
        raise MissingFileError(f"{path} can't be read: {problem.strerror or problem}") from None
    except (pa.ArrowException, ValueError) as problem:
        raise InvalidRowError(f"{path}: expected rows in the format {name}: {problem}") from None


def _content(path: str, compression: str | None) -> bytes:
    with pa.input_stream(os.fspath(path), compression=compression) as stream:
        return bytes(stream.read())


def _read_csv(data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
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
    try:
        return column.cast(type_)
    except pa.ArrowException as problem:
        raise ValueError(f"column {name!r} of type {type_}: {problem}") from None


def _read_json(text: str, name: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    if name == "json" and text.lstrip()[:1] == "{":
        raise ValueError("expected a list of objects; an object on each line is the format ndjson")
    lines = (line for line in text.splitlines() if line.strip())
    rows = json.loads(text) if name == "json" else list(map(json.loads, lines))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("expected a list of objects" if name == "json" else "expected an object in each line")
    columns = {}
    for column in dict.fromkeys(chain.from_iterable(rows)):
        values = [row.get(column) for row in rows]
        columns[column] = _array(column, values, types[column]) if column in types else pa.array(values)
    return pa.table(columns)


def _array(name: str, values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array([_value(value, type_) for value in values], type_)
    except (pa.ArrowException, ValueError, TypeError, AttributeError) as problem:
        raise ValueError(f"column {name!r} of type {type_}: {problem}") from None


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a value of JSON as Arrow takes it; see :func:`~state_processor.command_line.json_value`."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        unknown = [name for name in value if name not in type_.names]
        if unknown:
            raise ValueError(f"the field {unknown[0]!r} does not exist; the type has {', '.join(type_.names)}")
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
