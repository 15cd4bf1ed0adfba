"""Rows of a state, for commands that show, count and export them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from state_processor import arrow
from state_processor.commands.command import argument, flag
from state_processor.options.flags import flag_values
from state_processor.options.table import STATE_KIND
from state_processor.serializers.late import requirement
from state_processor.types.identifier import OperatorIdentifier

WHERE: Final = argument(
    "--where",
    metavar="EXPRESSION",
    help='only rows that match this expression of Spark SQL, such as "value > 100"; it starts Spark in this process',
)
KIND: Final = flag(STATE_KIND, f" It is {STATE_KIND.kind.expected}.")
COLUMNS: Final = argument(
    "--columns",
    type=lambda given: [name.strip() for name in given.split(",")],
    help="only these columns and fields, separated by commas: key,value.id; --where can use only these",
)


def state_batches(
    options: argparse.Namespace, operator: OperatorIdentifier, state: str | None, **more: Any
) -> Iterator[pa.RecordBatch]:
    """Read the rows that the options name, as batches of one schema, at least one.

    Parameters
    ----------
    options
        Arguments of the command.
    operator, state
        As for :func:`state_processor.arrow.read_state`.
    **more
        More options of reading.
    """
    shape = {"nanos": "string", "columns": getattr(options, "columns", None), "kind": options.kind}
    values = {**shape, **more, **flag_values(options)}
    if options.where is None:
        return arrow.read_state(options.path, operator, state, **values)
    with requirement("spark", "conditions of --where", "pyspark", "py4j"):
        from state_processor.spark.filtered import filtered_batches  # starts a JVM; other commands don't need it
    return filtered_batches(options.path, operator, state, options.where, values)
