"""Locks and cached properties that a fork does not leave locked.

A fork has the thread that forks alone. A lock that another thread held is never released there: the child would wait forever.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from importlib._bootstrap import _module_locks as import_locks  # type: ignore[attr-defined]
from threading import RLock, get_ident
from typing import Any, Final, Generic, Self, TypeVar, overload

_Value = TypeVar("_Value")
_MISSING: Final = object()
_MOST_SECONDS: Final = 30.0
"""Limit of the wait for an import in another thread."""
_PAUSE: Final = 0.001
_LOCKS_OF_LIBRARIES: Final[dict[str, Callable[[Any], Any]]] = {
    "numba.core.compiler_lock": lambda module: module.global_compiler_lock,
    "llvmlite.binding.ffi": lambda module: module.lib._lock,
    "tempfile": lambda module: module._once_lock,
}
"""Locks of other modules, in the order in which a thread takes them: Numba's, LLVM's, and that of the first temporary name."""

_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def process_lock() -> RLock:
    """Return a lock for threads of one process; a fork begins with it unlocked.

    It may guard only what is still usable if a thread stops halfway: caches, counters and references. A thread may take it twice:
    the garbage collector runs wherever objects are made, and what it closes may need a lock that its thread holds.
    """
    lock = RLock()
    _locks.add(lock)
    return lock


def _unlock_in_fork() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


_held: Final[dict[int, ExitStack]] = {}
"""The locks of other modules by the thread that forks and holds them."""


def _before_fork() -> None:
    """Wait until no other thread imports a module or holds a library's lock: the child has these locks, and not the threads."""
    end = time.monotonic() + _MOST_SECONDS
    locks = _held[get_ident()] = ExitStack()
    while True:
        while _is_importing() and time.monotonic() < end:
            time.sleep(_PAUSE)
        for name, lock in _LOCKS_OF_LIBRARIES.items():
            if name in sys.modules:
                locks.enter_context(lock(sys.modules[name]))
        if not _is_importing() or time.monotonic() > end:
            return
        locks.close()


def _after_fork() -> None:
    _held.pop(get_ident()).close()


def _in_child() -> None:
    _after_fork()
    _unlock_in_fork()


def _is_importing() -> bool:
    """Return whether another thread imports a module."""
    locks = [reference() for reference in list(import_locks.values())]
    return any(lock is not None and lock.owner not in (None, get_ident()) for lock in locks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


class cached_property(Generic[_Value]):  # noqa: N801
    """A property that is computed once, without a lock; threads that compute it at the same time get the same value.

    ``functools.cached_property`` of Python 3.11 holds a lock while it computes: one for all objects of the class.
    """

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | _Value:
        if instance is None:
            return self
        values = instance.__dict__
        value = values.get(self._name, _MISSING)
        if value is _MISSING:
            value = values.setdefault(self._name, self._compute(instance))
        return value  # type: ignore[no-any-return]
