"""Pairs of pipelines of Flink's own operators: windows, timers, patterns, joins, sinks and sources.

The old pipeline writes a savepoint. Real Flink goes on from it with the old pipeline, and with the new one. If the new one lacks
results of the old one, it has lost or changed state. ``python -m tests.interop.pipeline_pairs`` tries all pairs, and
prints a table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import state_processor as sp
from tests.interop import flink
from tests.interop.pair_campaign import Result, run, versions_of


@dataclass(frozen=True)
class PipelinePair:
    """An old and a new pipeline, as the words of ``Pipelines``."""

    name: str
    old: str
    new: str
    changes_code: bool = False
    """Whether another function goes on with the values, all of which restore."""
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
_SESSION = "window session"
SHAPE_PAIRS = (
    PipelinePair("windows begin later", _WINDOW, "window offset"),
    PipelinePair("tumbling windows become shorter", _WINDOW, "window shorter"),
    PipelinePair("overlapping windows become longer", "window sliding", "window wide-sliding"),
    PipelinePair("sessions end earlier", _SESSION, "window shorter-session"),
    PipelinePair("sessions get a gap for each event", _SESSION, "window dynamic-session"),
    PipelinePair("sessions wait for late events", _SESSION, "window session late"),
    PipelinePair("windows get a trigger of processing time", _WINDOW, "window tumbling by-clock"),
    PipelinePair("windows get a continuous trigger of processing time", _WINDOW, "window tumbling continuous-by-clock"),
    PipelinePair("windows get a timeout", _WINDOW, "window tumbling timeout"),
    PipelinePair("sessions get a trigger that counts", _SESSION, "window session third again"),
    PipelinePair("windows get a trigger that counts to three", _WINDOW, "window tumbling third again"),
    PipelinePair("windows lose a trigger that counts to three", "window tumbling third again", "window tumbling again"),
    PipelinePair(
        "windows of elements keep recent events", "window tumbling elements evicting", "window tumbling elements recent"
    ),
    PipelinePair("windows lose an evictor", "window tumbling elements evicting", "window tumbling elements"),
    PipelinePair("an aggregate of windows has another accumulator", "window tumbling aggregate", "window tumbling flat"),
    PipelinePair(
        "an aggregate of windows has another result", "window tumbling aggregate", "window tumbling counted", changes_code=True
    ),
    PipelinePair("a reduction of windows becomes another", "window tumbling again", "window tumbling highest again", True),
    PipelinePair("windows of keys become windows of all", _WINDOW, "all tumbling"),
    PipelinePair("windows of all become windows of keys", "all tumbling", _WINDOW),
    PipelinePair("windows of all stay", "all tumbling", "all tumbling"),
    PipelinePair("windows of all overlap", "all tumbling", "all sliding"),
    PipelinePair("windows of counts hold more", "count three", "count three four", True),
    PipelinePair("windows of counts hold fewer", "count three", "count two", True),
    PipelinePair("windows of counts are written out", "count three", "count three written-out"),
    PipelinePair("windows of counts are not purged", "count three", "count three keeping"),
    PipelinePair("windows of counts overlap", "count three", "count every"),
    PipelinePair("windows of counts have another reduction", "count three", "count three highest", True),
    PipelinePair("sessions become windows of counts", _SESSION, "count three"),
    PipelinePair("an operator leaves the chain of windows", _WINDOW, "window tumbling unchained"),
    PipelinePair("windows get their events in turns", _WINDOW, "window tumbling rebalanced"),
    PipelinePair("a reduction becomes another", "reduce", "reduce highest", True),
    PipelinePair("a sum becomes a maximum", "sum", "max", True),
    PipelinePair("a sum becomes a reduction", "sum", "reduce"),
    PipelinePair("a reduction becomes windows", "reduce", _WINDOW),
    PipelinePair("a reduction leaves the chain", "reduce", "reduce unchained"),
    PipelinePair("a reduction has another key of one type", "reduce", "reduce capitals", True),
    PipelinePair("the key of timers becomes a number", "timers", "numbered"),
    PipelinePair("the state of timers is renamed", "timers", "timers renamed"),
    PipelinePair("results go to a side output", "timers", "timers aside"),
    PipelinePair("results leave a side output", "timers aside", "timers"),
    PipelinePair("timers leave the chain", "timers", "timers unchained"),
    PipelinePair("timers become a reduction", "timers", "reduce"),
    PipelinePair("pending requests exceed the capacity", "wait", "wait small"),
    PipelinePair("pending requests are tried again", "wait", "wait retried"),
    PipelinePair("pending requests become a process function", "wait", "timers"),
    PipelinePair("the interval of a join shrinks", "interval again", "interval narrow again", True),
    PipelinePair("an interval join becomes a pattern", "interval", "cep"),
    PipelinePair("a pattern becomes strict", "cep", "cep strict"),
    PipelinePair("a pattern repeats its first stage", "cep", "cep repeated"),
    PipelinePair("a pattern gets a third stage", "cep", "cep third"),
    PipelinePair("a pattern becomes a reduction", "cep", "reduce"),
    PipelinePair("a sink loses its writers and changes its format", "sink", "sink stateless version-2"),
    PipelinePair("a sink without state of writers does not commit any more", "sink stateless", "sink plain"),
    PipelinePair("a sink becomes a process function", "sink", "timers"),
    PipelinePair("files are put behind an operator", "source files", "source files mapped"),
)
"""Pairs whose windows, triggers, keys, chains and functions change."""
ALL_PAIRS = (*WINDOW_PAIRS, *FUNCTION_PAIRS, *CONNECTOR_PAIRS, *SHAPE_PAIRS)


def without_uids(pairs: Sequence[PipelinePair]) -> list[PipelinePair]:
    """Return pairs of the same pipelines without uids."""
    return [replace(pair, name=f"{pair.name}, without uids", anonymous=True) for pair in pairs]


def results(pairs: Sequence[PipelinePair], version: str, backends: Sequence[str], directory: Path) -> Iterator[Result]:
    """Yield the results of pairs with a version of Flink, or with :data:`~tests.interop.pair_campaign.UPGRADE`."""
    for backend in backends:
        yield from _results(pairs, version, backend, directory / backend)


def _results(pairs: Sequence[PipelinePair], version: str, backend: str, directory: Path) -> Iterator[Result]:
    old_version, new_version = versions_of(version)
    (directory / "files").mkdir(parents=True)
    (directory / "files" / "lines").write_text("".join(f"line {number}\n" for number in range(500)), "utf-8")

    def answers(version: str, words: Sequence[str], savepoints: Sequence[str] = ()) -> list[dict[str, Any]]:
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
    written, described = answers(old_version, olds), answers(new_version, news)
    problems = [f"{one}: {a['error']}" for one, a in zip((*olds, *news), (*written, *described), strict=True) if "error" in a]
    assert problems == [], "\n".join(problems)
    paths = [str(answer["savepoint"]) for answer in written]
    continued, restored = answers(old_version, olds, paths), answers(new_version, news, paths)
    for pair, path, job, control, answer in zip(pairs, paths, described, continued, restored, strict=True):
        report = sp.check_job(path, job["savepoint"], flink=new_version, backend=backend)  # type: ignore[arg-type]
        assert control.get("emitted"), (pair, control)
        lost = sorted(_emitted(control) - _emitted(answer))
        outcome = "refused" if "error" in answer else "other values" if lost else "same values"
        details = answer.get("error", str(lost or ""))
        yield Result(pair.name, version, backend, report, outcome, details, changes_code=pair.changes_code)


def _emitted(answer: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(answer.get("emitted", ()))


if __name__ == "__main__":
    raise SystemExit(run((*ALL_PAIRS, *without_uids(ALL_PAIRS)), results, sys.argv[1:]))
