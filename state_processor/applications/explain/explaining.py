"""The explanation of a failed restore."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Final, Unpack, get_args

from state_processor.applications.explain.causes import make, of_findings, of_step
from state_processor.applications.explain.confirming import Contradiction, confirm
from state_processor.applications.explain.confirming_files import OPENING, of_problem
from state_processor.applications.explain.explanation import Explanation, FailureCause
from state_processor.applications.explain.kinds import CONSEQUENCES, Certainty, Kind
from state_processor.applications.explain.rules import Sighting, sightings
from state_processor.applications.explain.scene import Finding, Scene, open_scene
from state_processor.applications.explain.symptoms import of_symptom, suggested_kinds
from state_processor.applications.explain.traces import Log, read_log
from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.signature import JobSignature, states_in
from state_processor.applications.jobs.verdicts import Cause, Outcome, command_name
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import BackendName, SnapshotAccess, SnapshotOptions, checked_choice, takes_options
from state_processor.snapshots import METADATA_FILE, Location, find_snapshots

_GENERAL: Final = frozenset({Kind.CODE, Kind.IN_FLIGHT, Kind.BACKEND, Kind.NEWER_FORMAT})
_LONGEST_PATH: Final = 255
"""Characters of a text that may be the name of a file. Answers of the REST interface are one long line."""
_LARGEST_LOG: Final = 64 << 20
"""Bytes of a file that is looked at, if it was passed as a snapshot."""
_CLOSING: Final = frozenset({"close", "cancel", "dispose", "finish"})
"""Methods of the job that Flink calls after a failure."""
_SECONDARY: Final = CONSEQUENCES | {Kind.LINKAGE}
"""Kinds that are left out beside a confirmed cause."""


@takes_options
def explain(
    snapshot: str | PathLike[str] | None = None,
    *,
    error: str | PathLike[str] | None = None,
    job: str | PathLike[str] | JobSignature | None = None,
    symptom: str = "",
    flink: str | None = None,
    backend: BackendName | None = None,
    contents: bool = True,
    **options: Unpack[SnapshotOptions],
) -> Explanation:
    """Explain why a job did not restore a snapshot, or restored it wrongly, and how to repair it.

    Rules about Flink's exceptions give the kinds of causes. Each is looked up in the snapshot and compared with the new job: a
    cause that the snapshot contradicts is left out. Without a trace, the mismatches between snapshot and job are the causes.

    Parameters
    ----------
    snapshot
        Directory of the snapshot, or its ``_metadata``; with an error also the directory of a job:
        then the newest snapshot of the job is explained.
    error
        The trace, or a whole log: its text, or a :class:`~pathlib.Path` of its file.
    job
        The new job: what :func:`signature` accepts.
    symptom
        Wrong results of the job, in words, if it starts. Causes that fit come first. Without such a cause, the words suggest
        possible causes; those that the snapshot contradicts are left out.
    flink, backend
        Version and state backend of the job that failed. The trace and the description of the job are the default.
    contents
        Whether files are checked, and values are read.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    Explanation
        The causes, with repairs as commands. Its text shows all of them.

    Raises
    ------
    OptionError
        If neither a snapshot, an error nor a symptom was passed, or the description of the job has another form.
    MissingFileError
        If the file of the error, or the description of the job, does not exist.
    """
    if snapshot is None and error is None and not symptom:
        raise OptionError("nothing to explain: expected a snapshot, an error, or a symptom")
    access = SnapshotAccess.of(**options)
    log = Log() if error is None else read_log(_text(error, access))
    seen = _merged(sightings(log.traces, log.flink))
    below = _newest_below(snapshot, seen, access)
    if backend is not None:
        backend = checked_choice("backend", backend, get_args(BackendName))
    target = RestoringJob(flink or log.flink, backend or log.backend)
    scene = open_scene(below or snapshot, job, target, access, contents=contents)
    checked = [*_looked_at(log, scene, error is not None)]
    if below is not None:
        checked.append(f"{snapshot} is not a snapshot: the newest snapshot below it was taken")
    causes, contradictions = _of_traces(_latest_of_job(_deepest(seen)), scene)
    checked += [f"not the cause: {text}" for text in contradictions]
    if scene.problem is not None and not causes:
        problem = of_problem(scene)
        causes.append(problem if error is None else replace(problem, certainty=Certainty.BESIDE))
    causes += _of_mismatches(scene, causes, symptom, has_trace=bool(seen))
    causes[:0] = _of_another_job(scene, causes)
    causes += of_symptom(symptom, scene, causes)
    throwables = set(map(str, chain.from_iterable(sighting.trace.throwables for sighting in seen)))
    roots = dict.fromkeys(str(trace.throwables[-1]) for trace in log.traces)
    unexplained = [root for root in roots if root not in throwables]
    ranked = _ranked(causes)
    if ranked and ranked[0].certainty is Certainty.CONFIRMED and ranked[0].message:  # it explains what followed
        ranked = [c for c in ranked if c.certainty is not Certainty.LIKELY or c.kind not in _SECONDARY]
        unexplained = []
    return Explanation(tuple(ranked), tuple(checked), tuple(unexplained))


def _text(error: str | PathLike[str], access: SnapshotAccess) -> str:
    if isinstance(error, str):
        if "\n" not in error and len(error) < _LONGEST_PATH and Path(error).is_file():
            raise OptionError(f"error={error!r}: expected the text of a trace; pass Path({error!r}) to read the file")
        return error
    return bytes(access.storage().read_all(str(Location.given(error)))).decode("utf-8", "replace")


def _newest_below(path: str | PathLike[str] | None, seen: Sequence[Sighting], access: SnapshotAccess) -> str | None:
    """Return the newest complete snapshot below a directory of a job; ``None`` if the failure may be about the path itself.

    Raises
    ------
    OptionError
        The path is a file with a trace.
    """
    if path is None or any(sighting.kind in OPENING for sighting in seen):
        return None
    storage, location = access.storage(), Location.given(path)
    try:
        size = storage.size_if_file(str(location))
        if size is None and seen and not storage.is_file(str(location.joined(METADATA_FILE))):
            infos = find_snapshots(path, storage).snapshots
            return next((info.path for info in infos if info.is_complete is not False), None)
        if size is None or size > _LARGEST_LOG or location.name == METADATA_FILE:
            return None
        log = read_log(bytes(storage.read_all(str(location))).decode("utf-8", "replace"))
    except StateProcessorError:  # the opening of the snapshot tells why
        return None
    if any(trace.frames for trace in log.traces):
        raise OptionError(f"{path} is a log, not a snapshot; pass it with --error {path} (error=Path({str(path)!r}))")
    return None


def _merged(seen: Iterable[Sighting]) -> list[Sighting]:
    """Return sightings without repetitions: a log has the same exception of several tasks and retries."""
    merged: dict[tuple[Kind, str], Sighting] = {}
    for sighting in seen:
        key = sighting.kind, re.sub(r"@[0-9a-f]+", "", sighting.message)
        first = merged.get(key, sighting)
        first = sighting if first.is_aside and not sighting.is_aside else first
        operators, tasks = first.operators | sighting.operators, first.tasks | sighting.tasks
        merged[key] = replace(first, operators=operators, tasks=tasks)
    return list(merged.values())


def _deepest(seen: Sequence[Sighting]) -> Sequence[Sighting]:
    """Return sightings without those of wrappers, if the log has the exception that they report."""
    causes = [sighting for sighting in seen if not sighting.rule.wraps]
    return causes if any(map(_tells, causes)) else seen


def _latest_of_job(seen: Sequence[Sighting]) -> Sequence[Sighting]:
    """Return sightings with the exceptions of the job in this order: the last attempt first, and what closes resources last."""
    of_job = [sighting for sighting in seen if sighting.kind is Kind.JOB_CODE]
    ordered = iter(sorted(of_job, key=lambda sighting: (_closes(sighting), -sighting.trace.line)))
    return [next(ordered) if sighting.kind is Kind.JOB_CODE else sighting for sighting in seen]


def _closes(sighting: Sighting) -> bool:
    return sighting.facts.get("method", "").rpartition(".")[2] in _CLOSING


def _tells(sighting: Sighting) -> bool:
    """Return whether an exception tells more than that another one followed."""
    return sighting.kind not in CONSEQUENCES or (bool(sighting.rule.says) and not sighting.rule.follows)


def _of_traces(seen: Sequence[Sighting], scene: Scene) -> tuple[list[FailureCause], list[str]]:
    """Return the causes that traces show, and what contradicts others.

    If the snapshot contradicts all causes, the step that failed is left. Warnings beside the failure of a task are never certain.
    """
    causes: list[FailureCause] = []
    contradicted: list[tuple[Sighting, str]] = []
    ends = any(not sighting.is_aside and sighting.kind not in CONSEQUENCES for sighting in seen)
    for sighting in seen:
        try:
            confirmed = confirm(sighting, scene)
        except Contradiction as contradiction:
            contradicted.append((sighting, str(contradiction)))
            continue
        is_aside = ends and sighting.is_aside
        causes += [replace(cause, certainty=Certainty.POSSIBLE) for cause in confirmed] if is_aside else confirmed
    if not any(cause.message for cause in causes):
        causes += [of_step(sighting, scene, Certainty.POSSIBLE, [text]) for sighting, text in contradicted]
    return causes, [text for _, text in contradicted]


def _looked_at(log: Log, scene: Scene, has_error: bool) -> Iterator[str]:
    if has_error:
        number = "1 exception" if len(log.traces) == 1 else f"{len(log.traces)} exceptions"
        yield f"{number} of the log; Flink {log.flink or 'unknown'}, backend {log.backend or 'unknown'}"
    if scene.problem is not None:
        yield f"{scene.source}: can't be opened"
    elif scene.source:
        states = len(list(states_in(scene.old_operators)))
        yield f"{scene.source}: _metadata, {states} states, {'files and values' if scene.contents else 'types'}"
    if not has_error:
        for finding in scene.of_kind(Kind.NEWER_FORMAT):
            if not finding.is_bad:
                yield finding.verdict.reason
    for finding in scene.findings:
        if finding.verdict.cause is Cause.FILES and not finding.is_bad:
            yield f"not checked: {finding.verdict.reason}"
    yield "the description of the new job" if scene.new is not None else "no description of the new job: pass it to compare types"


def _of_mismatches(scene: Scene, causes: Sequence[FailureCause], symptom: str, *, has_trace: bool) -> Iterator[FailureCause]:
    """Yield the causes that no trace shows: mismatches of the snapshot and the job."""
    seen: set[tuple[str | None, str | None]] = set()
    for cause in causes:
        seen |= {(cause.uid_hash, cause.state), (cause.uid_hash, None)}
    whole = {cause.kind for cause in causes}
    groups: dict[object, list[Finding]] = {}
    for finding in scene.findings:
        if finding.is_bad or (not has_trace and _is_possible(finding)):
            uid_hash = None if finding.operator is None else finding.operator.uid_hash
            state = finding.verdict.state if finding.kind in (Kind.VALUE_TYPE, Kind.TTL, Kind.STATE_KIND) else ""
            place = None if finding.kind is Kind.OPERATORS_SWAPPED else (uid_hash, state)
            groups.setdefault((finding.kind, place), []).append(finding)
    mismatches: list[FailureCause] = []
    for group in groups.values():
        is_shown = Certainty.BESIDE if has_trace else Certainty.CONFIRMED
        certainty = is_shown if group[0].is_bad else Certainty.POSSIBLE
        cause = of_findings(group, certainty)
        is_told = (cause.uid_hash, cause.state) in seen if cause.uid_hash is not None else cause.kind in whole
        repairs = {(earlier.kind, earlier.repairs) for earlier in (*causes, *mismatches) if earlier.repairs}
        if (not has_trace or not is_told) and (cause.kind, cause.repairs) not in repairs:
            mismatches.append(cause)
    yield from sorted(mismatches, key=lambda cause: -_fit(cause, symptom))


def _of_another_job(scene: Scene, causes: Sequence[FailureCause]) -> Iterator[FailureCause]:
    """Yield the cause that the snapshot is of another job: none of its operators is in the new one, by their ids or states."""
    unmapped = [cause for cause in causes if cause.kind is Kind.UNMAPPED_OPERATOR]
    if scene.is_of_another_job and not all(map(_renames_operator, unmapped)):
        yield make(Kind.OTHER_JOB, Certainty.CONFIRMED, {}, message=unmapped[0].message)


def _renames_operator(cause: FailureCause) -> bool:
    return any(command_name(repair.command) == "rename-uid" for repair in cause.repairs)


def _is_possible(finding: Finding) -> bool:
    """Whether a mismatch that can't be checked may be a cause.

    A format that newer Flink alone reads is not a mismatch. Files whose serializers are unknown are not damaged.
    """
    unknown = finding.verdict.outcome is Outcome.UNKNOWN and finding.verdict.cause not in (None, Cause.FILES)
    return unknown and finding.kind is not Kind.NEWER_FORMAT


def _fit(cause: FailureCause, symptom: str) -> int:
    """Return how well a cause fits the words of a user."""
    words = set(re.findall(r"[\w$.-]*[\w$-]", symptom))
    kinds = suggested_kinds(symptom)
    fit = -4 if cause.kind in _GENERAL else -1 if _is_doubt(cause) else 0
    fit += sum(3 for name in (cause.state, cause.field, cause.operator) if name and name in words)
    if cause.kind in kinds:
        fit += max(2, 6 - kinds.index(cause.kind))
    return fit


def _is_doubt(cause: FailureCause) -> bool:
    """Whether a cause is only a doubt that an operator is the former one."""
    return cause.kind is Kind.OPERATORS_SWAPPED and cause.certainty is Certainty.POSSIBLE


def _ranked(causes: Iterable[FailureCause]) -> list[FailureCause]:
    """Return causes in order: from the trace before others, then the more certain ones."""
    unique: dict[object, FailureCause] = {}
    for cause in causes:
        unique.setdefault((cause.kind, cause.uid_hash, cause.state), cause)
    is_of_job = any(cause.kind is Kind.JOB_CODE for cause in unique.values())
    late = {Kind.JOB_CODE, *(CONSEQUENCES if is_of_job else ())}
    rank = {
        (True, Certainty.CONFIRMED): 0,
        (True, Certainty.PLACE): 1,
        (True, Certainty.TRACE): 2,
        (True, Certainty.LIKELY): 3,
        (False, Certainty.CONFIRMED): 4,
        (False, Certainty.BESIDE): 4,
        (True, Certainty.BESIDE): 4,
        (True, Certainty.POSSIBLE): 5,
        (False, Certainty.POSSIBLE): 6,
    }
    return sorted(
        unique.values(),
        key=lambda cause: (
            rank[bool(cause.message), cause.certainty] + 3 * (cause.kind in late),
            bool(cause.message) and cause.kind in CONSEQUENCES,
        ),
    )
