"""State of window operators: contents, the trigger's state and timers belong together by key and window."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from tests import corpus

WINDOW = pa.struct([("start", pa.timestamp("us", tz="UTC")), ("end", pa.timestamp("us", tz="UTC"))])
CASES = corpus.all_cases("windows-*")
LATENESS_MS = 25_000
"""How long the job of the corpus keeps a window of ``tumbling-late`` that has fired."""

Place = tuple[str, datetime, datetime]
"""A key and a window."""


def places_with(uid: str) -> list[corpus.Case]:
    return [case for case in CASES if any(operator["uid"] == uid for operator in case.expected["operators"])]


def in_cases_with(uid: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", places_with(uid), ids=lambda case: case.id)


def rows(case: corpus.Case, uid: str, state: str = "window-contents", **options: Any) -> list[dict[str, Any]]:
    return [row for batch in sp.arrow.read_state(case.snapshot, uid, state, **options) for row in batch.to_pylist()]


def timers(case: corpus.Case, uid: str) -> list[dict[str, Any]]:
    return [row for batch in sp.arrow.read_timers(case.snapshot, uid) for row in batch.to_pylist()]


def place(row: dict[str, Any], window: str = "window") -> Place:
    return row["key"], row[window]["start"], row[window]["end"]


def last_ms(row: dict[str, Any]) -> int:
    """The last millisecond of a window; its timer is set to it."""
    return corpus.timestamp_ms(row["window"]["end"]) - 1


@pytest.mark.parametrize("uid", ["tumbling-reduce", "sliding-aggregate", "tumbling-evictor"])
def test_each_window_with_contents_has_the_timer_that_fires_it(uid: str) -> None:
    for case in places_with(uid):
        contents, set_timers = rows(case, uid, flatten=False), timers(case, uid)
        assert len(contents) == len({place(row) for row in contents}) > 0
        assert sorted(map(place, set_timers)) == sorted(map(place, contents))
        assert all(row["timestamp"] == last_ms(row) for row in set_timers)
        assert {row["domain"] for row in set_timers} == {"event_time"}


@in_cases_with("session-process")
def test_the_merging_window_set_leads_from_timers_to_contents(case: corpus.Case) -> None:
    """A session's content stays under its first window; its timer is set for its current window."""
    merged = [
        {"key": row["key"], "window": row["list_value"]["f0"], "state_window": row["list_value"]["f1"]}
        for row in rows(case, "session-process", "merging-window-set")
    ]
    contents, set_timers = rows(case, "session-process", flatten=False), timers(case, "session-process")
    assert len(merged) == len({place(row) for row in merged}) > 0
    assert sorted(map(place, set_timers)) == sorted(map(place, merged))
    assert sorted(map(place, contents)) == sorted(place(row, "state_window") for row in merged)
    assert all(row["timestamp"] == last_ms(row) for row in set_timers)
    grown = {place(row, "state_window"): row["window"] for row in merged}
    for row in contents:
        session = grown[place(row)]
        times = [element["time"] for element in row["value"]]
        assert min(times) == corpus.timestamp_ms(session["start"])
        assert max(times) < corpus.timestamp_ms(session["end"])


@in_cases_with("global-count")
def test_the_global_window_is_null_and_the_triggers_count_goes_by_key(case: corpus.Case) -> None:
    contents, counts = rows(case, "global-count"), rows(case, "global-count", "count")
    assert {row["window"] for row in (*contents, *counts)} == {None}
    keys = [row["key"] for row in contents]
    assert len(keys) == len(set(keys)) > 0
    assert {row["key"] for row in counts} <= set(keys)
    for state in ("window-contents", "count"):
        batch = next(sp.arrow.read_state(case.snapshot, "global-count", state))
        assert batch.schema.names == ["key", "window", "value"]
        assert batch.schema.field("window").type == WINDOW
    assert timers(case, "global-count") == []


@in_cases_with("tumbling-late")
def test_late_windows_keep_contents_and_the_timer_that_clears_them(case: corpus.Case) -> None:
    contents = {place(row) for row in rows(case, "tumbling-late", flatten=False)}
    fired = {place(row): row["value"] for row in rows(case, "tumbling-late", "fired-in-window")}
    firing = [row for row in timers(case, "tumbling-late") if row["timestamp"] == last_ms(row)]
    clearing = [row for row in timers(case, "tumbling-late") if row["timestamp"] == last_ms(row) + LATENESS_MS]
    assert fired
    assert firing
    assert len(firing) + len(clearing) == len(timers(case, "tumbling-late"))
    assert sorted(map(place, clearing)) == sorted(contents)
    assert sorted(map(place, firing)) == sorted(contents - fired.keys())
    totals = {row["key"]: row["value"] for row in rows(case, "tumbling-late", "fired-in-total")}
    assert totals.keys() == {key for key, *_ in fired}
    for key, total in totals.items():
        assert sum(count for (own, *_), count in fired.items() if own == key) <= total


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_windows_of_one_key_are_those_of_all(case: corpus.Case) -> None:
    operator = case.expected["operators"][0]["uid"]
    everything = rows(case, operator, flatten=False, metadata=True)
    key = everything[0]["key"]
    assert rows(case, operator, flatten=False, metadata=True, keys=[key]) == [row for row in everything if row["key"] == key]
