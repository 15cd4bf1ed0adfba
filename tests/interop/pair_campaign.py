"""What the check says about pairs of jobs, pipelines or queries, and what real Flink does; a campaign prints the table."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import state_processor as sp
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

    @property
    def agrees(self) -> bool:
        """Whether the answer of the check is true. An answer that something could not be checked is."""
        if self.without_old_plan is not None and self.without_old_plan.answer is Answer.YES:
            return False
        if self.report.answer is Answer.UNCHECKED:
            return True
        if self.changes_code:
            return self.report.restores and any("code" in note for note in self.report.notes)
        return self.report.restores == (self.outcome == "same values")

    def __str__(self) -> str:
        said = "; ".join(f"{row['outcome']} ({row['reason']})" for row in self.report.rows() if row["reason"]) or "restores"
        details = self.details.strip().splitlines()[-1:]
        happened = ": ".join((self.outcome, *(line[:150] for line in details)))
        where = f"{'' if self.agrees else 'WRONG '}{self.version} {self.backend}, {self.pair}"
        return f"{where}: {self.report.answer}: {said[:400]} | {happened}"


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
    table: Counter[tuple[str, str]] = Counter()
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
                    table[str(result.report.answer), result.outcome] += 1
    for (answer, outcome), count in sorted(table.items()):
        print(f"{answer} | {outcome} | {count}")
    print(f"{table.total() - wrong} of {table.total()} agree")
    return wrong
