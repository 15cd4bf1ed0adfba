"""Values of java.time in Kryo's format: their texts equal Java's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers.kryo import java_time


@given(st.integers(-(1 << 40), 1 << 40), st.integers(0, 999_999_999))
def test_durations_as_text(seconds: int, nano: int) -> None:
    assert java_time.Duration.of(str(java_time.Duration(seconds, nano))) == (seconds, nano)


@pytest.mark.parametrize(
    ("year", "text", "with_month"),
    [(2024, "2024", "2024-02"), (5, "5", "0005-02"), (-44, "-44", "-0044-02"), (12024, "12024", "12024-02")],
)
def test_years_are_printed_as_java_does(year: int, text: str, with_month: str) -> None:
    assert str(java_time.Year(year)) == text
    assert java_time.Year.of(text) == java_time.Year(year)
    assert str(java_time.YearMonth(year, 2)) == with_month
    assert java_time.YearMonth.of(with_month) == java_time.YearMonth(year, 2)


def test_durations_like_java() -> None:
    assert java_time.Duration.of("P1DT2H-3M4.5S") == (86400 + 7200 - 180 + 4, 500_000_000)
    assert java_time.Duration.of("-PT0.5S") == (-1, 500_000_000)
    assert java_time.Duration.of("PT-0.5S") == (-1, 500_000_000)


def test_zones_give_offsets_that_kryo_5_leaves_out() -> None:
    def offset(text: str) -> str:
        return str(java_time.ZonedDateTime.of(text).known_offset)

    assert offset("2024-07-01T13:05[Europe/Zurich]") == "+02:00"
    assert offset("2024-01-01T13:05[Europe/Zurich]") == "+01:00"
    assert offset("2024-10-27T02:30[Europe/Zurich]") == "+02:00"  # twice on that day; Java takes the first, too
    assert offset("2024-01-01T13:05[-03:30]") == "-03:30"
    assert offset("2024-01-01T13:05Z") == "Z"
    for wrong, problem in (
        ("2024-03-31T02:30[Europe/Zurich]", "skip that time"),
        ("2024-01-01T00:00[Nowhere/Land]", "lacks the zone Nowhere/Land"),
        ("2024-01-01T00:00", "expected an offset or a zone"),
    ):
        with pytest.raises(ValueError, match=problem):
            offset(wrong)
