"""Concurrent requests to storage. Reading the headers of a snapshot takes one request per subtask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Final, TypeVar

MOST_REQUESTS: Final = 64
"""Maximum number of concurrent requests to remote storage."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def at_once(function: Callable[[_Item], _Result], items: Sequence[_Item], most: int = MOST_REQUESTS) -> list[_Result]:
    """Call a function that waits for storage with each argument, ``most`` calls at a time; return the results in order.

    Threads have the context of the caller. If several calls fail, the error of the first failing argument is raised.
    """
    if len(items) < 2:
        return list(map(function, items))
    from concurrent.futures import ThreadPoolExecutor  # few snapshots have one file

    with ThreadPoolExecutor(min(most, len(items))) as threads:
        running = [threads.submit(copy_context().run, function, item) for item in items]
        try:
            return [future.result() for future in running]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
