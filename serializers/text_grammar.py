"""Text that users write: dates, times and numbers, and JSON.

Dates, times and numbers are ISO, in ASCII digits, without surrounding text or other signs. The encode kernel accepts exactly
these texts (:mod:`~state_processor.serializers.kernel.encode.times`, :mod:`~state_processor.serializers.kernel.encode.numbers`).
Python parses text with these patterns.

=========== ==============================================================================================
date        a year of 4 to 10 digits, month and day: ``2024-02-29``, ``-0044-03-15``, ``+12024-01-01``
clock       ``08:30``, ``08:30:00``, or with 1 to 9 digits behind a point
local       a date; or a date, ``T`` or a space, and a clock
instant     a date, ``T`` or a space, a clock, and ``Z``
number      digits, one point among or around them, an exponent of up to 10 digits: ``1``, ``-1.50``, ``.5``, ``1E+2``
=========== ==============================================================================================
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

from state_processor.serializers.big_numbers import to_decimal, to_int

_SHOWN: Final = 80
_DATE: Final = r"(?P<year>[+-]?[0-9]{4,10})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_CLOCK: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"

DATE: Final = re.compile(_DATE)
CLOCK: Final = re.compile(_CLOCK)
LOCAL: Final = re.compile(f"(?P<date>{_DATE})(?:[T ](?P<clock>{_CLOCK}))?")
INSTANT: Final = re.compile(f"(?P<date>{_DATE})[T ](?P<clock>{_CLOCK})Z")
NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")

MOST_ZEROS: Final = 10_000
"""Limit of zeros that an exponent may add to a whole number, because a few bytes of text could add any number of them."""


def to_number(value: Any) -> Decimal:
    """Return a number from its text, or from a whole or decimal number."""
    if isinstance(value, str):
        if NUMBER.fullmatch(value) is None:
            raise ValueError(f"expected a decimal number in digits, like -1.50 or 1E+2, found {message_text(value)!r}")
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(f"{value!r} is neither a whole number, nor a decimal one, nor text of one")
    if not isinstance(value, Decimal):
        return to_decimal(value)
    if not value.is_finite():
        raise ValueError(f"expected a number in digits, found {value}")
    return value


def to_whole_number(value: Any) -> int:
    """Return a whole number from its text, or from a number that is whole."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    number = to_number(value)
    if not number:
        return 0
    if number != number.to_integral_value():
        raise ValueError(f"expected a whole number, found {message_text(value)}")
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent > MOST_ZEROS:
        raise ValueError(f"{message_text(value)} has more than {MOST_ZEROS} zeros; write them out")
    return to_int(number.to_integral_value())


def message_text(value: Any) -> str:
    """Return the text of a value for a message; long text is shortened to its beginning."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


# JSON


def parse_json(text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text, parse_float=_finite, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:40]!r} is twice in an object of JSON")
    return values


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} in JSON is too large for a double")
    return number


def json_text_of(value: Any) -> str:
    """Return a value as JSON. Bytes are hexadecimal digits; values of types that JSON lacks are their text."""
    return json.dumps(
        value, ensure_ascii=False, default=lambda unknown: unknown.hex() if isinstance(unknown, bytes) else str(unknown)
    )
