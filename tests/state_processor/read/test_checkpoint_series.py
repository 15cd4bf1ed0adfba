"""Checkpoints of a job in their order: what is told about a job that began again in its directory."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from state_processor.options.access import SnapshotAccess
from state_processor.read.checkpoint_series import CheckpointSeries
from tests.state_processor.written_checkpoints import JOB, take


def test_a_job_that_began_again_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
    (message,) = caplog.messages
    assert message.startswith("checkpoint 4 in ")
    assert "was written after checkpoint 40 in " in message
