"""Runs cases with real Flink and tells which differ; shrinks those."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, HeapFormat, KeyedFormat, StoreFormat
from tests.interop import flink, flink_jars
from tests.interop.differential import reading, spark_writing, writing
from tests.interop.differential.cases import Entries, canonical, smaller
from tests.interop.differential.draw import Draw
from tests.interop.differential.pojos import PACKAGE, REGISTRATION, SOURCES
from tests.interop.differential.scalars import as_text

VERSIONS = ("1.20.5", "2.3.0")
BACKENDS = ("hashmap", "rocksdb")
WRITTEN, NATIVE, SPARK, READ = "written", "native", "spark", "read"
DIRECTIONS = (WRITTEN, NATIVE, SPARK, READ)
FORST = ("2.3.0", "forst")
"""The version and the backend that restores native files alone."""
_NATIVE_FORMATS: dict[str, KeyedFormat] = {
    "hashmap": HeapFormat(),
    "rocksdb": StoreFormat(),
    "forst": StoreFormat("forst"),
}

_BATCH = 12
_MOST_SHRINKING, _MOST_CANDIDATES, _AT_ONCE = 15, 48, 8
_ALL_FORMATS = ("canonical", "native", "incremental")
_FORMATS = {WRITTEN: ("canonical", "native"), SPARK: ("canonical", "native"), NATIVE: _ALL_FORMATS, READ: _ALL_FORMATS}
_COMPRESSED = {
    "execution.checkpointing.snapshot-compression": "true",
    "state.backend.rocksdb.use-bloom-filter": "true",
}
_TIMERS = "state.backend.rocksdb.timer-service.factory"
_HEAP_TIMERS = {_TIMERS: "HEAP"}  # native savepoints leave them out
_SETTINGS = ({}, _COMPRESSED, _HEAP_TIMERS, _COMPRESSED | _HEAP_TIMERS)
_NATIVE_SETTINGS = ({}, _COMPRESSED)  # timers in files of RocksDB are lost if they belong on the heap

Case = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """The direction, and which Flink."""

    direction: str
    version: str
    backend: str

    def __str__(self) -> str:
        return f"{self.direction}, Flink {self.version}, {self.backend}"


@dataclass(frozen=True)
class Job:
    """Cases that are operators of one job, by number, and where its files are."""

    cases: Mapping[int, Case]
    directory: Path

    def savepoint(self, setting: Setting) -> Path:
        backend = f"-{setting.backend}" if setting.direction == NATIVE else ""
        return self.directory / f"savepoint-{setting.version}{backend}"

    @property
    def max_parallelism(self) -> int:
        return int(next(iter(self.cases.values()))["max_parallelism"])


Problems = dict[tuple[int, Setting], list[str]]
"""What differs, by the number of the case, and the setting."""


def slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of so many values."""
    return (values[start : start + size] for start in range(0, len(values), size))


def settings(direction: str) -> list[Setting]:
    backends = [(version, backend) for version in VERSIONS for backend in BACKENDS]
    return [Setting(direction, *each) for each in (*backends, *([FORST] if direction == NATIVE else []))]


def run(cases: Sequence[Case], where: Sequence[Setting], size: int = _BATCH, counts: Counter[str] | None = None) -> Problems:
    """What differs; nothing for cases that are as they should be.

    Args:
        cases: any number.
        where: settings of one direction.
        size: maximum number of cases as operators of one job; they have the same max parallelism.
        counts: receives how much was restored and compared.
    """
    flink_jars.CACHE.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="differential-", dir=flink_jars.CACHE))
    try:
        return _run(dict(enumerate(cases)), where, size, scratch, Counter() if counts is None else counts)
    finally:
        shutil.rmtree(scratch)


