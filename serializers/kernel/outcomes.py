"""Outcomes of a kernel run: numbers that the kernels end with, and the messages of those that are errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from state_processor.serializers.doors import spelled

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
    LOST_NANOS: lambda: f"; read with {spelled('nanos', 'truncate')} or {spelled('nanos', 'string')}",
    OUT_OF_RANGE: lambda: f"; {spelled('nanos', 'string')} shows dates and times as text",
}

ENCODING: Final = {
    NULL_VALUE: "is null, which the type has no bytes for",
    BAD_CHAR: "is not exactly one UTF-16 character",
    BAD_NAME: "names a constant that the type does not have",
    BAD_CLASS: "names a class that the serializer snapshot does not describe",
    BAD_EITHER: "has both sides or none; exactly one of left and right must be there",
    LOST_DIGITS: "has smaller digits than the type holds; cut them before, for milliseconds with date_trunc('millisecond', …)",
    BAD_UNION: "must have exactly one branch that is not null",
    BAD_TIME: "is not a date or time in ISO form, such as 2024-02-29, 08:30:00.5, 2024-02-29T08:30:00, or that with Z for UTC",
    BAD_NUMBER: "is no number in digits, or none of a size that the type holds",
    BAD_SIZE: "has another number of bytes than the type",
    OUT_OF_RANGE: "is out of the range of the type",
    NO_SUCH_DAY: "is a day that java.sql has not: 1582-10-05 to 1582-10-14, or one that clocks in the time zone of the job skip",
}


def decoding_problem(outcome: int) -> str:
    """Return the message of an outcome of decoding, with the option that avoids it, if there is one."""
    way_out = _WAYS_OUT.get(outcome)
    return _DECODING[outcome] + (way_out() if way_out else "")
