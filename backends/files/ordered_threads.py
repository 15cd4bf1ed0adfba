"""Threads that read the parts of a snapshot or wait for storage. Results come in order; memory holds few parts.

Compiled kernels, decompression and requests to storage run without Python's lock, so that threads use all processors. A read has
threads of its own: they end with it, and a fork does not inherit a pool.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from itertools import islice
from threading import Condition
from typing import Any, Final, Generic, TypeVar

from state_processor.support.errors import OptionError
from state_processor.support.locks import process_lock
from state_processor.support.recycled_memory import release

THREADS_VARIABLE: Final = "STATE_PROCESSOR_THREADS"
PART_BYTES: Final = 16 << 20
"""Bytes of the snapshot in a part that a thread reads: its rows fit into memory beside the parts of other threads."""
_LARGE_PART_BYTES: Final = 3 * PART_BYTES
"""Bytes of a part of a large read of canonical and heap files: opening a part takes about a millisecond. Few of these files
are compressed."""
_PARTS_OF_A_THREAD: Final = 8
"""Least number of large parts for each thread: threads end at almost the same time."""
_SMALL: Final = 4 << 20
"""A read of fewer bytes has one thread: starting threads and opening files again takes as long as reading."""
_MOST_THREADS: Final = 16
"""Maximum number of threads if the user does not choose it: each takes memory."""
_BUFFER_BYTES: Final = 64 << 20
"""Bytes of results that wait for their turn, for each thread."""
_PATIENCE: Final = 1.0
"""Seconds after which a waiting thread looks whether its reader still exists."""
_QUOTA: Final = "/sys/fs/cgroup/cpu.max"

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_is_inside: Final[ContextVar[bool]] = ContextVar("_is_inside", default=False)
"""Whether this code runs in a thread that reads a part: reads inside it start no threads."""


def thread_count(threads: int | None = None) -> int:
    """Return the number of threads of a read.

    ``threads``: the number that the user chooses. ``None``: the variable ``STATE_PROCESSOR_THREADS``, or else the processors that
    this process may use, 16 at most. A task of Spark has one thread, because Spark runs a task for each core.
    """
    if _is_inside.get() or _is_task_of_spark():
        return 1
    return chosen_threads(threads) or min(_MOST_THREADS, _processors())


def chosen_threads(threads: int | None = None) -> int | None:
    """Return the number of threads that the user chooses, by an argument or by the variable; ``None`` if the user does not."""
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if threads is not None or not text:
        return threads
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise OptionError(f"{THREADS_VARIABLE}={text!r}: expected a number of threads, of at least 1")
    return int(text)


def _is_task_of_spark() -> bool:
    context = getattr(sys.modules.get("pyspark"), "TaskContext", None)
    return context is not None and context.get() is not None


def _processors() -> int:
    """Return the number of processors that this process may use, by its affinity and the limit of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open(_QUOTA, encoding="ascii") as file:
            quota, period = file.read().split()
        return count if quota == "max" else max(1, min(count, round(int(quota) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):
        return count


def in_order(
    read: Callable[[_Item], Iterable[_Result]],
    parts: Sequence[_Item],
    threads: int,
    watched: Callable[[Collection[_Item]], Iterable[_Item]] = iter,
) -> Iterator[_Result]:
    """Read parts in threads, and yield their results in the order of the parts, and in the order inside each part.

    The threads start with the first result that is asked for. They end after the last result, with an error, and if the iterator
    is closed or dropped; a thread that decodes a batch finishes the batch first. Threads have the context of the caller.
    An error is raised where its part would have the next result.

    ``read``: reads a part. It runs in several threads at once. ``parts``: the parts. Each is read once. ``threads``: number of
    threads; with one, the caller's thread reads. ``watched``: yields the parts one after the other, and may note how far the read
    is.
    """
    count = min(threads, len(parts))
    try:
        if count < 2:
            for part in watched(parts):
                yield from read(part)
        else:
            yield from _read_in_threads(read, parts, count, watched)
    finally:
        release()


def _read_in_threads(
    read: Callable[[_Item], Iterable[_Result]],
    parts: Sequence[_Item],
    count: int,
    watched: Callable[[Collection[_Item]], Iterable[_Item]],
) -> Iterator[_Result]:
    reading = _Reading(read, parts, count * _BUFFER_BYTES)
    running: list[threading.Thread] = []
    try:
        reading.start(count, running)
        for number, _ in enumerate(watched(parts)):
            yield from reading.results(number)
    except GeneratorExit:
        # Python may close iterators inside any code, which may hold a lock that a thread waits for: do not wait for the thread.
        reading.cancel()
        raise
    except BaseException:
        reading.cancel()
        reading.unlock()
        _wait_for(running)
        raise
    _wait_for(running)


def parts_for(plan: Callable[..., Sequence[_Item]], threads: int | None) -> Sequence[_Item]:
    """Return the parts of a read in this process: small ones for several threads, and larger ones of many bytes.

    ``plan``: plans parts of a size in bytes, or of the default size. ``threads``: maximum number of threads; ``None`` for the
    default.
    """
    count = thread_count(threads)
    if count < 2:
        return plan()
    parts = plan(PART_BYTES)
    if any(getattr(part, "is_store", True) for part in parts):
        return parts
    size = min(_LARGE_PART_BYTES, _bytes_of(parts) // (_PARTS_OF_A_THREAD * count))
    return parts if size <= PART_BYTES else plan(size)


def threads_for(parts: Collection[Any], threads: int | None) -> int:
    """Return the number of threads of a read of some parts: one if they are small."""
    return 1 if len(parts) < 2 or _bytes_of(parts) < _SMALL else thread_count(threads)


def _bytes_of(parts: Iterable[Any]) -> int:
    return sum(getattr(part, "size", PART_BYTES) for part in parts)


def read_all(
    plan: Callable[..., Sequence[_Item]],
    read: Callable[[_Item], Iterable[_Result]],
    threads: int | None,
    watched: Callable[[Collection[_Item]], Iterable[_Item]] = iter,
) -> Iterator[_Result]:
    """Plan parts, and read all of them in order; see :func:`parts_for` and :func:`in_order`."""
    parts = parts_for(plan, threads)
    return in_order(read, parts, threads_for(parts, threads), watched)


def _wait_for(running: Iterable[threading.Thread]) -> None:
    for thread in running:
        with suppress(RuntimeError):  # an interrupt came before it started: it ends at once
            thread.join()


class _Reading(Generic[_Item, _Result]):
    """What the threads of a read share with the caller.

    A thread takes the next part that nobody has taken. Results wait until the caller has the results before them. A thread with
    a result stops while too many bytes wait, unless the caller needs this result next.
    """

    def __init__(self, read: Callable[[_Item], Iterable[_Result]], parts: Sequence[_Item], most_bytes: int) -> None:
        self._read = read
        self._parts = parts
        self._most_bytes = most_bytes
        self._process = os.getpid()
        self._changed = Condition(process_lock())
        self._is_notifying = False
        self._waiting: dict[int, deque[tuple[_Result, int]]] = {}
        self._ends: dict[int, BaseException | None] = {}
        self._bytes = 0
        self._untaken = 0
        self._next_part = 0
        self._is_cancelled = False
        self._caller = threading.current_thread()

    def start(self, count: int, running: list[threading.Thread]) -> None:
        """Start threads, and add them to ``running``. A process that can't start them reads in the thread of the caller."""
        try:
            for _ in range(count):
                context = copy_context()
                context.run(_is_inside.set, True)
                thread = threading.Thread(target=context.run, args=(self._work,), name="state-processor-read")
                running.append(thread)  # before it starts: an interrupt may come in between
                thread.start()
        except RuntimeError:
            running.pop()
            if not running:
                self._process = 0

    def results(self, number: int) -> Iterator[_Result]:
        """Yield the results of a part, and raise its error."""
        yielded = 0
        while self._process == os.getpid():
            waiting = self._await(number)
            if waiting is None:
                break
            if not waiting:
                return
            yielded += 1
            yield self._pop(waiting)
        yield from islice(self._read(self._parts[number]), yielded, None)  # the threads are gone, in a fork for instance

    def cancel(self) -> None:
        """End the threads soon, without waiting for a lock: Python may call it inside the code that has the lock."""
        self._is_cancelled = True
        if self._process == os.getpid() and self._changed.acquire(blocking=False):
            self._notify()
            self._changed.release()

    def unlock(self) -> None:
        """Release the lock: an interrupt may come between the call that takes it and the code that releases it."""
        with suppress(RuntimeError):  # this thread does not have it any more
            while True:
                self._changed.release()

    def _notify(self) -> None:
        """Wake all threads, but not inside another notification: :class:`Condition` would release a thread twice, and fail."""
        if not self._is_notifying:
            self._is_notifying = True
            self._changed.notify_all()
            self._is_notifying = False

    def _await(self, number: int) -> deque[tuple[_Result, int]] | None:
        """Wait for a result of a part; nothing waits at the end of the part. Return ``None`` without threads."""
        error = None
        with self._changed:
            self._caller = threading.current_thread()
            if self._next_part != number:
                self._next_part = number
                self._notify()
            while not self._waiting.get(number) and number not in self._ends and not self._is_cancelled:
                self._changed.wait()
            if self._waiting.get(number):
                return self._waiting[number]
            if number not in self._ends:
                return None
            self._waiting.pop(number, None)
            error = self._ends.pop(number)
        if error is None:
            return deque()
        try:
            raise error
        finally:
            del error  # or it would refer to itself

    def _pop(self, waiting: deque[tuple[_Result, int]]) -> _Result:
        with self._changed:
            result, size = waiting.popleft()
            self._bytes -= size
            self._notify()
        return result

    def _work(self) -> None:
        """Read parts until all parts are taken: the code of each thread."""
        while (number := self._take()) is not None:
            error = None
            try:
                for result in self._read(self._parts[number]):
                    if not self._put(number, result):
                        return
                    del result
            except BaseException as problem:
                error = problem
            self._finish(number, error)
            del error

    def _take(self) -> int | None:
        with self._changed:
            if self._is_cancelled or self._untaken >= len(self._parts):
                return None
            number = self._untaken
            self._untaken += 1
            self._waiting[number] = deque()
            return number

    def _put(self, number: int, result: _Result) -> bool:
        """Add a result as soon as there is room for it; return False if nobody needs it."""
        size = getattr(result, "nbytes", 0)
        with self._changed:
            while self._has_to_wait(number == self._next_part and not self._waiting[number]):
                self._changed.wait(_PATIENCE)
            if self._is_cancelled:
                return False
            self._waiting[number].append((result, size))
            self._bytes += size
            self._notify()
            return True

    def _finish(self, number: int, error: BaseException | None) -> None:
        with self._changed:
            self._ends[number] = error
            if error is not None:
                self._untaken = len(self._parts)  # the caller does not come to later parts
            self._notify()

    def _has_to_wait(self, is_next: bool) -> bool:
        if not threading.main_thread().is_alive() and (self._caller.daemon or not self._caller.is_alive()):
            self._is_cancelled = True  # Python ends, and waits for this thread
        return not self._is_cancelled and not is_next and self._bytes >= self._most_bytes


MOST_REQUESTS: Final = 64
"""Maximum number of concurrent requests to remote storage."""
_QUICK_SECONDS: Final = 0.005
"""Calls for local files get threads if they take longer together: starting a thread takes as long as reading a header."""


def at_once(
    function: Callable[[_Item], _Result], items: Sequence[_Item], most: int = MOST_REQUESTS, *, is_local: bool = False
) -> list[_Result]:
    """Call a function that waits for storage with each argument, ``most`` calls at a time; return the results in order.

    Threads have the context of the caller. If several calls fail, the error of the first failing argument is raised.

    ``is_local``: whether the storage is a file system of this machine. The thread of the caller then begins with the calls.
    """
    until = time.monotonic() + _QUICK_SECONDS if is_local else 0.0
    results: list[_Result] = []
    while len(results) < len(items) and (len(items) < 2 or time.monotonic() < until):
        results.append(function(items[len(results)]))
    left = items[len(results) :]
    if not left:
        return results
    from concurrent.futures import ThreadPoolExecutor  # few reads wait for storage

    with ThreadPoolExecutor(min(most, len(left))) as threads:
        running = [threads.submit(copy_context().run, function, item) for item in left]
        try:
            return results + [future.result() for future in running]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
