from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from state_processor.display.text_tables import (
    display_width,
    fitted,
    json_text,
    render_records,
    render_table,
    shortened,
    size_text,
    text_of,
)


def test_a_table() -> None:
    assert render_table(["name", "count"], [["tea", 5], ["mug", None], [None, 12345]], width=80).splitlines() == [
        "name  count",
        "────  ─────",
        "tea       5",
        "mug",
        "      12345",
    ]


def test_the_widest_columns_give_way() -> None:
    lines = render_table(["key", "long", "longer"], [["k", "a" * 30, "b" * 50]], width=40).splitlines()
    assert all(display_width(line) <= 40 for line in lines)
    assert lines[2] == f"k    {'a' * 15}…  {'b' * 15}…"


@pytest.mark.parametrize(
    ("wanted", "available", "widths"),
    [([5, 5], 20, [5, 5]), ([5, 30, 50], 36, [5, 15, 15]), ([30, 30], 40, [20, 20]), ([10, 20], 5, [8, 8]), ([3, 4], 1, [3, 4])],
)
def test_widths(wanted: list[int], available: int, widths: list[int]) -> None:
    fit = fitted(wanted, available)
    assert sum(fit) <= max(available, sum(min(w, 8) for w in wanted))
    assert sorted(fit) == sorted(widths)


def test_wide_and_combining_characters() -> None:
    assert [display_width(t) for t in ("abc", "日本", "é", "e\u0301")] == [3, 4, 1, 1]
    assert shortened("日本語", 5) == "日本…"
    assert shortened("日本語", 6) == "日本語"
    lines = render_table(["a", "b"], [["日本", 1], ["x", 2]], width=80).splitlines()
    assert [display_width(line) for line in lines[1:]] == [7, 7, 7]


def test_nothing_but_a_header() -> None:
    assert render_table(["key", "value"], [], width=80).splitlines() == ["key  value", "───  ─────"]


def test_records_lack_columns() -> None:
    assert render_records(["a", "b"], [{"a": 1}, {"b": 2}], width=80).splitlines()[2:] == ["1", "   2"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("text", "text"),
        ("two\nlines\x1b[31m", "two\\nlines\\x1b[31m"),
        (True, "true"),
        (b"\x00\xff", "0x00ff"),
        (Decimal("1.50"), "1.50"),
        (date(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 12, tzinfo=UTC), "2024-01-31T12:00:00+00:00"),
        ({"a": 1, "b": None, "c": [True]}, "{a: 1, b: null, c: [true]}"),
        ([("k", 1), ("l", None)], "{k → 1, l → null}"),
        ([], "[]"),
    ],
)
def test_values_in_a_line(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 50, "1,024.0 TiB"),
        (None, ""),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert size_text(size) == text


def test_json() -> None:
    row = {
        "text": "zoë",
        "bytes": b"\x01",
        "map": [("k", Decimal("1.5"))],
        "time": datetime(2024, 1, 31, 12, tzinfo=UTC),
        "local": datetime(2024, 1, 31, 12),
        "date": date(2024, 1, 31),
        "nan": float("nan"),
        "inf": [float("inf"), float("-inf"), 1.5],
        "struct": {"a": None},
    }
    text = json_text(row)
    assert "zoë" in text
    assert json.loads(text) == {
        "text": "zoë",
        "bytes": "01",
        "map": [["k", "1.5"]],
        "time": "2024-01-31T12:00:00Z",
        "local": "2024-01-31T12:00:00",
        "date": "2024-01-31",
        "nan": "NaN",
        "inf": ["Infinity", "-Infinity", 1.5],
        "struct": {"a": None},
    }


def test_columns_that_stay_whole_narrow_the_others_or_turn_the_table() -> None:
    hash_, columns = "0" * 32, ["hash", "long"]
    (_, _, line) = render_table(columns, [[hash_, "b" * 50]], width=50, whole=frozenset({"hash"})).splitlines()
    assert line == f"{hash_}  {'b' * 15}…"
    lines = render_table(columns, [[hash_, "b" * 50]], width=30, whole=frozenset({"hash"})).splitlines()
    assert lines[1:] == [f"hash  {hash_}", f"long  {'b' * 23}…"]
