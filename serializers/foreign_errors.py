"""Errors of libraries that parse or fetch bytes of a snapshot, as errors of this library.

Such a library raises whatever damaged input leads it to: ``ValueError`` for a zero character in a path, ``OverflowError`` for a
length, ``RecursionError`` for deep nesting, ``ImportError`` for a file system that is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from state_processor.serializers.errors import CorruptSnapshotError, StateProcessorError


@contextmanager
def foreign_errors(what: str | Callable[[], str], kind: type[StateProcessorError] = CorruptSnapshotError) -> Iterator[None]:
    """Raise errors of other libraries in the block as ``kind``; those of this library pass.

    Parameters
    ----------
    what
        What is read, for the message: operator, state, file, offset. A function is called only when there is an error.
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
