"""Reads of a file that are kept, so that bytes that are needed again are not read again."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from state_processor.backends.metadata.state_stream import StateStream

_READ_AT_ONCE: Final = 256 << 10


class KeptReads:
    """Reads of a stream. They are kept until :meth:`forget`.

    Parameters
    ----------
    stream
        The stream.
    count
        Receives the number of bytes of each read that was not kept.
    at_once
        Whether all of the stream is needed. A small stream is read at once then.
    """

    def __init__(self, stream: StateStream, count: Callable[[int], None], at_once: bool) -> None:
        self._stream = stream
        self._count = count
        self._lock = threading.Lock()
        self._at_once = at_once and stream.size <= _READ_AT_ONCE
        self._kept: list[tuple[int, memoryview]] = []

    def as_stream(self) -> StateStream:
        """Return a stream with these reads."""
        return StateStream(self, 0, self._stream.size, self._stream.describe(), self._stream.path)

    def read(self, offset: int, length: int) -> memoryview:
        """See :meth:`StateStream.read`."""
        with self._lock:
            place = bisect_right(self._kept, offset, key=itemgetter(0))
            for begin, data in self._kept[max(0, place - 2) : place]:
                if offset + length <= begin + len(data):
                    return data[offset - begin : offset - begin + length]
        begin, size = (0, self._stream.size) if self._at_once else (offset, length)
        data = self._stream.read(begin, size)
        self._count(size)
        with self._lock:
            insort(self._kept, (begin, data), key=itemgetter(0))
        return data[offset - begin : offset - begin + length]

    def forget(self) -> None:
        """Forget the reads. A small stream that was read at once stays."""
        with self._lock:
            if not self._at_once:
                self._kept.clear()
