"""Causes from mismatches and from traces: places, both types, and repairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from state_processor.applications.explain.explanation import FailureCause, Remedy
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.mismatch_kinds import changed_field, kryo_classes, serializers_of
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.explain.scene import Finding, Scene
from state_processor.applications.explain.wording import advice_of, sentence_of
from state_processor.applications.jobs.repair_steps import command_name
from state_processor.applications.jobs.signature import VALUE, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.pojo import PojoSerializer

_OF_OPERATOR: Final = (Kind.KEY_TYPE, Kind.OPERATORS_SWAPPED, Kind.UNMAPPED_OPERATOR, Kind.MAX_PARALLELISM, Kind.PARALLELISM)
_WITHOUT_FIELD: Final = (*_OF_OPERATOR, Kind.WINDOW_TYPE, Kind.QUERY, Kind.TTL)
_OF_BYTES: Final = (Kind.CLASS_MISSING, Kind.SERIAL_VERSION, Kind.CONNECTOR, Kind.PATTERN)
_OF_DESCRIPTION: Final = (
    *(Kind.UNMAPPED_OPERATOR, Kind.VALUE_TYPE, Kind.KEY_TYPE, Kind.MAP_KEY_TYPE, Kind.STATE_KIND, Kind.STATE_MODE, Kind.TTL),
    *(Kind.OPERATOR_STATE_TYPE, Kind.BROADCAST_TYPE, Kind.ENUM_CONSTANT, Kind.POJO_TO_KRYO, Kind.CLASS_MISSING),
)
"""Kinds whose repairs need the description of the job."""
_LONGEST: Final = 600
_CAUSES: Final[Mapping[Kind, Cause]] = {
    Kind.STATE_KIND: Cause.KIND,
    Kind.STATE_MODE: Cause.KIND,
    Kind.TTL: Cause.TIME_TO_LIVE,
    Kind.WINDOW_TYPE: Cause.WINDOWS,
    Kind.UNMAPPED_OPERATOR: Cause.OPERATOR_MISSING,
    Kind.BACKEND: Cause.FORMAT,
    Kind.KRYO_VERSION: Cause.KRYO_VERSION,
    Kind.MAX_PARALLELISM: Cause.MAX_PARALLELISM,
    Kind.PARALLELISM: Cause.PARALLELISM,
}


def of_findings(
    findings: Sequence[Finding],
    certainty: Certainty,
    sighting: Sighting | None = None,
    *,
    kind: Kind | None = None,
    operator: OperatorSignature | None = None,
) -> FailureCause:
    """Return the cause that findings of one kind, about one operator, are.

    ``sighting``: the trace that shows it. ``kind`` and ``operator``: the kind and the operator, if the findings have others.
    """
    main = next((finding for finding in findings if finding.state is not None and not finding.state.is_timer), findings[0])
    kind = kind or main.kind
    facts = dict({} if sighting is None else sighting.facts)
    written, required = _sides(main, kind, facts)
    lines = dict.fromkeys(line for finding in findings for line in finding.verdict.repair)
    if sighting is not None:  # Flink failed: the code is another one
        lines = dict.fromkeys(line for line in lines if command_name(line) != "check")
    return make(
        kind,
        certainty,
        facts | {"written": written, "required": required, "detail": _detail(main.verdict.reason)},
        operator=main.operator or operator,
        state=None if kind in _OF_OPERATOR else main.state,
        field=None if kind in _WITHOUT_FIELD else changed_field(main.state, main.new_state, main.verdict.reason),
        evidence=dict.fromkeys(finding.verdict.reason for finding in findings if finding.verdict.reason),
        lines=lines,
        message="" if sighting is None else sighting.message,
    )


def _detail(reason: str) -> str:
    """Return the part of a reason that is about a field."""
    _, separator, detail = reason.partition("field '")
    return f"{separator}{detail}".partition(";")[0]


def _sides(finding: Finding, kind: Kind, facts: Mapping[str, str]) -> tuple[str, str]:
    """Return the two sides of a mismatch: the snapshot and the job."""
    state, new = finding.state, finding.new_state
    old_operator, new_operator = finding.operator, finding.new_operator
    if kind in (Kind.MAX_PARALLELISM, Kind.PARALLELISM) and old_operator is not None and new_operator is not None:
        size = new_operator.max_parallelism if kind is Kind.MAX_PARALLELISM else new_operator.parallelism
        return str(old_operator.max_parallelism), facts.get("after") or str(size)
    if kind is Kind.BACKEND:
        return (old_operator.backend or "" if old_operator is not None else ""), facts.get("required", "")
    if state is None or new is None:
        return facts.get("written", ""), facts.get("required", "")
    if kind in (Kind.STATE_KIND, Kind.STATE_MODE):
        return state.kind, new.kind
    if kind is Kind.TTL:
        return tuple("time-to-live" if signature.ttl else "no time-to-live" for signature in (state, new))  # type: ignore[return-value]
    part = finding.verdict.part or VALUE
    return state.type_text(part) or "", new.type_text(part) or ""


def of_sighting(
    sighting: Sighting,
    scene: Scene,
    certainty: Certainty = Certainty.TRACE,
    *,
    kind: Kind | None = None,
    operator: OperatorSignature | None = None,
    state: StateSignature | None = None,
    evidence: Iterable[str] = (),
    part: str = "",
    advice: str | None = None,
) -> FailureCause:
    """Return the cause that a trace shows.

    ``sighting`` and ``scene``: the trace, and the snapshot with the job. ``kind``: the kind, if the rule has another one.
    ``operator``, ``state`` and ``part``: the place in the snapshot, if it is known. ``evidence``: facts of the snapshot.
    ``advice``: advice, if the kind suggests another one.
    """
    kind = kind or sighting.kind
    lines: tuple[str, ...] = ()
    if operator is not None:
        cause = Cause.WINDOWS if kind in _OF_BYTES and state is None else _CAUSES.get(kind, Cause.TYPE)  # the whole operator
        verdict = StateVerdict("" if state is None else state.name, Outcome.REFUSED, cause=cause, part=part)
        lines = scene.remedies(verdict, operator, state, _sized(kind, sighting.facts.get("after", "")))
    written = "" if state is None else state.type_text(part or VALUE) or ""
    facts = dict(sighting.facts)
    sides = (written or facts.get("old") or facts.get("before", ""), facts.get("new") or facts.get("after", ""))
    facts = {"written": sides[0], "required": sides[1]} | facts
    if operator is None and len(sighting.operators) == 1:
        operator = OperatorSignature(uid_hash=next(iter(sighting.operators)))
    return make(
        kind,
        certainty,
        facts,
        operator=operator,
        state=None if kind in _OF_OPERATOR else state,
        field=sighting.facts.get("field"),
        evidence=evidence,
        lines=lines,
        message=sighting.message,
        advice=_hint(kind, scene) if advice is None else advice,
    )


def _hint(kind: Kind, scene: Scene) -> str:
    """Return the advice for a trace. The description of the job leads to repairs that keep state."""
    if kind not in _OF_DESCRIPTION or scene.new is not None:
        return advice_of(kind)
    return " ".join(filter(None, ("Pass the new job with --job: most of such changes keep the state.", advice_of(kind))))


def _sized(kind: Kind, size: str) -> OperatorSignature | None:
    """Return the operator of the job with the size that a trace names."""
    if kind is Kind.MAX_PARALLELISM and size:
        return OperatorSignature(max_parallelism=int(size))
    return OperatorSignature(parallelism=int(size)) if kind is Kind.PARALLELISM and size else None


def make(
    kind: Kind,
    certainty: Certainty,
    facts: Mapping[str, str],
    *,
    operator: OperatorSignature | None = None,
    state: StateSignature | None = None,
    field: str | None = None,
    evidence: Iterable[str] = (),
    lines: Iterable[str] = (),
    message: str = "",
    advice: str | None = None,
) -> FailureCause:
    """Return a cause with its sentence, repairs and advice."""
    label = None if operator is None else operator.label
    name = facts.get("name") or _class_name(kind, state)
    sides = {side: _short(facts.get(side, "")) for side in ("written", "required")}
    texts = dict(facts) | sides | ({"before": sides["written"], "after": sides["required"]} if kind in _CAUSES else {})
    texts |= {side: facts[side] for side in ("before", "after") if facts.get(side)}
    state_name = facts.get("state") if state is None else state.name
    return FailureCause(
        kind,
        certainty,
        sentence_of(kind, texts, operator=label, state=state_name, name=name, field=field),
        label,
        None if operator is None else operator.uid_hash,
        state_name,
        field,
        sides["written"],
        sides["required"],
        tuple(sorted(map(Remedy.of, lines), key=lambda remedy: remedy.loses_state)),
        advice_of(kind) if advice is None else advice,
        tuple(text[:_LONGEST] for text in evidence),
        message[:_LONGEST],
    )


def _short(name: str) -> str:
    """Return the name of a Java class of Flink without its package; other texts are kept."""
    is_class = name.startswith(("org.apache.flink.", "class org.apache.flink."))
    return name.rpartition(".")[2].replace("TtlStateFactory$", "") if is_class else name


def _class_name(kind: Kind, state: StateSignature | None) -> str:
    return "" if state is None else next(_class_names(kind, state), "")


def _class_names(kind: Kind, state: StateSignature) -> Iterator[str]:
    if kind is Kind.KRYO_TO_POJO or kind is Kind.KRYO_CLASS:
        yield from kryo_classes(state)
    serializer_class = {Kind.POJO_TO_KRYO: PojoSerializer, Kind.ENUM_CONSTANT: EnumSerializer}.get(kind)
    for serializer in serializers_of(state):
        if serializer_class is not None and isinstance(serializer, serializer_class):
            yield serializer.class_name if isinstance(serializer, PojoSerializer) else str(serializer.enum_class)
