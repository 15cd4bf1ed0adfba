"""What the check says about pairs of jobs, pipelines or queries, and what real Flink does; a campaign prints the table."""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import state_processor as sp
from state_processor.applications.jobs.verdicts import placeholders
from state_processor.cli import main
from state_processor.serializers import register_kryo_class, registrations
from state_processor.types.answers import Answer
from tests.interop import flink_jars

VERSIONS = ("1.20.5", "2.3.0")
UPGRADE = "1.20.5 to 2.3.0"
"""The old job runs in one version of Flink, the new job in the other one."""
BACKENDS = ("hashmap", "rocksdb")
_BATCH = 8
"""Pairs that run before their results are printed."""


class NamedPair(Protocol):
    """A pair of jobs, pipelines or queries."""

    @property
    def name(self) -> str:
        """What changes."""


AnyPair = TypeVar("AnyPair", bound=NamedPair)
Results = Callable[[Sequence[AnyPair], str, Sequence[str], Path], Iterator["Result"]]


@dataclass(frozen=True)
class Result:
    """The report of the check, and what Flink did: it refused the savepoint, or went on with the same values or other ones."""

    pair: str
    version: str
    backend: str
    report: sp.JobReport
    outcome: str
    details: str = ""
    """The error of Flink, or the values that differ."""
    without_old_plan: sp.JobReport | None = None
    """The report on a query without the plan of the old one, which is never a success."""
    changes_code: bool = False
    """Whether all values restore, and another function goes on with them. The notes of the report have to say so."""
    changes_results: bool = False
    """Whether all values restore and get another meaning, so that results differ. The check must not say that nothing changes."""
    repaired: str = ""
    """What Flink did with the savepoint that the steps of the report repair, in the words of ``outcome``; empty without steps."""

    @property
    def is_repaired(self) -> bool:
        """Whether the repaired savepoint has all values, or those that the steps do not name as lost."""
        may_lose = any("lose" in step for step in self.report.steps)
        return self.repaired in ("", "same values") or (may_lose and self.repaired == "other values")

    @property
    def agrees(self) -> bool:
        """Whether the answer of the check is true. An answer that something could not be checked is."""
        if not self.is_repaired:
            return False
        if self.without_old_plan is not None and self.without_old_plan.answer is Answer.YES:
            return False
        if self.report.answer is Answer.UNCHECKED:
            return True
        if self.changes_results:
            return self.report.answer is Answer.NO
        if self.changes_code:
            return self.report.restores and any("code" in note for note in self.report.notes)
        return self.report.restores == (self.outcome == "same values")

    def __str__(self) -> str:
        said = "; ".join(f"{row['outcome']} ({row['reason']})" for row in self.report.rows() if row["reason"]) or "restores"
        details = self.details.strip().splitlines()[-1:]
        happened = ": ".join((self.outcome, *(line[:150] for line in details)))
        where = f"{'' if self.agrees else 'WRONG '}{self.version} {self.backend}, {self.pair}"
        commands = " and ".join(shlex.split(step, comments=True)[1] for step in self.report.steps)
        after = f" | repaired by {commands}: {self.repaired}" if self.repaired else ""
        return f"{where}: {self.report.answer}: {said[:400]} | {happened}{after}"


def is_executable(steps: Sequence[str]) -> bool:
    """Return whether steps need nothing but classes, which their notes describe."""
    return bool(steps) and all(set(placeholders(step)) <= {"MODULE"} for step in steps)


def execute(steps: Sequence[str], directory: Path) -> Path:
    """Execute the steps of a report in a directory, and return the repaired savepoint."""
    described = [note for step in steps if (note := step.partition("MODULE has ")[2])]
    with contextlib.chdir(directory), registrations():  # a module of the user would register for the whole process
        for note in described:
            exec(note, {"register_kryo_class": register_kryo_class})
        for step in steps:
            assert main(shlex.split(step.replace(" --serializers MODULE", ""), comments=True)[1:]) == 0, step
    return directory / "OUT"


def has_values(after: Mapping[tuple[str, str], list[Any]], before: Mapping[tuple[str, str], list[Any]]) -> bool:
    """Return whether repaired states have the values of a snapshot, whose shape may have changed.

    Both: the entries by operator and state. Each entry keeps its keys, numbers and texts; fields may be added. A state may be in
    another place, because its operator got another uid.
    """
    return all(
        any(_has_leaves(candidate, entries) for candidate in ([after[place]] if place in after else after.values()))
        for place, entries in before.items()
    )


def _has_leaves(after: Sequence[Any], before: Sequence[Any]) -> bool:
    rest = [Counter(_leaves(entry)) for entry in after]
    for leaves in (Counter(_leaves(entry)) for entry in before):
        place = next((number for number, entry in enumerate(rest) if leaves <= entry), None)
        if place is None:
            return False
        del rest[place]
    return not rest


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a value. A number is the same as a text, in another type, and with digits of zero."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name != "@class":
                yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    elif value is not None:
        yield json.dumps(value).strip('"')


def versions_of(version: str) -> tuple[str, str]:
    """Return the versions of Flink of the old and the new job."""
    old, _, new = version.partition(" to ")
    return old, new or old


def run(pairs: Sequence[AnyPair], results: Results[AnyPair], words: Sequence[str]) -> int:
    """Try pairs with all versions and backends, print each result and a summary, and return the number of disagreements.

    Parameters
    ----------
    pairs
        The pairs.
    results
        What tries some of them with a version and backends, in a directory.
    words
        Versions and backends that are tried, by default all. The other words choose pairs whose names contain one of them.
    """
    table: Counter[tuple[str, str, str]] = Counter()
    versions = [version for version in (*VERSIONS, UPGRADE) if version in words] or [*VERSIONS, UPGRADE]
    backends = [backend for backend in BACKENDS if backend in words] or BACKENDS
    parts = [word for word in words if word not in (*versions, *backends)]
    chosen = [pair for pair in pairs if not parts or any(part in pair.name for part in parts)]
    wrong = 0
    flink_jars.CACHE.mkdir(exist_ok=True)
    for version in versions:
        for first in range(0, len(chosen), _BATCH):
            with tempfile.TemporaryDirectory(prefix="pairs-", dir=flink_jars.CACHE) as directory:
                for result in results(chosen[first : first + _BATCH], version, backends, Path(directory)):
                    print(result, flush=True)
                    wrong += not result.agrees
                    table[str(result.report.answer), result.outcome, result.repaired] += 1
    for (answer, outcome, repaired), count in sorted(table.items()):
        print(f"{answer} | {outcome} | {f'repaired: {repaired}' if repaired else 'no repair'} | {count}")
    print(f"{table.total() - wrong} of {table.total()} agree")
    return wrong
