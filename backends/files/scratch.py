"""Scratch space: a local directory where RocksDB finds the files of a store together, with the names that Flink gave them.

Each user has one directory on each host::

    state-processor-UID/
        lock                 locked while files are fetched, removed or counted
        files/               copies of remote files and slices, shared by all processes, each copied once
        making-NAME          locked while one process makes a copy
        run-XXXXXXXX/        files of one process; ``alive`` in it is locked while the process runs

A copy is hard-linked into the runs that use it. Its link count shows whether it may be removed.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from state_processor.serializers.errors import OptionError, ScratchSpaceError

try:
    import fcntl
except ImportError:  # Windows: assume one process per machine
    fcntl = None  # type: ignore[assignment]

DIRECTORY_VARIABLE: Final = "STATE_PROCESSOR_SCRATCH"
LIMIT_VARIABLE: Final = "STATE_PROCESSOR_SCRATCH_BYTES"

_SHARE_OF_DISK: Final = 0.8
"""Share of the free disk space for copies, if a limit is not set."""
_STALE_SECONDS: Final = 24 * 3600.0
"""Copies that were not used for this long are removed."""
_COPY_CHUNK: Final = 8 << 20
_LOCK: Final = "lock"
"""This file also marks the directory as this library's."""
_ALIVE: Final = "alive"
_MAKING: Final = "making-{}"
_RUN: Final = re.compile(r"run-[a-z0-9_]+")
_COPY: Final = re.compile(r"[0-9a-f]{64}")


