"""Tables and JSON on standard output."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.read.schema_text import spark_ddl
from state_processor.commands.terminal import say, say_json
from state_processor.display.showing import NAMES, SIZES
from state_processor.display.text_tables import json_text, render_records, render_vertical, size_text

UNBOUNDED: Final = 1 << 20
"""A width of tables whose rows are never broken, so that users can copy what is in them."""


def print_table(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    options: argparse.Namespace,
    width: int | None = None,
    whole: frozenset[str] = NAMES,
) -> None:
    """Print rows as a table, or with a line for each value if the options select this or the table is too wide.

    Values of the columns ``whole`` are never shortened.
    """
    if options.vertical:
        say(render_vertical(columns, [list(map(row.get, columns)) for row in rows]))
    else:
        say(render_records(columns, rows, width=width, right=frozenset(SIZES.values()), whole=whole))


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print each row as a line of JSON."""
    for row in rows:
        say_json(json_text(row))


def print_batches(batches: Iterator[pa.RecordBatch], options: argparse.Namespace) -> None:
    """Print the first rows of batches, up to the limit."""
    first = next(batches)
    rows = (row for batch in chain([first], batches) for row in batch.to_pylist())
    if options.json:
        print_json(islice(rows, options.limit))
        return
    print_table(first.schema.names, list(islice(rows, options.limit)), options)
    if next(rows, None) is not None:
        say(f"… only the first {options.limit} rows; --limit shows more")


def print_schema(schema: pa.Schema, options: argparse.Namespace) -> None:
    """Print columns with Spark's names for types."""
    rows = [{"column": field.name, "type": spark_ddl(field.type)} for field in schema]
    if options.json:
        print_json(rows)
    else:
        print_table(["column", "type"], rows, options, UNBOUNDED)


def with_sizes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its sizes in units and short names."""
    return {SIZES.get(name, name): size_text(value) if name in SIZES else value for name, value in row.items()}


def time_text(time: datetime | None) -> str | None:
    """Return a point in time for a table, to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if time else None
