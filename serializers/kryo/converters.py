"""Converters of values from columns, text and JSON to contents of objects.

They raise ValueError or TypeError for unsuitable values.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Decimal
from operator import index
from typing import Any, Final
from uuid import UUID

from state_processor.serializers.core.time_values import (
    UTC_ZONE,
    Instant,
    LocalDate,
    exact_millis,
    java_date,
    to_instant,
    to_local_date,
    to_local_time,
)
from state_processor.serializers.kryo.classes import BigInteger
from state_processor.serializers.text_grammar import to_number, to_whole_number

_DAY_MS: Final = 86_400_000


def same(value: Any) -> Any:
    """Return the value unchanged."""
    return value


def text(value: Any) -> str:
    """Check that a value is text."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {value!r}")
    return value


def boolean(value: Any) -> bool:
    """Convert a boolean."""
    if value not in (True, False):
        raise ValueError(f"expected true or false, found {value!r}")
    return bool(value)


def integer(bits: int) -> Callable[[Any], int]:
    """Return a converter of integers of a number of bits."""

    def make(value: Any) -> int:
        number = index(value)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{number} has more than {bits} bits")
        return number

    return make


def character(value: Any) -> str:
    """Convert text of one UTF-16 unit."""
    if len(text(value)) != 1 or ord(value) > 0xFFFF:
        raise ValueError(f"{value!r} is not one UTF-16 unit")
    return str(value)


def float_32(value: Any) -> float:
    """Convert a number in the range of a ``float``."""
    struct.pack("<f", float(value))
    return float(value)


def big_integer(value: Any) -> BigInteger:
    """Convert an integer, or its text."""
    return BigInteger(to_whole_number(Decimal(value) if isinstance(value, float) else value))


def big_decimal(value: Any) -> Decimal:
    """Convert a decimal number, or its text."""
    return to_number(Decimal(value) if isinstance(value, float) else value)


def instant_of_millis(value: Any) -> Instant:
    """Convert a point in time of whole milliseconds."""
    instant = to_instant(value)
    exact_millis(instant)
    return instant


def time_of_day_millis(value: Any) -> int:
    """Convert a time of day to milliseconds since midnight."""
    return exact_millis(Instant(*divmod(to_local_time(value).nano_of_day, 1_000_000_000)))


def day_millis(value: Any) -> int:
    """Convert a day to the milliseconds of ``java.sql.Date`` in UTC."""
    return UTC_ZONE.start_of(to_local_date(value))


def day(millis: int) -> LocalDate:
    """Return the day that ``java.sql.Date`` shows in UTC."""
    return java_date(millis // _DAY_MS)


def uuid(value: Any) -> str:
    """Convert a UUID, or its text."""
    return str(value if isinstance(value, UUID) else UUID(text(value)))


def clock(millis: int) -> str:
    """Return the text of a time of day; the inverse of :func:`time_of_day_millis`."""
    return str(Instant(millis % _DAY_MS // 1000, millis % 1000 * 1_000_000)).partition("T")[2][:-1]


def address(value: Any) -> str:
    """Convert text of host and port."""
    match = re.fullmatch(r"(.*):([0-9]{1,5})", text(value))
    if match is None or int(match[2]) > 0xFFFF:
        raise ValueError(f"expected host and port, such as host:80, found {value!r}")
    return str(value)


def nothing_new(kind: str) -> Callable[[Any], Any]:
    """Return a converter that refuses all values: only values that were read can be written."""

    def make(value: Any) -> Any:
        raise ValueError(f"new values of {kind} can't be written")

    return make


def empty(content: Any) -> Callable[[Any], Any]:
    """Return a converter for a class whose objects are all equal."""

    def make(value: Any) -> Any:
        if value:
            raise ValueError(f"expected an empty value, found {value!r}")
        return content

    return make
