"""Where random sizes, numbers and texts come from: extremes more often than chance would have them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

EXACT = Context(prec=400)
"""Arithmetic on decimals that rounds nothing."""

_DAY = 86_400
_NANOS = 1_000_000_000
_YEARS = 999_999_999
_DAYS = ((-_YEARS, 1, 1), (_YEARS, 12, 31), (0, 2, 29), (-1, 12, 31), (10_000, 1, 1), (1, 1, 1), (9999, 12, 31))
_SECONDS = (-31_557_014_167_219_200, 31_556_889_864_403_199)
_MILLIS = 1 << 63

_EQUAL_HASHES = ("Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB")
_TEXTS = (
    "",
    " ",
    "\0",
    "a\0b\x7f\x80",
    "ünïcödé ✓",
    "㿿䀀\uffff\ufeff",
    "emoji 😀 \U0010ffff",
    '"quotes" \\ \n\t\r\u2028',
    "null",
    "NaN",
    *_EQUAL_HASHES,
)
_LONE_SURROGATES = ("\ud800", "a\udc00", "\udfff\ud83d")
_ALPHABETS = (
    "ab",
    "abcdefghijklmnopqrstuvwxyz 0123456789",
    "äöü߀",
    "日本語字典㿿",
    "😀🚀\U0001f468\u200d",
    "\0\x01\x7f\x80\u07ff\u0800",
)


class Draw(Random):
    """A source of random values with extremes; ``lone_surrogates`` may be in Java's text, but not in text of columns."""

    def __init__(self, seed: int | str, lone_surrogates: bool = False) -> None:
        super().__init__(seed)
        self.lone_surrogates = lone_surrogates

    def one_in(self, times: int) -> bool:
        return self.randrange(times) == 0

    def weighted(self, table: Sequence[tuple[int, T]]) -> T:
        return self.choices([each for _, each in table], [weight for weight, _ in table])[0]

    def length(self) -> int:
        return self.weighted(((6, self.randint(0, 3)), (1, self.randint(4, 20))))

    def whole(self, bits: int) -> int:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        near = self.choice((low, -1, 0, 1, high, low + 1, high - 1, 127, 128, -128, 255, 256))
        return near if low <= near <= high and self.one_in(2) else self.randint(low, high)

    def floating(self, layout: str) -> Any:
        """A floating-point number of any bits, as printed."""
        size = struct.calcsize(layout)
        ordinary = (0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), float("-inf"), 0.1)
        if self.one_in(3):
            value = struct.unpack(layout, struct.pack(layout, self.choice(ordinary)))[0]
        elif self.one_in(3):
            bits = self.choice((1, (1 << (8 * size - 12 if size == 8 else 23)) - 1, 1 << (8 * size - 12 if size == 8 else 23)))
            value = struct.unpack(layout, bits.to_bytes(size, "big"))[0]
        else:
            value = struct.unpack(layout, self.randbytes(size))[0]
        return printed_float(value)

    def character(self) -> str:
        found = self.choice(("a", "\0", "é", "字", "\uffff", chr(self.randrange(0xD800)), chr(self.randrange(0xE000, 0x10000))))
        return "\ud800" if self.lone_surrogates and self.one_in(10) else found

    def text(self) -> str:
        if self.lone_surrogates and self.one_in(12):
            return self.choice(_LONE_SURROGATES)
        if self.one_in(3):
            return self.choice(_TEXTS)
        if self.one_in(60):
            return self.choice(_ALPHABETS)[:1] * self.choice((127, 128, 16_383, 16_384, 70_000))
        return "".join(self.choices(self.choice(_ALPHABETS), k=self.length()))

    def bytes_(self) -> bytes:
        return self.randbytes(self.choice((0, 1, 7, 300)))

    def big_integer(self) -> str:
        large = (1 << self.randint(1, 300)) * self.choice((1, -1)) + self.randint(-5, 5)
        return str(self.choice((0, 1, -1, 1 << 63, -(1 << 63), large)))

    def big_decimal(self) -> str:
        """A decimal as ``BigDecimal.toString`` has it."""
        unscaled = int(self.big_integer()) if self.one_in(2) else self.randint(-1000, 1000)
        return decimal_text(unscaled, self.choice((0, 0, 1, 2, 10, 38, -1, -7, 300)))

    def day(self) -> tuple[int, int, int]:
        """Year, month and day of any ``LocalDate``."""
        if self.one_in(8):
            return self.choice(_DAYS)
        found = date.fromordinal(self.randint(1, date.max.toordinal()))
        return found.year, found.month, found.day

    def nano_of_day(self) -> int:
        seconds = self.choice((0, 60, 3600, _DAY - 1, self.randrange(_DAY)))
        return seconds * _NANOS + self.nanos()

    def nanos(self) -> int:
        return self.choice((0, 0, 500_000_000, 123_000_000, 1_000, 1, _NANOS - 1, self.randrange(_NANOS)))

    def second(self) -> int:
        """A second of any ``Instant``."""
        return self.weighted(((1, self.choice(_SECONDS)), (1, self.choice((-1, 0, 1))), (6, self.randint(-(1 << 34), 1 << 36))))

    def millisecond(self) -> int:
        """A point in time of any ``java.util.Date`` except the one that represents null."""
        return self.weighted(((1, self.choice((1000 - _MILLIS, _MILLIS - 1, -1, 0))), (5, self.randint(-(1 << 44), 1 << 46))))


def printed_float(value: float) -> Any:
    """A floating-point number as Flink's side prints it."""
    if value != value:
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, value)


def decimal_text(unscaled: int, scale: int) -> str:
    """``BigDecimal.toString``."""
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled))
    exponent = len(digits) - 1 - scale
    if scale >= 0 and exponent >= -6:
        if scale == 0:
            return sign + digits
        digits = digits.rjust(scale + 1, "0")
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}E{exponent:+d}"


def date_text(year: int, month: int, day: int) -> str:
    """``LocalDate.toString``."""
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def time_text(nano_of_day: int, always_seconds: bool = False) -> str:
    """``LocalTime.toString``."""
    seconds, nanos = divmod(nano_of_day, _NANOS)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60 or nanos or always_seconds:
        text += f":{seconds % 60:02}"
    if nanos:
        digits = f"{nanos:09}"
        while digits.endswith("000"):
            digits = digits[:-3]
        text += f".{digits}"
    return text


def civil(epoch_day: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970-01-01, in any year."""
    cycle, of_cycle = divmod(epoch_day + 719_162, 146_097)
    found = date.fromordinal(of_cycle + 1)
    return found.year + 400 * cycle, found.month, found.day


def instant_text(second: int, nanos: int) -> str:
    """``Instant.toString``."""
    day, of_day = divmod(second, _DAY)
    return f"{date_text(*civil(day))}T{time_text(of_day * _NANOS + nanos, always_seconds=True)}Z"


def sql_timestamp_text(second: int, nanos: int) -> str:
    """``java.sql.Timestamp.toString`` in UTC."""
    day, of_day = divmod(second, _DAY)
    fraction = f"{nanos:09}".rstrip("0") or "0"
    return f"{date_text(*civil(day))} {time_text(of_day * _NANOS, always_seconds=True)}.{fraction}"


Drawing = Callable[[Draw], Any]
