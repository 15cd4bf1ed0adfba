"""Kills of many writes at random moments, and what came of each."""

from __future__ import annotations

import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import state_processor as sp
from tests.faults import writes
from tests.faults.children import run_killed_after
from tests.faults.driver import APIS
from tests.faults.processes import Cluster, Driver, command, descendants, kill, parent
from tests.faults.storage import faults, no_fault
from tests.faults.truth import check_repair, check_second_write, names, visible
from tests.faults.writes import STORE_PATH, Write, digests_of_base
from tests.state_processor.samples import ORDERS_PATH

KINDS: Final = {
    "process": ("local", "remote"),
    "spark": ("worker", "driver", "jvm", "group"),
    "cluster": ("worker", "executor", "daemon", "driver", "group"),
}
"""What is killed: a process without Spark whose target is local or remote; with Spark on one machine or on a cluster, a Python
worker or all of them, the driver's Python or JVM or all that belongs to it, executors, and the daemons that start these."""

_SURVIVES: Final = ("worker", "executor", "daemon")
_PHASES: Final = (None, "-open", "-shuffle-", "-index-", "-(keyed|operator|store)-", "-claim")
"""Files of a write that a kill waits for, so that no phase is too short to be met."""
_ROWS: Final = 20000
_PYTHON: Final = "pyspark.daemon"


