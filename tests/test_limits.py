"""Tests that hang: each fails at its limit, and the run goes on; a run that takes too long ends, and names what runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = """
[pytest]
timeout = 10
timeout_method = signal
"""
CONFTEST = """
from tests import limits
from tests.distribution import ModuleScheduling

def pytest_configure(config):
    limits.configure(config, 300, grace=30)

def pytest_xdist_make_scheduler(config, log):
    return ModuleScheduling(config, log)
"""
STOPPING = """
from threading import Timer

class Stopping:
    def __init__(self, limit):
        self.limit = limit

    def pytest_runtest_logstart(self, nodeid):
        if "that_sleeps" in nodeid:
            Timer(1, self.limit.stop).start()

def pytest_sessionstart(session):
    plugins = session.config.pluginmanager
    if not hasattr(session.config, "workerinput"):
        plugins.register(Stopping(plugins.get_plugin("limit of the run")))
"""
HANGING = """
import signal
import time

def test_first(): pass

def test_that_sleeps():
    time.sleep(600)

def test_that_no_signal_ends():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)

def test_last(): pass
"""


def run(folder: Path, modules: int, conftest: str, *options: str) -> str:
    """Run modules with tests that hang in two processes, and return what is printed."""
    (folder / "pytest.ini").write_text(CONFIGURATION)
    (folder / "conftest.py").write_text(conftest)
    for number in range(modules):
        (folder / f"test_{number}.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "-rA", *options, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    plugins = ["-p", "xdist", "-p", "pytest_timeout"]
    done = subprocess.run([*command, *plugins], env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode
    return done.stdout + done.stderr


def test_tests_that_hang_fail_and_the_run_goes_on(tmp_path: Path) -> None:
    printed = run(tmp_path, 2, CONFTEST)
    assert printed.count(">       time.sleep(600)\nE       Failed: Timeout (>10.0s) from pytest-timeout") == 2, printed
    assert printed.count("Timeout (0:00:40)!") == 2, printed
    for number in range(2):
        assert f"crashed while running 'test_{number}.py::test_that_no_signal_ends'" in printed
    assert "4 failed, 4 passed" in printed, printed


def test_a_run_that_takes_too_long_ends_and_names_its_tests(tmp_path: Path) -> None:
    printed = run(tmp_path, 1, CONFTEST + STOPPING, "-o", "timeout=500")
    assert "The run has not ended after 300 s: it is stopped. Tests that are running:\n" in printed
    assert " s  test_0.py::test_that_sleeps\n" in printed
    assert "in test_that_sleeps" in printed  # the stack of its process
    assert "1 passed" in printed
