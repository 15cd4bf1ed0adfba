"""Confirmation of what a trace shows: the snapshot has the place that it names, or contradicts it.

Operators and connectors of Flink keep states of their own. The classes that register them show whether a trace is about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor import OperatorIdentifier
from state_processor.applications.explain.causes import of_findings, of_sighting, of_step
from state_processor.applications.explain.confirming_files import FILES, OPENING, class_of, classes_of, of_files, of_opening
from state_processor.applications.explain.explanation import FailureCause
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.explain.scene import (
    Finding,
    Scene,
    serializer_kind,
)
from state_processor.applications.finding.state_search import Needle, StateSearch
from state_processor.applications.jobs.contents import NO_CONTENTS
from state_processor.applications.jobs.rules import classes_inside
from state_processor.applications.jobs.signature import (
    KEY,
    MAP_KEY,
    NAMESPACE,
    VALUE,
    VOID_NAMESPACE,
    OperatorSignature,
    StateSignature,
    has_kryo_collections,
    is_of_query,
    kryo_classes,
    states_in,
)
from state_processor.errors import StateProcessorError
from state_processor.serializers import PojoSerializer
from state_processor.states import BROADCAST, LIST, MAP, OPERATOR_LIST, UNION_LIST
from state_processor.types import EnumSerializer, NFAStateSerializer

_OWNERS_BY_STATE: Final = {
    r"SourceReaderState$": r"SourceOperator",
    r"writer_raw_states$|writer_state": r"SinkWriter|StatefulSinkWriterStateHandler",
    r"(?:streaming_committer|global_committer|committer|writer_committables)\w*$": r"Committ|GlobalCommitter|SinkWriter",
    r"_async_wait_operator_state_$": r"AsyncWaitOperator",
    r"bucket-states$|max-part-counter$": r"Buckets|StreamingFileSink|AbstractStreamingWriter",
    r"topic-partition-offset-states$": r"FlinkKafkaConsumer",
    r"next-transactional-id-hint": r"FlinkKafkaProducer",
    r"file-monitoring-state$": r"ContinuousFileMonitoringFunction",
    r"(?:compact|file-compactor|coordinator|remaining)[\w-]*$": r"Compactor|CompactCoordinator",
}
_OWNERS: Final = [(re.compile(name), re.compile(rf"\b(?:{owner})\w*[.$]")) for name, owner in _OWNERS_BY_STATE.items()]

_States = Sequence[tuple[OperatorSignature, StateSignature]]


def by_owner(states: _States, frames: Sequence[str]) -> _States:
    """Return the states that the classes of a trace own; without such classes, those that the job registers itself.

    If the trace has no methods, or nothing else is left, all states are returned.
    """
    owned = [pair for pair in states if (owner := _owner(pair[1])) is not None and any(map(owner.search, frames))]
    unowned_states = [pair for pair in states if _owner(pair[1]) is None]
    return owned or (unowned_states if frames and unowned_states else states)


def is_of_other_owner(state: StateSignature, frames: Sequence[str]) -> bool:
    """Return whether a class of Flink registers a state, and a trace with methods does not have this class."""
    owner = _owner(state)
    return bool(frames) and owner is not None and not any(map(owner.search, frames))


def _owner(state: StateSignature) -> re.Pattern[str] | None:
    return next((owner for name, owner in _OWNERS if name.match(state.name)), None)


def places_of_text(
    scene: Scene, text: str, hashes: Collection[str | None]
) -> Iterator[tuple[OperatorSignature, StateSignature | None]]:
    """Yield operators and states whose values, or bytes, have a text. The state is ``None`` for coordinators and raw state."""
    if scene.snapshot is None or scene.contents is NO_CONTENTS:
        return
    olds = scene.old_by_hash
    for stored in scene.snapshot.metadata.operators:
        operator = olds.get(stored.operator_id)
        if operator is None or stored.operator_id not in hashes:
            continue
        search = StateSearch(scene.snapshot, [Needle.text(text)], [])
        try:
            search.search(stored)
        except StateProcessorError:
            continue
        names: list[str | None] = []
        for batch in search.hits:
            names += batch.column("state_name").to_pylist()
        names += [row["state_name"] for row in search.undecoded if row["count"]]
        for name in dict.fromkeys(names):
            yield operator, (operator.states or {}).get(name or "")


Facts = Mapping[str, str]
_VALUES: Final = frozenset(
    {
        *(Kind.VALUE_TYPE, Kind.POJO_TO_KRYO, Kind.KRYO_TO_POJO, Kind.SERIALIZER, Kind.KRYO_VERSION, Kind.TTL, Kind.QUERY),
        *(Kind.ENUM_CONSTANT, Kind.MAP_KEY_TYPE),
    }
)
_FAMILIES: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.UNMAPPED_OPERATOR: frozenset({Kind.UNMAPPED_OPERATOR, Kind.QUERY}),
    Kind.VALUE_TYPE: _VALUES,
    Kind.SERIALIZER: _VALUES,
    Kind.POJO_TO_KRYO: _VALUES,
    Kind.KRYO_TO_POJO: _VALUES,
    Kind.TTL: frozenset({Kind.TTL}),
    Kind.KRYO_CLASS: frozenset({Kind.KRYO_VERSION}),
    Kind.ENUM_CONSTANT: frozenset({Kind.ENUM_CONSTANT}),
    Kind.KEY_TYPE: frozenset({Kind.KEY_TYPE, Kind.QUERY}),
    Kind.WINDOW_TYPE: frozenset({Kind.WINDOW_TYPE, Kind.QUERY}),
    Kind.STATE_KIND: frozenset({Kind.STATE_KIND, Kind.QUERY}),
    Kind.OPERATOR_STATE_TYPE: frozenset({Kind.OPERATOR_STATE_TYPE, Kind.ENUM_CONSTANT}),
    Kind.FIELD_TYPE: frozenset({Kind.VALUE_TYPE, Kind.OPERATOR_STATE_TYPE, Kind.BROADCAST_TYPE}),
}
"""The kinds of mismatches that may be behind a message. Others have a kind of their own."""
_MODES: Final = {"SPLIT_DISTRIBUTE": OPERATOR_LIST, "UNION": UNION_LIST, "BROADCAST": BROADCAST}
_PARTS: Final = {Kind.KEY_TYPE: KEY, Kind.WINDOW_TYPE: NAMESPACE, Kind.MAP_KEY_TYPE: MAP_KEY}
_NO_OPERATOR: Final = frozenset(
    {
        *(Kind.CHANGELOG, Kind.TRANSACTION, Kind.STORAGE, Kind.DISK, Kind.MEMORY, Kind.NATIVE_LIBRARY),
        *(Kind.OLDER_FORMAT, Kind.KEY_GROUPS, Kind.CONNECTOR, Kind.CHECKPOINT, Kind.NO_KEY, Kind.NO_BACKEND, Kind.LOST_PROCESS),
        *(Kind.RESOURCES, Kind.HIGH_AVAILABILITY, Kind.RESTORE_MODE, Kind.CONFIGURATION, Kind.LINKAGE, Kind.PYTHON),
        *(Kind.SOURCE_POSITION, Kind.EXTERNAL, Kind.PROGRAM, Kind.JOB_CODE, Kind.STEP, Kind.TASK),
    }
)
"""Kinds that the snapshot can't confirm."""
_OF_STATE: Final = frozenset({Kind.VALUE_TYPE, Kind.KEY_TYPE, Kind.MAP_KEY_TYPE, Kind.STATE_KIND, Kind.WINDOW_TYPE})
_QUERY_OPERATORS: Final = "org.apache.flink.table.runtime.operators."
_INFERRED: Final = frozenset(
    {
        *(Kind.KRYO_CLASS, Kind.KRYO_VERSION, Kind.POJO_TO_KRYO, Kind.ENUM_CONSTANT, Kind.CLASS_MISSING, Kind.SERIALIZER),
        *(Kind.FIELD_NULL, Kind.PATTERN),
    }
)
"""Kinds of rules whose messages do not tell both sides: the place in the snapshot does not show that the job changed there."""
_FIELD_READINGS: Final = (Kind.ENUM_CONSTANT, Kind.CLASS_MISSING)
"""What a serializer of a field that can't be read may mean: Flink logs the reason as a warning and goes on without it."""


