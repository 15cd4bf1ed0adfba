"""Writes without Spark in child processes that are killed."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.afresh import run_afresh
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


@dataclass(frozen=True)
class KillAt:
    """Fault that kills its own process before or after a request to storage."""

    number: int
    done: bool

    def __call__(self, request: Request) -> None:
        """Kill the process at the request."""
        if request.number == self.number and request.done == self.done:
            os.kill(os.getpid(), signal.SIGKILL)


def run_killed_at(write: Write, number: int, done: bool, root: Path) -> bool:
    """Run a write in a child that kills itself before or after a request to storage; return False without such a request."""
    return _was_killed(_fork(write, KillAt(number, done), root))


def run_killed_at_afresh(write: Write, number: int, done: bool, root: Path) -> bool:
    """Do the same in a child of a process without threads: a forked child can wait for ever for threads of its parent."""
    code = run_afresh(_with_faults, write.run, KillAt(number, done), root)
    assert code in (0, -signal.SIGKILL), f"a write ended with the exit code {code}"
    return code != 0


def run_and_say(write: Write, number: Path) -> None:
    """Run a write in this process, and write the number of the process into a file before."""
    number.write_text(str(os.getpid()))
    write.run()


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
