"""The error hierarchy: one root and narrow subclasses. Messages give the problem, the place and the remedy.

It is in the lowest package because every layer raises errors. ``state_processor.errors`` has the names in ``__all__``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

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
    def naming_nearest(cls, what: str, wanted: str, existing: Iterable[str], where: str = "this snapshot") -> NotFoundError:
        """Build the message ``no <what> 'x' in <where>. Did you mean 'y'? It has: …``."""
        names = sorted(existing)
        near = get_close_matches(wanted, names, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        listed = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
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