def _confirmed(sighting: Sighting) -> Certainty | None:
    """Return the certainty of a cause whose place is in the snapshot: a message with other meanings stays likely."""
    return Certainty.CONFIRMED if sighting.rule.plain else None


class Contradiction(Exception):
    """The snapshot contradicts a trace."""


def confirm(sighting: Sighting, scene: Scene) -> Sequence[FailureCause]:
    """Return the causes that a trace shows, confirmed as far as the snapshot allows.

    The usual kind of a place is a cause only if the snapshot confirms it.
    """
    if not sighting.rule.usual:
        return [*_confirmed_causes(sighting, scene)]
    try:
        causes = [cause for cause in _confirmed_causes(sighting, scene) if cause.certainty is Certainty.CONFIRMED]
    except Contradiction:
        causes = []
    return causes or [of_step(sighting, scene)]


def _confirmed_causes(sighting: Sighting, scene: Scene) -> Iterator[FailureCause]:
    kind = sighting.kind
    if kind is Kind.DUPLICATE_UID:
        yield _of_uid(sighting, scene)
    elif not scene.source or kind in _NO_OPERATOR:
        yield of_sighting(sighting, scene, kind=_refined(sighting))
    elif kind in OPENING or scene.problem is not None:
        yield from _checked(of_opening(sighting, scene), sighting, "the snapshot can be opened")
    elif kind in FILES:
        yield from _checked(of_files(sighting, scene), sighting, "the snapshot does not have this file")
    elif kind is Kind.BACKEND and not sighting.rule.message.pattern and not scene.of_kind(kind):
        damaged = replace(sighting, rule=replace(sighting.rule, kind=Kind.FILE_DAMAGED))
        yield from _checked(of_files(damaged, scene), sighting, "the snapshot has the format of the state backend")
    elif kind is Kind.IN_FLIGHT:
        flights = scene.of_kind(Kind.IN_FLIGHT)
        if not flights and scene.contents is not NO_CONTENTS:
            raise Contradiction(f"the snapshot does not have records in flight: {sighting.message[:200]}")
        evidence = [f.verdict.reason for f in flights]
        yield of_sighting(sighting, scene, _confirmed(sighting) if flights else None, evidence=evidence)
    elif kind is Kind.FINISHED_TASKS:
        yield from _of_finished(sighting, scene)
    elif kind is Kind.MAX_PARALLELISM and sighting.facts.get("after") == "1" and scene.has_queries:
        evidence = ["operators of Flink SQL without a key have max parallelism 1: another query has another operator of this id"]
        yield of_sighting(sighting, scene, kind=Kind.QUERY, evidence=evidence)
    elif kind in (Kind.CLASS_MISSING, Kind.SERIAL_VERSION) and "name" in sighting.facts:
        yield from _of_class(sighting, scene)
    else:
        yield from _of_types(sighting, scene)


