"""The error hierarchy: one root, narrow subclasses, messages that say what, where and what to do.

It lives in the lowest package because every layer raises from it; ``state_processor`` re-exports all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from state_processor.serializers.redaction import presentable


class StateProcessorError(Exception):
    """Root of every error that this library raises on purpose. Its message has no secrets of URLs, and can be printed."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(presentable(a) if isinstance(a, str) else a for a in arguments))


class NotASnapshotError(StateProcessorError):
    """The path holds no Flink savepoint or checkpoint."""


class CorruptSnapshotError(StateProcessorError):
    """Bytes do not follow Flink's format: truncated, damaged, or not what the header announced."""


class MissingFileError(StateProcessorError):
    """A file that ``_metadata`` refers to is not where it should be, or is shorter than recorded."""


class ForbiddenPathError(MissingFileError):
    """A path recorded in a snapshot leads where nobody has allowed it: out of the snapshot's own storage, or to another host."""


class ScratchSpaceError(StateProcessorError):
    """There is no room for temporary copies of a snapshot's files, or they cannot be written."""


class WriteError(StateProcessorError):
    """A new savepoint can't be completed: its files can't be written, or another write to its directory was complete before."""


class UnsupportedFormatError(StateProcessorError):
    """A well-formed snapshot uses something this library does not read or write."""


class UnknownSerializerError(UnsupportedFormatError):
    """A serializer snapshot's class or version is not known, or can't be read; the format gives no length to step over it."""


class ForeignCodeError(UnsupportedFormatError):
    """A serializer or connector that a user registered raised an error, or returned something of another type."""


class UndecodableValueError(StateProcessorError):
    """A value cannot be decoded, or cannot be represented in the type that was asked for."""


class StateMigrationError(StateProcessorError):
    """The wanted schema is incompatible with the written one (Flink's ``StateMigrationException``)."""


class UndescribedClassError(UndecodableValueError):
    """A value of a POJO's subclass that nothing describes: which class it is, and where the POJO begins."""

    class_name: str = ""
    start: int = -1


class OptionError(StateProcessorError, ValueError):
    """An option or argument has a value that makes no sense."""


class InvalidRowError(StateProcessorError, ValueError):
    """A row handed to a writer cannot become state: null key, duplicate, wrong type, foreign key group.

    ``row`` is its number in the batch, where one is known.
    """

    row: int | None = None


class NotFoundError(StateProcessorError, LookupError):
    """An operator or a state that was asked for is not in the snapshot."""

    @classmethod
    def naming_nearest(cls, what: str, wanted: str, existing: Iterable[str], where: str = "this snapshot") -> NotFoundError:
        """Build the message ``no <what> 'x' in <where>. Did you mean 'y'? It has: …``."""
        names = sorted(existing)
        near = get_close_matches(wanted, names, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        listed = ", ".join(repr(n) for n in names[:20]) + (", …" if len(names) > 20 else "")
        return cls(f"no {what} {wanted!r} in {where}.{hint} It has: {listed or 'none'}.")


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
"""What ``write`` and ``accept`` of serializers raise for a value that is none of theirs."""


def why_unwritable(problem: Exception, expected: object, value: object) -> str:
    """Return the words of a message about a value of which a serializer raised one of :data:`UNWRITABLE`.

    Errors that Python raises for an object of another type are about the code that met the object: the message names both types
    instead.
    """
    if isinstance(problem, StateProcessorError):
        return str(problem)
    found = f"expected a value of {expected}, found {'null' if value is None else f'one of type {type(value).__name__}'}"
    return f"{found} ({problem})" if isinstance(problem, (ValueError, ArithmeticError)) else found


class NotCompilableError(Exception):
    """A serializer's values can be decoded in Python only; the caller falls back to the reference decoder."""
