"""Writes without Spark in child processes that are killed."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.faults.storage import Fault, Request, faults, no_fault
from tests.faults.writes import Write
from tests.waiting import status_of


def run_killed_after(write: Write, seconds: float, root: Path | None = None) -> bool:
    """Run a write in a child that is killed after some time; True if it was killed, False if it was complete before.

    Parameters
    ----------
    write
        The write.
    seconds
        The time.
    root
        Directory of the scheme ``faulty``, for writes to it.
    """
    pid = _fork(write, no_fault, root)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    return _was_killed(pid)


def run_killed_at(write: Write, number: int, done: bool, root: Path) -> bool:
    """Run a write in a child that kills itself before or after a request to storage; return False without such a request."""

    def fault(request: Request) -> None:
        if request.number == number and request.done == done:
            os.kill(os.getpid(), signal.SIGKILL)

    return _was_killed(_fork(write, fault, root))


def _fork(write: Write, fault: Fault, root: Path | None) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _with_faults(write.run, fault, root)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _with_faults(run: Callable[[], None], fault: Fault, root: Path | None) -> None:
    if root is None:
        run()
        return
    with faults(fault, root):
        run()


def _was_killed(pid: int) -> bool:
    status = status_of(pid)
    assert status in (0, signal.SIGKILL), f"a write ended with the status {status}"
    return status == signal.SIGKILL