def _of_finished(sighting: Sighting, scene: Scene) -> Iterator[FailureCause]:
    assert scene.snapshot is not None
    names = [operator.label for operator in scene.snapshot.metadata.operators if operator.fully_finished]
    if not names:
        raise Contradiction("no operator of the snapshot had finished")
    evidence = [f"these operators had finished: {', '.join(names)}"]
    yield of_sighting(sighting, scene, _confirmed(sighting), evidence=evidence)


def _checked(causes: Sequence[FailureCause], sighting: Sighting, contradiction: str) -> Sequence[FailureCause]:
    if not causes:
        raise Contradiction(f"{contradiction}: {sighting.message[:200]}")
    return causes


def _of_uid(sighting: Sighting, scene: Scene) -> FailureCause:
    """Return the cause that two operators have one uid; the snapshot shows whether the uid is one of its operators."""
    uid = sighting.facts.get("uid")
    operator = scene.old_by_hash.get(OperatorIdentifier.for_uid(uid).uid_hash) if uid else None
    evidence = [] if operator is None else [f"the snapshot has one operator with this uid: {operator.label}"]
    certainty = Certainty.TRACE if operator is None else Certainty.CONFIRMED
    return replace(of_sighting(sighting, scene, certainty, operator=operator, evidence=evidence), repairs=())


