"""The process in which RocksDB runs: started at the first use, one for each process that reads, and again when it has crashed."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats import rocksdb_server
from state_processor.backends.formats.rocksdb_server import LENGTH
from state_processor.serializers.errors import CorruptSnapshotError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SOURCE: Final = inspect.getsource(rocksdb_server)
_CPU_SECONDS: Final = 15
"""Limit of CPU time of a request: opening a store, or reading a few megabytes. Waiting for files does not count."""
_PIPE_BYTES: Final = 1 << 20
"""Size of the pipe that entries come through: the most that Linux allows without privileges. Processes switch less often."""
_ALLOCATION: Final = {"MALLOC_TRIM_THRESHOLD_": str(16 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}
"""Let the C library of Linux keep the memory of a chunk for the next one in place of returning it to the system."""
_ENDS: Final = {
    -signal.SIGXCPU: "has computed for more than {seconds} seconds",
    -signal.SIGSEGV: "has crashed with a segmentation fault",
    -signal.SIGKILL: "was killed; the system may be out of memory",
}


class ProcessEnded(Exception):
    """The process has ended in the middle of a request."""

    def __init__(self, status: int) -> None:
        super().__init__(_ENDS.get(status, "has crashed with status {status}").format(seconds=_CPU_SECONDS, status=status))
        self.status = status


class RocksDbError(Exception):
    """RocksDB reports a problem."""


class RocksDbProcess:
    """A process that runs :mod:`~state_processor.backends.formats.rocksdb_server`. Threads take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        # -P: modules are not looked for in the working directory, where files of a snapshot may be
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SOURCE, str(_CPU_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**_ALLOCATION, **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            start_new_session=True,  # an interrupt of the reader is none of this process
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin.fileno(), self._process.stdout.fileno()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # all pipes of the user have as much as they may
                fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def call(self, **request: Any) -> tuple[dict[str, Any], npt.NDArray[np.uint8]]:
        """Return an answer: its fields, and the entries behind it.

        Raises
        ------
        RocksDbError
            RocksDB reports a problem.
        ProcessEnded
            The process has crashed, or computes without end.
        """
        text = json.dumps(request).encode()
        with self._turn:
            try:
                self._send(LENGTH.pack(len(text)) + text)
                answer = json.loads(bytes(self._receive(LENGTH.unpack(self._receive(LENGTH.size).data)[0])))
                data = self._receive(answer["bytes"])
            except (BrokenPipeError, EOFError):
                raise ProcessEnded(self._process.wait()) from None
            except BaseException:
                self.stop()  # an answer that nobody has read would be taken for the next one
                raise
        if "error" in answer:
            raise RocksDbError(answer["error"])
        return answer, data

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def is_running(self) -> bool:
        """Return True if the process has not ended."""
        return self._process.poll() is None

    def forget(self) -> None:
        """Leave the process to the parent of this one, which is a fork."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.returncode = 0

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._requests, view) :]

    def _receive(self, size: int) -> npt.NDArray[np.uint8]:
        data = np.empty(size, dtype=np.uint8)
        filled = 0
        while filled < size:
            got = os.readv(self._answers, [data.data[filled:]])
            if not got:
                raise EOFError
            filled += got
        return data


_current: RocksDbProcess | None = None
_lock = threading.Lock()
_done: deque[str] = deque()
"""Directories of stores that nobody reads any more."""


def rocksdb_call(place: str, **request: Any) -> tuple[dict[str, Any], npt.NDArray[np.uint8]]:
    """Return RocksDB's answer to a request; see :mod:`~state_processor.backends.formats.rocksdb_server`.

    A process that ended is started again once, since another store may have been its end.

    Raises
    ------
    RocksDbError
        RocksDB reports a problem.
    CorruptSnapshotError
        RocksDB crashes or does not come to an end; the message begins with ``place``.
    """
    for is_last in (False, True):
        process = _running()
        try:
            _close_unused(process)
            return process.call(**request)
        except ProcessEnded as ended:
            if is_last or ended.status == -signal.SIGXCPU:
                raise CorruptSnapshotError(
                    f"{place}: RocksDB {ended}: a file of the snapshot is damaged, or was made to do that"
                ) from None
    raise AssertionError


def _close_unused(process: RocksDbProcess) -> None:
    while True:
        try:
            directory = _done.popleft()  # other threads take from it, too
        except IndexError:
            return
        process.call(do="close", directory=directory)


def close_later(directory: str) -> None:
    """Have a store closed before the next request. A finalizer may call this at any time, in the middle of a request too."""
    _done.append(directory)


def _running() -> RocksDbProcess:
    global _current
    with _lock:
        if _current is None or not _current.is_running():
            _current = RocksDbProcess()
        return _current


def _forget_in_fork() -> None:
    global _current, _lock
    _lock = threading.Lock()
    _done.clear()
    if _current is not None:
        _current.forget()
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_fork)
