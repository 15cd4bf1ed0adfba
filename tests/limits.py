"""A run of all tests ends by itself: the limit of the whole run, and the tests that ran when it was reached.

A single test has a limit too, ``timeout`` in pyproject.toml: ``pytest-timeout`` makes the test fail by a signal. If this does not
end the test, its process ends a little later, and another process goes on with the next test (:mod:`tests.distribution`).
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


class TestLimit:
    """Plugin that ends a process whose test no signal ends. It prints what the threads do.

    Parameters
    ----------
    seconds
        The limit, after which a signal makes the test fail; 0 for none.
    error_file
        A copy of the file descriptor of standard error, which pytest does not capture.
    grace
        Time in seconds for the end of a test that has failed at the limit.
    """

    __test__ = False

    def __init__(self, seconds: float, error_file: int, grace: float) -> None:
        self._seconds = seconds
        self._grace = grace
        self._errors = error_file
        self._begun = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        """Watch a test with its fixtures. Short tests share a limit: a limit is a thread, which takes as long as such a test."""
        if time.monotonic() - self._begun > self._grace / 4:
            self._end_after(self._seconds + self._grace)

    def pytest_sessionfinish(self) -> None:
        """Stop watching."""
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Watch the end of the fixtures of a test that has failed; pytest has cancelled the limit for the sake of debuggers."""
        if isinstance(node, pytest.Item):
            self._end_after(self._grace)
            self._begun = 0.0  # the next test has a limit of its own

    def _end_after(self, seconds: float) -> None:
        if self._seconds:
            self._begun = time.monotonic()
            faulthandler.dump_traceback_later(seconds, file=self._errors, exit=True)


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
        if not self._ended.wait(self._seconds):
            self.stop()

    def stop(self) -> None:
        """Tell which tests are running and what threads do, and stop the run."""
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


def configure(config: pytest.Config, seconds: float, grace: float = 90) -> None:
    """Watch a run in the process that reports, and tests in each process. ``SIGUSR1`` prints what the threads of a process do.

    Parameters
    ----------
    config
        pytest's configuration.
    seconds
        The limit of the run.
    grace
        See :class:`TestLimit`.
    """
    error_file = os.dup((sys.__stderr__ or sys.stderr).fileno())
    faulthandler.register(signal.SIGUSR1, error_file, all_threads=True)
    if not config.getoption("usepdb"):
        config.pluginmanager.register(TestLimit(float(config.getini("timeout") or 0), error_file, grace), "limit of a test")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunLimit(seconds, error_file), "limit of the run")
