"""Repetitions and sizes of benchmarks: ``--quick`` takes a third of the time."""

from __future__ import annotations

import os
from typing import Final, TypeVar

_QUICK: Final = "STATE_PROCESSOR_BENCH_QUICK"  # processes of a benchmark inherit it
_T = TypeVar("_T")


def make_quick() -> None:
    """Select the smaller effort in this process and in later child processes."""
    os.environ[_QUICK] = "1"


def is_quick() -> bool:
    """Return whether the smaller effort is selected."""
    return _QUICK in os.environ


def effort(usual: _T, quick: _T) -> _T:
    """Return one of two numbers of repeats, or sizes."""
    return quick if is_quick() else usual
