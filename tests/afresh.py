"""Processes without threads, which have imported what they use: children of a forkserver."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, Final

from _pytest.config import default_plugins

from tests.waiting import SECONDS

_FORKS: Final = get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *(f"_pytest.{name}" for name in default_plugins),
        "state_processor.testing.plugin",
        "tests.faults.children",
        "tests.numba_tables",
        "state_processor.applications.serving.query_imports",
    ]
)


def run_afresh(function: Callable[..., None], *arguments: Any) -> int:
    """Call a function in such a process, and return its exit code; a process that takes too long is killed, and an error."""
    return start_afresh(function, *arguments)()


def start_afresh(function: Callable[..., None], *arguments: Any) -> Callable[[], int]:
    """Do the same, and return a function that waits for the exit code."""
    child = _FORKS.Process(target=function, args=arguments)
    child.start()

    def end() -> int:
        child.join(SECONDS)
        if child.exitcode is None:
            child.kill()
            raise AssertionError(f"{function.__name__}: not after {SECONDS} s")
        return child.exitcode

    return end
