"""A run of all tests ends by itself: the limit of the whole run, and the tests that ran when it was reached.

A single test has two limits, in pyproject.toml. At the first, ``pytest-timeout`` makes the test fail. If this does not end the
test, ``faulthandler`` ends the process at the second, and another process goes on with the next test (:mod:`tests.distribution`).
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final

import pytest

_GRACE_SECONDS: Final = 90
"""Time for the orderly end of a run, with a report of the failures. Then its processes are killed."""
_STACKS_SECONDS: Final = 3
"""Time for processes to write what their threads do."""


class RunLimit:
    """Plugin of the process that reports: it ends a run that takes too long.

    Parameters
    ----------
    seconds
        The limit.
    error_file
        A copy of the file descriptor of standard error, which pytest does not capture.
    """

    def __init__(self, seconds: float, error_file: int) -> None:
        self._seconds = seconds
        self._errors = error_file
        self._running: dict[str, float] = {}
        self._workers: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="limit of the run", daemon=True)

    def pytest_sessionstart(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note a test that begins, in this or in another process."""
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note the end of a test."""
        self._running.pop(nodeid, None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Note a process of xdist."""
        self._workers[node.gateway.id] = node.gateway._rinfo().pid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Forget a process of xdist that has ended."""
        self._workers.pop(node.gateway.id, None)

    def pytest_unconfigure(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self) -> None:
        if self._ended.wait(self._seconds):
            return
        running = [f"  {time.monotonic() - since:.0f} s  {name}" for name, since in self._running.copy().items()]
        self._say(f"\nThe run has not ended after {self._seconds:.0f} s: it is stopped. Tests that are running:\n")
        self._say("\n".join(running or ["  none"]) + "\n")
        for pid in (os.getpid(), *self._workers.values()):
            self._say(f"\nThreads of process {pid}:\n")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
            time.sleep(_STACKS_SECONDS)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if not self._ended.wait(_GRACE_SECONDS):
            self._say("The run does not end: its processes are killed.\n")
            for pid in self._workers.values():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os._exit(1)

    def _say(self, text: str) -> None:
        os.write(self._errors, text.encode())


def configure(config: pytest.Config, seconds: float) -> None:
    """Watch a run in the process that reports; in each process, ``SIGUSR1`` prints what its threads do.

    Parameters
    ----------
    config
        pytest's configuration.
    seconds
        The limit of the run.
    """
    error_file = os.dup((sys.__stderr__ or sys.stderr).fileno())
    faulthandler.register(signal.SIGUSR1, error_file, all_threads=True)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunLimit(seconds, error_file), "limit of the run")