def _refined(sighting: Sighting) -> Kind:
    """Return the kind by the classes of serializers that a message names."""
    old, new = sighting.facts.get("old"), sighting.facts.get("new")
    if old and new and serializer_kind(old, new) is Kind.TTL:
        return Kind.TTL
    if sighting.kind in _OF_STATE and any(frame.startswith(_QUERY_OPERATORS) for frame in sighting.trace.frames):
        return Kind.QUERY
    if not old or not new or sighting.kind not in (Kind.VALUE_TYPE, Kind.KEY_TYPE):
        return sighting.kind
    kind = serializer_kind(old, new)
    return kind if sighting.kind is Kind.VALUE_TYPE or kind is Kind.QUERY else sighting.kind


def _of_types(sighting: Sighting, scene: Scene) -> Iterator[FailureCause]:
    operators = scene.operators(sighting)
    if not operators:
        raise Contradiction(f"the snapshot does not have operator {', '.join(sorted(sighting.operators))}")
    mismatches = _mismatches(sighting, scene, operators) or _mismatches_elsewhere(sighting, scene, operators)
    groups: dict[object, list[Finding]] = {}
    for finding in mismatches:
        assert finding.operator is not None
        state = finding.verdict.state if finding.kind in _VALUES - {Kind.QUERY} else ""
        groups.setdefault((finding.kind, finding.operator.uid_hash, state), []).append(finding)
    if groups:
        yield from _of_exchanged(mismatches, sighting, scene)
        for group in groups.values():
            yield of_findings(group, Certainty.CONFIRMED, sighting)
        return
    yield from _of_place(sighting, scene, operators)


def _of_exchanged(mismatches: Sequence[Finding], sighting: Sighting, scene: Scene) -> Iterator[FailureCause]:
    """Yield the cause that operators of mismatches exchanged their ids, if each fits the states of the other."""
    hashes = {finding.operator.uid_hash for finding in mismatches if finding.operator is not None}
    bad = [finding for finding in scene.of_kind(Kind.OPERATORS_SWAPPED) if finding.is_bad]
    exchanged = [finding for finding in bad if finding.operator is not None and finding.operator.uid_hash in hashes]
    if any(finding.verdict.repair for finding in exchanged):
        yield of_findings(exchanged, Certainty.CONFIRMED, sighting, kind=Kind.OPERATORS_SWAPPED)


def _mismatches_elsewhere(sighting: Sighting, scene: Scene, operators: Sequence[OperatorSignature]) -> list[Finding]:
    """Return the mismatches of other operators of a task: those of operator state, if the trace does not name the operator."""
    if sighting.operators or scene.old is None:
        return []
    mismatches = _mismatches(sighting, scene, scene.old.operators)
    return [finding for finding in mismatches if finding.state is not None and not finding.state.is_keyed]


def _mismatches(sighting: Sighting, scene: Scene, operators: Sequence[OperatorSignature]) -> list[Finding]:
    """Return the mismatches that a trace may be about."""
    hashes = {operator.uid_hash for operator in operators}
    return [finding for finding in scene.findings if _is_about(sighting, finding, hashes)]


def _is_about(sighting: Sighting, finding: Finding, hashes: Container[str | None]) -> bool:
    """Return whether a trace may be about a mismatch of one of these operators."""
    family = _FAMILIES.get(sighting.kind, frozenset({sighting.kind}))
    if finding.kind not in family or finding.operator is None or finding.operator.uid_hash not in hashes:
        return False
    if finding.kind is Kind.FIELD_NULL:  # the snapshot has nulls, the job's fields are in the trace
        if f"field {sighting.facts.get('field')!r} of " not in finding.verdict.reason:
            return False
    elif not finding.is_bad:
        return False
    return _agrees(finding, sighting)


def _agrees(finding: Finding, sighting: Sighting) -> bool:
    """Return whether a message names the serializers, or kinds, of a mismatch."""
    pairs = ((finding.state, sighting.facts.get("old")), (finding.new_state, sighting.facts.get("new")))
    return all(state is None or not name or _fits(state, name, sighting.kind) for state, name in pairs)


