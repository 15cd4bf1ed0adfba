"""Samples of each scalar type, for all tests of scalar types: values, texts, and if it has null."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.text_grammar import CLOCK, DATE, INSTANT, LOCAL, NUMBER


@dataclass(frozen=True)
class Sample:
    """Samples of one type.

    Parameters
    ----------
    values
        Values as columns or JSON have them.
    texts
        Texts that Python and the kernel parse, if they do; the tests change them at random.
    pattern
        The pattern of such texts in Python.
    has_null
        True if the bytes of Flink's serializer can be null.
    """

    values: tuple[Any, ...]
    texts: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    has_null: bool = True


_MOMENTS = ("2024-02-29T12:34:56.789012Z", "1969-12-31T23:59:59.999Z")
_LOCAL_TEXTS = ("2024-02-29T08:30:00.5", "2024-02-29 08:30", "2024-02-29")
SAMPLES: dict[str, Sample] = {
    "BOOLEAN": Sample((True, False), has_null=False),
    "BYTE": Sample((-128, 127), has_null=False),
    "SHORT": Sample((-2, 30000), has_null=False),
    "INT": Sample((-3, 2**31 - 1), has_null=False),
    "LONG": Sample((-(2**63), 5_000_000_000), has_null=False),
    "FLOAT": Sample((1.5, -0.25), has_null=False),
    "DOUBLE": Sample((1e300, -0.1), has_null=False),
    "CHAR": Sample(("x", "é"), has_null=False),
    "STRING": Sample(("", "text", "Grüße 😀")),
    "BIG_INT": Sample(("0", "-12345678901234567890"), ("0", "-12", "+7", "1.00", "120E-1", "1E+2"), NUMBER),
    "BIG_DEC": Sample(("1.50", "-0.001"), ("0", "-1.50", "+.5", "5.", "1E+2", "1.5e-10"), NUMBER),
    "BYTES": Sample((b"", b"\x00\xff"), has_null=False),
    "DATE": Sample(("2024-02-29T12:34:56.789Z", "1969-12-31T23:59:59.999Z"), ("2024-02-29T08:30:00.123Z",), INSTANT),
    "SQL_DATE": Sample(("2024-02-29", "1969-12-31"), ("2024-02-29",), DATE),
    "SQL_TIME": Sample(("12:34:56.789", "00:00:00"), ("08:30:00.123",), CLOCK),
    "SQL_TIMESTAMP": Sample(_MOMENTS, ("2024-02-29T08:30:00.123456789Z",), INSTANT, has_null=False),
    "INSTANT": Sample(_MOMENTS, ("2024-02-29T08:30:00.5Z", "-1000-01-01 08:30Z"), INSTANT),
    "LOCAL_DATE": Sample(("2024-02-29", "1969-12-31"), ("2024-02-29", "-0044-03-15", "+12024-01-01"), DATE),
    "LOCAL_TIME": Sample(("12:34:56.789012345", "00:00"), ("08:30", "08:30:00", "08:30:00.5", "23:59:59.123456789"), CLOCK),
    "LOCAL_DATE_TIME": Sample(
        ("2024-02-29T12:34:56.789012", "1969-12-31T23:59:59.999"),
        ("2024-02-29T08:30:00.5", "2024-02-29 08:30", "2024-02-29"),
        LOCAL,
    ),
}

_missing = SCALARS.keys() - SAMPLES.keys()
assert not _missing, f"add samples of {', '.join(_missing)} to tests/serializers/scalar_samples.py"
