"""How tests are given to the processes of xdist: a module at a time.

A process stays in one track as long as it can: modules of a track need the same JVMs, which start once for all. In a track,
the modules that take long come first, so that all processes end at about the same time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

TRACKS: Final = {
    "queries": r"tests/interop/test_(query|sql)_",
    "Flink": r"tests/interop/|tests/state_processor/plugins/\w+/test_with_flink",
    "quick": r"tests/(backends|serializers)/",
    "other": r"",
}
"""Patterns of modules; the first that matches counts."""
SPARK: Final = "Spark"
"""The track of other modules with the session of Spark: its JVM starts in one process, unless another process is idle."""
_SESSION: Final = re.compile(r"\bspark: SparkSession\b")
WITH_FLINK: Final = ("queries", "Flink")
"""The tracks whose modules use JVMs with Flink."""
LAST: Final = "quick"
"""The track of many short modules: they fill the time that other tracks leave."""
_TESTS: Final = Path(__file__).parent
_DURATIONS: Final = (_TESTS / "durations.json", *_TESTS.glob("state_processor/plugins/*/durations.json"))
SECONDS: Final[dict[str, int]] = {
    module: seconds for file in _DURATIONS for module, seconds in json.loads(file.read_text("utf-8")).items()
}
"""The seconds of long modules. They decide on the order of modules, and on the modules that ``./dev test --quick`` leaves out."""
SLOW: Final = 10
"""A module of so many seconds or more is slow."""


@cache
def track_of(module: str) -> str:
    """Return the track of a module."""
    track = next(track for track, pattern in TRACKS.items() if re.match(pattern, module))
    path = _TESTS.parent / module
    return SPARK if track == "other" and path.is_file() and _SESSION.search(path.read_text("utf-8")) else track


def is_slow(module: str) -> bool:
    """Return whether all tests of a module get the marker ``slow``."""
    return _seconds(module) >= SLOW


class ModuleScheduling(LoadFileScheduling):
    """``--dist loadfile`` with tracks, which goes on after a process has crashed.

    xdist runs a test again that has ended its process. It also gives the new process modules that are done, and waits for them
    forever.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tracks: dict[WorkerController, str] = {}

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process. Return the test that ended it: this test does not run again."""
        self._tracks.pop(node, None)
        units = self.assigned_work[node]
        left = [(scope, name) for scope, tests in units.items() for name, done in tests.items() if not done]
        if left:
            scope, name = left[0]
            units[scope][name] = True
        for scope in [scope for scope, tests in units.items() if all(tests.values())]:
            del units[scope]
        super().remove_node(node)
        return left[0][1] if left else None

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process more, but not before it has listed its tests: when two are replaced, the first asks for both."""
        if node in self.registered_collections:
            super()._reschedule(node)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.collection or ())}

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process its next module. xdist would look through all tests for the place of each."""
        module = self.next_module(node)
        tests = self.assigned_work[node][module] = self.workqueue.pop(module)
        node.send_runtest_some([self._places[name] for name, done in tests.items() if not done])

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note the end of a test, and forget modules that are done: xdist would count their tests after each test."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        module = self._split_scope(self.registered_collections[node][item_index])
        if all(units[module].values()):
            del units[module]

    def next_module(self, node: WorkerController) -> str:
        """Return the longest module that is left of the track of a process, or of the track that needs a process most."""
        left: dict[str, list[str]] = {}
        for module in self.workqueue:
            left.setdefault(track_of(module), []).append(module)
        track = self._tracks.get(node, "")
        if track not in left:
            processes = Counter(self._tracks[other] for other in self._tracks if other is not node)
            needs = {name: sum(map(_seconds, modules)) / (1 + processes[name]) for name, modules in left.items()}
            last = [LAST, *([SPARK] if processes[SPARK] else [])]  # another process with a session comes after what fills
            order = {name: -last.index(name) if name in last else 1 for name in left}
            track = max(needs, key=lambda name: (order[name], not processes[name], needs[name]))
        self._tracks[node] = track
        return max(left[track], key=_seconds)


def _seconds(module: str) -> int:
    return SECONDS.get(module, 1)
