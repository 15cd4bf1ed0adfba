"""Printing text to the terminal.

Names, values and messages may come from untrusted snapshots, and the terminal may have any encoding. Commands print with
:func:`say` and :func:`complain`. These escape control characters, and characters that the encoding lacks.
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
"""Characters of tables, and their replacements for encodings that lack them; the widths are equal."""
_ESCAPES: Final = "backslashreplace"
_LOG: Final = getLogger("state_processor")


def say(text: str) -> None:
    """Print lines of text."""
    print(_encodable("\n".join(map(printable, text.split("\n"))), sys.stdout))


def say_json(text: str) -> None:
    """Print a line of JSON; escapes in its strings are JSON escapes of the same characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    print(text)


def complain(text: str, name: str = _NAME) -> None:
    """Print a message on standard error, as one line that begins with the name of the program or command."""
    print(_encodable(f"{name}: {printable(' '.join(text.split()))}", sys.stderr), file=sys.stderr)


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, _ESCAPES).decode(encoding)
    return text


class _Handler(StreamHandler[TextIO]):
    """A log handler that prints messages with :func:`complain`."""

    def emit(self, record: LogRecord) -> None:
        complain(Formatter().format(record))


@contextmanager
def printed_log() -> Iterator[None]:
    """Print log messages of the library in the block, unless the process has its own handlers."""
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
    """Escape characters in help texts that the terminal's encoding lacks."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors=_ESCAPES)
