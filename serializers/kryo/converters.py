"""Contents of objects from values of columns, text and JSON. What is no such value raises ValueError or TypeError."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Decimal
from operator import index
from typing import Any, Final
from uuid import UUID

from state_processor.serializers.core.time_values import (
    Instant,
    LocalDate,
    exact_millis,
    to_instant,
    to_local_date,
    to_local_time,
)
from state_processor.serializers.kryo.values import BigInteger
from state_processor.serializers.text_grammar import to_number

_DAY_MS: Final = 86_400_000


def same(value: Any) -> Any:
    """The value as it is."""
    return value


def text(value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def boolean(value: Any) -> bool:
    """True or false."""
    if value not in (True, False):
        raise ValueError(f"{value!r} is neither true nor false")
    return bool(value)


def integer(bits: int) -> Callable[[Any], int]:
    """A whole number of so many bits."""

    def make(value: Any) -> int:
        number = index(value)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{number} has more than {bits} bits")
        return number

    return make


def character(value: Any) -> str:
    """One UTF-16 unit."""
    if len(text(value)) != 1 or ord(value) > 0xFFFF:
        raise ValueError(f"{value!r} is not one UTF-16 unit")
    return str(value)


def float_32(value: Any) -> float:
    """A number that a ``float`` reaches."""
    struct.pack("<f", float(value))
    return float(value)


def big_integer(value: Any) -> BigInteger:
    """A whole number, or its text."""
    number = to_number(value) if isinstance(value, str) else Decimal(value)
    if number != number.to_integral_value():
        raise ValueError(f"{value} is no whole number")
    return BigInteger(number)


def big_decimal(value: Any) -> Decimal:
    """A decimal number, or its text."""
    number = to_number(value) if isinstance(value, str) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{value} is no decimal number")
    return number


def instant_of_millis(value: Any) -> Instant:
    """A point in time without digits below milliseconds."""
    found = to_instant(value)
    exact_millis(found)
    return found


def time_of_day_millis(value: Any) -> int:
    """Milliseconds since midnight, of a time of day."""
    return exact_millis(Instant(*divmod(to_local_time(value).nano_of_day, 1_000_000_000)))


def day_millis(value: Any) -> int:
    """Milliseconds since 1970 of the beginning of a day in UTC."""
    return to_local_date(value).epoch_day * _DAY_MS


def day(millis: int) -> LocalDate:
    """The day in UTC that milliseconds since 1970 are in."""
    return LocalDate.of_epoch_day(millis // _DAY_MS)


def uuid(value: Any) -> str:
    """A UUID, or its text."""
    return str(value if isinstance(value, UUID) else UUID(text(value)))


def clock(millis: int) -> str:
    """The time of day that milliseconds are, as text: the way back from :func:`time_of_day_millis`."""
    return str(Instant(millis % _DAY_MS // 1000, millis % 1000 * 1_000_000)).partition("T")[2][:-1]


def address(value: Any) -> str:
    """Host and port."""
    found = re.fullmatch(r"(.*):([0-9]{1,5})", text(value))
    if found is None or int(found[2]) > 0xFFFF:
        raise ValueError(f"{value!r} is not like host:80")
    return str(value)


def nothing_new(what: str) -> Callable[[Any], Any]:
    """For a class that only values that were read are written of."""

    def make(value: Any) -> Any:
        raise ValueError(f"new values of {what} can't be written")

    return make


def empty(content: Any) -> Callable[[Any], Any]:
    """For a class whose objects are all alike."""

    def make(value: Any) -> Any:
        if value:
            raise ValueError(f"{value!r} is not empty")
        return content

    return make
