"""Numbers of any size as decimal digits and back, in less than quadratic time.

Python's own conversions between ``int`` and ``Decimal`` or ``str`` take minutes for a number of a megabyte, and conversions of
text are limited to a few thousand digits. These functions halve a number until its parts are small; ``decimal`` multiplies the
parts quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, localcontext
from functools import cache
from typing import Final

EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Arithmetic without rounding; an operation without a result returns NaN."""
_SMALL_BITS: Final = 2048
_SMALL_DIGITS: Final = 512
_SMALLEST_SCALE: Final = -(2**31)


def to_decimal(unscaled: int, scale: int = 0) -> Decimal:
    """Return ``unscaled`` divided by ten to the ``scale``, with all its digits and this exponent."""
    whole = Decimal(unscaled) if unscaled.bit_length() <= _SMALL_BITS else _large_decimal(unscaled)
    return Decimal((whole.is_signed(), whole.as_tuple().digits, -scale)) if scale else whole


def to_text(unscaled: int, scale: int = 0) -> str:
    """Return the digits as Java's ``BigInteger`` and ``BigDecimal`` print them."""
    return str(to_decimal(unscaled, scale))


def to_int(whole: Decimal) -> int:
    """Return a number without a fraction as an ``int``."""
    sign, digits, exponent = whole.as_tuple()
    assert isinstance(exponent, int)
    assert exponent >= 0
    text = bytes(digit + 48 for digit in digits) + b"0" * exponent
    return -_from_digits(text) if sign else _from_digits(text)


def to_unscaled_and_scale(number: Decimal) -> tuple[int, int]:
    """Return the two numbers that form a ``BigDecimal``."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{number} can't be a BigDecimal: Java supports neither infinity nor NaN there")
    if not _SMALLEST_SCALE <= -exponent < -_SMALLEST_SCALE:
        raise ValueError(f"the exponent {exponent} is out of the range of the scale of a BigDecimal")
    return to_int(Decimal((sign, digits, 0))), -exponent


def to_java_bytes(number: int) -> bytes:
    """Return the shortest two's complement (``BigInteger.toByteArray``)."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _large_decimal(value: int) -> Decimal:
    with localcontext(EXACT):
        power = cache(lambda bits: Decimal(1 << bits) if bits <= _SMALL_BITS else power(bits // 2) * power(bits - bits // 2))
        magnitude = _joined(abs(value), value.bit_length(), power)
        return -magnitude if value < 0 else magnitude


def _joined(value: int, bits: int, power: Callable[[int], Decimal]) -> Decimal:
    if bits <= _SMALL_BITS:
        return Decimal(value)
    low = bits // 2
    upper, lower = value >> low, value & ((1 << low) - 1)
    return _joined(upper, bits - low, power) * power(low) + _joined(lower, low, power)


def _from_digits(text: bytes) -> int:
    powers: dict[int, int] = {}

    def join(begin: int, end: int) -> int:
        if end - begin <= _SMALL_DIGITS:
            return int(text[begin:end])
        middle = begin + (end - begin) // 2
        power = powers.setdefault(end - middle, 0) or 10 ** (end - middle)
        powers[end - middle] = power
        return join(begin, middle) * power + join(middle, end)

    return join(0, len(text))
