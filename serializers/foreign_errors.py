"""Errors of libraries that parse or fetch bytes of a snapshot, converted to errors of this library.

Damaged input can make such a library raise any error: ``ValueError`` for a zero character in a path, ``OverflowError`` for a
length, ``RecursionError`` for deep nesting, ``ImportError`` for a file system that is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from state_processor.serializers.errors import CorruptSnapshotError, StateProcessorError


@contextmanager
def foreign_errors(what: str | Callable[[], str], kind: type[StateProcessorError] = CorruptSnapshotError) -> Iterator[None]:
    """Convert errors of other libraries in the block to ``kind``; errors of this library pass.

    Parameters
    ----------
    what
        Description of the data, for the message: operator, state, file, offset. A function is called only if an error occurs.
    kind
        The class of the error.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except Exception as error:
        place = what if isinstance(what, str) else what()
        raise kind(f"{place}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Return class and message of an error of another library, for a message of this one."""
    text = " ".join(str(error).encode("utf-8", "backslashreplace").decode().split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
