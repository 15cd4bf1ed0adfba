"""Checkpoints of a job in their order, also of a job that began again in its directory."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.changes.checkpoint_changes import Checkpoint, CheckpointSeries
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from state_processor.options.access import SnapshotAccess
from tests.old_checkpoints import aged, job_with_checkpoints
from tests.state_processor.written_checkpoints import JOB, remove, take

DAYS = 24 * 3600


def set_time(checkpoint: Path, days: float) -> None:
    then = time.time() - days * DAYS
    os.utime(checkpoint / "_metadata", (then, then))


def test_a_job_that_began_again_is_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The checkpoint of the earlier run has the higher number."""
    job = tmp_path / JOB
    set_time(take(job, 900, {"amelia": 1}), 30)
    series = CheckpointSeries(job, SnapshotAccess())
    old = series.newest()
    set_time(take(job, 5, {"amelia": 2}, start=job / "chk-900"), 0)
    with caplog.at_level(logging.WARNING, "state_processor"):
        assert [c.checkpoint_id for c in series.whole()] == [900, 5]
        assert [c.checkpoint_id for c in series.after(old)] == [5]
        remove(job / "chk-900")
        assert [c.checkpoint_id for c in series.after(old)] == [5]
    (message,) = caplog.messages
    assert message.startswith("checkpoint 5 in ")
    assert "is the newest by its time, though checkpoint 900 in " in message


def test_all_choose_the_same_newest_checkpoint(tmp_path: Path) -> None:
    """The stream, a table, the recovery of a job, its history and the removal of old checkpoints."""
    job = tmp_path / JOB
    set_time(take(job, 900, {"amelia": 1}), 30)
    table = tmp_path / "totals.parquet"
    assert sp.sync(job, "orders", "total", table).checkpoint_id == 900
    newest = take(job, 5, {"amelia": 2}, start=job / "chk-900")
    set_time(newest, 2)
    marked = [mark_as_checkpoint(path) for path in job.glob("chk-*/_metadata")]
    assert len(marked) == 2
    commit = sp.sync(job, "orders", "total", table)
    assert commit is not None
    assert commit.checkpoint_id == 5
    assert CheckpointSeries(job, SnapshotAccess()).newest().path == str(newest)
    assert [s.path for s in sp.list_snapshots(job) if s.recovers] == [str(newest)]
    assert sp.list_snapshots(job)[0].path == str(newest)
    assert sp.history(job).column("path").to_pylist()[-1] == str(newest)
    assert sp.retain(job, keep=1).snapshots == (str(job / "chk-900"),)


def mark_as_checkpoint(file: Path) -> None:
    """Give a savepoint that the library wrote the properties of a checkpoint."""
    times = (file.stat().st_atime, file.stat().st_mtime)
    file.write_bytes(write_metadata(replace(read_metadata(file.read_bytes()), properties=None)))
    os.utime(file, times)


def test_a_job_that_began_again_just_now_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = tmp_path / JOB
    take(job, 3, {"amelia": 1})
    old = take(job, 40, {"amelia": 2})
    series = CheckpointSeries(job, SnapshotAccess())
    with caplog.at_level(logging.WARNING, "state_processor"):
        assert [c.checkpoint_id for c in series.whole()] == [3, 40]
        assert caplog.messages == []
        new = take(job, 4, {"amelia": 3}) / "_metadata"
        os.utime(new, (os.stat(old / "_metadata").st_mtime + 60,) * 2)
        assert [c.checkpoint_id for c in series.whole()] == [3, 4, 40]
        series.whole()
        os.utime(new, (os.stat(old / "_metadata").st_mtime + 660,) * 2)
        assert [c.checkpoint_id for c in series.whole()] == [3, 40, 4]
    (close, began_again) = caplog.messages
    assert close.startswith("checkpoint 40 in ")
    assert "was written later: their times are too close to tell" in close
    assert "checkpoint 4 in " in close
    assert began_again.endswith("has a higher number: the job began again")


def test_numbers_decide_among_copies_that_share_files(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    for days, number in enumerate((4, 2, 3), 5):
        aged(job / f"chk-{number}", 20 - days)
    assert [c.checkpoint_id for c in CheckpointSeries(tmp_path, SnapshotAccess()).whole()] == [2, 3, 4]


def test_files_of_a_checkpoint_that_was_not_read_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that can't be opened in one look shares files in the next one."""
    job = job_with_checkpoints(tmp_path)
    for days, number in enumerate((4, 2, 3), 5):
        aged(job / f"chk-{number}", 20 - days)
    series = CheckpointSeries(tmp_path, SnapshotAccess())
    with monkeypatch.context() as unreadable:
        unreadable.setattr(Checkpoint, "open", lambda checkpoint, access: None)
        assert series.whole() != []
    assert [c.checkpoint_id for c in series.whole()] == [2, 3, 4]
