"""Durations and points in time as users write them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import Final

from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError
from state_processor.support.mappings import by_each_key

_ISO: Final = re.compile(r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,3})?)S)?)?")
_UNITS: Final = {
    "w week weeks": timedelta(weeks=1),
    "d day days": timedelta(days=1),
    "h hour hours": timedelta(hours=1),
    "m min mins minute minutes": timedelta(minutes=1),
    "s sec secs second seconds": timedelta(seconds=1),
    "ms milli millis millisecond milliseconds": timedelta(milliseconds=1),
}
"""Labels of ``org.apache.flink.util.TimeUtils``, units of Spark's intervals, and weeks."""
_BY_LABEL: Final = by_each_key((labels.split(), unit) for labels, unit in _UNITS.items())
_PART: Final = re.compile(rf"(\d+)\s*({'|'.join(sorted(_BY_LABEL, key=len, reverse=True))})")
_PARTS: Final = re.compile(rf"(?:interval\s+)?{_PART.pattern}(?:\s*{_PART.pattern})*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NOW: Final = "now"
_OTHER_UNITS: Final = {
    "seconds": (10**9, 10**10, "multiply by 1000"),
    "microseconds": (10**15, 10**16, "divide by 1000"),
    "nanoseconds": (10**18, 10**19, "divide by 1000000"),
}
"""Numbers that are dates from 2001 to 2286 in another unit; in milliseconds they are early in 1970, or after the year 33000."""
_SHOWN: Final = 60
"""Characters of a refused value in a message."""


def duration_ms(value: str | timedelta) -> int:
    """Return the milliseconds of a duration.

    ``value``: a ``timedelta``, an ISO-8601 duration such as ``PT1H``, ``P7D`` or ``PT0.5S``, or numbers with units as in options
    of Flink and intervals of Spark: ``1h``, ``7 d``, ``90 seconds``, ``1 day 12 hours``.
    """
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    parts = _parts(value.strip()) if isinstance(value, str) else []
    if not parts:
        unit = f"; add the unit: {value}s or {value}ms" if re.fullmatch(r"\d+", str(value).strip()) else ""
        raise OptionError(f"{_argument_text('ttl', value)}: expected a duration such as 1h, 90s, 7d or PT1H (ISO-8601){unit}")
    try:
        return round(sum((float(number) * _BY_LABEL[label] for number, label in parts), timedelta()) / _MILLISECOND)
    except OverflowError:
        longest = f"a duration of at most {timedelta.max.days} days"
        raise OptionError(f"{spelled('ttl')} of {len(value)} characters: expected {longest}") from None


def _parts(text: str) -> list[tuple[str, str]]:
    """Return the numbers and unit labels of a duration; an empty list if the text is not a duration."""
    iso = _ISO.fullmatch(text.upper())
    if iso is not None and not text.upper().endswith("T"):
        return [(number, label) for label, number in iso.groupdict().items() if number]
    return _PART.findall(text.lower()) if _PARTS.fullmatch(text.lower()) else []


def _argument_text(argument: str, value: object) -> str:
    text = repr(value)
    return f"{spelled(argument)} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"


def duration_text(milliseconds: int) -> str:
    """Return the ISO-8601 duration of a number of milliseconds."""
    return f"PT{milliseconds // 1000}.{milliseconds % 1000:03d}S"


def instant_ms(value: str | int | datetime) -> int:
    """Return the epoch milliseconds of a point in time.

    ``value``: a ``datetime``, ISO text, epoch milliseconds, or ``now``, the time of this call. A time without a time zone is in
    UTC.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.lower() == _NOW:
            return time_ns() // 1_000_000
        if re.fullmatch(r"-?\d{1,30}", text):
            return instant_ms(int(text))
        with suppress(ValueError):
            return instant_ms(datetime.fromisoformat(text))
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    if isinstance(value, int) and not isinstance(value, bool):
        for unit, (first, last, per_ms) in _OTHER_UNITS.items():
            if first <= value < last:
                advice = f"{per_ms}, or give text with a date"
                raise OptionError(f"{spelled('as_of')} {value}: expected milliseconds, found {unit}; {advice}")
        return value
    raise OptionError(
        f"{_argument_text('as_of', value)}: expected now, a point in time with its zone such as 2024-01-31T12:00:00Z, "
        "or epoch milliseconds such as 1706702400000"
    )
