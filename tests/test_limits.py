"""Tests that hang: each fails at its limit, and the run goes on; a run that takes too long ends, and names what runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = """
[pytest]
timeout = 1.5
timeout_method = signal
faulthandler_timeout = 3
faulthandler_exit_on_timeout = true
"""
CONFTEST = """
from tests import limits
from tests.distribution import ModuleScheduling

def pytest_configure(config):
    limits.configure(config, SECONDS)

def pytest_xdist_make_scheduler(config, log):
    return ModuleScheduling(config, log)
"""
HANGING = """
import signal
import time

def test_first(): pass

def test_that_sleeps(): time.sleep(600)

def test_that_no_signal_ends():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)

def test_last(): pass
"""


def run(folder: Path, modules: int, seconds: int, *options: str) -> str:
    """Run modules with tests that hang in two processes, and return what is printed."""
    (folder / "pytest.ini").write_text(CONFIGURATION)
    (folder / "conftest.py").write_text(CONFTEST.replace("SECONDS", str(seconds)))
    for number in range(modules):
        (folder / f"test_{number}.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "-rA", *options, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    plugins = ["-p", "xdist", "-p", "pytest_timeout"]
    done = subprocess.run([*command, *plugins], env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode
    return done.stdout + done.stderr


def test_tests_that_hang_fail_and_the_run_goes_on(tmp_path: Path) -> None:
    printed = run(tmp_path, 3, 100)
    assert printed.count("time.sleep(600)\nE   Failed: Timeout (>1.5s) from pytest-timeout") == 3
    assert printed.count("Timeout (0:00:03)!") == 3
    for number in range(3):
        assert f"crashed while running 'test_{number}.py::test_that_no_signal_ends'" in printed
    assert "6 failed, 6 passed" in printed


def test_a_run_that_takes_too_long_ends_and_names_its_tests(tmp_path: Path) -> None:
    printed = run(tmp_path, 1, 3, "-o", "timeout=500", "-o", "faulthandler_timeout=500")
    assert "The run has not ended after 3 s: it is stopped. Tests that are running:\n" in printed
    assert " s  test_0.py::test_that_sleeps\n" in printed
    assert "in test_that_sleeps" in printed  # the stack of its process
    assert "1 passed" in printed
