"""The command ``sql``: queries on a snapshot, one by one or in a prompt."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from state_processor.backends.read.option import Kind
from state_processor.commands.arguments import positive
from state_processor.commands.new_files import UnclosedFile, check_new, new_file
from state_processor.commands.printing import print_json, print_table
from state_processor.commands.row_formats import FORMATS, write_rows
from state_processor.commands.sql_prompt import prompt
from state_processor.commands.terminal import say
from state_processor.options.flags import add_flags, flag_values
from state_processor.options.table import KEYWORD_OPTIONS
from state_processor.serializers.errors import OptionError
from state_processor.sql.session import QueryResult, SqlSession

_TEXT: Final = (
    "Run a query of DuckDB on a snapshot. Each operator is a view: a row per key, a column per keyed state. Each state is a view "
    "in a schema of the operator's name: orders.total; timers are orders.timers. operators, states and handles are tables about "
    'the snapshot. Names that are not plain words are in double quotes: "my-operator". An operator without a uid has the hash as '
    "its name. Without a query, a prompt reads statements that end in a semicolon."
)


def add_commands(commands: Any) -> None:
    """Add the command to the parsers of the command line."""
    sql = commands.add_parser("sql", help="result of a query on a snapshot, with DuckDB", description=_TEXT)
    sql.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    sql.add_argument(
        "query", metavar="QUERY", nargs="?", help="the query; without it a prompt, or statements from standard input"
    )
    output = sql.add_argument_group("options of printing")
    forms = output.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    forms.add_argument("--csv", action="store_true", help="CSV instead of a table")
    forms.add_argument("--parquet", metavar="FILE", help="write the result into a new file")
    forms.add_argument("--vertical", action="store_true", help="a line for each value; values are not shortened")
    output.add_argument("--limit", type=positive, default=100, metavar="N", help="number of rows of a table (default: 100)")
    add_flags(sql, {Kind.SIZES})
    nanos = KEYWORD_OPTIONS["nanos"]
    ways = ("error", "check", "truncate", "string")
    sql.add_argument("--nanos", choices=ways, default="check", help=f"{nanos.doc.replace('`', '')} The default is check.")
    sql.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
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
    shown = list(islice(rows, options.limit))
    if result.schema.names:
        print_table(result.schema.names, shown, options)
    if next(rows, None) is not None:
        say(f"… only the first {options.limit} rows; --limit shows more")


def _rows(result: QueryResult) -> Iterator[dict[str, Any]]:
    return (row for batch in result.batches for row in batch.to_pylist())
