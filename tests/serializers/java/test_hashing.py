"""Java's hash codes, as OpenJDK 17 computes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers.java import hashing


@pytest.mark.parametrize(
    ("value", "code"), [(0, 0), (-1, 0), (-12345678901, -539222986), (2**32, 1), (-(2**63), -(2**31)), (2**63 - 1, -(2**31))]
)
def test_longs(value: int, code: int) -> None:
    assert hashing.of_long(value) == code


@pytest.mark.parametrize(("value", "code"), [(True, 1231), (False, 1237)])
def test_booleans(value: bool, code: int) -> None:
    assert hashing.of_boolean(value) == code


@pytest.mark.parametrize(
    ("value", "code"), [(0.0, 0), (-0.0, -(2**31)), (1.5, 1069547520), (math.nan, 2143289344), (-math.inf, -8388608)]
)
def test_floats(value: float, code: int) -> None:
    assert hashing.of_float(value) == code


@pytest.mark.parametrize(
    ("value", "code"), [(0.0, 0), (-0.0, -(2**31)), (1.5, 1073217536), (math.nan, 2146959360), (0.1, -1507852285)]
)
def test_doubles(value: float, code: int) -> None:
    assert hashing.of_double(value) == code


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("a", 97), ("héllo€😀", 403414657), ("polygenelubricants", -(2**31)), ("\ud83d", 0xD83D)]
)
def test_strings(text: str, code: int) -> None:
    assert hashing.of_string(text) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, 0), (1, 1), (-1, -1), (2**31, -(2**31)), (2**32, 31), (-(2**32), -31), (10**30, 1319562394)],
)
def test_big_integers(value: int, code: int) -> None:
    assert hashing.of_big_integer(value) == code


@pytest.mark.parametrize(
    ("unscaled", "scale", "code"),
    [(123450, 3, 3826953), (10, 1, 311), (100, 2, 3102), (-15, 1, -464), (0, -3, -3), (10**30, 5, -2043238741)],
)
def test_big_decimals(unscaled: int, scale: int, code: int) -> None:
    assert hashing.of_big_decimal(unscaled, scale) == code


@given(st.integers())
def test_wrapping_is_javas_narrowing(value: int) -> None:
    assert -(2**31) <= hashing.wrap(value) < 2**31
    assert (hashing.wrap(value) - value) % 2**32 == 0
