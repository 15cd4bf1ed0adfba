from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from state_processor.errors import OptionError
from state_processor.types.durations import duration_ms, duration_text, instant_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("PT90S", 90_000),
        ("PT0.5S", 500),
        ("P7D", 604_800_000),
        ("P1DT2H3M4.005S", 93_784_005),
        ("P2W", 1_209_600_000),
        ("pt1m", 60_000),
        (timedelta(minutes=1, microseconds=1500), 60_001),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 2 W ", 1_209_600_000),
        ("10 min", 600_000),
        ("90 Seconds", 90_000),
        ("100ms", 100),
        ("1h30m", 5_400_000),
        ("1 day 12 hours", 129_600_000),
        ("INTERVAL 1 hour 1 millisecond", 3_600_001),
    ],
)
def test_durations(text: str | timedelta, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds
    assert duration_ms(duration_text(milliseconds)) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "h", "PT1", "P1H", "PT1.5H", "-PT1H", "P1DT", "1 fortnight", "1h or 2h", "-1h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(OptionError, match=r"expected a duration such as 1h, 90s, 7d or PT1H \(ISO-8601\)$"):
        duration_ms(text)


@pytest.mark.parametrize("number", ["3600000", 3600])
def test_numbers_without_a_unit(number: str | int) -> None:
    with pytest.raises(OptionError, match=rf"ttl {number!r}: expected .*; add the unit: {number}s or {number}ms$"):
        duration_ms(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [f"PT{'9' * 400}S", f"P{'9' * 400}D", "P1000000000D", f"{'9' * 400}d"])
def test_durations_that_are_too_long(text: str) -> None:
    with pytest.raises(OptionError, match="at most 999999999 days"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("2024-01-31T12:00:00Z", 1_706_702_400_000),
        ("2024-01-31T12:00:00", 1_706_702_400_000),
        ("2024-01-31T13:00:00.250+01:00", 1_706_702_400_250),
        ("1706702400000", 1_706_702_400_000),
        (1_706_702_400_000, 1_706_702_400_000),
        ("0", 0),
        ("-1", -1),
        (datetime(2024, 1, 31, 12), 1_706_702_400_000),
        (datetime(2024, 1, 31, 12, tzinfo=UTC), 1_706_702_400_000),
        (datetime(2024, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))), 1_706_702_400_000),
    ],
)
def test_points_in_time(value: str | int | datetime, milliseconds: int) -> None:
    assert instant_ms(value) == milliseconds


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (1_706_702_400, "found seconds; multiply by 1000"),
        ("1706702400", "found seconds; multiply by 1000"),
        (1_706_702_400_000_000, "found microseconds; divide by 1000"),
        (1_706_702_400_000_000_000, "found nanoseconds; divide by 1000000"),
    ],
)
def test_points_in_time_of_another_unit(value: str | int, advice: str) -> None:
    with pytest.raises(OptionError, match=f"as_of {value}: expected milliseconds, {advice}, or give text with a date"):
        instant_ms(value)


def test_now() -> None:
    before = datetime.now(UTC)
    assert instant_ms(before) <= instant_ms(" Now ") <= instant_ms(datetime.now(UTC))


@pytest.mark.parametrize("value", ["yesterday", "2024-13-01", True, 1.5])
def test_no_point_in_time(value: Any) -> None:
    with pytest.raises(OptionError, match=rf"as_of {value!r}: expected now, a point in time"):
        instant_ms(value)
