"""A row for each key does not have states of windows: a read of all keyed states names them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.backends.read.state_access import StatesToRead
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.cli import main
from state_processor.serializers.runtime.namespaces import TimeWindowSerializer
from tests.backends import state_files as f
from tests.state_processor.samples import WINDOWS_PATH

HEADER = f.keyed_header(f.LONG, [f.keyed("total", f.LONG), f.keyed("per-window", f.LONG, namespace=TimeWindowSerializer())])


def operator(states: tuple[int, ...] = (0, 1)) -> StoredOperator:
    found = f.operator(f.canonical(HEADER, (0, 127), {}).handle())
    return StoredOperator(f.snapshot(found), found)


def test_states_of_windows_are_named() -> None:
    read = StatesToRead.find(operator())
    assert (tuple(read.variants), read.left_out) == (("total",), ("per-window",))
    assert "does not have the states of windows and other namespaces: 'per-window'. Read them by name" in read.note
    assert not StatesToRead.find(operator(), "total").note
    assert not StatesToRead.find(operator(), "per-window").note


NOTE = (
    "operator 'session-process': a row for each key does not have the states of windows and other namespaces: 'window-contents'"
)


@pytest.fixture
def noted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("state_processor"), "propagate", True)
    caplog.set_level(logging.WARNING, "state_processor")
    return caplog


def test_reads_without_spark(noted: pytest.LogCaptureFixture) -> None:
    sp.arrow.read_state(WINDOWS_PATH, "session-process").read_all()
    assert NOTE in noted.text
    noted.clear()
    sp.arrow.read_state(WINDOWS_PATH, "session-process", "window-contents").read_all()
    sp.arrow.read_timers(WINDOWS_PATH, "session-process").read_all()
    assert "a row for each key" not in noted.text


@pytest.mark.parametrize("command", ["show", "export", "count", "sql"])
def test_commands(command: str, noted: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    arguments = {
        "export": ["--uid", "session-process", "-o", str(tmp_path / "rows.json")],
        "sql": ['SELECT * FROM "session-process"'],
    }.get(command, ["--uid", "session-process"])
    assert main([command, WINDOWS_PATH, *arguments]) == 0
    assert NOTE in noted.text


def test_reads_of_spark(noted: pytest.LogCaptureFixture, spark: SparkSession) -> None:
    sp.SavepointReader.read(spark, WINDOWS_PATH).read_keyed_state("session-process").collect()
    assert NOTE in noted.text


def test_frames(noted: pytest.LogCaptureFixture) -> None:
    sp.polars.scan_state(WINDOWS_PATH, "session-process").collect()
    assert NOTE in noted.text


def test_look_ups_sizes_and_differences_have_them() -> None:
    (key,) = {
        r["key"] for r in sp.arrow.read_state(WINDOWS_PATH, "session-process", "window-contents").read_all().to_pylist()[:1]
    }
    assert sp.arrow.lookup(WINDOWS_PATH, "session-process", key).states["window-contents"].num_rows
    assert "window-contents" in sp.arrow.size_report(WINDOWS_PATH, "session-process")["state_name"].to_pylist()
    summary = sp.arrow.diff_summary(WINDOWS_PATH, WINDOWS_PATH, "session-process")
    assert "window-contents" in summary["state_name"].to_pylist()
