"""SIGTERM while a savepoint is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from state_processor.backends.write.staging import exit_on_sigterm
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import end_of, join, line_of

WRITE = """
import sys, time
from state_processor.backends.write.staging import Staging
from state_processor.options.access import SnapshotAccess
from state_processor.write.tasks.local_engine import LocalEngine
from state_processor.write.build import SavepointBuild

def wait(*_):
    print("ready", flush=True)
    time.sleep(60)

Staging.commit = wait
SavepointBuild.from_existing(sys.argv[1], None, SnapshotAccess()).write_to(sys.argv[2], LocalEngine())
"""


def test_a_write_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "savepoint"
    with subprocess.Popen([sys.executable, "-c", WRITE, ORDERS_PATH, target], stdout=subprocess.PIPE, text=True) as writing:
        assert writing.stdout is not None
        assert line_of(writing.stdout) == "ready\n"
        assert any(name.endswith("-open") for name in os.listdir(target))
        writing.terminate()
        assert end_of(writing) == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == []


def test_the_jobs_that_run_are_cancelled() -> None:
    cancelled: list[str] = []
    with pytest.raises(SystemExit) as exited, exit_on_sigterm(lambda: cancelled.append("jobs")):
        signal.raise_signal(signal.SIGTERM)
    assert (exited.value.code, cancelled) == (143, ["jobs"])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_cancellation_that_fails_does_not_hide_the_signal() -> None:
    with pytest.raises(SystemExit), exit_on_sigterm(lambda: [][0]):
        signal.raise_signal(signal.SIGTERM)


def test_handlers_of_others_stay() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with exit_on_sigterm(lambda: pytest.fail("the signal is ignored")):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_threads_leave_signals_alone() -> None:
    found: list[object] = []

    def write() -> None:
        with exit_on_sigterm(lambda: None):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=write)
    thread.start()
    join(thread)
    assert found == [signal.SIG_DFL]
