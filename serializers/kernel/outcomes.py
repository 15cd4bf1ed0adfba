"""Outcomes of a kernel run: the numbers that end a run, messages of errors, and the log of types that Python handles instead."""

from __future__ import annotations

from collections.abc import Callable
from logging import getLogger
from typing import Final

from state_processor.support.doors import spelled

OK: Final = 0
FULL: Final = 1
"""No room is left: the caller makes room and goes on from the last whole row."""
UNKNOWN_INSTRUCTION: Final = 2

TRUNCATED: Final = 10
TRAILING: Final = 11
BAD_COUNT: Final = 12
BAD_STRING: Final = 13
BAD_TAG: Final = 14
BAD_BYTE: Final = 15
BAD_INDEX: Final = 16
LOST_NANOS: Final = 17
OUT_OF_BOUNDS: Final = 18

NULL_VALUE: Final = 30
BAD_CHAR: Final = 31
BAD_NAME: Final = 32
BAD_CLASS: Final = 33
BAD_EITHER: Final = 34
BAD_UNION: Final = 35
BAD_NUMBER: Final = 36
BAD_SIZE: Final = 37
LOST_DIGITS: Final = 38

OUT_OF_RANGE: Final = 50
BAD_TIME: Final = 51
NO_SUCH_DAY: Final = 52

# Messages

_DECODING: Final = {
    TRUNCATED: "the bytes end inside a value",
    TRAILING: "bytes are left over after the value",
    BAD_COUNT: "an element count is negative or larger than the bytes that are left",
    BAD_STRING: "a string is damaged",
    BAD_TAG: "a value of a class that the serializer snapshot does not describe",
    BAD_BYTE: "an unexpected byte where the format fixes one",
    LOST_NANOS: "a time has nanoseconds that microseconds can't hold",
    OUT_OF_RANGE: "a date, time or number is out of the range of its Spark type",
    BAD_INDEX: "an index names a constant that the serializer snapshot does not have",
    BAD_TIME: "the fields of a date or time are out of their ranges",
    OUT_OF_BOUNDS: "a binary row, array or map refers to bytes outside of itself",
}

_WAYS_OUT: Final[dict[int, Callable[[], str]]] = {
    LOST_NANOS: lambda: (
        f"; read with {spelled('nanos', 'truncate')} or {spelled('nanos', 'string')}, or other columns with {spelled('columns')}"
    ),
    OUT_OF_RANGE: lambda: f"; {spelled('nanos', 'string')} shows dates and times as text",
}

ENCODING: Final = {
    NULL_VALUE: "is null; the type can't store null",
    BAD_CHAR: "is not exactly one UTF-16 character",
    BAD_NAME: "names a constant that the type does not have",
    BAD_CLASS: "names a class that the serializer snapshot does not describe",
    BAD_EITHER: "must have exactly one of left and right",
    LOST_DIGITS: "is more precise than the type; truncate it first, for milliseconds with date_trunc('millisecond', …)",
    BAD_UNION: "must have exactly one branch that is not null",
    BAD_TIME: "is not a date or time in ISO form, such as 2024-02-29, 08:30:00.5, 2024-02-29T08:30:00, or that with Z for UTC",
    BAD_NUMBER: "is not a number in digits, or its size does not fit the type",
    BAD_SIZE: "differs from the type in its number of bytes",
    OUT_OF_RANGE: "is out of the range of the type",
    NO_SUCH_DAY: "is a day that java.sql lacks: 1582-10-05 to 1582-10-14, or a day that clocks in the time zone of the job skip",
}


def decoding_problem(outcome: int, column: str = "") -> str:
    """Return the message of an outcome of decoding: with the column and an option that avoids it, if such an option exists."""
    way_out = _WAYS_OUT.get(outcome)
    if way_out is None:
        return _DECODING[outcome]
    return f"column {column!r}: " * bool(column) + _DECODING[outcome] + way_out()


_LOG: Final = getLogger("state_processor")
_LOGGED: Final[set[tuple[str, str]]] = set()
"""Actions and types that this process has logged."""


def log_fallback(action: str, type_: object, column: str = "") -> None:
    """Log that Python handles values of a type, once per process, action and type.

    ``action``: ``decoded``, ``encoded`` or ``hashed``. ``type_``: the serializer, or its name. ``column``: the first column with
    the type, if known.
    """
    if (action, str(type_)) not in _LOGGED:
        _LOGGED.add((action, str(type_)))
        place = f" in column {column}" if column else ""
        _LOG.warning("values of type %s%s are %s one by one in Python, not by the kernel", type_, place, action)
