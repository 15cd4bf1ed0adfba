"""Waits that end: for a condition, a process, a line of its output, a thread. They fail with what they waited for."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import IO, Any, Final

SECONDS: Final = 240
"""What is sound takes less, on any machine. It is less than the limit of a test, whose message knows less."""
_SHORTEST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.05


def wait_until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds."""
    deadline, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after {seconds:.0f} s"
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def end_of(process: subprocess.Popen[Any], seconds: float = SECONDS) -> int:
    """Wait for the end of a process and return its exit code; a process that takes too long is killed."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def end_soon(process: subprocess.Popen[Any], seconds: float = 60) -> None:
    """Wait for the end of a process whose result is not needed any more; kill it if it takes longer."""
    with suppress(subprocess.TimeoutExpired):
        end_of(process, seconds)


def status_of(pid: int, seconds: float = SECONDS) -> int:
    """Wait for the end of a forked child and return its status; a child that takes too long is killed."""
    try:
        wait_until(
            lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), f"the end of the process {pid}", seconds
        )
    except BaseException:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        raise
    return os.waitpid(pid, 0)[1]


def line_of(output: IO[str], seconds: float = SECONDS) -> str:
    """Wait for a line of a process, which writes whole lines and only when it is asked; empty at the end of its output."""
    assert select.select([output], [], [], seconds)[0], f"no line after {seconds:.0f} s"
    return output.readline()


def join(thread: Thread, seconds: float = SECONDS) -> None:
    """Wait for the end of a thread."""
    thread.join(seconds)
    assert not thread.is_alive(), f"{thread.name} has not ended after {seconds:.0f} s"
