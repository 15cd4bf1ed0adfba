"""Scratch space: local directories for the files of stores that a process writes.

Each user has one directory on each host::

    state-processor-UID/
        lock                 locked while directories of processes are made or removed
        run-XXXXXXXX/        files of one process; ``alive`` in it is locked while the process runs
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from state_processor.support.errors import OptionError, ScratchSpaceError
from state_processor.support.locks import process_lock

try:
    import fcntl
except ImportError:  # Windows: assume one process per machine
    fcntl = None  # type: ignore[assignment]

DIRECTORY_VARIABLE: Final = "STATE_PROCESSOR_SCRATCH"

_LOCK: Final = "lock"
"""This file also marks the directory as this library's."""
_ALIVE: Final = "alive"
_RUN: Final = re.compile(r"run-[a-z0-9_]+")
_WHAT_TO_DO: Final = f"Set {DIRECTORY_VARIABLE} to a directory on a larger disk"
_OWN_DIRECTORY: Final = f"Remove it, or set {DIRECTORY_VARIABLE} to a directory of your own"


class Scratch:
    """The scratch space of this process.

    ``directory``: the directory of the scratch space; by default ``STATE_PROCESSOR_SCRATCH`` or the system's directory for
    temporary files.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        base = Path(directory or os.environ.get(DIRECTORY_VARIABLE) or tempfile.gettempdir())
        self.root = base.expanduser() / f"state-processor-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        self._pid = os.getpid()
        try:
            self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.root.mkdir(mode=0o700)
            self._check_root()
            with self._locked():
                self._remove_stale()
                self._run = Path(tempfile.mkdtemp(prefix="run-", dir=self.root))
                self._alive = _take_lock(self._run / _ALIVE)
        except OSError as e:
            raise self._failure(e) from e
        atexit.register(self.close)

    def directory(self) -> Path:
        """Create an empty directory for this process."""
        try:
            return Path(tempfile.mkdtemp(prefix="store-", dir=self._run))
        except OSError as e:
            raise self._failure(e) from e

    def close(self) -> None:
        """Remove the files of this process."""
        if os.getpid() != self._pid or self._alive is None:
            return  # the files belong to the parent process
        atexit.unregister(self.close)
        with contextlib.suppress(OSError), self._locked():
            self._alive.close()
            self._alive = None
            shutil.rmtree(self._run, ignore_errors=True)

    def _remove_stale(self) -> None:
        """Remove the files of processes that have ended."""
        for run in self.root.iterdir():
            if not _RUN.fullmatch(run.name) or run.is_symlink() or not (run / _ALIVE).is_file():
                continue  # a file of something else
            lock = _take_lock(run / _ALIVE, wait=False)
            if lock is not None:
                shutil.rmtree(run, ignore_errors=True)
                lock.close()

    def _check_root(self) -> None:
        """Refuse a directory that is a link, that other users can access, or that contains other files."""
        if not hasattr(os, "getuid"):
            return
        try:
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise OptionError(f"{self.root} is a link or a file, not a directory. {_OWN_DIRECTORY}") from None
        try:
            status = os.fstat(descriptor)
            names = os.listdir(descriptor)
        finally:
            os.close(descriptor)
        if status.st_uid != os.getuid():
            raise OptionError(f"{self.root} belongs to another user. {_OWN_DIRECTORY}")
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            raise OptionError(f"{self.root} has mode {mode:04o}, so other users can access it; expected 0700. {_OWN_DIRECTORY}")
        if names and _LOCK not in names:
            raise OptionError(f"{self.root} contains files that are not scratch files, such as {min(names)}. {_OWN_DIRECTORY}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = _take_lock(self.root / _LOCK)
        try:
            yield
        finally:
            if lock is not None:
                lock.close()

    def _failure(self, error: OSError) -> ScratchSpaceError:
        problem = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"cannot be used: {error}"
        return ScratchSpaceError(f"scratch space {self.root}: {problem}. {_WHAT_TO_DO}")


_spaces: dict[str, Scratch] = {}
_spaces_mutex = process_lock()


def _reset_in_fork() -> None:
    """Forget the parent's directories."""
    _spaces.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_fork)


def scratch_space(directory: str | None = None) -> Scratch:
    """Return the scratch space of this process in a directory; by default the directory from the environment."""
    key = directory or os.environ.get(DIRECTORY_VARIABLE) or ""
    with _spaces_mutex:
        if key not in _spaces:
            _spaces[key] = Scratch(directory)
        return _spaces[key]


def _take_lock(path: Path, *, wait: bool = True) -> IO[Any] | None:
    """Lock a file until the process ends, or earlier; return ``None`` if another process holds the lock."""
    file = open(path, "ab")  # noqa: SIM115 - it stays open as long as the lock is held
    if fcntl is None:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    return file
