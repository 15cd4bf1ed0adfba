"""The lock of the cache of kernels: one process compiles; other processes with the same cache wait and load its code."""

from __future__ import annotations

import fcntl
import os
import time
from logging import getLogger
from pathlib import Path
from typing import Final

_NAME: Final = "lock"
_MOST_SECONDS: Final = 300.0
"""Limit of the wait for another process, which may be stopped; then this process compiles too."""
_PAUSE: Final = 0.02
_LOG: Final = getLogger("state_processor")


class OneProcess:
    """A block that may take a lock. The lock is released when the outermost block ends.

    One thread of a process at a time is in such blocks: callers hold Numba's lock of the compiler.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._file: int | None = None
        os.register_at_fork(after_in_child=self._forget)

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *problem: object) -> None:
        self._depth -= 1
        if not self._depth and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # closing would leave it to a process that was forked in between
            os.close(self._file)
            self._file = None

    def acquire(self, folder: Path) -> bool:
        """Wait for the lock of a folder. Return False if this process has a lock already, or the folder has no locks."""
        if self._file is not None or not self._depth:
            return False
        try:
            self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._wait(self._file)
        except OSError:  # a file system without locks: each process compiles
            self._close()
            return False
        return True

    def _wait(self, file: int) -> None:
        start = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() - start > _MOST_SECONDS:
                    raise
            else:
                return
            if time.monotonic() - start < _PAUSE:
                _LOG.info("waiting for another process, which compiles kernels")
            time.sleep(_PAUSE)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _forget(self) -> None:
        self._close()
        self._depth = 0


one_process: Final = OneProcess()
"""The lock of this process."""
