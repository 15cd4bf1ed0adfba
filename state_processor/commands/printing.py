"""Tables and JSON on standard output."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from state_processor.display import json_text, render_records, size_text

SIZES: Final = {
    "operator_coordinator_state_size_in_bytes": "coordinator_size",
    "operator_total_size_in_bytes": "size",
    "size_in_bytes": "size",
}
"""Columns of sizes, and their headers in tables."""


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], width: int | None = None) -> None:
    """Print rows as a table."""
    print(render_records(columns, rows, width=width, right=frozenset(SIZES.values())))


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as JSON, a line each."""
    for row in rows:
        print(json_text(row))


def print_batches(batches: Iterator[pa.RecordBatch], options: argparse.Namespace) -> None:
    """Print the first rows of batches, as many as the limit allows."""
    first = next(batches)
    rows = (row for batch in chain([first], batches) for row in batch.to_pylist())
    if options.json:
        print_json(islice(rows, options.limit))
        return
    print_table(first.schema.names, list(islice(rows, options.limit)))
    if next(rows, None) is not None:
        print(f"… only the first {options.limit} rows; --limit shows more")


def with_sizes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its sizes in units, under short names."""
    return {SIZES.get(name, name): size_text(value) if name in SIZES else value for name, value in row.items()}


def with_operator(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with one name for its operator: its uid, or else the hash."""
    return {"operator": row["operator_uid"] or row["operator_uid_hash"], **row}


def filled(columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns in which some row has a value."""
    return [c for c in columns if not rows or any(row.get(c) not in (None, "", False) for row in rows)]
