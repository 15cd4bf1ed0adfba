"""The command ``sql``: queries on a snapshot, one by one or in a prompt."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final, get_args

import pyarrow as pa

from state_processor.applications.row_files.formats import FORMATS, write_rows
from state_processor.applications.sql.session import QueryResult, SqlSession
from state_processor.command_line import (
    SNAPSHOT,
    VERTICAL,
    UnclosedFile,
    argument,
    check_new,
    command,
    complain,
    flag_values,
    flags,
    group,
    new_file,
    one_of,
    positive,
    print_json,
    print_table,
    say,
    switch,
)
from state_processor.errors import NotFoundError, OptionError, StateProcessorError
from state_processor.options import KEYWORD_OPTIONS, Kind
from state_processor.states import Nanos, spark_ddl

_HELP: Final = """\
SELECT …;        a query, which may have several lines and ends in a semicolon
.tables          the views
.schema [VIEW]   columns of all views or of one
.exit            the end, as Ctrl-D"""
_NEW: Final = "sql> "
_MORE: Final = "...> "


class _EndOfInput(Exception):
    """The user leaves the prompt."""


def prompt(session: SqlSession, show: Callable[[QueryResult], None]) -> None:
    """Read statements from standard input until its end, and show their results. A mistake is reported, and the prompt goes on.

    ``session``: runs the statements.
    """
    if sys.stdin.isatty():
        with suppress(ImportError):  # the lines can't be edited on Windows
            import readline  # noqa: F401 - input() edits lines with it
        say(_HELP)
    with suppress(_EndOfInput):
        for statement in _statements():
            try:
                if statement.startswith("."):
                    _command(session, *statement.split(maxsplit=1))
                else:
                    show(session.execute(statement))
            except StateProcessorError as error:
                complain(str(error))
            except KeyboardInterrupt:
                complain("interrupted")


def _statements() -> Iterator[str]:
    """Yield statements without their semicolons, and lines that begin with a dot."""
    lines: list[str] = []
    for line in _lines(lambda: _MORE if lines else _NEW):
        if not lines and (not line.strip() or line.startswith(".")):
            if line.strip():
                yield line.strip()
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines).rstrip().removesuffix(";")
            lines.clear()
    if lines:
        yield "\n".join(lines)


def _lines(ask: Callable[[], str]) -> Iterator[str]:
    while True:
        try:
            yield input(ask() if sys.stdin.isatty() else "")
        except EOFError:
            return


def _command(session: SqlSession, name: str, operand: str = "") -> None:
    if name not in _COMMANDS:
        raise NotFoundError(f"{name} is not a command of the prompt; its commands are {', '.join(_COMMANDS)}")
    _COMMANDS[name](session, operand)


def _tables(session: SqlSession, _: str) -> None:
    for view in session.views:
        say(view.label)


def _schema(session: SqlSession, name: str) -> None:
    views = [view for view in session.views if name.casefold() in ("", view.label.casefold())]
    if not views:
        raise NotFoundError.naming_nearest("view", name, [view.label for view in session.views])
    for view in views:
        try:
            columns = ", ".join(f"{field.name} {spark_ddl(field.type)}" for field in session.columns(view))
        except StateProcessorError as error:
            columns = str(error)
        say(f"{view.label}: {columns}")


def _help(_session: SqlSession, _: str) -> None:
    say(_HELP)


def _exit(_session: SqlSession, _: str) -> None:
    raise _EndOfInput


_COMMANDS: Final[dict[str, Callable[[SqlSession, str], None]]] = {
    ".tables": _tables,
    ".schema": _schema,
    ".help": _help,
    ".exit": _exit,
}


@command(
    "sql",
    "result of a query on a snapshot, with DuckDB",
    "Run a query of DuckDB on a snapshot. Each operator is a view: a row per key, a column per keyed state. Each state is a view "
    "in a schema of the operator's name: orders.total; timers are orders.timers. operators, states and handles are tables about "
    'the snapshot. Names that are not plain words are in double quotes: "my-operator". An operator without a uid has the hash as '
    "its name. Without a query, a prompt reads statements that end in a semicolon.",
    SNAPSHOT,
    argument("sql", metavar="QUERY", nargs="?", help="the query; without it a prompt, or statements from standard input"),
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
        help=KEYWORD_OPTIONS["nanos"].doc.replace("`", ""),
    ),
    python=("sp.duckdb.query",),
)
def _sql(options: argparse.Namespace) -> None:
    if options.parquet:
        check_new(options.parquet)
        if options.sql is None:
            raise OptionError("--parquet needs a query: the file has one result")
    session = SqlSession.open(options.path, flag_values(options))
    if options.sql is None:
        prompt(session, lambda result: _print(result, options))
    else:
        _print(session.execute(options.sql), options)


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
    return chain.from_iterable(map(pa.RecordBatch.to_pylist, result.batches))
