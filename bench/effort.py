"""How often benchmarks repeat what they measure, and how large it is: ``--quick`` takes a third of the time."""

from __future__ import annotations

import os
from typing import Final, TypeVar

_QUICK: Final = "STATE_PROCESSOR_BENCH_QUICK"  # processes that a benchmark starts know it as well
_T = TypeVar("_T")


def make_quick() -> None:
    """Choose the lesser effort in this process and in those that it starts from now on."""
    os.environ[_QUICK] = "1"


def is_quick() -> bool:
    """Return True if the lesser effort is chosen."""
    return _QUICK in os.environ


def effort(usual: _T, quick: _T) -> _T:
    """Return one of two numbers of repeats, or sizes."""
    return quick if is_quick() else usual
