"""Confirmation of causes about the path of a snapshot and about its files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from state_processor.applications.explain.causes import make, named_operator, of_findings, of_sighting, unreadable_states
from state_processor.applications.explain.explanation import FailureCause
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.restore_rules import OVERWRITTEN
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.explain.scene import Scene
from state_processor.applications.jobs.contents import NO_CONTENTS
from state_processor.applications.jobs.rules import class_names
from state_processor.applications.jobs.signature import OperatorSignature, StateSignature, states_in
from state_processor.applications.jobs.verdicts import Cause
from state_processor.errors import MissingFileError, NotASnapshotError, StateProcessorError, UnsupportedFormatError
from state_processor.snapshots import find_snapshots, streams_in_files

FILES: Final = frozenset({Kind.FILE_MISSING, Kind.FILE_DAMAGED, Kind.MOVED, Kind.CLAIMED})
OPENING: Final = frozenset({Kind.NOT_FOUND, Kind.NOT_A_SNAPSHOT, Kind.METADATA_DAMAGED, Kind.NEWER_FORMAT})
"""Kinds that show when the snapshot is opened."""
_OF_DIRECTORY: Final = (
    "The path {path} is not a snapshot, but a directory that has snapshots, such as the checkpoint directory of a job. The "
    "newest complete one is {newest}."
)
_OF_BYTES: Final = (
    "A serializer of the job reads other bytes of {state} than were written{what_is_told}: the files of the snapshot have their "
    "recorded sizes."
)
_READ_THE_SAME: Final = (
    "Let the serializer read what its former version wrote, or raise the version of its snapshot and read both: nothing is lost "
    "then. If no serializer changed, copy the files from their origin again."
)
_ORDER: Final[Mapping[Kind, Sequence[Kind]]] = {
    Kind.FILE_MISSING: (Kind.CLAIMED, Kind.FILE_MISSING, Kind.MOVED),
    Kind.FILE_DAMAGED: (Kind.FILE_DAMAGED, Kind.FILE_MISSING),
}


_VERSION_READ: Final = re.compile(r"version (-?\d+) of `?_metadata`? is not known")
_NO_VERSION: Final = 100
"""A version that Flink has not come to: it counts them from 1."""
_UNREAD_VERSION: Final = "_metadata has the format version {version}, which state-processor does not read."


def problem_kind(problem: StateProcessorError) -> Kind:
    """Return the kind of the cause that keeps a snapshot from being opened."""
    text = str(problem)
    if "not a _metadata file" in text or " is a file; " in text:
        return Kind.NOT_A_SNAPSHOT
    if "cannot be read" in text:
        return Kind.STORAGE
    if isinstance(problem, NotASnapshotError | MissingFileError):
        return Kind.NOT_FOUND
    is_newer = isinstance(problem, UnsupportedFormatError) and not _is_overwritten(_version_of(problem))
    return Kind.NEWER_FORMAT if is_newer else Kind.METADATA_DAMAGED


def _version_of(problem: StateProcessorError) -> str | None:
    """Return the version of ``_metadata`` that a problem names; ``None`` if it is about something else."""
    match = _VERSION_READ.search(str(problem))
    return None if match is None else match[1]


def _is_overwritten(version: str | None) -> bool:
    return version is not None and not 0 < int(version) < _NO_VERSION


def of_problem(scene: Scene, sighting: Sighting | None = None) -> FailureCause:
    """Return the cause that keeps the snapshot from being opened."""
    assert scene.problem is not None
    kind = problem_kind(scene.problem)
    facts = {"is_gone": "yes", **({} if sighting is None else sighting.told(kind))}
    message = "" if sighting is None else sighting.message
    if kind is Kind.NOT_FOUND and (newest := _newest_checkpoint(scene)) is not None:
        facts |= {"says": _OF_DIRECTORY, "path": scene.source, "newest": newest}
    version = _version_of(scene.problem)
    if version is not None and sighting is None:
        facts |= {"says": OVERWRITTEN if _is_overwritten(version) else _UNREAD_VERSION, "version": version}
    certainty = Certainty.POSSIBLE if kind is Kind.STORAGE else Certainty.CONFIRMED  # this machine may have other rights
    if _is_overwritten(version) and sighting is not None:
        certainty = Certainty.LIKELY
    return make(kind, certainty, {"path": scene.source} | facts, evidence=[str(scene.problem)], message=message)


def _newest_checkpoint(scene: Scene) -> str | None:
    """Return the path of the newest complete snapshot below the path; ``None`` if there is none."""
    try:
        infos = find_snapshots(scene.source, scene.access.storage()).snapshots
    except StateProcessorError:
        return None
    return next((info.path for info in infos if info.is_complete is not False), None)


def of_opening(sighting: Sighting, scene: Scene) -> Sequence[FailureCause]:
    """Return the causes that show when the snapshot is opened."""
    if scene.problem is not None:
        if sighting.kind in OPENING:
            return [of_problem(scene, sighting)]
        return [of_sighting(sighting, scene), replace(of_problem(scene), certainty=Certainty.BESIDE)]
    versions = scene.of_kind(Kind.NEWER_FORMAT)
    if sighting.kind is Kind.NEWER_FORMAT and any(finding.is_bad for finding in versions):
        return [of_findings(versions, Certainty.CONFIRMED, sighting)]
    if sighting.kind is Kind.NOT_FOUND and not _is_at(sighting.facts.get("path", ""), scene.source):
        evidence = [f"{scene.source} is another path, and it has a snapshot"]
        return [of_sighting(sighting, scene, Certainty.LIKELY, evidence=evidence)]
    recorded = "" if scene.snapshot is None else str(scene.snapshot.metadata.version)
    if sighting.kind is Kind.NEWER_FORMAT and sighting.facts.get("version") in (None, recorded):
        certainty = Certainty.CONFIRMED if "version" in sighting.facts else sighting.certainty
        return [of_sighting(sighting, scene, certainty, evidence=[f"version {recorded} of _metadata"])]
    return [of_findings(versions, sighting.certainty, sighting)] if sighting.kind is Kind.NEWER_FORMAT and versions else []


def _is_at(path: str, source: str) -> bool:
    """Return whether a path of a trace is the one of the snapshot, in another way to write it."""
    directories = (name.removesuffix("/_metadata").rstrip("/") for name in (path, source))
    first, second = (re.sub(r"^\w+:/*", "/", name) for name in directories)
    return not path or first.endswith(second) or second.endswith(first)


def of_files(sighting: Sighting, scene: Scene) -> Sequence[FailureCause]:
    """Return the causes about files of the snapshot."""
    path = sighting.facts.get("path", "")
    assert scene.snapshot is not None
    streams = streams_in_files(scene.snapshot.metadata.operators)
    names = {(stream.path or "").rpartition("/")[2] for stream in streams}
    if path and path.rpartition("/")[2] not in names:
        return []
    for kind in _ORDER.get(sighting.kind, (sighting.kind,)):
        findings = [finding for finding in scene.of_kind(kind) if finding.is_bad]
        if findings:
            operators = scene.operators(sighting)
            only = operators[0] if len(operators) == 1 else None
            is_other = kind is Kind.FILE_MISSING and sighting.kind is Kind.FILE_DAMAGED  # Java says that a file is missing
            certainty = Certainty.BESIDE if is_other else Certainty.CONFIRMED
            return [of_findings(findings, certainty, sighting, operator=only)]
    headers = [(o, s) for o, s in states_in(scene.operators(sighting)) if class_of(sighting) in classes_of(s)]
    if headers:
        evidence = [f"the header of state {s.name!r} of operator {o.label} has this name, which no class has" for o, s in headers]
        return [of_sighting(sighting, scene, Certainty.CONFIRMED, evidence=evidence)]
    evidence = [finding.verdict.reason for finding in scene.findings if finding.verdict.cause is Cause.FILES] or [
        "all files of the snapshot are there, and checksums are right; files of the heap backend have no checksums"
    ]
    again = "The file is there now: start the job again. If it fails again, look at the disks of the task managers."
    if sighting.kind is Kind.FILE_DAMAGED and not path and not sighting.rule.message.pattern:
        return _of_whole_files(sighting, scene, evidence)
    advice = again
    return [of_sighting(sighting, scene, Certainty.POSSIBLE, evidence=evidence, advice=advice)]


def _of_whole_files(sighting: Sighting, scene: Scene, evidence: Sequence[str]) -> Sequence[FailureCause]:
    """Return the causes of bytes that do not fit, in files of the recorded sizes.

    Values that can't be read by their types show that a file was changed. Otherwise a serializer of the job reads other bytes
    than it wrote.
    """
    operators = scene.operators(sighting)
    if (broken := next(unreadable_states(scene, operators), None)) is not None:
        broken_operator, broken_state, problem = broken
        facts = [f"state {broken_state.name!r} of operator {broken_operator.label} can't be read: {problem}"]
        place = broken_operator, broken_state
        return [of_sighting(sighting, scene, Certainty.PLACE, operator=place[0], state=place[1], evidence=facts, repairs=False)]
    damaged = of_sighting(sighting, scene, Certainty.POSSIBLE, evidence=evidence)
    if scene.contents is NO_CONTENTS:
        return [damaged]
    of_job = [(o, s) for o, s in states_in(operators) if s.unread and not s.is_timer]
    operator: OperatorSignature | None = named_operator(sighting, scene)
    state: StateSignature | None = None
    if len(of_job) == 1:
        operator, state = of_job[0]
    names = " or ".join(f"state {s.name!r} of operator {o.label}" for o, s in of_job)
    facts = [*evidence, f"a serializer that the snapshot does not describe wrote {names}" if names else "all values can be read"]
    serializer_sighting = replace(
        sighting, rule=replace(sighting.rule, kind=Kind.SERIALIZER, says=_OF_BYTES, advice=_READ_THE_SAME)
    )
    cause = of_sighting(
        serializer_sighting, scene, Certainty.LIKELY, operator=operator, state=state, evidence=facts, repairs=False
    )
    return [cause, damaged]


def class_of(sighting: Sighting) -> str:
    """Return the Java class that a message names."""
    return sighting.facts.get("name", "").replace("/", ".")


def classes_of(state: StateSignature) -> Iterator[str]:
    """Yield the Java classes that the serializer snapshots of a state name."""
    yield from class_names(state)
    yield from re.findall(r"(?:[\w$]+\.)+[\w$]+", state.unread)
    parts = [*state.snapshots.values()]
    while parts:
        part = parts.pop()
        yield part.class_name
        parts += part.children