class Scratch:
    """The scratch space of this process.

    Parameters
    ----------
    directory
        The directory of the scratch space; by default ``STATE_PROCESSOR_SCRATCH`` or the system's directory for temporary files.
    limit
        Maximum size in bytes of all copies of all processes; by default ``STATE_PROCESSOR_SCRATCH_BYTES`` or 80 % of the free
        disk space.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, limit: int | None = None) -> None:
        base = Path(directory or os.environ.get(DIRECTORY_VARIABLE) or tempfile.gettempdir())
        self.root = base.expanduser() / f"state-processor-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        self._limit = _limit_from_environment() if limit is None else limit
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._files = self.root / "files"
        try:
            self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.root.mkdir(mode=0o700)
            self._check_root()
            with self._locked():
                self._files.mkdir(exist_ok=True)
                self._remove_stale()
                self._run = Path(tempfile.mkdtemp(prefix="run-", dir=self.root))
                self._alive = _take_lock(self._run / _ALIVE)
        except OSError as e:
            raise self._failure(e) from e
        atexit.register(self.close)

    def directory(self) -> Path:
        """Create an empty directory for this process.

        Raises
        ------
        ScratchSpaceError
            The directory cannot be created.
        """
        try:
            return Path(tempfile.mkdtemp(prefix="store-", dir=self._run))
        except OSError as e:
            raise self._failure(e) from e

    def write(self, path: Path, data: bytes | memoryview) -> None:
        """Write a small file.

        Raises
        ------
        ScratchSpaceError
            The disk is full, or the file cannot be written.
        """
        try:
            path.write_bytes(data)
        except OSError as e:
            raise self._failure(e, len(data)) from e

    def link_copy(self, key: str, size: int, read: Callable[[int, int], memoryview], target: Path) -> None:
        """Link a copy of a file to ``target``. Make the copy first if this host does not have it.

        Parameters
        ----------
        key
            Identifies the file's content.
        size
            Length of the file in bytes.
        read
            Function that returns bytes from an offset.
        target
            The path of the link, within :meth:`directory`.

        Raises
        ------
        ScratchSpaceError
            The scratch space is full.
        """
        copy = self._files / hashlib.sha256(key.encode()).hexdigest()
        try:
            with self._one_at_a_time(copy.name):
                if not self._link(copy, target):
                    made = self._make(size, read)
                    with self._locked():
                        os.replace(made, copy)
                        os.link(copy, target)
        except OSError as e:
            raise self._failure(e, size) from e

    def close(self) -> None:
        """Remove the files of this process, and the copies too if this is the last process."""
        if os.getpid() != self._pid or self._alive is None:
            return  # the files belong to the parent process
        atexit.unregister(self.close)
        with contextlib.suppress(OSError), self._locked():
            self._alive.close()
            self._alive = None
            shutil.rmtree(self._run, ignore_errors=True)
            if not any(self.root.glob("run-*")):
                for copy in self._copies():
                    copy.unlink()
                self._files.rmdir()

    def _link(self, copy: Path, target: Path) -> bool:
        with self._locked():  # no other process may remove the copy in between
            if not copy.exists():
                return False
            os.utime(copy)
            os.link(copy, target)
            return True

    def _make(self, size: int, read: Callable[[int, int], memoryview]) -> str:
        """Make a copy under a temporary name, so that an incomplete copy is never used."""
        with self._locked():
            self._make_room(size)
        handle, name = tempfile.mkstemp(prefix="part-", dir=self._run)
        try:
            with os.fdopen(handle, "wb") as file:
                _copy(file, size, read)
        except BaseException:
            os.unlink(name)
            raise
        return name

    def _make_room(self, size: int) -> None:
        """Remove the least recently used copies until ``size`` more bytes fit."""
        copies = sorted(((p, p.stat()) for p in self._copies()), key=lambda c: c[1].st_mtime)
        used = sum(found.st_size for _, found in copies)
        free = shutil.disk_usage(self.root).free
        limit = self._limit if self._limit is not None else int(_SHARE_OF_DISK * (free + used))
        for path, found in copies:
            if used + size <= limit and size <= free:
                return
            if found.st_nlink == 1:
                path.unlink()
                used -= found.st_size
                free += found.st_size
        if used + size > limit or size > free:
            raise ScratchSpaceError(
                f"scratch space {self.root}: needs {size} more bytes, {used} of {limit} bytes are in use and {free} "
                f"are free on the disk. {_WHAT_TO_DO}"
            )

    def _remove_stale(self) -> None:
        """Remove the files of processes that have ended, and unused copies."""
        for run in self.root.iterdir():
            if not _RUN.fullmatch(run.name) or run.is_symlink() or not (run / _ALIVE).is_file():
                continue  # a file of something else
            lock = _take_lock(run / _ALIVE, wait=False)
            if lock is not None:
                shutil.rmtree(run, ignore_errors=True)
                lock.close()
        for path in self.root.glob(_MAKING.format("*")):
            lock = None if path.is_symlink() else _take_lock(path, wait=False)
            if lock is not None:  # left by a process that was killed while it made a copy
                path.unlink(missing_ok=True)
                lock.close()
        oldest = time.time() - _STALE_SECONDS
        for copy in self._copies():
            found = copy.stat()
            if found.st_nlink == 1 and found.st_mtime < oldest:
                copy.unlink()

    def _copies(self) -> list[Path]:
        """Return the copies, recognized by their names. Other files in the directory are ignored."""
        return [path for path in self._files.iterdir() if _COPY.fullmatch(path.name) and not path.is_symlink()]

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
            found = os.fstat(descriptor)
            names = os.listdir(descriptor)
        finally:
            os.close(descriptor)
        if found.st_uid != os.getuid():
            raise OptionError(f"{self.root} belongs to another user. {_OWN_DIRECTORY}")
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077:
            raise OptionError(f"{self.root} has mode {mode:04o}, so other users can access it; expected 0700. {_OWN_DIRECTORY}")
        if names and _LOCK not in names:
            raise OptionError(f"{self.root} contains files that are not scratch files, such as {min(names)}. {_OWN_DIRECTORY}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex:
            lock = _take_lock(self.root / _LOCK)
            try:
                yield
            finally:
                if lock is not None:
                    lock.close()

    @contextlib.contextmanager
    def _one_at_a_time(self, name: str) -> Iterator[None]:
        """Let one thread of one process make a copy; the others wait for it."""
        with self._mutex:
            mutex = self._locks.setdefault(name, threading.Lock())
        with mutex:
            path = self.root / _MAKING.format(name)
            lock = _take_lock(path)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
                if lock is not None:
                    lock.close()

    def _failure(self, error: OSError, size: int = 0) -> ScratchSpaceError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            needed = f" ({size} bytes had to be written)" if size else ""
            return ScratchSpaceError(f"scratch space {self.root}: the disk is full{needed}. {_WHAT_TO_DO}")
        return ScratchSpaceError(f"scratch space {self.root} cannot be used: {error}. {_WHAT_TO_DO}")


_WHAT_TO_DO: Final = f"Set {DIRECTORY_VARIABLE} to a directory on a larger disk, or {LIMIT_VARIABLE} to a higher limit"

_OWN_DIRECTORY: Final = f"Remove it, or set {DIRECTORY_VARIABLE} to a directory of your own"

_spaces: dict[str, Scratch] = {}
_spaces_mutex = threading.Lock()


def _reset_in_fork() -> None:
    """Forget the parent's directories, and the lock that one of its threads may have held."""
    global _spaces_mutex
    _spaces_mutex = threading.Lock()
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


def _limit_from_environment() -> int | None:
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return None
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit <= 0:
        raise OptionError(f"{LIMIT_VARIABLE}={text!r} is not a positive number of bytes")
    return limit


def _copy(file: BinaryIO, size: int, read: Callable[[int, int], memoryview]) -> None:
    for offset in range(0, size, _COPY_CHUNK):
        file.write(read(offset, min(_COPY_CHUNK, size - offset)))


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
