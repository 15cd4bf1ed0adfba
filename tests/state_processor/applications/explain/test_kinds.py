"""Tables of patterns."""

from __future__ import annotations

import re

from state_processor.applications.explain.kinds import PatternTable


def test_the_first_pattern_of_a_text_decides() -> None:
    table = PatternTable((("long", r"^a{3}"), ("short", r"a"), ("end", r"b$")))
    assert table.first("xaab") == "short"
    assert list(table.values("aaab")) == ["long", "short", "end"]
    assert table.first("xyz") is None


def test_flags_act_on_all_patterns() -> None:
    assert PatternTable((("a", r"A"), ("b", r"B")), re.IGNORECASE).first("b") == "b"