def _run(cases: Mapping[int, Case], where: Sequence[Setting], size: int, scratch: Path, counts: Counter[str]) -> Problems:
    versions = sorted({setting.version for setting in where})
    problems: Problems = {}
    jobs = []
    groups: dict[int, list[int]] = defaultdict(list)
    for number, case in cases.items():
        groups[case["max_parallelism"]].append(number)
    for group in groups.values():
        for part in slices(group, size):
            job = Job({number: cases[number] for number in part}, scratch / f"{size}-{len(jobs)}")
            job.directory.mkdir(parents=True)
            if where[0].direction != READ:
                refusals = _written(job, where)
                problems |= {(number, setting): [words] for number, words in refusals.items() for setting in where}
                job = replace(job, cases={number: case for number, case in job.cases.items() if number not in refusals})
            if job.cases:
                jobs.append(job)
    expected = {number: canonical(case) for number, case in cases.items()}
    alone: dict[Setting, dict[int, Case]] = defaultdict(dict)
    for version in versions:
        asked = [(job, setting) for setting in where if setting.version == version for job in jobs]
        for (job, setting), answer in zip(asked, _ask(version, asked), strict=True):
            counts["jobs"] += 1
            if "error" in answer and len(job.cases) > 1:
                alone[setting] |= job.cases
                continue
            for number, case in job.cases.items():
                refusal = f"Flink refuses:\n{answer['error'][:3000]}" if "error" in answer else None
                found = [refusal] if refusal else list(_differences(case, expected[number], answer, setting, counts))
                counts["operators"] += 1
                if found:
                    problems[number, setting] = found
    for number, (setting, some) in enumerate(alone.items()):
        problems |= _run(some, [setting], 1, scratch / f"alone-{number}", counts)
    return problems


def _written(job: Job, where: Sequence[Setting]) -> dict[int, str]:
    """Write the savepoints of a job; return the messages of unexpected refusals of our writer."""
    refusals = {}
    try:
        _write(job, where)
    except Exception:
        for number, case in job.cases.items():
            try:
                _write(replace(job, cases={number: case}), where)
            except Exception as problem:  # whatever it is, it is to be reported with the seed
                refusals[number] = f"we refuse: {type(problem).__name__}: {problem}"
        _write(replace(job, cases={n: case for n, case in job.cases.items() if n not in refusals}), where)
    return refusals


def _write(job: Job, where: Sequence[Setting]) -> None:
    savepoints = {job.savepoint(setting): setting for setting in where} if job.cases else {}
    for path, setting in savepoints.items():
        shutil.rmtree(path, ignore_errors=True)
        if setting.direction == SPARK:
            spark_writing.write(list(job.cases.values()), path, setting.version)
        else:
            format = _NATIVE_FORMATS[setting.backend] if setting.direction == NATIVE else CANONICAL_FORMAT
            writing.write(list(job.cases.values()), path, setting.version, format)


def _ask(version: str, asked: Sequence[tuple[Job, Setting]]) -> list[dict[str, Any]]:
    if not asked:
        return []
    classes = flink.generated_classes(version, PACKAGE, SOURCES)
    requests = [_request(job, setting) for job, setting in asked]
    tables = "ROW_DATA" in json.dumps(requests)
    return flink.restore(version, requests, class_path=[classes], tables=tables, timeout=600 + 60 * len(asked))


def _request(job: Job, setting: Setting) -> dict[str, Any]:
    draw = _chance(job, setting)
    written = setting.direction != READ
    options = draw.choice(_NATIVE_SETTINGS if setting.direction == NATIVE else _SETTINGS)
    formats = [f for f in _FORMATS[setting.direction] if options.get(_TIMERS) != "HEAP" or f != "native"]
    if setting.backend == "forst":
        formats.remove("canonical")  # ForSt has none
    return flink.request(
        list(job.cases.values()),
        job.savepoint(setting) if written else None,
        backend=setting.backend,
        parallelism=min(job.max_parallelism, draw.randint(1, 3)),
        max_parallelism=job.max_parallelism,
        settings=options | REGISTRATION[setting.version[0]],
        filled=not written,
        snapshots=formats,
        snapshots_to=job.directory / f"{setting.version}-{setting.backend}",
    )


