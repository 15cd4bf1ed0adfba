"""Limits of types of Flink SQL that bytes do not show: nullability, lengths, digits of seconds.

The bytes of a ``VARCHAR(3)`` are ordinary text; only these checks enforce the type. Flink counts the length of text in code
points, and pads the values of ``CHAR(n)`` and ``BINARY(n)``. The checks never change values; they refuse values that do not fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.table.binary_values import to_bytes, to_timestamp
from state_processor.serializers.table.logical_types import (
    MAX_LENGTH,
    BytesType,
    LogicalType,
    TextType,
    TimestampType,
    without_name_and_alias,
)
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc

Mask = npt.NDArray[np.bool_]
_NANOS: Final = 9
_MICROS: Final = 6


@dataclass(frozen=True)
class Limit(ABC):
    """A rule of a type for its values."""

    type: LogicalType

    @property
    @abstractmethod
    def rule(self) -> str:
        """The rule, and the remedy for values that break it."""

    @abstractmethod
    def broken(self, array: pa.Array) -> Mask:
        """Return a mask of the values of a column that break the rule."""

    @abstractmethod
    def is_broken(self, value: Any) -> bool:
        """Return True if a single value breaks the rule."""

    def check(self, value: Any) -> None:
        """Refuse a value that breaks the rule."""
        if self.is_broken(value):
            raise InvalidRowError(f"{value!r} does not fit: {self.rule}")


class NotNull(Limit):
    """The rule of a type that is NOT NULL."""

    @property
    def rule(self) -> str:
        return f"the type is {self.type}"

    def broken(self, array: pa.Array) -> Mask:
        return _mask(pc.is_null(array))

    def is_broken(self, value: Any) -> bool:
        return value is None


class Length(Limit):
    """The exact or the maximum number of code points of text, or of bytes."""

    type: TextType | BytesType

    @property
    def rule(self) -> str:
        unit = "code points" if isinstance(self.type, TextType) else "bytes"
        if not self._is_exact:
            return f"a {self.type.summary} has at most {self.type.length} {unit}"
        pad = " (Flink pads shorter text with spaces: rpad(…, n, ' '))" if isinstance(self.type, TextType) else ""
        return f"a {self.type.summary} has exactly {self.type.length} {unit}{pad}"

    @property
    def _is_exact(self) -> bool:
        return self.type.name in ("CHAR", "BINARY")

    def broken(self, array: pa.Array) -> Mask:
        lengths = pc.utf8_length(array) if pa.types.is_string(array.type) else pc.binary_length(array)
        compare = pc.not_equal if self._is_exact else pc.greater
        return _mask(compare(lengths, self.type.length).fill_null(False))

    def is_broken(self, value: Any) -> bool:
        if value is None:
            return False
        length = len(value if isinstance(self.type, TextType) else to_bytes(value))
        return length != self.type.length if self._is_exact else length > self.type.length


class Fraction(Limit):
    """The number of digits of a fraction of a second.

    Times of day have milliseconds with any precision: before 2.3, Flink keeps the extremes of ``TIME(3)`` as ``TIME(0)``.
    """

    type: TimestampType

    @property
    def rule(self) -> str:
        digits = self.type.precision
        return f"a {self.type.summary} has at most {digits} digits of a fraction of a second; truncate with date_trunc first"

    def broken(self, array: pa.Array) -> Mask:
        digits = self.type.precision
        if pa.types.is_string(array.type):
            return _mask(pc.match_substring_regex(array, rf"\.[0-9]{{{digits}}}[0-9]*[1-9]").fill_null(False))
        if digits >= _MICROS:
            return np.zeros(len(array), dtype=np.bool_)
        micros = np.asarray(array.cast(pa.int64()).fill_null(0), dtype=np.int64)
        return np.asarray(micros % 10 ** (_MICROS - digits) != 0, dtype=np.bool_)

    def is_broken(self, value: Any) -> bool:
        if not isinstance(value, str | datetime):  # internal form
            return False
        millis, nano = to_timestamp(value, TimestampType(_NANOS))
        nanos = millis * 1_000_000 + nano
        return bool(nanos % 10 ** (_NANOS - self.type.precision))


def limits_of(type_: LogicalType) -> tuple[Limit, ...]:
    """Return the limits of a type's values; types of fields and elements have limits of their own.

    A processing time attribute is ``NOT NULL`` and always null in state: Flink reads the clock when the attribute is read.
    """
    held = without_name_and_alias(type_)
    is_processing_time = isinstance(held, TimestampType) and held.kind == "PROCTIME"
    limits: list[Limit] = [] if type_.nullable or is_processing_time else [NotNull(type_)]
    if isinstance(held, TextType | BytesType) and (held.length < MAX_LENGTH or held.name in ("CHAR", "BINARY")):
        limits.append(Length(held))
    elif isinstance(held, TimestampType) and held.precision < _NANOS:
        limits.append(Fraction(held))
    return tuple(limits)


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
