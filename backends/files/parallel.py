"""Requests to storage at the same time: a snapshot has as many headers as subtasks, and each is a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from state_processor.backends.files.filesystems import MOST_REQUESTS

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def at_once(function: Callable[[_Item], _Result], items: Sequence[_Item], most: int = MOST_REQUESTS) -> list[_Result]:
    """Return the results of a function that waits for storage, in the order of its arguments; ``most`` of them run at a time.

    Threads have the context of the caller. If several calls fail, the error of the first argument among them is raised.
    """
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(most, len(items))) as threads:
        running = [threads.submit(copy_context().run, function, item) for item in items]
        try:
            return [future.result() for future in running]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