def _chance(job: Job, setting: Setting) -> Draw:
    """What the job's own options are drawn from; the same for a seed alone and on another day."""
    return Draw(as_text([min(job.cases.values(), key=lambda case: str(case["uid"]))["uid"], setting.backend]))


def _differences(case: Case, expected: Entries, answer: dict[str, Any], setting: Setting, counts: Counter[str]) -> Iterator[str]:
    counts["entries"] += sum(map(len, expected.values())) * (len(answer["snapshots"]) + (setting.direction != READ))
    counts["snapshots"] += len(answer["snapshots"])
    if setting.direction != READ:
        (found,) = (operator for operator in answer["operators"] if operator["uid"] == case["uid"])
        yield from _compare("Flink finds", expected, canonical(found))
    copies = answer["parallelism"] if setting.direction != READ else 1
    expected = {state: sorted(entries * (copies if state[1] == "UNION_LIST" else 1)) for state, entries in expected.items()}
    for format_, path in answer["snapshots"].items():
        what = f"of Flink's {format_} snapshot we read"
        access: dict[str, dict[str, Any]] = {}
        try:
            states = reading.read(path, case, access)
        except Exception as problem:  # see above
            yield f"{what}: {type(problem).__name__}: {problem}"
            continue
        yield from _compare(what, expected, states)
        yield from _compare_access(what, case, access, setting)


def _compare(what: str, expected: Entries, found: Entries) -> Iterator[str]:
    for (name, kind), entries in expected.items():
        others = found[name, kind]
        if others != entries:
            missing, extra = _without(entries, others), _without(others, entries)
            counts = f"{len(missing)} of {len(entries)} differ" if missing or extra else "entries are there more or less often"
            first = (missing or [""])[0]
            texts = _about(first, max(extra, key=lambda other: _alike(first, other), default=""))
            yield f"{what} in {kind} {name[:40]!r}: {counts}\n  not: {texts[0]}\n  but: {texts[1]}"


def _without(entries: Iterable[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [entry for entry in entries if entry not in known]


def _alike(one: str, other: str) -> int:
    """How many characters texts have in common before they differ."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _about(expected: str, found: str) -> list[str]:
    """Two texts, cut to where they begin to differ."""
    begin = max(0, _alike(expected, found) - 300)
    return [("…" if begin else "") + text[begin : begin + 900] or "(nothing)" for text in (expected, found)]


def _compare_access(what: str, case: Case, access: dict[str, dict[str, Any]], setting: Setting) -> Iterator[str]:
    """Times of last access equal our written times; if Flink fills states, Flink's times."""
    now = datetime.now(UTC)
    for state in case["states"]:
        found = access.get(state["name"], {})
        for entry, written in zip(state["entries"], state.get("last_access", ()), strict=False):
            held = found.get(reading.slot_text(case, entry))
            times = held if isinstance(held, list) else [held]
            if setting.direction != READ:
                expected = written if isinstance(written, list) else [written]
                same = sorted(map(reading.millis, times)) == sorted(expected)
            else:
                same = all(now - timedelta(hours=6) < time <= now for time in times)
            if not same:
                entry_text = f"{state['name']!r}, entry {as_text(entry)[:500]}"
                yield f"{what} in {entry_text}: last access {str(held)[:500]}, not {str(written)[:500]}"
                break


def shrunk(case: Case, setting: Setting) -> tuple[Case, list[str]]:
    """The smallest part of a case that differs too, and how."""
    problems = run([case], [setting], 1).get((0, setting), [])
    for _ in range(_MOST_SHRINKING):
        for candidates in slices(list(smaller(case))[:_MOST_CANDIDATES], _AT_ONCE):
            failing = run(candidates, [setting], 1)
            if failing:
                first = min(number for number, _ in failing)
                case, problems = candidates[first], failing[first, setting]
                break
        else:
            break
    return case, problems