def _fits(state: StateSignature, name: str, kind: Kind) -> bool:
    """Return whether a message may mean a state by the Java class of its serializer, by its kind or by its redistribution."""
    if kind is Kind.STATE_KIND:
        return state.kind == name
    if kind is Kind.STATE_MODE:
        return state.kind == _MODES.get(name, name)
    simple = name.rpartition(".")[2].rpartition("$")[2]
    if kind in (Kind.KEY_TYPE, Kind.WINDOW_TYPE):
        snapshot = state.snapshots.get(_PARTS[kind])
        return snapshot is None or simple in snapshot.class_name
    if (simple, state.kind) in (("ListSerializer", LIST), ("MapSerializer", MAP)) or simple == "TtlAwareSerializer":
        return True
    if state.unread:
        return name in state.unread
    snapshot = state.snapshots.get(VALUE)
    return not state.is_timer and state.kind not in (LIST, MAP) and snapshot is not None and simple in snapshot.class_name


def _of_place(sighting: Sighting, scene: Scene, operators: Sequence[OperatorSignature]) -> Iterator[FailureCause]:
    """Yield the cause at the only place of the snapshot that fits a trace, or without a place if several fit."""
    kind = _refined(sighting)
    test = _PLACES.get(kind)
    if test is None:
        kind = Kind.QUERY if kind is Kind.UNMAPPED_OPERATOR and _is_of_query(operators[0]) else kind
        sizes = [o for o in operators if sighting.facts.get("before") in (None, str(o.max_parallelism))]
        if not sizes:
            raise Contradiction(f"no operator of the snapshot has this max parallelism: {sighting.message[:200]}")
        is_named = bool(sighting.operators) or "before" in sighting.facts
        certainty = _confirmed(sighting) if is_named and len(sizes) == 1 else None
        evidence: list[str] = []
        if certainty is not None and scene.new is not None:
            certainty = Certainty.PLACE
            evidence.append(_OTHER_JOB)
        operator = sizes[0] if len(sizes) == 1 or is_named else None
        yield of_sighting(sighting, scene, certainty, kind=kind, operator=operator, evidence=evidence)
        return
    states = _states_of(sighting, scene, operators)
    fits = [(o, s) for o, s in states if test(s, sighting) and (kind is not Kind.QUERY or _is_of_query(o))]
    fitting = by_owner(fits, sighting.trace.frames)
    if not fitting:
        raise Contradiction(f"no state of the snapshot fits: {sighting.message[:200]}")
    chosen = _only(fitting, by_operator=kind in (Kind.KEY_TYPE, Kind.WINDOW_TYPE))
    if chosen is None:
        names = [f"state {state.name!r} of operator {operator.label}" for operator, state in fitting]
        kind = Kind.QUERY if kind is Kind.VALUE_TYPE and all(is_of_query(state) for _, state in fitting) else kind
        only = fitting[0][0] if len({operator.uid_hash for operator, _ in fitting}) == 1 else None
        for reading in _FIELD_READINGS if _is_about_fields(sighting) else (kind,):
            cause = of_sighting(sighting, scene, kind=reading, evidence=[f"it may be {' or '.join(names[:5])}"])
            if only is not None:
                sentence = cause.sentence.replace("operator of the trace", f"operator {only.label}")
                cause = replace(cause, sentence=sentence, operator=only.label, uid_hash=only.uid_hash)
            yield cause
        return
    operator, state = chosen
    evidence = [f"state {state.name!r} of operator {operator.label} is the only one of the snapshot that the message fits"]
    place: dict[str, Any] = {"operator": operator, "state": state, "part": _PARTS.get(kind, "")}
    for reading, reading_certainty in _readings(kind, state, sighting, scene):
        certainty = reading_certainty
        doubt = _doubt(state, sighting, scene)
        if doubt and reading_certainty is Certainty.CONFIRMED:
            certainty = Certainty.PLACE
            evidence = [*evidence, doubt]
        yield of_sighting(sighting, scene, certainty, kind=reading, evidence=evidence, **place)


_OTHER_JOB: Final = "the description of the new job does not have this change: the job that failed may be another one"