@dataclass
class Report:
    """Numbers of kills by kind and by the result of readers after them, and problems."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str) -> None:
        """Count a kill."""
        self.outcomes.setdefault(kind, Counter())[outcome] += 1

    def table(self) -> str:
        """Return the numbers as text."""
        names = sorted({outcome for counts in self.outcomes.values() for outcome in counts})
        lines = ["| killed | kills | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
        for kind, counts in self.outcomes.items():
            lines.append(f"| {kind} | {counts.total()} | " + " | ".join(str(counts[n]) for n in names) + " |")
        return "\n".join(lines)


class Campaign:
    """Kills in one directory.

    Parameters
    ----------
    root
        The directory.
    seed
        Of random moments and choices.
    kinds
        What is killed, of :data:`KINDS`; all by default.
    apis
        What writes with Spark.
    """

    def __init__(self, root: Path, seed: int, kinds: Collection[str] = (), apis: Sequence[str] = APIS) -> None:
        self.report = Report()
        self._root = root
        self._random = random.Random(seed)
        self._kinds = {group: [k for k in all_ if not kinds or k in kinds] for group, all_ in KINDS.items()}
        self._apis = apis
        self._base = digests_of_base()
        self._number = 0

    def run(self, group: str, kills: int) -> None:
        """Kill writes of a group of kinds."""
        {"process": self._processes, "spark": self._spark, "cluster": self._cluster}[group](kills)

    def _write(self, end: int, url: str = "", base: str = ORDERS_PATH) -> tuple[Write, Write | None]:
        """Return a write, and the one before whose savepoint it replaces, if it is to replace one."""
        self._number += 1
        write = Write(f"{url or self._root}/{self._number}", end=end, base=base)
        if self._random.random() < 0.5:
            return write, None
        return replace(write, overwrite=True), replace(write, first=end, end=end + 10)

    def _check(self, kind: str, check: Callable[[], str]) -> None:
        """Count a kill by the result of a check; keep its error."""
        try:
            found = check()
            self.report.add(kind, found)
            print(f"{self._number}, {kind}: {found}", flush=True)
            assert digests_of_base() == self._base, "the source savepoint has changed"
        except Exception:
            self.report.add(kind, "PROBLEM")
            self.report.problems.append(f"{kind}, {self._number}: {traceback.format_exc()}")
            print(self.report.problems[-1], flush=True)

    # Without Spark

    def _processes(self, kills: int) -> None:
        took: dict[str, float] = {}
        (self._root / "host").mkdir(exist_ok=True)
        with faults(no_fault, self._root):
            for turn in range(kills):
                place = self._kinds["process"][turn % len(self._kinds["process"])]
                api = writes.APIS[turn // 2 % len(writes.APIS)]
                kind = f"{place} files, {api}"
                root = self._root if place == "remote" else None
                write, before = self._write(300, "faulty://host" if root else "", STORE_PATH if "native" in api else ORDERS_PATH)
                write, before = replace(write, api=api), before and replace(before, api=api)
                if before is not None:
                    before.run()
                if kind not in took:
                    replace(write, target=f"{write.target}-first", overwrite=False).run()  # loads modules and classes
                    began = time.monotonic()
                    replace(write, target=f"{write.target}-timed", overwrite=False).run()
                    took[kind] = time.monotonic() - began
                while not run_killed_after(write, self._random.uniform(0, took[kind]), root):
                    write = replace(write, overwrite=True)  # it was complete before: the next is killed

                def check(write: Write = write, before: Write | None = before) -> str:
                    found = visible(write, before)
                    check_repair(write, found)
                    check_second_write(write, found)
                    return found

                self._check(f"process, {kind}", check)

    # With Spark

    def _spark(self, kills: int) -> None:
        self._drivers("spark", "local[2]", kills, lambda driver: descendants(driver.process.pid), None)

    def _cluster(self, kills: int) -> None:
        cluster = Cluster(self._root)
        try:

            def processes(driver: Driver) -> list[int]:
                return descendants(driver.process.pid) + cluster.processes("")

            self._drivers("cluster", cluster.master, kills, processes, cluster)
        finally:
            cluster.end()

    def _drivers(
        self, group: str, master: str, kills: int, processes: Callable[[Driver], list[int]], cluster: Cluster | None
    ) -> None:
        driver, spare = Driver(master), Driver(master)  # the spare driver repeats the write of a killed driver
        try:
            for turn in range(kills):
                kind = self._kinds[group][turn % len(self._kinds[group])]
                if kind not in _SURVIVES:
                    spare.wait()
                api = self._random.choice(self._apis)
                write, before = self._write(_ROWS, base=STORE_PATH if api.startswith("patch") else ORDERS_PATH)
                if before is not None:
                    before.run()
                while not self._is_killed(driver, api, write, kind, processes, cluster):
                    write = replace(write, overwrite=True)  # it was complete before: the next is killed
                if kind not in _SURVIVES:
                    driver, dead = spare, driver

                def check(driver: Driver = driver, api: str = api, write: Write = write, before: Write | None = before) -> str:
                    found = visible(write, before)
                    check_second_write(write, found, lambda again: _run(driver, api, again))
                    return found

                self._check(f"{group}, {api}: {kind}", check)
                if kind not in _SURVIVES:
                    dead.end()
                    spare = Driver(master)
        finally:
            driver.end()
            spare.end()

    def _is_killed(
        self,
        driver: Driver,
        api: str,
        write: Write,
        kind: str,
        processes: Callable[[Driver], list[int]],
        cluster: Cluster | None,
    ) -> bool:
        """Run a write and kill; False if it was complete before."""
        driver.start(api, write)
        phase = self._random.choice(_PHASES)
        there = names(write.target)
        while phase and not driver.has_answered() and not any(re.search(phase, n) for n in names(write.target) - there):
            time.sleep(0.005)
        deadline = time.monotonic() + self._random.uniform(0, 0.3 if phase else 3)
        while time.monotonic() < deadline and not driver.has_answered():
            time.sleep(0.002)
        if driver.has_answered():
            answer = driver.answer()
            assert answer == {}, answer
            return False
        victims = self._victims(driver, kind, processes, cluster)
        kill(victims)
        if kind in _SURVIVES or kind == "jvm":
            self.report.errors[_text(driver.answer())] += 1
        if kind == "daemon" and cluster is not None:
            cluster.replace_worker(next(i for i, w in enumerate(cluster.workers) if w.pid == victims[0]))
        return True

    def _victims(self, driver: Driver, kind: str, processes: Callable[[Driver], list[int]], cluster: Cluster | None) -> list[int]:
        if kind == "driver":
            return [driver.process.pid]
        if kind == "jvm":
            return [driver.jvm()]
        if kind == "group":
            return descendants(driver.process.pid)
        if kind == "daemon":
            assert cluster is not None
            return [self._random.choice(cluster.workers).pid]
        while True:
            everything = processes(driver)
            if kind == "worker":  # Spark forks them from processes of the same name, whose end it does not get over by itself
                found = [p for p in everything if _PYTHON in command(p) and _PYTHON in command(parent(p))]
            else:
                found = [p for p in everything if "CoarseGrainedExecutorBackend" in command(p)]
            if found:
                return found if kind == "worker" and self._random.random() < 0.5 else [self._random.choice(found)]
            if driver.has_answered():
                return []


def _run(driver: Driver, api: str, write: Write) -> None:
    """Write with a driver, and expect success."""
    driver.start(api, write)
    answer = driver.answer()
    if "holds a savepoint already" in answer.get("message", ""):
        raise sp.OptionError(answer["message"])
    assert answer == {}, answer


def _text(answer: dict[str, Any]) -> str:
    if not answer:
        return "none: the task was run again, or was over"
    return f"{answer['type']}: {answer['message'].splitlines()[0][:100] if answer['message'] else ''}"


def shares(kills: int, groups: list[str]) -> Iterator[tuple[str, int]]:
    """Distribute kills over groups: those without Spark are many times as fast."""
    weights = {"process": 14, "spark": 4, "cluster": 2}
    left, total = kills, sum(weights[g] for g in groups)
    for group in groups:
        share = left if group == groups[-1] else round(kills * weights[group] / total)
        left -= share
        yield group, share
