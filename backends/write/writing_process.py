"""Processes that write a savepoint: their identities, and their exit on SIGTERM.

The identity tells whether the process that left a file still runs. Schedulers end drivers by SIGTERM. A process that ends at once
leaves its files. The next write to the directory removes them, but only on the same machine; nothing is written again in a
container that has ended. So SIGTERM becomes an exit, which removes the files of the write.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STARTED: Final = 19

NO_PROCESS: Final = b'{"machine": null}'
"""The identity of a process that is gone."""


def identity_of(pid: int) -> bytes:
    """Return the identity of a process of this machine, to be kept in a file."""
    return json.dumps({"machine": _machine(), "pid": pid, "started": _start_time(pid)}).encode()


def this_process() -> bytes:
    """Return the identity of this process."""
    return identity_of(os.getpid())


def is_gone(identity: bytes | memoryview) -> bool:
    """Return True if a process has certainly ended: it ran on this machine, and its number is free or another process's."""
    if bytes(identity) == NO_PROCESS:
        return True
    try:
        owner = json.loads(bytes(identity))
        machine, pid, started = owner["machine"], int(owner["pid"]), owner["started"]
    except (ValueError, TypeError, KeyError):
        return False  # written by hand, or not yet complete
    if machine != _machine() or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return (started is not None and _start_time(pid) != started) or _has_ended(pid)


def _machine() -> str:
    """Return an identity of this machine, since it was started, and of this container."""
    try:
        return f"{socket.gethostname()} {_BOOT_ID.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _start_time(pid: int) -> str | None:
    """Return when a process started, which distinguishes it from earlier ones with its number; ``None`` if unknown."""
    fields = _stat(pid)
    return fields[_STARTED] if len(fields) > _STARTED else None


def _has_ended(pid: int) -> bool:
    """Return True if a process and all of its threads have ended, and its parent has not asked for its exit code yet."""
    try:
        return _stat(pid)[:1] == ["Z"] and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the name; empty if the file does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@contextmanager
def exit_on_sigterm(cancel: Callable[[], None]) -> Iterator[None]:
    """Raise ``SystemExit`` in the block when SIGTERM comes; a second one ends the process at once.

    Handlers that somebody else has set stay, and so does the behavior of blocks in other threads than the first, which get no
    signals.

    ``cancel``: ends the jobs that the block waits for.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        try:
            cancel()
        finally:
            raise SystemExit(128 + number)

    is_free = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_free:
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
