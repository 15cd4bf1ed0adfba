"""Texts, numbers and keys in all state of snapshots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.applications.finding.finding import SHOWN_PLACES
from state_processor.types.answers import Answer
from tests.corpus import FIXTURES
from tests.state_processor.samples import ORDERS_PATH, savepoint_with_mentions

NATIVE = str(next((FIXTURES / "2.3.0" / "orders-rocksdb-native").rglob("_metadata")).parent)


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return savepoint_with_mentions(tmp_path_factory.mktemp("everywhere") / "savepoint")


def places(found: sp.Findings) -> set[tuple[Any, ...]]:
    names = ("operator_uid", "state_name", "key", "field", "count")
    return {tuple(row[name] for name in names) for row in found.table.to_pylist()}


def test_a_text_is_found_in_each_kind_of_state(everywhere: Path) -> None:
    found = sp.find(everywhere, text="zoë@")
    assert found
    assert places(found) == {
        ("people", "value", "3", "value.f1.element", 1),
        ("friends", "friends", "4", "map_key", 1),
        ("timed", "seen", "zoë@example.com", "key", 1),
        ("timed", "_timer_state/event_t", "zoë@example.com", "key", 1),
        ("sink", "pending", None, "value", 1),
        ("sink", "shared", None, "value", 1),
        ("sink", "rules", "1", "value", 1),
    }
    (undecoded,) = found.undecoded.to_pylist()
    assert (undecoded["state_name"], undecoded["reason"], undecoded["count"]) == ("shared", "values are bytes: value", 1)


def test_numbers_are_found(everywhere: Path) -> None:
    assert places(sp.find(everywhere, number=99_999)) == {("timed", "_timer_state/event_t", "zoë@example.com", "timestamp", 1)}
    found = sp.find(everywhere, number=[12345])
    assert {place[:2] for place in places(found)} == {("friends", "friends")}
    assert found.table.num_rows == 9


def test_keys_are_looked_up_in_operators_with_keys_of_their_type(everywhere: Path) -> None:
    assert places(sp.find(everywhere, key=3)) == {("people", "value", "3", "key", 1), ("friends", "friends", "3", "key", 1)}
    assert places(sp.find(everywhere, key="3")) == places(sp.find(everywhere, key=3))
    with pytest.raises(sp.OptionError, match=r"no operator has keys of the type of 2\.5"):
        sp.find(everywhere, key=[3, 2.5])


def test_several_snapshots_are_searched_and_nothing_is_false(everywhere: Path) -> None:
    found = sp.find([ORDERS_PATH, NATIVE, everywhere], text=["amelia", "zoë@"])
    by_snapshot = found.table.group_by("snapshot").aggregate([("count", "sum")]).to_pylist()
    assert {row["snapshot"]: row["count_sum"] for row in by_snapshot} == {ORDERS_PATH: 6, NATIVE: 6, str(everywhere): 7}
    assert not sp.find(ORDERS_PATH, text="nobody@")
    with pytest.raises(sp.OptionError, match="nothing to find: add text"):
        sp.find(ORDERS_PATH)


def test_many_places_are_limited_and_summed_by_state(capsys: pytest.CaptureFixture[str]) -> None:
    found = sp.find(ORDERS_PATH, text="e")
    assert found.table.num_rows > SHOWN_PLACES
    places = {}
    for row in found.table.to_pylist():
        place = (row["operator_uid"] or row["operator_uid_hash"], row["state_name"] or row["state_kind"])
        places[place] = places.get(place, 0) + 1
    assert {(row["operator"], row["state"]): row["places"] for row in found.by_state()} == places
    assert sum(row["count"] for row in found.by_state()) == sum(found.table["count"].to_pylist())
    text, html = repr(found), found._repr_html_()
    assert f"The first {SHOWN_PLACES} of {found.table.num_rows} places" in text
    assert len(text.splitlines()) < SHOWN_PLACES + len(places) + 10
    assert html.count("<tr>") == 1 + len(places)
    assert cli.main(["find", ORDERS_PATH, "--text", "e", "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert f"The first 2 of {found.table.num_rows} places; --limit shows more" in out
    assert len(out.splitlines()) == 2 + 2 + 2 + 2 + len(places)


def test_the_command_prints_places(capsys: pytest.CaptureFixture[str], everywhere: Path) -> None:
    assert cli.main(["find", ORDERS_PATH, "--text", "amelia", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["state_name"], row["field"]) for row in rows if "sought" in row} >= {
        ("profile", "value.email"),
        ("total", "key"),
    }
    assert cli.main(["find", ORDERS_PATH, str(everywhere), "--key", "amelia", "--number", "12345"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["snapshot", "operator", "state", "key", "field", "sought", "count"]
    assert "Searched as bytes:" in out
    assert cli.main(["find", ORDERS_PATH, "--text", "nobody@"]) == cli.NO
    assert cli.main(["find", str(everywhere), "--text", "nobody@"]) == Answer.UNCHECKED.exit_code
    assert sp.find([ORDERS_PATH, everywhere], text="nobody@").answer is Answer.UNCHECKED
    assert sp.find([ORDERS_PATH, everywhere], text="zoë@").answer is Answer.YES
    assert capsys.readouterr().out.splitlines()[0] == "Nothing found"
