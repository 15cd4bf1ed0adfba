"""Locks and cached properties that a fork does not leave locked."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from state_processor.support.locks import cached_property, process_lock
from tests.waiting import SECONDS, join

PACKAGES = ("serializers", "backends", "state_processor")


def is_free(lock: Any) -> bool:
    """Whether another thread can take a lock."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lock.acquire, timeout=0.1).result()


def test_a_lock_is_free_in_a_fork() -> None:
    lock = process_lock()
    with lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if is_free(lock) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not is_free(lock)


def test_the_garbage_collector_closes_what_needs_a_lock_that_its_thread_holds() -> None:
    closed = []

    class Resource:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            closed.append(lock.acquire(timeout=5))
            lock.release()

    lock: Any = process_lock()
    Resource()
    with lock:
        gc.collect()
    assert closed == [True]
    assert is_free(lock)


def test_two_objects_compute_at_the_same_time() -> None:
    """One of two objects of a class waits for the other, which a lock for the class would prevent."""
    barrier = threading.Barrier(2, timeout=SECONDS)

    class Owner:
        @cached_property
        def value(self) -> int:
            return barrier.wait()

    owners = [Owner(), Owner()]
    threads = [threading.Thread(target=lambda o=owner: o.value) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert sorted(owner.value for owner in owners) == [0, 1]


def test_a_fork_waits_for_the_imports_of_other_threads(tmp_path: Path) -> None:
    """The module is imported in the child, too: its lock is not left to a thread that the child lacks."""
    (tmp_path / "slowly_imported.py").write_text("import time\ntime.sleep(0.5)\nready = 1\n")
    program = (
        "import os, sys, threading, time\n"
        "import state_processor.support.locks\n"
        "thread = threading.Thread(target=__import__, args=('slowly_imported',))\n"
        "thread.start()\n"
        "while 'slowly_imported' not in sys.modules:\n"
        "    time.sleep(0.01)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    import slowly_imported\n"
        "    os._exit(slowly_imported.ready)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    place = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", program], env=place, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.stdout.strip() == "1", run.stderr


@pytest.mark.parametrize(
    "expression",
    ["numba.core.compiler_lock.global_compiler_lock", "llvmlite.binding.ffi.lib._lock", "tempfile._once_lock"],
)
def test_a_fork_waits_for_libraries_in_other_threads(expression: str) -> None:
    """A lock that a library takes is free in the child, and usable in the parent afterwards."""
    program = (
        "import os, threading, time\n"
        "import tempfile, numba.core.compiler_lock, llvmlite.binding.ffi\n"
        "import state_processor.support.locks\n"
        f"lock = {expression}\n"
        "started = threading.Event()\n"
        "free = getattr(lock, '_lock', lock)\n"
        "def use():\n"
        "    with lock:\n"
        "        started.set()\n"
        "        time.sleep(0.5)\n"
        "thread = threading.Thread(target=use)\n"
        "thread.start()\n"
        "started.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(7 if free.acquire(timeout=5) else 8)\n"
        "thread = threading.Thread(target=lambda: print(free.acquire(timeout=5)))\n"
        "thread.start()\n"
        "thread.join()\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.stdout.split() == ["True", "7"], run.stderr


def test_no_other_locks_are_taken() -> None:
    """Code takes locks of this module, or resets its own after a fork."""
    pattern = re.compile(r"functools import .*cached_property|(threading\.|= )R?Lock\(\)|threading\.Condition")
    found = {
        str(path): pattern.findall(path.read_text())
        for package in PACKAGES
        for path in Path(package).rglob("*.py")
        if pattern.search(path.read_text()) and path.name != "locks.py"
    }
    assert found == {}
