"""Rows of a state, for commands that show, count and export them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from state_processor import arrow
from state_processor.commands.command import argument, flag, flag_values
from state_processor.options.keywords import STATE_KIND
from state_processor.read.scans import StateRequest
from state_processor.types.identifier import OperatorIdentifier

_CONDITIONS: Final = "state_processor.applications.sql.conditions"
"""The module that evaluates conditions of SQL, with DuckDB. Only ``--where`` imports it."""
DISPLAY: Final[dict[str, Any]] = {"nanos": "string"}
"""How times become text, with all digits: on terminals, and in files of text. Typed data has the default of ``nanos``."""
WHERE: Final = argument(
    "--where",
    metavar="EXPRESSION",
    help='only rows for which this condition of SQL (DuckDB) is true, such as "value > 100"',
)
KIND: Final = flag(STATE_KIND, f" It is {STATE_KIND.kind.expected}.")
COLUMNS: Final = argument(
    "--columns",
    type=lambda names: list(map(str.strip, names.split(","))),
    help="only these columns and fields, separated by commas: key,value.id; --where can use only these",
)


def state_batches(
    options: argparse.Namespace, operator: OperatorIdentifier, state: str | None, **options_of_read: Any
) -> Iterator[pa.RecordBatch]:
    """Read the rows that the options name, as batches of one schema, at least one.

    ``options``: arguments of the command. ``operator`` and ``state``: as for :func:`state_processor.arrow.read_state`.
    ``**options_of_read``: more options of reading.
    """
    shape = {"columns": getattr(options, "columns", None), "kind": options.kind}
    values = {**shape, **options_of_read, **flag_values(options)}
    if options.where is None:
        return arrow.read_state(options.path, operator, state, **values)
    request = StateRequest(operator, state, values.pop("kind"), None, values)
    rows: Iterator[pa.RecordBatch] = import_module(_CONDITIONS).matching_rows(request.open_path(options.path), options.where)
    return rows
