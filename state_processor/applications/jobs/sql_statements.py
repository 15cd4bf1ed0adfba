"""Scripts of SQL whose query is compiled instead of submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from state_processor.serializers.errors import OptionError

_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|;", re.DOTALL)
_SKIPPED: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_SET: Final = re.compile(r"(EXECUTE\s+STATEMENT\s+SET\s+BEGIN|BEGIN\s+STATEMENT\s+SET|STATEMENT\s+SET\s+BEGIN)\b", re.IGNORECASE)
_INSERT: Final = re.compile(r"(EXECUTE\s+)?INSERT\b", re.IGNORECASE)
_COMPILE: Final = re.compile(r"COMPILE\s+(AND\s+EXECUTE\s+)?PLAN\b.*?\bFOR\s+", re.IGNORECASE | re.DOTALL)
_END: Final = re.compile(r"END\s*", re.IGNORECASE)
_SETTING: Final = re.compile(r"SET\s+'((?:[^']|'')+)'\s*=\s*'((?:[^']|'')*)'", re.IGNORECASE)
_DEFINING: Final = re.compile(
    r"(CREATE|SET\s+'|USE|DROP|ALTER|ADD\s+JAR|REMOVE\s+JAR|LOAD\s+MODULE|UNLOAD\s+MODULE)\b", re.IGNORECASE
)
_FILLING: Final = re.compile(
    r"(CREATE|REPLACE)(\s+OR\s+REPLACE)?\s+(TEMPORARY\s+)?TABLE\b.*\bAS\s+(SELECT|WITH)\b", re.IGNORECASE | re.DOTALL
)
"""A statement that creates a table from a query starts a job."""
_SHOWN: Final = 60


def planned_statements(sql: str, plan: str) -> list[str]:
    """Return the statements that compile the query of a script into a file.

    ``sql``: statements that define tables, views and options, and one ``INSERT`` or one statement set. ``plan``: the path of the
    file.
    """
    target = plan.replace("'", "''")
    defining: list[str] = []
    queries: list[str] = []
    together: list[str] | None = None
    for statement in _statements(sql):
        text = _COMPILE.sub("", statement, count=1) if _COMPILE.match(statement) else statement
        if together is not None:
            if _END.fullmatch(text):
                queries.append(f"STATEMENT SET BEGIN\n{''.join(f'{statement};{chr(10)}' for statement in together)}END")
                together = None
            else:
                together.append(text)
        elif (begins := _SET.match(text)) is not None:
            first = _bare(text[begins.end() :])
            together = [first] if first else []
        elif (insert := _INSERT.match(text)) is not None:
            queries.append(f"INSERT{text[insert.end() :]}")
        elif _DEFINING.match(text) and not _FILLING.match(text):
            defining.append(text)
        else:
            raise OptionError(f"sql: expected statements that define tables and one INSERT, found {text[:_SHOWN]!r}")
    if together is not None:
        raise OptionError("sql: expected END after the statement set, found the end of the text")
    if len(queries) != 1:
        raise OptionError(
            f"sql: expected one INSERT or one statement set, found {len(queries)}; each INSERT outside of a statement set is a "
            "job of its own"
        )
    return [*defining, f"COMPILE PLAN '{target}' FOR {queries[0]}"]


def setting(statement: str) -> tuple[str, str] | None:
    """Return the name and the value that a statement sets; ``None`` for other statements."""
    match = _SETTING.fullmatch(statement)
    return None if match is None else (match[1].replace("''", "'"), match[2].replace("''", "'"))


def _statements(sql: str) -> Iterator[str]:
    """Yield the statements between semicolons outside of texts, names and comments, without comments before them."""
    start = 0
    for token in _TOKEN.finditer(sql):
        if token[0] == ";":
            if text := _bare(sql[start : token.start()]):
                yield text
            start = token.end()
    if text := _bare(sql[start:]):
        yield text


def _bare(text: str) -> str:
    skipped = _SKIPPED.match(text)
    return text[skipped.end() if skipped else 0 :].strip()
