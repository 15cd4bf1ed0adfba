"""Pairs of jobs: the old one writes a savepoint, real Flink starts the new one from it, and the check has said what will happen.

``python -m tests.interop.job_pairs`` tries all pairs with all versions and backends, and prints a table.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import state_processor as sp
from state_processor.types.answers import Answer
from tests.interop import flink
from tests.interop.job_pair_changes import CHANGE_PAIRS, NEW_SHAPES, OLD_SHAPES
from tests.interop.job_pair_tables import ALL_PAIRS, NEW_CLASSES, OLD_CLASSES, PACKAGE, Operator, Pair, without_uids
from tests.interop.pair_campaign import Result, execute, has_values, is_executable, run, versions_of


def _outcome(answer: Mapping[str, Any], before: Mapping[tuple[str, str], list[Any]]) -> str:
    """Return what Flink did."""
    if "error" in answer:
        return "refused"
    after = _entries(answer["operators"])
    is_same = all(_contains(after.get(place, []), entries) for place, entries in before.items())
    return "same values" if is_same else "other values"


def _contains(after: Any, before: Any) -> bool:
    """Return whether a value has all parts of another one; objects may have more fields."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return all(name in after and _contains(after[name], value) for name, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_contains, after, before))
    return bool(before == after)


def _entries(operators: Sequence[Operator]) -> dict[tuple[str, str], list[Any]]:
    """Return the entries of states that have any, in a stable order, by operator and state."""
    states = ((one["uid"], found) for one in operators for found in one["states"])
    return {(uid, found["name"]): sorted(found["entries"], key=str) for uid, found in states if found.get("entries")}


def results(
    pairs: Sequence[Pair], version: str, backends: Sequence[str], directory: Path, *, repairs: bool = False
) -> Iterator[Result]:
    """Yield the results of pairs with a version of Flink, or with :data:`~tests.interop.pair_campaign.UPGRADE`.

    The classes of old and new jobs are in a JVM each. ``repairs``: whether Flink also restores what the steps of reports repair.
    """
    versions = old_version, new_version = versions_of(version)
    classes = (OLD_CLASSES | OLD_SHAPES, NEW_CLASSES | NEW_SHAPES)
    sources = [{name: f"package {PACKAGE};\n{text}" for name, text in texts.items()} for texts in classes]
    old, new = ([flink.generated_classes(one, PACKAGE, texts)] for one, texts in zip(versions, sources, strict=True))
    cases = [(pair, backend) for pair in pairs for backend in _backends_of(pair, backends, versions)]

    def asked(pair: Pair, backend: str, which: str, savepoint: Any = None) -> Mapping[str, Any]:
        size, limit = pair.old_sizes if which == "old" else pair.new_sizes
        place = which == "new"
        return flink.request(
            pair.old if which == "old" else pair.new,
            savepoint,
            backend=backend if pair.backends is None else pair.backends[place],
            settings=pair.settings[place],
            parallelism=size,
            max_parallelism=limit,
            filled=savepoint is None,
            snapshots=[_format(pair, which)],
            snapshots_to=directory / version.replace(" ", "-") / backend / which,
        )

    written = flink.restore(old_version, [asked(*case, "old") for case in cases], tables=True, class_path=old)
    described = flink.restore(new_version, [asked(*case, "new") for case in cases], tables=True, class_path=new)
    problems = [
        f"{pair.name} ({which}): {answer['error'][:600]}"
        for which, answers in (("old", written), ("new", described))
        for (pair, _), answer in zip(cases, answers, strict=True)
        if "error" in answer
    ]
    assert problems == [], "\n".join(problems)
    paths = [_path(answer) for answer in written]
    again = [asked(*case, "new", path) for case, path in zip(cases, paths, strict=True)]
    restored = flink.restore(new_version, again, tables=True, class_path=new)
    tried = []
    for (pair, backend), path, job, answer in zip(cases, paths, described, restored, strict=True):
        signature = sp.signature(_path(job), uids=_uids(pair))
        report = sp.check_job(path, signature, flink=new_version, backend=backend)  # type: ignore[arg-type]
        registered = {(one["uid"], found["name"]) for one in pair.new for found in one["states"]}
        is_empty = any(one.get("anonymous") and not one["states"] for one in pair.new)
        before = {place: found for place, found in _entries(pair.old).items() if is_empty or place in registered or pair.loses}
        error = answer.get("error", "")
        tried.append(Result(pair.name, version, backend, report, _outcome(answer, before), error))
    if not repairs:
        yield from tried
        return
    places = [place for place, result in enumerate(tried) if result.report.answer is Answer.NO]
    outs = {}
    for place in places:
        (work := directory / f"repaired-{place}").mkdir()
        (pair, backend), path, empty_start = cases[place], paths[place], _path(described[place])
        (work / "job.json").write_text(str(sp.signature(empty_start, uids=_uids(pair))), "utf-8")
        with contextlib.chdir(work):
            report = sp.check_job(path, "job.json", flink=new_version, backend=backend)  # type: ignore[arg-type]
        tried[place] = replace(tried[place], report=report)
        if is_executable(report.steps):
            outs[place] = execute(report.steps, work)
    requests = [asked(*cases[place], "new", out) for place, out in outs.items()]
    answers = flink.restore(new_version, requests, tables=True, class_path=new) if requests else []
    for place, answer in zip(outs, answers, strict=True):
        kept = has_values(_entries(answer.get("operators", ())), _required(cases[place][0]))
        outcome = "refused" if "error" in answer else "same values" if kept else "other values"
        details = tried[place].details + (f"; after the repair: {answer['error']}" if "error" in answer else "")
        tried[place] = replace(tried[place], repaired=outcome, details=details)
    yield from tried


def _required(pair: Pair) -> dict[tuple[str, str], list[Any]]:
    """Return the entries that a repaired savepoint has to have: those of states that the new job registers in any operator."""
    names = {found["name"] for one in pair.new for found in one["states"]}
    return {place: found for place, found in _entries(pair.old).items() if pair.loses or place[1] in names}


def _uids(pair: Pair) -> Sequence[str] | None:
    """Return the uids of the jobs, which snapshots of Flink 1 do not have."""
    operators = (*pair.old, *pair.new)
    return None if any(one.get("anonymous") for one in operators) else sorted({one["uid"] for one in operators})


def _backends_of(pair: Pair, backends: Sequence[str], versions: Sequence[str]) -> Sequence[str]:
    """Return the backends of the new job. Flink 1 does not have ForSt and asynchronous state."""
    for version, job, backend in zip(versions, (pair.old, pair.new), pair.backends or ("", ""), strict=True):
        if version < "2" and (backend == "forst" or any(map(_is_asynchronous, job))):
            return ()
    return backends if pair.backends is None else pair.backends[1:]


def _is_asynchronous(one: Operator) -> bool:
    return bool(one.get("asynchronous"))


def _format(pair: Pair, which: str) -> str:
    """Return the format of snapshots; ForSt and asynchronous state do not have canonical ones."""
    if which == "old":
        return pair.format
    is_forst = pair.backends is not None and pair.backends[1] == "forst"
    return "native" if is_forst or any(map(_is_asynchronous, pair.new)) else "canonical"


def _path(answer: Mapping[str, Any]) -> str:
    (path,) = answer["snapshots"].values()
    return str(path)


if __name__ == "__main__":
    every = (*ALL_PAIRS, *CHANGE_PAIRS)
    raise SystemExit(run((*every, *without_uids(every)), partial(results, repairs=True), sys.argv[1:]))
