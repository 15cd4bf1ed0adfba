"""A table of results that are kept for later calls, up to a number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from state_processor.serializers.locks import process_lock

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class Kept(Generic[_Key, _Result]):
    """Results by key; the least recently used results are dropped. Threads may share it.

    An owner without references to itself frees its files at once when it is dropped. ``functools.lru_cache`` of a bound method
    is such a reference.

    Parameters
    ----------
    most
        Maximum number of results.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: OrderedDict[_Key, _Result] = OrderedDict()
        self._lock = process_lock()

    def get(self, key: _Key, make: Callable[[_Key], _Result]) -> _Result:
        """Return the result of a key; ``make`` makes it if it is not kept. Two threads may make it at the same time."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = make(key)
        with self._lock:
            self._results[key] = result
            if len(self._results) > self._most:
                self._results.popitem(last=False)
        return result
