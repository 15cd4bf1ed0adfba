"""Durations and points in time as users write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,3})?)S)?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def duration_ms(value: str | timedelta) -> int:
    """Return the milliseconds of a ``timedelta``, or of an ISO-8601 duration such as ``PT1H``, ``P7D`` or ``PT0.5S``.

    Raises
    ------
    OptionError
        If the value is not a duration.
    """
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    text = value.strip().upper() if isinstance(value, str) else ""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groupdict().values()) or text.endswith("T"):
        raise OptionError(f"{spelled('ttl')} {value!r}: expected a timedelta, or an ISO-8601 duration such as PT1H, PT90S or P7D")
    parts = {name: float(number) for name, number in match.groupdict().items() if number}
    try:
        return round(timedelta(**parts) / _MILLISECOND)
    except OverflowError:
        longest = f"a duration of at most {timedelta.max.days} days"
        raise OptionError(f"{spelled('ttl')} of {len(text)} characters: expected {longest}") from None


def duration_text(milliseconds: int) -> str:
    """Return the ISO-8601 duration of a number of milliseconds."""
    return f"PT{milliseconds // 1000}.{milliseconds % 1000:03d}S"


def instant_ms(value: str | int | datetime) -> int:
    """Return the epoch milliseconds of a point in time: a ``datetime``, ISO text, or epoch milliseconds.

    A time without a time zone is in UTC.

    Raises
    ------
    OptionError
        If the value is not a point in time.
    """
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        try:
            return instant_ms(datetime.fromisoformat(text))
        except ValueError:
            pass
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    if isinstance(value, int):
        return value
    raise OptionError(
        f"{spelled('as_of')} {value!r}: expected a datetime, ISO text such as 2024-01-31T12:00:00Z, "
        "or epoch milliseconds such as 1706702400000"
    )
