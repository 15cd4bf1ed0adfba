"""Files of rows: their formats, recognized by the file name, writing of batches, and new files.

Batches are written one by one. CSV and JSON don't have bytes, nested values or timestamps: these become text by the rules of
:func:`~state_processor.display.text_tables.json_value`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from state_processor.backends.files.location import Location
from state_processor.display.text_tables import json_text, json_value
from state_processor.support.errors import OptionError, WriteError
from state_processor.support.late import pc

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
_BY_SUFFIX: Final = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes}


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


STANDARD_OUTPUT: Final = "-"


def check_new(path: str) -> None:
    """Check that a file can be created; call this before reading its content."""
    if not Location.parse(path).is_local:
        raise WriteError(f"{path}: only local files are written; write a local file and copy it")
    if os.path.lexists(path):
        raise WriteError(f"{path} exists; name a new file")
    directory = os.path.dirname(path) or os.curdir
    if not os.path.isdir(directory):
        raise WriteError(f"{path} can't be created: {directory} is not a directory; create it first")


@contextmanager
def new_file(path: str) -> Iterator[Any]:
    """Create a file. It has a temporary name until the block ends; it is removed if the block fails."""
    check_new(path)
    local = Location.parse(path).path
    partial = os.path.join(os.path.dirname(local), f".state-processor-{uuid4().hex}.part")
    try:
        file = open(partial, "xb")  # noqa: SIM115 - closed below, before the file gets its name
    except OSError as problem:
        raise WriteError(f"{path} can't be created: {problem.strerror}; name a file in a writable directory") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(partial, local)
    except FileExistsError:
        raise WriteError(f"{path} exists; name a new file") from None
    except OSError as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        raise WriteError(f"{path} can't be written: {problem.strerror or problem}") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def write_text(path: str, text: str, *, replaced: bool) -> None:
    """Write a text into a file; an existing file is replaced when the text is complete, if ``replaced`` is true."""
    replaced = replaced and os.path.lexists(path)
    target = f"{path}.{uuid4().hex}.part" if replaced else path
    with new_file(target) as file:
        file.write(text.encode())
    if replaced:
        os.replace(target, path)


def _rename(partial: str, path: str) -> None:
    """Give a file its name; unlike ``rename``, never replace a file from another process."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        os.rename(partial, path)


class UnclosedFile:
    """A file for writers that close files, or that need the position of a pipe."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def write(self, data: Any) -> int:
        """Write bytes."""
        self._file.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._position

    def flush(self) -> None:
        """Flush buffered bytes."""
        self._file.flush()

    def close(self) -> None:
        """Leave the file open."""
        self.flush()
