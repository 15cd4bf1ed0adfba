"""Open local and remote files, to be read at any offset. Calls to remote storage have a time limit."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from state_processor.serializers.locks import process_lock
from state_processor.serializers.recycled_memory import allocate

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_ANSWER_SECONDS: Final = 300.0
"""Time limit of one call to any other remote storage, including retries of its client."""

_T = TypeVar("_T")


class OpenFile:
    """A file that can be read at any offset."""

    size: int

    @property
    def is_current(self) -> bool:
        """False if the path has another file now. Without a file at the path, and in remote storage, the open file counts."""
        return True

    def read(self, offset: int, length: int) -> memoryview:
        raise NotImplementedError


class OpenLocalFile(OpenFile):
    """Local file, read in ranges. It is not mapped: pages of an open mapped file would count as memory of the process."""

    def __init__(self, path: str) -> None:
        # without O_NONBLOCK, opening a pipe without a writer would block
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise OSError(f"it is not a regular file ({stat.filemode(mode)})")
        self._file = os.fdopen(descriptor, "rb")
        self._path, self._version = path, _version(os.fstat(descriptor))
        self.size = os.fstat(descriptor).st_size

    @property
    def is_current(self) -> bool:
        """False if the path has another file now."""
        try:
            return _version(os.stat(self._path)) == self._version
        except OSError:
            return True

    def read(self, offset: int, length: int) -> memoryview:
        data = allocate(length).data  # a bytearray would be filled with zeros first
        filled = 0
        while filled < length:
            got = os.preadv(self._file.fileno(), [data[filled:]], offset + filled)
            if not got:
                break  # the file has shrunk since it was opened: the caller compares lengths
            filled += got
        return data[:filled]


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class RemoteFile(OpenFile):
    """File of remote storage."""

    def __init__(self, filesystem: pafs.FileSystem, path: str) -> None:
        def opened() -> tuple[pa.NativeFile, int]:
            file = filesystem.open_input_file(path)
            return file, file.size()

        self._file, self.size = in_time(opened)
        self._mutex = process_lock()

    def read(self, offset: int, length: int) -> memoryview:
        data = memoryview(bytearray(length))
        filled = 0
        while filled < length:  # storage may return fewer bytes than requested
            got = self._read_into(data[filled:], offset + filled)
            if not got:
                break
            filled += got
        return data[:filled]

    def _read_into(self, target: memoryview, offset: int) -> int:
        """Read some bytes.

        The S3 client of pyarrow counts missing bytes of an answer as read, and leaves the buffer unchanged there. To detect this,
        the last byte is set to two different values in turn; a complete read overwrites both.
        """

        def read() -> int:
            with self._mutex:
                self._file.seek(offset)
                return int(self._file.readinto(target))

        for mark in (0x5A, 0xA5):
            target[-1] = mark
            got = in_time(read)
            if got < len(target) or target[-1] != mark:
                return got
        raise OSError(f"the storage returned fewer than {len(target)} bytes at {offset}")


def in_time(call: Callable[[], _T], seconds: float | None = None) -> _T:
    """Run a call to remote storage with a time limit, and return its result."""
    limit = _ANSWER_SECONDS if seconds is None else seconds
    results: list[_T] = []
    failures: list[BaseException] = []

    context = copy_context()  # messages spell options like the caller

    def run() -> None:
        try:
            results.append(context.run(call))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, name="state-processor-storage", daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        raise TimeoutError(f"the storage has not answered for {limit:g} seconds")
    if failures:
        raise failures[0]
    return results[0]
