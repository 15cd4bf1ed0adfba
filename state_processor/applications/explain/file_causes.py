"""Causes about the files of a snapshot: missing, moved, damaged, of another version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from state_processor.applications.explain.causes import make, of_findings, of_sighting
from state_processor.applications.explain.explanation import FailureCause
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.explain.scene import Scene
from state_processor.backends.metadata.streams import streams_in_files
from state_processor.serializers.errors import MissingFileError, NotASnapshotError, StateProcessorError, UnsupportedFormatError

FILES: Final = frozenset({Kind.FILE_MISSING, Kind.FILE_DAMAGED, Kind.MOVED, Kind.CLAIMED})
OPENING: Final = frozenset({Kind.NOT_FOUND, Kind.NOT_A_SNAPSHOT, Kind.METADATA_DAMAGED, Kind.NEWER_FORMAT})
"""Kinds that show when the snapshot is opened."""
_ORDER: Final[Mapping[Kind, Sequence[Kind]]] = {
    Kind.FILE_MISSING: (Kind.CLAIMED, Kind.FILE_MISSING, Kind.MOVED),
    Kind.FILE_DAMAGED: (Kind.FILE_DAMAGED, Kind.FILE_MISSING),
}


def problem_kind(problem: StateProcessorError) -> Kind:
    """Return the kind of the cause that keeps a snapshot from being opened."""
    text = str(problem)
    if "not a _metadata file" in text:
        return Kind.NOT_A_SNAPSHOT
    if isinstance(problem, NotASnapshotError | MissingFileError):
        return Kind.NOT_FOUND
    return Kind.NEWER_FORMAT if isinstance(problem, UnsupportedFormatError) else Kind.METADATA_DAMAGED


def of_problem(scene: Scene, sighting: Sighting | None = None) -> FailureCause:
    """Return the cause that keeps the snapshot from being opened."""
    assert scene.problem is not None
    kind = problem_kind(scene.problem)
    facts = {} if sighting is None else dict(sighting.facts)
    message = "" if sighting is None else sighting.message
    return make(kind, Certainty.CONFIRMED, {"path": scene.source} | facts, evidence=[str(scene.problem)], message=message)


def of_opening(sighting: Sighting, scene: Scene) -> Sequence[FailureCause]:
    """Return the causes that show when the snapshot is opened."""
    if scene.problem is not None:
        if sighting.kind in OPENING:
            return [of_problem(scene, sighting)]
        return [of_sighting(sighting, scene), of_problem(scene)]
    versions = [finding for finding in scene.findings if finding.kind is Kind.NEWER_FORMAT]
    if sighting.kind is Kind.NEWER_FORMAT and versions:
        return [of_findings(versions, Certainty.CONFIRMED, sighting)]
    recorded = "" if scene.snapshot is None else str(scene.snapshot.metadata.version)
    if sighting.kind is Kind.NEWER_FORMAT and sighting.facts.get("version") in (None, recorded):
        certainty = Certainty.CONFIRMED if "version" in sighting.facts else Certainty.TRACE
        return [of_sighting(sighting, scene, certainty, evidence=[f"version {recorded} of _metadata"])]
    return []


def of_files(sighting: Sighting, scene: Scene) -> Sequence[FailureCause]:
    """Return the causes about files of the snapshot."""
    path = sighting.facts.get("path", "")
    for kind in _ORDER.get(sighting.kind, (sighting.kind,)):
        findings = [finding for finding in scene.findings if finding.kind is kind and finding.is_bad]
        if findings:
            operators = scene.operators(sighting)
            only = operators[0] if len(operators) == 1 else None
            return [of_findings(findings, Certainty.CONFIRMED, sighting, operator=only)]
    assert scene.snapshot is not None
    streams = streams_in_files(scene.snapshot.metadata.operators)
    names = {(stream.path or "").rpartition("/")[2] for stream in streams}
    if path and path.rpartition("/")[2] not in names:
        return []
    evidence = ["all files of the snapshot are there, and their checksums are right"]
    advice = "The file is there now: start the job again. If it fails again, look at the disks of the task managers."
    return [of_sighting(sighting, scene, Certainty.POSSIBLE, evidence=evidence, advice=advice)]
