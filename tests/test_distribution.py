"""The order in which modules are given to the processes of xdist."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from tests import distribution
from tests.distribution import ModuleScheduling

ROOT = Path(__file__).parents[1]


class Given:
    """A scheduler's process, and the modules that it was given."""

    shutting_down = False

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.tests: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.tests += indices


def given(modules: list[str], processes: int) -> list[list[str]]:
    """Return the modules that each process is given, which asks for the next one when it has time."""
    scheduler = ModuleScheduling.__new__(ModuleScheduling)
    scheduler._tracks = {}
    scheduler.workqueue = OrderedDict((module, {}) for module in modules)
    nodes = [Given() for _ in range(processes)]
    spent = [0] * processes
    while scheduler.workqueue:
        first = spent.index(min(spent))
        module = scheduler.next_module(nodes[first])  # type: ignore[arg-type]
        del scheduler.workqueue[module]
        nodes[first].modules.append(module)
        spent[first] += distribution.SECONDS.get(module, 1)
    return [node.modules for node in nodes]


def test_a_process_stays_in_its_track_and_takes_long_modules_first(monkeypatch: pytest.MonkeyPatch) -> None:
    names, bootstrap, deployment, notebooks, basic = (
        "tests/interop/test_sql_names.py",
        "tests/interop/test_sql_bootstrap.py",
        "tests/packaging/test_deployment.py",
        "tests/notebooks/test_notebooks.py",
        "tests/serializers/core/test_basic.py",
    )
    monkeypatch.setattr(distribution, "SECONDS", {names: 40, bootstrap: 90, deployment: 100, notebooks: 60})
    assert given([basic, names, bootstrap, notebooks, deployment], 2) == [[deployment, notebooks], [bootstrap, names, basic]]


def test_one_process_has_the_session_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "SECONDS", {})
    folder = "tests/state_processor/write"
    with_session = frozenset({f"{folder}/test_writer.py", f"{folder}/test_write_errors.py"})
    without = frozenset({f"{folder}/test_async_state.py", f"{folder}/test_termination.py"})
    assert {*map(frozenset, given([*with_session, *without], 2))} == {with_session, without}


def test_a_process_that_has_not_listed_its_tests_gets_none_yet() -> None:
    scheduler = ModuleScheduling.__new__(ModuleScheduling)
    first, second = Given(), Given()
    scheduler._tracks = {}
    scheduler.log = lambda *_: None  # type: ignore[assignment]
    modules = [f"tests/test_{name}.py" for name in "abc"]
    names = [f"{module}::test" for module in modules]
    scheduler.workqueue = OrderedDict((module, {name: False}) for module, name in zip(modules, names, strict=True))
    scheduler.collection = names
    scheduler.numnodes = 1
    scheduler.registered_collections = {first: names}  # type: ignore[dict-item]
    scheduler.assigned_work = OrderedDict({first: OrderedDict(), second: OrderedDict()})  # type: ignore[dict-item]
    scheduler.schedule()
    assert (first.tests, second.tests) == ([0], [])
    scheduler.registered_collections[second] = names  # type: ignore[index]
    scheduler.schedule()
    assert (first.tests, second.tests) == ([0, 1], [2])


def test_a_quick_run_leaves_out_modules_that_take_long() -> None:
    quick, slow = "tests/test_distribution.py", "tests/interop/test_sql_names.py"
    assert distribution.SECONDS[slow] >= distribution.SLOW
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-n", "0", "-m", "not slow"]
    collected = subprocess.run([*command, quick, slow], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name for name in (quick, slow) if name in collected} == {quick}
