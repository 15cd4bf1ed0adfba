"""The error hierarchy: one root and narrow subclasses. Messages give the problem, the place and the remedy.

It is in the lowest package because every layer raises errors. ``state_processor.errors`` has the names in ``__all__``. Errors of
other libraries, and of serializers that users register, become errors of this hierarchy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

from state_processor.support.redaction import presentable

__all__ = [
    "CorruptSnapshotError",
    "ForbiddenPathError",
    "ForeignCodeError",
    "InvalidRowError",
    "MissingFileError",
    "NotASnapshotError",
    "NotFoundError",
    "OptionError",
    "ScratchSpaceError",
    "StateMigrationError",
    "StateProcessorError",
    "UndecodableValueError",
    "UndescribedClassError",
    "UnknownSerializerError",
    "UnsupportedFormatError",
    "WriteError",
]


class StateProcessorError(Exception):
    """Root of every error that this library raises on purpose. Its message omits secrets in URLs, so it can be printed."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(presentable(a) if isinstance(a, str) else a for a in arguments))


class NotASnapshotError(StateProcessorError):
    """The path does not contain a Flink savepoint or checkpoint."""


class CorruptSnapshotError(StateProcessorError):
    """Bytes violate Flink's format: they are truncated, damaged, or contradict the header."""


class MissingFileError(StateProcessorError):
    """A file that ``_metadata`` refers to is missing, or is shorter than recorded."""


class ForbiddenPathError(MissingFileError):
    """A path recorded in a snapshot leads to a forbidden place: out of the snapshot's own storage, or to another host."""


class ScratchSpaceError(StateProcessorError):
    """New files of RocksDB don't fit on the disk of the scratch space, or can't be written."""


class WriteError(StateProcessorError):
    """A new savepoint can't be completed: its files can't be written, or another write to its directory was completed first."""


class UnsupportedFormatError(StateProcessorError):
    """A well-formed snapshot uses a feature that this library does not read or write."""


class UnknownSerializerError(UnsupportedFormatError):
    """The class or version of a serializer snapshot is unknown or can't be read; the format stores no length to skip it."""


class ForeignCodeError(UnsupportedFormatError):
    """A serializer or connector that a user registered raised an error, or returned an object of the wrong type."""


class UndecodableValueError(StateProcessorError):
    """A value cannot be decoded, or cannot be represented in the requested type."""


class StateMigrationError(StateProcessorError):
    """The wanted schema is incompatible with the written one (Flink's ``StateMigrationException``)."""


class UndescribedClassError(UndecodableValueError):
    """A value of an undescribed subclass of a POJO, with the name of the class and the position of the POJO."""

    class_name: str = ""
    start: int = -1


class OptionError(StateProcessorError, ValueError):
    """An option or argument has an invalid value."""


class InvalidRowError(StateProcessorError, ValueError):
    """A row handed to a writer cannot become state: null key, duplicate, wrong type, foreign key group.

    ``row`` is its number in the batch, if known.
    """

    row: int | None = None


class NotFoundError(StateProcessorError, LookupError):
    """The requested operator or state is missing in the snapshot."""

    @classmethod
    def naming_nearest(cls, noun: str, name: str, existing: Iterable[str], place: str = "this snapshot") -> NotFoundError:
        """Build the message ``no <noun> 'x' in <place>. Did you mean 'y'? It has: …``."""
        names = sorted(existing)
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        listed = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
        return cls(f"no {noun} {name!r} in {place}.{hint} It has: {listed or 'none'}.")


UNWRITABLE: Final = (
    StateProcessorError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
    struct.error,
)
"""Errors that ``write`` and ``from_column`` of serializers raise for an unsuitable value."""


def why_unwritable(problem: Exception, expected: object, value: object) -> str:
    """Return the reason why a serializer raised one of :data:`UNWRITABLE` for a value.

    For an object of another type, Python's own message is about the code that failed. In this case the result names both types.
    """
    if isinstance(problem, StateProcessorError):
        return str(problem)
    mismatch = f"expected a value of {expected}, found {'null' if value is None else f'one of type {type(value).__name__}'}"
    return f"{mismatch} ({problem})" if isinstance(problem, (ValueError, ArithmeticError)) else mismatch


class NotCompilableError(Exception):
    """A serializer's values can be decoded in Python only; the caller falls back to the reference decoder."""


@contextmanager
def foreign_errors(context: str | Callable[[], str], kind: type[StateProcessorError] = CorruptSnapshotError) -> Iterator[None]:
    """Convert errors of other libraries in the block to ``kind``; errors of this library pass.

    Parameters
    ----------
    context
        Description of the data, for the message: operator, state, file, offset. A function is called only if an error occurs.
    kind
        The class of the error.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except Exception as error:
        place = context if isinstance(context, str) else context()
        raise kind(f"{place}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Return class and message of an error of another library, for a message of this one."""
    text = " ".join(str(error).encode("utf-8", "backslashreplace").decode().split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def noted_errors(place: str, failures: dict[str, str] | None) -> Iterator[None]:
    """Note the error of the block in ``failures``, by place; without ``failures``, errors pass."""
    if failures is None:
        yield
        return
    try:
        with foreign_errors(place):
            yield
    except StateProcessorError as problem:
        failures[place] = str(problem)


_OWN: Final = "state_processor."
_BASES: Final = f"{_OWN}serializers.base"


@contextmanager
def third_party_errors(
    context: str | Callable[[], str], kind: type[StateProcessorError] = ForeignCodeError, parts: Iterable[Any] = ()
) -> Iterator[None]:
    """Convert errors of users' serializers and snapshots in the block to ``kind``; other errors pass.

    ``context``: operator and state, for the message. A function is called only if an error occurs. ``kind``: the class of the
    error. ``parts``: serializers that the block uses. If an error occurs in this package, for example for a value of the wrong
    type, it is attributed to the first of them that is defined outside this package.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except Exception as error:
        culprit = culprit_of(error) or next(foreign_classes(parts), None)
        if culprit is None:
            raise
        raise kind(message_of(context if isinstance(context, str) else context(), culprit, error)) from error


def message_of(context: str, culprit: str, error: BaseException) -> str:
    """Return the message about an error of code outside this package."""
    return f"{context}: {culprit} failed with {describe(error)}.\nThis code is not part of state-processor: correct it."


def foreign_classes(parts: Iterable[Any]) -> Iterator[str]:
    """Yield the names of classes in trees of serializers that are defined outside this package."""
    for part in parts:
        if _is_foreign(type(part)):
            yield qualified_name(type(part))
        yield from foreign_classes(part.children)


def is_foreign(code: Any) -> bool:
    """Check if a class or function is defined outside this package."""
    return not getattr(code, "__module__", _OWN).startswith(_OWN)


def qualified_name(code: Any) -> str:
    """Return the name of a class or function, with its module."""
    return f"{code.__module__}.{code.__qualname__}"


def _is_foreign(kind: type) -> bool:
    return is_foreign(kind) and any(base.__module__ == _BASES for base in kind.__mro__)


def culprit_of(error: BaseException) -> str | None:
    """Return the method in the traceback that is the innermost one of a foreign serializer or snapshot."""
    culprit, step = None, error.__traceback__
    while step is not None:
        frame = step.tb_frame
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = owner if isinstance(owner, type) else type(owner)
        if _is_foreign(kind) and not frame.f_globals.get("__name__", "").startswith(_OWN):
            culprit = f"{qualified_name(kind)}.{frame.f_code.co_name}"
        step = step.tb_next
    return culprit
