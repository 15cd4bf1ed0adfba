"""Expired values are dropped, states get and lose time-to-live, and times of last access are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OLD, NEW = NOW - timedelta(hours=3), NOW - timedelta(minutes=5)
FORMATS = pytest.mark.parametrize(
    "chosen", [{}, {"format": "native", "backend": "rocksdb"}, {"format": "native", "backend": "hashmap"}]
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Values, lists and maps with old and new times: key 0 is old, key 1 is new, key 2 has both."""
    path = tmp_path_factory.mktemp("ttl") / "savepoint"
    text, long, instant = sp.Types.STRING(), sp.Types.LONG(), pa.timestamp("us", "UTC")
    times = [[OLD, OLD], [NEW, NEW], [OLD, NEW]]
    contents = {
        "value": ([0, 10, 20], pa.int64(), [pair[1] for pair in times], instant, sp.ValueState(long, ttl="1h")),
        "elements": ([["a", "b"]] * 3, pa.list_(pa.string()), times, pa.list_(instant), sp.ListState(text, ttl="1h")),
        "entries": (
            [[("a", 1), ("b", 2)]] * 3, pa.map_(pa.string(), pa.int64()), times, pa.list_(instant),
            sp.MapState(text, long, ttl="1h"),
        ),
        "plain": ([1, 2, 3], pa.int64(), [None] * 3, instant, sp.ValueState(long)),
    }  # fmt: skip
    writer = sp.arrow.SavepointWriter.new()
    for name, (values, type_, accesses, type_of_times, state) in contents.items():
        columns = {"key": [0, 1, 2], name: pa.array(values, type_), "_last_access": pa.array(accesses, type_of_times)}
        writer.with_keyed_state("op", pa.table(columns), states={name: state}, key_type=long)
    writer.write(path, format="native", backend="rocksdb")
    return path


def rows(path: Path, state: str, *names: str, **options: Any) -> list[tuple[Any, ...]]:
    table = sp.arrow.read_state(path, "op", state, metadata=True, **options).read_all()
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


PARTS = {"value": ("value",), "elements": ("list_value",), "entries": ("map_key", "map_value")}


@FORMATS
def test_expired_values_elements_and_entries_are_dropped(source: Path, tmp_path: Path, chosen: dict[str, str]) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(source)
    for state in PARTS:
        writer.expire("op", state, "1h", NOW)
    writer.write(tmp_path / "new", **chosen)
    left = {state: rows(tmp_path / "new", state, "key", *names, "_last_access") for state, names in PARTS.items()}
    assert left == {
        "value": [(1, 10, NEW), (2, 20, NEW)],
        "elements": [(1, "a", NEW), (1, "b", NEW), (2, "b", NEW)],
        "entries": [(1, "a", 1, NEW), (1, "b", 2, NEW), (2, "b", 2, NEW)],
    }
    assert rows(tmp_path / "new", "plain", "key", "value") == [(0, 1), (1, 2), (2, 3)]


def test_what_expires_equals_what_a_read_hides(source: Path, tmp_path: Path) -> None:
    for hours in (1, 2, 4):
        sp.arrow.SavepointWriter.from_existing(source).expire("op", "elements", f"{hours}h", NOW).write(tmp_path / str(hours))
        hidden = rows(source, "elements", "key", "list_value", ttl=f"{hours}h", as_of=NOW)
        assert rows(tmp_path / str(hours), "elements", "key", "list_value") == hidden


@FORMATS
def test_states_lose_and_get_time_to_live(source: Path, tmp_path: Path, chosen: dict[str, str]) -> None:
    without, again = tmp_path / "without", tmp_path / "again"
    writer = sp.arrow.SavepointWriter.from_existing(source)
    for state in PARTS:
        writer.with_ttl("op", state, False)
    writer.with_ttl("op", "plain").write(without, **chosen)
    assert {row["state_name"]: row["ttl"] for row in sp.arrow.states(without).to_pylist()} == {
        **dict.fromkeys(PARTS, False),
        "plain": True,
    }
    for state, names in PARTS.items():
        assert rows(without, state, "key", *names) == rows(source, state, "key", *names)
    assert all(time > NEW for _, _, time in rows(without, "plain", "key", "value", "_last_access"))
    writer = sp.arrow.SavepointWriter.from_existing(without)
    for state in PARTS:
        writer.with_ttl("op", state)
    writer.write(again, **chosen)
    assert all(row["ttl"] for row in sp.arrow.states(again).to_pylist())
    assert rows(again, "entries", "key", "map_key", "map_value") == rows(source, "entries", "key", "map_key", "map_value")


@FORMATS
def test_times_of_last_access_are_set(source: Path, tmp_path: Path, chosen: dict[str, str]) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(source)
    for state in PARTS:
        writer.touch("op", state, NOW)
    writer.write(tmp_path / "new", **chosen)
    for state, names in PARTS.items():
        assert rows(tmp_path / "new", state, "key", *names) == rows(source, state, "key", *names)
        assert {time for (time,) in rows(tmp_path / "new", state, "_last_access")} == {NOW}


def test_states_that_do_not_fit_are_refused(source: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(source)
    with pytest.raises(sp.OptionError, match=r"operator op, state 'plain' does not have time-to-live; add it with with_ttl"):
        writer.expire("op", "plain", "1h", NOW)
    with pytest.raises(sp.OptionError, match="state 'value' already has time-to-live"):
        writer.with_ttl("op", "value")
    with pytest.raises(sp.OptionError, match="state 'plain' does not have time-to-live"):
        writer.with_ttl("op", "plain", False)
    writer.expire("op", "value", "1h", NOW)
    with pytest.raises(sp.OptionError, match="state 'value' was changed before"):
        writer.touch("op", "value", NOW)