def _doubt(state: StateSignature, sighting: Sighting, scene: Scene) -> str:
    """Return why the only state that fits may not be the one of the trace; empty without a reason."""
    if scene.new is not None:
        return _OTHER_JOB
    if is_of_other_owner(state, sighting.trace.frames):
        return f"the trace does not have the class of Flink that registers state {state.name!r}"
    if state.is_keyed and sighting.tasks and scene.old_by_hash.keys().isdisjoint(sighting.tasks):
        return "the snapshot does not have the id of the task that failed: the id was set, or the snapshot is another one"
    return ""


def _states_of(
    sighting: Sighting, scene: Scene, operators: Sequence[OperatorSignature]
) -> Iterator[tuple[OperatorSignature, StateSignature]]:
    """Yield the states that a trace may be about. A task has keyed state in its first operator, operator state in any."""
    yield from states_in(operators)
    if not sighting.operators:
        for operator, state in states_in(scene.old_operators):
            if operator not in operators and not state.is_keyed:
                yield operator, state


def _only(
    fitting: Sequence[tuple[OperatorSignature, StateSignature]], *, by_operator: bool
) -> tuple[OperatorSignature, StateSignature] | None:
    """Return the only state that fits a trace; if all states of an operator fit, the first state that is not a timer."""
    if by_operator and len({operator.uid_hash for operator, _ in fitting}) == 1:
        return next((pair for pair in fitting if not pair[1].is_timer), fitting[0])
    return fitting[0] if len(fitting) == 1 else None


def _readings(kind: Kind, state: StateSignature, sighting: Sighting, scene: Scene) -> Iterator[tuple[Kind, Certainty]]:
    """Yield the kinds that a message about a state may mean. Equal classes of serializers do not show their parts."""
    old, new = sighting.facts.get("old"), sighting.facts.get("new")
    if _is_about_fields(sighting):
        readings = _FIELD_READINGS if _has_enum(state, sighting) else _FIELD_READINGS[1:]
        for reading in readings:
            yield reading, Certainty.POSSIBLE
    elif sighting.kind in _INFERRED or not sighting.rule.plain:
        yield kind, Certainty.CONFIRMED if _shows(state, sighting) else Certainty.PLACE
    elif kind is not Kind.VALUE_TYPE:
        yield kind, Certainty.CONFIRMED
    elif is_of_query(state):
        yield Kind.QUERY, Certainty.CONFIRMED
    elif scene.repairs.target.changes_kryo and has_kryo_collections(state):
        yield Kind.KRYO_VERSION, Certainty.PLACE
    elif state.ttl and old == new:
        yield Kind.TTL, Certainty.POSSIBLE
        yield Kind.VALUE_TYPE, Certainty.POSSIBLE
    else:
        yield kind, Certainty.LIKELY if old == new else Certainty.CONFIRMED


def _is_of_query(operator: OperatorSignature) -> bool:
    return any(map(is_of_query, (operator.states or {}).values()))


def _living(state: StateSignature, sighting: Sighting) -> bool:
    name = sighting.facts.get("old")
    return state.is_keyed and not state.is_timer and (not name or _fits(state, name, Kind.VALUE_TYPE))


def _is_about_fields(sighting: Sighting) -> bool:
    """Return whether a message says only that the serializer of a field could not be read (PojoSerializerSnapshot)."""
    return sighting.kind is Kind.ENUM_CONSTANT and not sighting.facts


def _has_enum_or_class(state: StateSignature, sighting: Sighting) -> bool:
    """Return whether a state has the enum of a message; if the message is about fields, whether a field has a class."""
    if not _is_about_fields(sighting):
        return _has_enum(state, sighting)
    for pojo in state.parts(PojoSerializer):
        for field in pojo.fields:
            if any(classes_inside(field.serializer)):
                return True
    return False


def _has_enum(state: StateSignature, sighting: Sighting) -> bool:
    name = sighting.facts.get("name")
    return any(name in (None, enum.enum_class) for enum in state.parts(EnumSerializer))


def _shows(state: StateSignature, sighting: Sighting) -> bool:
    """Return whether a state has the constant that a message misses."""
    constant, name = sighting.facts.get("field"), sighting.facts.get("name")
    enums = state.parts(EnumSerializer) if sighting.kind is Kind.ENUM_CONSTANT else []
    return any(enum.enum_class == name and constant in enum.names for enum in enums)


