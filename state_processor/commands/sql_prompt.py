"""The prompt of the command ``sql``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from state_processor.applications.sql.session import QueryResult, SqlSession
from state_processor.backends.read.schema_text import spark_ddl
from state_processor.commands.terminal import complain, say
from state_processor.serializers.errors import NotFoundError, StateProcessorError

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
