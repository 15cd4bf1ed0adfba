"""The command ``sql``: queries on a snapshot, one by one or in a prompt."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

from state_processor.applications.sql.session import QueryResult, SqlSession
from state_processor.backends.read.option import Kind
from state_processor.commands.command import SNAPSHOT, VERTICAL, argument, command, flags, group, one_of, positive, switch
from state_processor.commands.new_files import UnclosedFile, check_new, new_file
from state_processor.commands.printing import print_json, print_table
from state_processor.commands.row_formats import FORMATS, write_rows
from state_processor.commands.sql_prompt import prompt
from state_processor.commands.terminal import say
from state_processor.options.flags import flag_values
from state_processor.options.table import KEYWORD_OPTIONS
from state_processor.serializers.decode_options import Nanos
from state_processor.serializers.errors import OptionError


@command(
    "sql",
    "result of a query on a snapshot, with DuckDB",
    "Run a query of DuckDB on a snapshot. Each operator is a view: a row per key, a column per keyed state. Each state is a view "
    "in a schema of the operator's name: orders.total; timers are orders.timers. operators, states and handles are tables about "
    'the snapshot. Names that are not plain words are in double quotes: "my-operator". An operator without a uid has the hash as '
    "its name. Without a query, a prompt reads statements that end in a semicolon.",
    SNAPSHOT,
    argument("query", metavar="QUERY", nargs="?", help="the query; without it a prompt, or statements from standard input"),
    group(
        "options of printing",
        one_of(
            switch("--json", "one JSON object per line instead of a table"),
            switch("--csv", "CSV instead of a table"),
            argument("--parquet", metavar="FILE", help="write the result into a new file"),
            VERTICAL,
        ),
        argument("--limit", type=positive, default=100, metavar="N", help="number of rows of a table (default: 100)"),
    ),
    flags(Kind.SIZES),
    argument(
        "--nanos",
        choices=get_args(Nanos),
        default=KEYWORD_OPTIONS["nanos"].default,
        help=KEYWORD_OPTIONS["nanos"].doc.replace("`", ""),
    ),
    python=("sp.duckdb.query",),
)
def _sql(options: argparse.Namespace) -> None:
    if options.parquet:
        check_new(options.parquet)
        if options.query is None:
            raise OptionError("--parquet needs a query: the file has one result")
    session = SqlSession.open(options.path, flag_values(options))
    if options.query is None:
        prompt(session, lambda result: _print(result, options))
    else:
        _print(session.execute(options.query), options)


def _print(result: QueryResult, options: argparse.Namespace) -> None:
    if options.parquet:
        with new_file(options.parquet) as file:
            number = write_rows(file, "parquet", None, result.schema, result.batches, quote_formulas=False)
        say(f"{number} rows")
    elif options.csv:
        if sys.stdout.isatty() and not FORMATS["csv"].is_for_terminals:
            raise OptionError("--csv: csv may hold characters that control a terminal; redirect the output")
        file = UnclosedFile(sys.stdout.buffer)
        write_rows(file, "csv", None, result.schema, result.batches, quote_formulas=False)
        file.flush()
    elif options.json:
        print_json(_rows(result))
    else:
        _print_table(result, options)


def _print_table(result: QueryResult, options: argparse.Namespace) -> None:
    rows = _rows(result)
    first_rows = list(islice(rows, options.limit))
    if result.schema.names:
        print_table(result.schema.names, first_rows, options)
    if next(rows, None) is not None:
        say(f"… only the first {options.limit} rows; --limit shows more")


def _rows(result: QueryResult) -> Iterator[dict[str, Any]]:
    return (row for batch in result.batches for row in batch.to_pylist())