def _has_pojo(state: StateSignature, sighting: Sighting) -> bool:
    name = sighting.facts.get("name")
    return any(name in (None, pojo.class_name) for pojo in state.parts(PojoSerializer))


def _has_field(state: StateSignature, sighting: Sighting) -> bool:
    """Return whether objects of a state have a field. Messages of Java name the class that declares it."""
    place = sighting.facts.get("name"), sighting.facts.get("field")
    for pojo in state.parts(PojoSerializer):
        for field in pojo.fields:
            if place == (field.declaring_class or pojo.class_name, field.name):
                return True
    return False


_PLACES: Final[Mapping[Kind, Callable[[StateSignature, Sighting], bool]]] = {
    Kind.VALUE_TYPE: _living,
    Kind.SERIALIZER: _living,
    Kind.KRYO_TO_POJO: _living,
    Kind.QUERY: _living,
    Kind.TTL: _living,
    Kind.POJO_TO_KRYO: lambda state, sighting: _has_pojo(state, sighting) and not state.is_timer,
    Kind.FIELD_NULL: _has_field,
    Kind.FIELD_TYPE: _has_field,
    Kind.ENUM_CONSTANT: _has_enum_or_class,
    Kind.KRYO_CLASS: lambda state, _: not state.is_timer and any(kryo_classes(state)),
    Kind.KRYO_VERSION: lambda state, _: any(kryo_classes(state)),
    Kind.MAP_KEY_TYPE: lambda state, _: state.kind == MAP,
    Kind.KEY_TYPE: lambda state, sighting: state.is_keyed and _fits(state, sighting.facts.get("old", ""), Kind.KEY_TYPE),
    Kind.WINDOW_TYPE: lambda state, _: state.is_keyed and state.type_text(NAMESPACE) not in (None, VOID_NAMESPACE),
    Kind.STATE_KIND: lambda state, sighting: state.is_keyed and state.kind == sighting.facts.get("old", state.kind),
    Kind.STATE_MODE: lambda state, sighting: _fits(state, sighting.facts.get("old", ""), Kind.STATE_MODE),
    Kind.OPERATOR_STATE_TYPE: lambda state, _: state.kind in (OPERATOR_LIST, UNION_LIST),
    Kind.BROADCAST_TYPE: lambda state, _: state.kind == BROADCAST,
    Kind.CLASS_MISSING: lambda state, sighting: state.name == sighting.facts.get("state"),
    Kind.PATTERN: lambda state, _: bool(state.parts(NFAStateSerializer)),
}
"""Which states of a snapshot a message may be about."""


def _of_class(sighting: Sighting, scene: Scene) -> Iterator[FailureCause]:
    """Yield the causes about a class that a message names: where the snapshot has it."""
    name = class_of(sighting)
    hashes = {operator.uid_hash for operator in scene.operators(sighting)}
    named = [operator for operator in scene.old_operators if operator.uid_hash in hashes]
    typed = [(operator, state) for operator, state in states_in(named) if name in classes_of(state)]
    mismatches = [f for f in scene.findings if f.is_bad and f.state is not None and (f.operator, f.state) in typed]
    if mismatches:
        yield of_findings(mismatches, Certainty.CONFIRMED, sighting, kind=sighting.kind)
        return
    places: list[tuple[OperatorSignature, StateSignature | None]] = [*typed] or [*places_of_text(scene, name, hashes)]
    for operator, state in places:
        holder = "the coordinator or raw state" if state is None else f"state {state.name!r}"
        evidence = [f"{holder} of operator {operator.label} names {name}"]
        yield of_sighting(sighting, scene, _confirmed(sighting), operator=operator, state=state, evidence=evidence)
    if not places:
        kind = Kind.LINKAGE if sighting.kind is Kind.CLASS_MISSING else sighting.kind
        evidence = [f"the snapshot does not name {name}: the code of the job needs it"]
        certainty = None if kind is Kind.LINKAGE else Certainty.LIKELY
        yield of_sighting(sighting, scene, certainty, kind=kind, evidence=evidence)
