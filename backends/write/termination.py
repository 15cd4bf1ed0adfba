"""SIGTERM while a savepoint is written: an exit, instead of an immediate end. The exit removes the files of the write.

Schedulers end drivers by SIGTERM. A process that ends at once leaves its files. The next write to the directory removes them, but
only on the same machine; nothing is written again in a container that has ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
