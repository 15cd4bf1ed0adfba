"""Selection of tests: samples, and the selected tests of a module; one JVM answers them together.

Many cases combine a shape with a version of Flink, a format and a backend. Where these do not act on each other in Flink, a few
cases are enough: each shape is in a case of each version, and in one of each format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest

EVERY_CASE: Final = bool(os.environ.get("STATE_PROCESSOR_EVERY_CASE"))
"""True to try all cases in place of a sample."""

T = TypeVar("T")


def covering(cases: Iterable[T], traits: Callable[[T], Iterable[Hashable]]) -> list[T]:
    """Return few cases that have all traits together; all cases if all are tried.

    The case with the most traits that no chosen case has is chosen next.
    """
    every = list(cases)
    if EVERY_CASE:
        return every
    missing = [set(traits(case)) for case in every]
    chosen = set()
    while any(missing):
        best = max(range(len(every)), key=lambda i: len(missing[i]))
        chosen.add(best)
        new = missing[best]
        missing = [of_case - new for of_case in missing]
    return [case for i, case in enumerate(every) if i in chosen]


def in_turn(options: Sequence[T], number: int) -> Sequence[T]:
    """Return each other option: the first and the third for even numbers; all options if all cases are tried."""
    return options if EVERY_CASE else options[number % 2 :: 2] or options


def asking(request: pytest.FixtureRequest, fixture: str) -> list[Any]:
    """The selected tests of the module of ``request`` that use a fixture."""
    return [i for i in request.session.items if i.path == request.path and fixture in getattr(i, "fixturenames", ())]
