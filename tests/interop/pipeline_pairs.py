"""Pairs of pipelines of Flink's own operators: windows, timers, patterns, joins, sinks and sources.

The old pipeline writes a savepoint. Real Flink goes on from it with the old pipeline, and with the new one. If the new one lacks
results of the old one, it has lost or changed state. ``python -m tests.interop.pipeline_pairs`` tries all pairs, and
prints a table.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import state_processor as sp
from state_processor.types.answers import Answer
from tests.interop import flink, flink_jars
from tests.interop.job_pairs import BACKENDS, UPGRADE, VERSIONS


@dataclass(frozen=True)
class PipelinePair:
    """An old and a new pipeline, as the words of ``Pipelines``."""

    name: str
    old: str
    new: str
    anonymous: bool = False
    """Whether operators lack uids."""


_WINDOW = "window tumbling"
WINDOW_PAIRS = (
    PipelinePair("windows stay", _WINDOW, _WINDOW),
    PipelinePair("tumbling windows become sessions", _WINDOW, "window session"),
    PipelinePair("sessions become tumbling windows", "window session", _WINDOW),
    PipelinePair("sessions stay", "window session", "window session"),
    PipelinePair("sessions end later", "window session", "window longer-session"),
    PipelinePair("windows of event time become windows of processing time", _WINDOW, "window processing"),
    PipelinePair("sessions of event time become sessions of processing time", "window session", "window processing-session"),
    PipelinePair("tumbling windows become longer", _WINDOW, "window longer"),
    PipelinePair("tumbling windows overlap", _WINDOW, "window sliding"),
    PipelinePair("overlapping windows become tumbling windows", "window sliding", _WINDOW),
    PipelinePair("windows wait for late events", _WINDOW, "window tumbling late"),
    PipelinePair("windows do not wait any more", "window tumbling late", _WINDOW),
    PipelinePair("windows get a trigger that counts", _WINDOW, "window tumbling counting"),
    PipelinePair("windows purge", _WINDOW, "window tumbling purging"),
    PipelinePair("windows get a continuous trigger", _WINDOW, "window tumbling continuous"),
    PipelinePair("windows lose a continuous trigger", "window tumbling continuous", _WINDOW),
    PipelinePair("windows get an evictor", _WINDOW, "window tumbling evicting"),
    PipelinePair("windows of elements get an evictor", "window tumbling elements", "window tumbling elements evicting"),
    PipelinePair("windows of elements stay", "window tumbling elements", "window tumbling elements"),
    PipelinePair("a reduction becomes an aggregate", _WINDOW, "window tumbling aggregate"),
    PipelinePair("a reduction becomes a list of elements", _WINDOW, "window tumbling elements"),
    PipelinePair("an aggregate stays", "window tumbling aggregate", "window tumbling aggregate"),
    PipelinePair("windows of counts stay", "count three", "count three"),
    PipelinePair("windows of counts become windows of time", "count three", _WINDOW),
    PipelinePair("windows of time become windows of counts", _WINDOW, "count three"),
    PipelinePair("windows become a process function", _WINDOW, "timers"),
    PipelinePair("a process function becomes windows", "timers", _WINDOW),
    PipelinePair("windows become a reduction without windows", _WINDOW, "reduce"),
    PipelinePair("an operator is put in front of windows", _WINDOW, "window tumbling mapped"),
)
FUNCTION_PAIRS = (
    PipelinePair("a process function stays", "timers", "timers"),
    PipelinePair("a process function uses the other time", "timers", "timers processing"),
    PipelinePair("an operator is put in front of a process function", "timers", "timers mapped"),
    PipelinePair("a reduction stays", "reduce", "reduce"),
    PipelinePair("pending requests stay", "wait", "wait"),
    PipelinePair("pending requests get an order", "wait", "wait ordered"),
    PipelinePair("pending requests lose their order", "wait ordered", "wait"),
    PipelinePair("an interval join stays", "interval", "interval"),
    PipelinePair("the interval of a join grows", "interval", "interval wide"),
    PipelinePair("a pattern stays", "cep", "cep"),
    PipelinePair("a stage of a pattern is renamed", "cep", "cep renamed"),
    PipelinePair("a pattern has another condition", "cep", "cep stricter"),
    PipelinePair("a pattern ends in time", "cep", "cep within"),
    PipelinePair("a pattern does not end any more", "cep within", "cep"),
    PipelinePair("broadcast rules stay", "broadcast", "broadcast"),
    PipelinePair("broadcast rules are renamed", "broadcast", "broadcast renamed"),
)
CONNECTOR_PAIRS = (
    PipelinePair("a sink stays", "sink", "sink"),
    PipelinePair("a sink has another format", "sink", "sink version-2"),
    PipelinePair("a sink has another format and refuses the old one", "sink", "sink version-2 strict"),
    PipelinePair("a sink goes back to the old format", "sink version-2", "sink strict"),
    PipelinePair("a sink has no state of writers any more", "sink", "sink stateless"),
    PipelinePair("a sink gets state of writers", "sink stateless", "sink"),
    PipelinePair("a sink does not commit any more", "sink", "sink plain"),
    PipelinePair("an operator is put in front of a sink", "sink", "sink mapped"),
    PipelinePair("a source of numbers stays", "source numbers", "source numbers"),
    PipelinePair("a source of numbers begins later", "source numbers", "source numbers later"),
    PipelinePair("numbers become files", "source numbers", "source files"),
    PipelinePair("files become numbers", "source files", "source numbers"),
)
ALL_PAIRS = (*WINDOW_PAIRS, *FUNCTION_PAIRS, *CONNECTOR_PAIRS)


def without_uids(pairs: Sequence[PipelinePair]) -> list[PipelinePair]:
    """Return pairs of the same pipelines without uids."""
    return [PipelinePair(f"{pair.name}, without uids", pair.old, pair.new, anonymous=True) for pair in pairs]


@dataclass(frozen=True)
class Result:
    """The report of the check, and the results of the old and of the new pipeline after the savepoint."""

    pair: str
    version: str
    backend: str
    report: sp.JobReport
    error: str | None
    expected: frozenset[str]
    emitted: frozenset[str]

    @property
    def outcome(self) -> str:
        """What Flink did."""
        if self.error is not None:
            return "refused"
        return "same values" if self.expected <= self.emitted else "other values"

    @property
    def agrees(self) -> bool:
        """Whether the answer of the check is true. An answer that something could not be checked is."""
        return self.report.answer is Answer.UNCHECKED or self.report.restores == (self.outcome == "same values")

    def __str__(self) -> str:
        said = "; ".join(f"{row['outcome']} ({row['reason']})" for row in self.report.rows() if row["reason"]) or "restores"
        lost = f": {sorted(self.expected - self.emitted)}" if self.outcome == "other values" else ""
        reason = f": {self.error.strip().splitlines()[-1][:150]}" if self.error else lost
        where = f"{'' if self.agrees else 'WRONG '}{self.version} {self.backend}, {self.pair}"
        return f"{where}: {self.report.answer}: {said[:400]} | {self.outcome}{reason}"


def results(pairs: Sequence[PipelinePair], version: str, backend: str, directory: Path) -> Iterator[Result]:
    """Yield the results of pairs with a version of Flink, or with :data:`UPGRADE`."""
    old_version, new_version = version.split(" to ") if version == UPGRADE else (version, version)
    (directory / "files").mkdir(parents=True)
    (directory / "files" / "lines").write_text("".join(f"line {number}\n" for number in range(500)), "utf-8")

    def run(version: str, words: Sequence[str], savepoints: Sequence[str] = ()) -> list[dict[str, Any]]:
        requests = [
            {
                "shape": one.split(),
                "anonymous": pair.anonymous,
                "backend": backend,
                "to": str(directory / "savepoints"),
                "files": str(directory / "files"),
                **({"savepoint": savepoints[place]} if savepoints else {}),
            }
            for place, (pair, one) in enumerate(zip(pairs, words, strict=True))
        ]
        return flink.pipelines(version, requests)

    olds, news = [pair.old for pair in pairs], [pair.new for pair in pairs]
    written, described = run(old_version, olds), run(new_version, news)
    problems = [f"{one}: {a['error']}" for one, a in zip((*olds, *news), (*written, *described), strict=True) if "error" in a]
    assert problems == [], "\n".join(problems)
    paths = [str(answer["savepoint"]) for answer in written]
    continued, restored = run(old_version, olds, paths), run(new_version, news, paths)
    for pair, path, job, control, answer in zip(pairs, paths, described, continued, restored, strict=True):
        report = sp.check_job(path, job["savepoint"], flink=new_version, backend=backend)  # type: ignore[arg-type]
        assert control.get("emitted"), (pair, control)
        yield Result(pair.name, version, backend, report, answer.get("error"), _emitted(control), _emitted(answer))


def _emitted(answer: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(answer.get("emitted", ()))


def main(words: Sequence[str]) -> int:
    """Try the pairs whose names contain one of the words, or all, and return the number of disagreements."""
    table: Counter[tuple[str, str]] = Counter()
    every = (*ALL_PAIRS, *without_uids(ALL_PAIRS))
    chosen = [pair for pair in every if not words or any(word in pair.name for word in words)]
    wrong = 0
    flink_jars.CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pairs-", dir=flink_jars.CACHE) as directory:
        for version in (*VERSIONS, UPGRADE):
            for backend in BACKENDS:
                for result in results(chosen, version, backend, Path(directory, version.replace(" ", "-"), backend)):
                    print(result, flush=True)
                    wrong += not result.agrees
                    table[str(result.report.answer), result.outcome] += 1
    for (answer, outcome), count in sorted(table.items()):
        print(f"{answer} | {outcome} | {count}")
    print(f"{sum(table.values()) - wrong} of {sum(table.values())} agree")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
