"""Rows of a state, for commands that show, count and export them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from state_processor import arrow
from state_processor.options.flags import flag_values
from state_processor.options.table import STATE_KIND
from state_processor.serializers.errors import OptionError
from state_processor.types.identifier import OperatorIdentifier

_SPARK: Final = ("pyspark", "py4j")


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the choice of rows by an expression."""
    text = 'only rows that match this expression of Spark SQL, such as "value > 100"; it starts Spark in this process'
    parser.add_argument("--where", metavar="EXPRESSION", help=text)


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the kind of state."""
    parser.add_argument("--kind", metavar="KIND", help=f"{STATE_KIND.doc.replace('`', '')} It is {STATE_KIND.kind.expected}.")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the choice of columns."""
    text = "only these columns and fields, separated by commas: key,value.id; --where can use only these"
    parser.add_argument("--columns", type=lambda given: [name.strip() for name in given.split(",")], help=text)


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
    try:
        from state_processor.spark.filtered import filtered_batches  # starts a JVM; other commands don't need it
    except ModuleNotFoundError as problem:
        if problem.name not in _SPARK:
            raise
        raise OptionError("--where needs Spark: pip install pyspark") from None

    return filtered_batches(options.path, operator, state, options.where, values)
