"""Commands that count and export the rows of a state."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from state_processor.commands.arguments import UID_HELP
from state_processor.commands.rows import add_columns, add_where, state_batches
from state_processor.display import json_text
from state_processor.identifier import OperatorIdentifier
from state_processor.options.flags import add_flags
from state_processor.serializers.errors import OptionError, WriteError


def add_commands(commands: Any) -> None:
    """Add the commands to the parsers of the command line."""
    count = _command(commands, "count", "number of rows of a state", _count)
    count.add_argument("--state", help="name of the state; without it the keys of all keyed states of the operator")
    export = _command(commands, "export", "rows of a state, in a file", _export)
    export.add_argument("--state", help="name of the state; without it all keyed states, a row per key")
    export.add_argument("-o", "--output", required=True, metavar="FILE", help="the file, which must not exist")
    export.add_argument("--format", choices=tuple(_WRITERS), default="parquet", help="(default: %(default)s)")
    add_columns(export)
    export.add_argument("--no-flatten", dest="flatten", action="store_false", help="lists and maps in one row per key")


def _command(commands: Any, name: str, text: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"Write the {text}.")
    parser.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    parser.add_argument("--uid", required=True, help=UID_HELP)
    add_flags(parser, reading=True)
    add_where(parser)
    parser.set_defaults(run=run)
    return parser


def _count(options: argparse.Namespace) -> None:
    print(sum(batch.num_rows for batch in state_batches(options, OperatorIdentifier.of(options.uid), options.state)))


def _export(options: argparse.Namespace) -> None:
    batches = state_batches(options, OperatorIdentifier.of(options.uid), options.state, flatten=options.flatten)
    first = next(batches)
    with new_file(options.output) as file:
        rows = _WRITERS[options.format](file, first, batches)
    print(f"{rows} rows")


@contextmanager
def new_file(path: str) -> Iterator[Any]:
    """Create a file, which is removed if writing it fails."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "xb"))
        except OSError as problem:
            raise WriteError(f"{path} can't be created: {problem.strerror}; name a new file") from None
        try:
            yield file
        except BaseException:
            os.unlink(path)
            raise


def _write_parquet(file: Any, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
    with pyarrow.parquet.ParquetWriter(file, first.schema) as writer:
        return _write_all(writer.write_batch, first, rest)


def _write_csv(file: Any, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
    nested = [f.name for f in first.schema if pa.types.is_nested(f.type)]
    if nested:
        raise OptionError(f"--format csv: the columns {', '.join(nested)} have several values in a row; use parquet or json")
    with pyarrow.csv.CSVWriter(file, first.schema) as writer:
        return _write_all(writer.write_batch, first, rest)


def _write_json(file: Any, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
    def write(batch: pa.RecordBatch) -> None:
        file.write("".join(f"{json_text(row)}\n" for row in batch.to_pylist()).encode())

    return _write_all(write, first, rest)


def _write_all(write: Callable[[pa.RecordBatch], object], first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
    rows = 0
    for batch in chain([first], rest):
        write(batch)
        rows += batch.num_rows
    return rows


_WRITERS: Final[dict[str, Callable[[Any, pa.RecordBatch, Iterator[pa.RecordBatch]], int]]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
}
