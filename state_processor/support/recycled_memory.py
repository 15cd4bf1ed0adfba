"""Memory that is used again. The system clears each new page, and threads of one process wait for one another while it does."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

_LEAST: Final = 1 << 18
"""Minimum size of memory that is used again, in bytes."""
_MOST_FREE: Final = 160 << 20
"""Bytes of free memory that are kept, at most."""
_STEPS: Final = 3
"""Sizes have so many digits in base 2 behind the first; the others are zero."""
_LINE: Final = 16
"""Numbers in two cache lines. The processor reads both together."""

_free: Final[dict[int, npt.NDArray[np.uint8]]] = {}
"""Free memory by its identity, the oldest first. Operations are atomic: the garbage collector may free some at any time."""


class _Loan:
    """Memory that is free again when no array, memoryview or buffer refers to it any more."""

    __slots__ = ("_memory",)

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._memory = memory

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        _free[id(self._memory)] = self._memory
        blocks = [*_free.values()]
        excess = sum(map(len, blocks)) - _MOST_FREE
        for block in blocks:
            if excess <= 0:
                break
            excess -= len(block)
            _free.pop(id(block), None)


def allocate(size: int) -> npt.NDArray[np.uint8]:
    """Return uninitialized memory."""
    if not _LEAST <= size <= _MOST_FREE:
        return np.empty(size, dtype=np.uint8)
    step = 1 << (size.bit_length() - 1 - _STEPS)
    room = -(-size // step) * step
    for block in [*_free.values()]:
        if room <= len(block) <= 2 * room and _free.pop(id(block), None) is not None:  # None if another thread has it
            return np.asarray(_Loan(block))[:size]
    return np.asarray(_Loan(np.empty(room, dtype=np.uint8)))[:size]


def release() -> None:
    """Return free memory to the system, at the end of a read."""
    _free.clear()


def numbers_apart(lines: int, fields: int = 1) -> npt.NDArray[np.int64]:
    """Return a table of zeros with cache lines of its own: threads that write to one line wait for one another."""
    size = lines * fields
    return np.zeros(size + 2 * _LINE, dtype=np.int64)[_LINE : _LINE + size].reshape(lines, fields)
