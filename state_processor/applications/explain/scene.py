"""What a restore had before it: the snapshot, the description of the new job, and the mismatches between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import PathLike, fspath

from state_processor import OperatorIdentifier
from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.mismatch_kinds import is_of_query, kind_of
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.jobs.check import check_job, compare
from state_processor.applications.jobs.contents import NO_CONTENTS, Contents, SnapshotValues, snapshot_verdicts
from state_processor.applications.jobs.identity import living_states
from state_processor.applications.jobs.opening import signature_of, signature_of_snapshot
from state_processor.applications.jobs.repairs import Mismatch, Repairs
from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.signature import JobSignature, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause, JobReport, Outcome, StateVerdict
from state_processor.command_line import flag_words
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.snapshots import RELEASES, OperatorState, Snapshot

_OF_ONLY_STATE = (Cause.NOT_KEYED, Cause.OPERATOR_MISSING)
"""Causes about all states of an operator: if it has one state, they are about this one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mismatch between the snapshot and the job, or a problem of the snapshot.

    ``operator``, ``new_operator``, ``state`` and ``new_state``: the operators and states, if the mismatch is about one.
    """

    kind: Kind  # the kind of the cause that it is
    verdict: StateVerdict  # the verdict of the check
    operator: OperatorSignature | None = None
    new_operator: OperatorSignature | None = None
    state: StateSignature | None = None
    new_state: StateSignature | None = None

    @property
    def is_bad(self) -> bool:
        """Whether Flink refuses to start, or values are lost or changed."""
        return self.verdict.outcome.is_bad


@dataclass(frozen=True, slots=True)
class Scene:
    """The snapshot and the new job.

    ``old`` and ``new``: the job that wrote the snapshot, and the new job, if it is described.
    """

    source: str = ""  # the path of the snapshot; empty if none was passed
    snapshot: Snapshot | None = None  # the open snapshot; ``None`` if it can't be opened
    problem: StateProcessorError | None = None  # why it can't be opened
    old: JobSignature | None = None
    new: JobSignature | None = None
    findings: tuple[Finding, ...] = ()  # the mismatches
    repairs: Repairs = field(default_factory=lambda: Repairs("IN", RestoringJob()))  # the commands
    contents: Contents = NO_CONTENTS  # the values of the snapshot
    access: SnapshotAccess = field(default_factory=SnapshotAccess)  # the options that open the snapshot

    def operators(self, sighting: Sighting) -> tuple[OperatorSignature, ...]:
        """Return the operators of the snapshot that a trace is about: those that it names, or all that may be in its tasks."""
        operators = () if self.old is None else self.old.operators
        named = tuple(o for o in operators if o.uid_hash in sighting.operators)
        heads = tuple(o for o in operators if o.uid_hash in sighting.tasks and o.has_state)
        return named if sighting.operators else heads or operators

    @property
    def is_of_another_job(self) -> bool:
        """Whether no operator of the snapshot is in the new job."""
        olds = [] if self.old is None else [o for o in self.old.operators if o.has_state]
        return self.new is not None and bool(olds) and not any(map(self.successor, olds))

    @property
    def has_queries(self) -> bool:
        """Whether an operator of the snapshot has rows of Flink SQL."""
        operators = () if self.old is None else self.old.operators
        return any(is_of_query(state) for operator in operators for state in (operator.states or {}).values())

    def successor(self, operator: OperatorSignature | None) -> OperatorSignature | None:
        """Return the operator of the new job with the id of an operator of the snapshot."""
        if self.new is None or operator is None:
            return None
        return next((o for o in self.new.operators if operator.uid_hash in o.hashes), None)

    def remedies(
        self,
        verdict: StateVerdict,
        operator: OperatorSignature,
        state: StateSignature | None = None,
        new: OperatorSignature | None = None,
    ) -> tuple[str, ...]:
        """Return the commands that repair a mismatch that the trace shows; the new operator comes from the job by default."""
        new = new or self.successor(operator)
        new_state = None if state is None or new is None else (new.states or {}).get(state.name)
        if state is not None and new_state is not None and new_state.content == state.content:
            new_state = None  # the description has the former type
        return self.repairs.of(Mismatch(verdict, operator, new, state, new_state, contents=self.contents))


def open_scene(
    path: str | PathLike[str] | None,
    job: str | PathLike[str] | JobSignature | None,
    target: RestoringJob,
    access: SnapshotAccess,
    *,
    contents: bool,
) -> Scene:
    """Open a snapshot and the description of a job, and compare them.

    ``path`` and ``job``: the snapshot and the job, if they are there. ``target``: version and backend of the job that failed.
    ``access``: the options that open the snapshot. ``contents``: whether files and values are read.
    """
    new = None if job is None else _described(job, access)
    described_by = "NEW" if job is None or isinstance(job, JobSignature) else fspath(job)
    target = replace(target, flink=_release(target.flink))
    if new is not None:
        target = replace(target, flink=target.flink or new.flink, backend=target.backend or new.backend)
    if path is None:
        return Scene(new=new, repairs=Repairs("IN", target, described_by), access=access)
    repairs = Repairs(fspath(path), target, described_by, flag_words(access))
    try:
        snapshot = access.open(path)
    except OptionError:
        raise
    except StateProcessorError as problem:
        return Scene(fspath(path), None, problem, None, new, repairs=repairs, access=access)
    try:
        old = signature_of_snapshot(snapshot)
    except StateProcessorError:  # files with the headers of states are missing or damaged
        old = JobSignature(tuple(map(_without_states, snapshot.metadata.operators)), flink=f"{snapshot.flink_major}.x")
        scene = Scene(fspath(path), snapshot, None, old, new, repairs=repairs, access=access)
        verdicts = snapshot_verdicts(snapshot, target, contents=contents)
        return replace(scene, findings=tuple(_snapshot_finding(verdict, repairs) for verdict in verdicts))
    old = _with_uids(old, new)
    majors = {flink.partition(".")[0] for flink in (old.flink, target.flink) if flink is not None}
    repairs = replace(repairs, target=replace(target, changes_kryo=len(majors) > 1))
    scene = Scene(fspath(path), snapshot, None, old, new, repairs=repairs, access=access)
    report = check_job(
        path,
        old if job is None else job,
        flink=target.flink,
        backend=target.backend,  # type: ignore[arg-type]
        contents=contents,
        **access.values(),
    )
    is_complete = any(operator.uid_hash is not None for operator in report.operators)
    if not is_complete and new is not None:  # files are missing: types alone are compared
        types = compare(old, new, target, fspath(path), NO_CONTENTS, described_by, repairs.access)
        report = replace(report, operators=(*report.operators, *types.operators))
    values = SnapshotValues(snapshot) if contents and is_complete else NO_CONTENTS
    return replace(scene, findings=tuple(_findings(report, scene)), contents=values)


def _with_uids(old: JobSignature, new: JobSignature | None) -> JobSignature:
    """Return a signature with the uids of the new job: snapshots of Flink 1.x have hashes alone."""
    named = [operator.uid for operator in (() if new is None else new.operators) if operator.uid]
    uids = {OperatorIdentifier.for_uid(uid).uid_hash: uid for uid in named}
    operators = (replace(o, uid=uids.get(o.uid_hash or "")) if o.uid is None else o for o in old.operators)
    return replace(old, operators=tuple(operators))


def _without_states(operator: OperatorState) -> OperatorSignature:
    sizes = (operator.parallelism, operator.max_parallelism)
    return OperatorSignature(operator.uid, operator.operator_id, operator.name, *sizes, has_state=operator.has_state)


def _snapshot_finding(verdict: StateVerdict, repairs: Repairs) -> Finding:
    verdict = replace(verdict, repair=repairs.of(Mismatch(verdict)))
    return Finding(kind_of(verdict, None, None, None, repairs.target), verdict)


def _release(flink: str | None) -> str | None:
    """Return a version that the check of jobs knows: of older ones than it knows, the major version alone."""
    match = re.match(r"(\d+)\.(\d+)", flink or "")
    is_known = match is None or (int(match[1]), int(match[2])) in RELEASES
    return flink if is_known or match is None else f"{match[1]}.x"


def _described(job: str | PathLike[str] | JobSignature, access: SnapshotAccess) -> JobSignature:
    return job if isinstance(job, JobSignature) else signature_of(job, replace(access, plan=None, uids=None))


def _state_of(verdict: StateVerdict, operator: OperatorSignature) -> StateSignature | None:
    """Return the state that a verdict is about, also if the verdict is on the operator."""
    states = living_states(operator)
    if verdict.state:
        return (operator.states or {}).get(verdict.state)
    if verdict.cause is Cause.STATE_RENAMED:
        return next((state for name, state in states.items() if verdict.reason.startswith(repr(name))), None)
    return next(iter(states.values())) if verdict.cause in _OF_ONLY_STATE and len(states) == 1 else None


def _findings(report: JobReport, scene: Scene) -> Iterator[Finding]:
    olds = {o.uid_hash: o for o in (scene.old or JobSignature(())).operators}
    for verdicts in report.operators:
        operator = olds.get(verdicts.uid_hash)
        new = scene.successor(operator)
        for verdict in (*verdicts.rules, *verdicts.states):
            if verdict.cause is None or verdict.outcome in (Outcome.RESTORES, Outcome.NEW, Outcome.MIGRATES):
                continue
            state = None if operator is None else _state_of(verdict, operator)
            new_state = None if new is None else (new.states or {}).get(verdict.state)
            kind = kind_of(verdict, operator, state, new_state, scene.repairs.target)
            yield Finding(kind, verdict, operator, new, state, new_state)
