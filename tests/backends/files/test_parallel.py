"""Requests at the same time."""

from __future__ import annotations

from contextvars import ContextVar
from threading import Barrier

import pytest

from state_processor.backends.files.parallel import at_once

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_calls_wait_at_the_same_time_in_the_callers_context() -> None:
    together = Barrier(4, timeout=60)  # is passed by four threads only

    def place(number: int) -> tuple[int, str]:
        together.wait()
        return number * 10, WHO.get()

    token = WHO.set("caller")
    try:
        assert at_once(place, range(4)) == [(n * 10, "caller") for n in range(4)]
    finally:
        WHO.reset(token)
    assert at_once(str, [5]) == ["5"]
    assert at_once(str, []) == []


def test_the_first_of_several_errors_is_raised() -> None:
    def fail(number: int) -> int:
        if number:
            raise ValueError(f"no {number}")
        return number

    with pytest.raises(ValueError, match="no 1"):
        at_once(fail, range(100))
