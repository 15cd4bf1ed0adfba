"""Children of a forkserver: processes without threads that find their modules imported.

A process has one forkserver. It imports all modules that tests name, whichever test starts it, and in whichever directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import chdir, nullcontext
from multiprocessing import forkserver, get_context
from pathlib import Path
from typing import Any, Final

from _pytest.config import default_plugins

from tests.waiting import SECONDS

_ROOT: Final = Path(__file__).resolve().parents[1]
_FORKS: Final = get_context("forkserver")
_IMPORTED: Final = (
    *(f"_pytest.{name}" for name in default_plugins),
    *("state_processor.testing.plugin", "tests.faults.children", "tests.numba_tables"),
    "state_processor.applications.serving.query_imports",
)


class _Forkserver(forkserver.ForkServer):
    """A forkserver that adds modules to those it has to import, and finds the modules of tests."""

    def __init__(self) -> None:
        super().__init__()
        self._preload_modules = [*_IMPORTED]

    def set_forkserver_preload(self, names: Iterable[str]) -> None:
        self._preload_modules += [name for name in names if name not in self._preload_modules]

    def ensure_running(self) -> None:
        with chdir(_ROOT) if self._forkserver_pid is None else nullcontext():  # type: ignore[attr-defined]
            super().ensure_running()


_SERVER: Final = _Forkserver()
forkserver._forkserver = _SERVER
for _name in ("connect_to_new_process", "ensure_running", "get_inherited_fds", "set_forkserver_preload"):
    setattr(forkserver, _name, getattr(_SERVER, _name))


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
