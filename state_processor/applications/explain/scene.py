"""What a restore had before it: the snapshot, the description of the new job, and the mismatches between them.

The kind of the cause that a mismatch is follows from the verdict of the check, and from the types of the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Final

from state_processor import OperatorIdentifier
from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.jobs.check import check_job, compare
from state_processor.applications.jobs.contents import NO_CONTENTS, Contents, SnapshotValues, snapshot_verdicts
from state_processor.applications.jobs.matching import living_states
from state_processor.applications.jobs.opening import signature_of, signature_of_snapshot
from state_processor.applications.jobs.repairs import Mismatch, Repairs
from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.signature import (
    KEY,
    MAP_KEY,
    NAMESPACE,
    VALUE,
    JobSignature,
    OperatorSignature,
    StateSignature,
    has_kryo_collections,
    is_of_query,
    kryo_classes,
    states_in,
)
from state_processor.applications.jobs.value_conversion import field_changes
from state_processor.applications.jobs.verdicts import Cause, JobReport, Outcome, StateVerdict
from state_processor.command_line import flag_words
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.serializers import KryoSerializer, PojoSerializer
from state_processor.snapshots import RELEASES, OperatorState, Snapshot
from state_processor.states import BROADCAST
from state_processor.support import without_none
from state_processor.types import EnumSerializer, parts_of

_OF_CAUSE: Final[Mapping[Cause, Kind]] = {
    Cause.OPERATORS_SWAPPED: Kind.OPERATORS_SWAPPED,
    Cause.NOT_KEYED: Kind.STATE_NOT_USED,
    Cause.STATE_UNUSED: Kind.STATE_NOT_USED,
    Cause.STATE_RENAMED: Kind.STATE_RENAMED,
    Cause.TIME_TO_LIVE: Kind.TTL,
    Cause.KRYO_VERSION: Kind.KRYO_VERSION,
    Cause.WINDOWS: Kind.WINDOW_TYPE,
    Cause.QUERY: Kind.QUERY,
    Cause.QUERY_TEXT: Kind.QUERY,
    Cause.PARALLELISM: Kind.PARALLELISM,
    Cause.MAX_PARALLELISM: Kind.MAX_PARALLELISM,
    Cause.FORMAT: Kind.BACKEND,
    Cause.ASYNCHRONOUS: Kind.STATE_API,
    Cause.TIMER_SERVICE: Kind.BACKEND,
    Cause.MOVED: Kind.MOVED,
    Cause.CLAIMED: Kind.CLAIMED,
    Cause.CLAIMED_MISSING: Kind.CLAIMED,
    Cause.VERSION: Kind.NEWER_FORMAT,
}
_OF_PART: Final = {KEY: Kind.KEY_TYPE, NAMESPACE: Kind.WINDOW_TYPE, MAP_KEY: Kind.MAP_KEY_TYPE}
_FLINK: Final = "org.apache.flink."
_MISSING: Final = (" is missing", " does not exist", "bytes are recorded")


def kind_of(
    verdict: StateVerdict,
    operator: OperatorSignature | None,
    state: StateSignature | None,
    new: StateSignature | None,
    target: RestoringJob,
) -> Kind:
    """Return the kind of the cause that a verdict is.

    ``operator``, ``state`` and ``new``: the operator and the state of the snapshot, and the state of the job. ``target``: the job
    that restores.
    """
    match verdict.cause:
        case Cause.OPERATOR_MISSING:
            states = () if operator is None else (operator.states or {}).values()
            return Kind.QUERY if any(map(is_of_query, states)) else Kind.UNMAPPED_OPERATOR
        case Cause.KIND:
            described = without_none((state, new))
            is_of_operators = bool(described) and not any(signature.is_keyed for signature in described)
            return Kind.STATE_MODE if is_of_operators else Kind.STATE_KIND
        case Cause.TYPE if state is not None:
            return _type_kind(verdict, state, new, target)
        case Cause.FIELDS:
            return Kind.FIELD_RENAMED if verdict.outcome is Outcome.CHANGED else Kind.FIELD_NULL
        case Cause.CODE:
            return _code_kind(verdict, state)
        case Cause.WINDOWS if verdict.outcome is Outcome.UNKNOWN:  # assigner and trigger are code, and the types are equal
            return Kind.CODE
        case Cause.FILES:
            return Kind.FILE_MISSING if any(text in verdict.reason for text in _MISSING) else Kind.FILE_DAMAGED
    return _OF_CAUSE.get(verdict.cause, Kind.CODE) if verdict.cause is not None else Kind.CODE


def _type_kind(verdict: StateVerdict, state: StateSignature, new: StateSignature | None, target: RestoringJob) -> Kind:
    if is_of_query(state):
        return Kind.QUERY
    if not state.is_keyed:
        return Kind.BROADCAST_TYPE if state.kind == BROADCAST else Kind.OPERATOR_STATE_TYPE
    if verdict.part in _OF_PART:
        return _OF_PART[verdict.part]
    old, required = state.serializer(VALUE), None if new is None else new.serializer(VALUE)
    if old is None or required is None:
        return Kind.VALUE_TYPE
    if isinstance(old, PojoSerializer) and isinstance(required, KryoSerializer):
        return Kind.POJO_TO_KRYO
    if isinstance(old, KryoSerializer) and isinstance(required, PojoSerializer):
        return Kind.KRYO_TO_POJO
    if target.changes_kryo and has_kryo_collections(state):
        return Kind.KRYO_VERSION
    constants = {enum.enum_class: enum.names for enum in parts_of(EnumSerializer, required)}
    for enum in parts_of(EnumSerializer, old):
        if not set(enum.names).issubset(constants.get(enum.enum_class, enum.names)):
            return Kind.ENUM_CONSTANT
    return serializer_kind(*(signature.snapshots[VALUE].class_name for signature in (state, new) if signature is not None))


def serializer_kind(old: str, new: str) -> Kind:
    """Return the kind of a change of serializers, by their Java classes or the classes of their snapshots."""
    old, new = (name.partition("{")[0] for name in (old, new))  # some serializers print their parts
    names = [name.rpartition(".")[2] for name in (old, new)]
    if ("Ttl" in names[0]) != ("Ttl" in names[1]):
        return Kind.TTL
    if "PojoSerializer" in names[0] and "KryoSerializer" in names[1]:
        return Kind.POJO_TO_KRYO
    if "KryoSerializer" in names[0] and "PojoSerializer" in names[1]:
        return Kind.KRYO_TO_POJO
    if "EnumSerializer" in names[0] and "EnumSerializer" in names[1]:
        return Kind.ENUM_CONSTANT
    if "RowDataSerializer" in names[0] or "RowDataSerializer" in names[1]:
        return Kind.QUERY
    is_foreign = ["." in name and not name.startswith(_FLINK) for name in (old, new)]
    return Kind.SERIALIZER if any(is_foreign) and names[0] != names[1] else Kind.VALUE_TYPE


def _code_kind(verdict: StateVerdict, state: StateSignature | None) -> Kind:
    if state is not None and state.unread:
        return Kind.SERIALIZER
    if state is None:
        return Kind.IN_FLIGHT if "records in flight" in verdict.reason else Kind.CODE
    return Kind.KRYO_CLASS if any(kryo_classes(state)) else Kind.CODE


def changed_field(state: StateSignature | None, new: StateSignature | None, reason: str) -> str | None:
    """Return the first field that a change is about."""
    named = _quoted_field(reason)
    if named is not None or state is None or new is None or state.kind != new.kind:
        return named
    changes = field_changes(state, new)
    before = set(_pojo_fields(state))
    added = (name for class_name, name in _pojo_fields(new) if (class_name, name) not in before)
    return next((path.rpartition(".")[2] for path in (*changes.gone, *changes.defaults, *added)), None)


def _pojo_fields(state: StateSignature) -> Iterator[tuple[str, str]]:
    """Yield the fields of the POJOs in a state: their class and their name."""
    for pojo in state.parts(PojoSerializer):
        for pojo_field in pojo.fields:
            yield pojo.class_name, pojo_field.name


def _quoted_field(reason: str) -> str | None:
    _, separator, rest = reason.partition("field '")
    return rest.partition("'")[0] if separator else None


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

    @property
    def old_operators(self) -> tuple[OperatorSignature, ...]:
        """The operators of the snapshot."""
        return () if self.old is None else self.old.operators

    @property
    def old_by_hash(self) -> dict[str, OperatorSignature]:
        """The operators of the snapshot by their hashes."""
        return {} if self.old is None else self.old.by_hash

    def of_kind(self, kind: Kind) -> list[Finding]:
        """Return the findings of a kind."""
        return [finding for finding in self.findings if finding.kind is kind]

    def operators(self, sighting: Sighting) -> tuple[OperatorSignature, ...]:
        """Return the operators of the snapshot that a trace is about: those that it names, or all that may be in its tasks."""
        operators = self.old_operators
        named = tuple(o for o in operators if o.uid_hash in sighting.operators)
        heads = tuple(o for o in operators if o.uid_hash in sighting.tasks and o.has_state)
        return named if sighting.operators else heads or operators

    @property
    def is_of_another_job(self) -> bool:
        """Whether no operator of the snapshot is in the new job."""
        olds = [operator for operator in self.old_operators if operator.has_state]
        return self.new is not None and bool(olds) and not any(map(self.successor, olds))

    @property
    def has_queries(self) -> bool:
        """Whether an operator of the snapshot has rows of Flink SQL."""
        return any(is_of_query(state) for _, state in states_in(self.old_operators))

    def successor(self, operator: OperatorSignature | None) -> OperatorSignature | None:
        """Return the operator of the new job with the id of an operator of the snapshot."""
        if self.new is None or operator is None:
            return None
        return self.new.by_hash.get(operator.uid_hash or "")

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
    uids: dict[str, str] = {}
    for operator in () if new is None else new.operators:
        if operator.uid:
            uids[OperatorIdentifier.for_uid(operator.uid).uid_hash] = operator.uid
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
    olds = scene.old_by_hash
    for verdicts in report.operators:
        operator = olds.get(verdicts.uid_hash or "")
        new = scene.successor(operator)
        for verdict in (*verdicts.rules, *verdicts.states):
            if verdict.cause is None or verdict.outcome in (Outcome.RESTORES, Outcome.NEW, Outcome.MIGRATES):
                continue
            state = None if operator is None else _state_of(verdict, operator)
            new_state = None if new is None else (new.states or {}).get(verdict.state)
            kind = kind_of(verdict, operator, state, new_state, scene.repairs.target)
            yield Finding(kind, verdict, operator, new, state, new_state)
