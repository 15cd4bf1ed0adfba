"""The way of all text to the terminal.

Names, values and messages may come from anybody's snapshot, and the terminal may have any encoding. Commands print with
:func:`say` and :func:`complain`, which escape control characters and whatever the encoding lacks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging import Formatter, LogRecord, StreamHandler, getLogger
from typing import Final, TextIO

from state_processor.display.text_tables import printable

_NAME: Final = "state-processor"
_ASCII: Final = str.maketrans({"─": "-", "…": "~", "→": ">"})
"""What tables are drawn with, and the characters in an encoding that lacks them; all have the same width."""
_ESCAPES: Final = "backslashreplace"
_LOG: Final = getLogger("state_processor")


def say(text: str) -> None:
    """Print lines of text."""
    print(_encodable("\n".join(map(printable, text.split("\n"))), sys.stdout))


def say_json(text: str) -> None:
    """Print a line of JSON, in whose strings JSON's escapes are the same characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    print(text)


def complain(text: str, name: str = _NAME) -> None:
    """Print a message on standard error, in one line that begins with the name of the program or command."""
    print(_encodable(f"{name}: {printable(' '.join(text.split()))}", sys.stderr), file=sys.stderr)


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, _ESCAPES).decode(encoding)
    return text


class _Handler(StreamHandler[TextIO]):
    """A handler that prints log messages as :func:`complain` does."""

    def emit(self, record: LogRecord) -> None:
        complain(Formatter().format(record))


@contextmanager
def printed_log() -> Iterator[None]:
    """Print what the library logs in the block, unless the process has handlers of its own."""
    if _LOG.hasHandlers():
        yield
        return
    handler = _Handler()
    _LOG.addHandler(handler)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)


def escape_in_help() -> None:
    """Escape in texts of help, which the parser prints, what the terminal's encoding lacks."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors=_ESCAPES)
