"""Samples instead of products of versions, formats and shapes."""

from __future__ import annotations

import pytest

from tests.interop import selection

CASES = [(shape, version) for shape in "abc" for version in (1, 2)]


@pytest.mark.parametrize("every", [False, True])
def test_each_trait_is_in_a_case(every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EVERY_CASE", every)
    assert selection.covering(CASES, set) == (CASES if every else [("a", 1), ("b", 2), ("c", 1)])


@pytest.mark.parametrize(
    ("options", "even", "odd"), [("", "", ""), ("a", "a", "a"), ("ab", "a", "b"), ("abcd", "ac", "bd"), ("abc", "ac", "b")]
)
def test_options_come_in_turn(options: str, even: str, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EVERY_CASE", False)
    assert [selection.in_turn(options, number) for number in (2, 3)] == [even, odd]
    monkeypatch.setattr(selection, "EVERY_CASE", True)
    assert selection.in_turn(options, 2) == options
