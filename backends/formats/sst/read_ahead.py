"""Reads of a file from front to back. From remote storage, the following bytes are fetched while a read is decoded."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

from state_processor.backends.metadata.state_stream import StateStream


class ReadAhead:
    """Reads of a file whose ranges begin in ascending order.

    Parameters
    ----------
    stream
        The file.
    end
        End of the last read.
    ahead
        Bytes to fetch ahead.
    threads
        The threads that fetch; ``None`` reads on demand.
    """

    def __init__(self, stream: StateStream, end: int, ahead: int, threads: ThreadPoolExecutor | None) -> None:
        self._stream = stream
        self._end = end
        self._ahead = ahead
        self._threads = threads
        self._start = 0
        self._data = memoryview(b"")
        self._next: tuple[int, Future[memoryview]] | None = None

    def read(self, begin: int, end: int) -> tuple[int, memoryview]:
        """Return the offset and the content of a part of the file that includes the bytes from ``begin`` to ``end``."""
        if self._threads is None:
            return begin, self._stream.read(begin, end - begin)
        if begin < self._start or end > self._start + len(self._data):
            self._fetch(begin, end)
        return self._start, self._data

    def _fetch(self, begin: int, end: int) -> None:
        assert self._threads is not None
        parts, at = [], begin
        if self._start <= begin < self._start + len(self._data):
            parts.append(self._data[begin - self._start :])
            at += len(parts[0])
        if self._next is not None and self._next[0] == at:
            parts.append(self._next[1].result())
            at += len(parts[-1])
        self._next = None
        if at < end:
            parts.append(self._stream.read(at, end - at))
            at = end
        self._start, self._data = begin, parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        size = min(self._ahead, self._end - at)
        if size > 0:
            self._next = (at, self._threads.submit(copy_context().run, self._stream.read, at, size))
