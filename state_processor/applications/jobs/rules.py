"""Flink's rules for restoring a state into a job that declares another one.

The first part is about what equal or compatible types do not prove: code of the job defines the bytes or the meaning of some
parts, and a migration drops or changes some values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from state_processor.applications.jobs.signature import KEY, MAP_KEY, NAMESPACE, ROLES, VALUE, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.errors import UnknownSerializerError
from state_processor.serializers import (
    KryoSerializer,
    PojoSerializer,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
)
from state_processor.snapshots import RELEASES, Release
from state_processor.states import BROADCAST, OPERATOR_KINDS
from state_processor.support import is_foreign
from state_processor.types import (
    GENERIC_RECORD,
    AsynchronousTtlSerializer,
    AvroSerializer,
    BinaryDataSerializer,
    EnumSerializer,
    JavaSerializer,
    NFAStateSerializer,
    OpaqueSerializer,
    RowSerializer,
    SelfWrittenSerializer,
    TtlAwareSerializerSnapshot,
    TtlSerializer,
    UnreadSerializer,
    UserCodeSerializer,
    Verdict,
    is_collection,
    is_described_by_kryo,
    is_map,
    is_same_in_kryo_2_and_5,
    parts_of,
    state_obstacles,
    walk,
)

_COMBINED: Final = ("REDUCING", "AGGREGATING")
_OF_FUNCTIONS: Final = ("_op_state", "LEFT_BUFFER", "RIGHT_BUFFER")
"""The states of Flink's ``StreamGroupedReduceOperator`` and ``IntervalJoinOperator``."""
OPERATOR: Final = ""
"""The subject of parts that depend on the operator, and not on a class."""


@dataclass(frozen=True, slots=True)
class Undescribed:
    """A part that is not described."""

    subject: str  # the Java class whose code decides; empty for the code of the operator
    reason: str  # the part that the snapshot lacks
    cause: Cause = Cause.CODE  # the cause of the verdict
    is_kryo: bool = False  # whether Kryo writes the part. Its bytes change from Flink 1.x to 2.x though the class does not.


def undescribed_parts(serializer: TypeSerializer, *, is_key: bool) -> Iterator[Undescribed]:
    """Yield the parts of a serializer that a snapshot does not describe.

    ``is_key``: whether its values are keys. Their key groups depend on ``hashCode`` of their classes.
    """
    for part in walk(serializer):
        yield from _of_part(part)
        if is_key and isinstance(part, PojoSerializer):
            yield Undescribed(part.class_name, f"key groups depend on hashCode of {part.class_name}")


def _of_part(part: TypeSerializer) -> Iterator[Undescribed]:
    if part.undescribed is not None:
        yield Undescribed(*part.undescribed)
    match part:
        case RowSerializer() if len(part.fields) > 1:
            yield Undescribed(OPERATOR, f"the snapshot has the fields of {part} without their names")
        case KryoSerializer():
            if not is_described_by_kryo(part):
                yield Undescribed(part.type_class, _kryo_reason(part.type_class), is_kryo=True)
        case UserCodeSerializer() | SelfWrittenSerializer():
            yield Undescribed(part.type_class, f"{part.type_class} writes itself, by a method of the class")
        case JavaSerializer():
            yield Undescribed(OPERATOR, "values are objects in Java serialization: their classes and serialVersionUID decide")
        case NFAStateSerializer():
            yield Undescribed(OPERATOR, "partial matches name the stages of the pattern, and the job's description does not")
        case BinaryDataSerializer():
            yield Undescribed(
                OPERATOR, "columns of Flink SQL have no names in a snapshot: the plans of both queries decide", Cause.QUERY
            )
        case OpaqueSerializer() | UnreadSerializer():
            yield Undescribed(str(part), part.reason)
        case _ if is_foreign(type(part)):
            yield Undescribed(str(part), f"the code of the serializer of {part} decides")


def _kryo_reason(name: str) -> str:
    if name.startswith(("java.", "[")) or is_collection(name) or is_map(name):
        return f"values of KRYO<{name}> may contain objects of any class, whose fields have no names in Kryo's format"
    return f"Kryo's format has neither the fields nor the implementations of {name}"


def moved_fields(written: TypeSerializer, required: TypeSerializer) -> Iterator[Undescribed]:
    """Yield the fields of POJOs that another class of the hierarchy declares in the new job.

    Flink looks in the class that declared a field, and in its superclasses (``PojoFieldUtils.readField``). From the class of
    the values it finds all fields. Descriptions by hand do not name superclasses.
    """
    pojos = {pojo.class_name: pojo for pojo in parts_of(PojoSerializer, required)}
    for pojo in parts_of(PojoSerializer, written):
        if pojo.class_name not in pojos:
            continue
        declaring = {field.name: field.declaring_class for field in pojos[pojo.class_name].fields}
        for field in pojo.fields:
            if field.declaring_class not in (pojo.class_name, declaring.get(field.name, field.declaring_class)):
                text = f"Flink drops field {field.name!r} of {pojo.class_name} unless {field.declaring_class} still declares it"
                yield Undescribed(pojo.class_name, text, Cause.FIELDS)


def combined_states(old: OperatorSignature, new: OperatorSignature) -> list[str]:
    """Return the names of the states of both operators that a function of the job combines with what comes next.

    Their values restore as they are. Another function goes on with them: a maximum with what was a sum.
    """
    states = [(operator.states or {}) for operator in (old, new)]
    common = (name for name, state in states[0].items() if name in states[1] and state.kind == states[1][name].kind)
    return sorted(name for name in common if states[0][name].kind in _COMBINED or name in _OF_FUNCTIONS)


def class_names(state: StateSignature) -> Iterator[str]:
    """Yield the classes of a job that have to be on the class path when Flink reads the serializers of a state."""
    for serializer in map(state.serializer, ROLES):
        if serializer is not None:
            yield from classes_inside(serializer)


def classes_inside(serializer: TypeSerializer) -> Iterator[str]:
    """Yield the classes of a job that a serializer and those inside it name."""
    for part in walk(serializer):
        match part:
            case PojoSerializer():
                yield part.class_name
            case EnumSerializer():
                yield part.enum_class
            case KryoSerializer() | UserCodeSerializer() | SelfWrittenSerializer():
                if not part.type_class.startswith("java."):
                    yield part.type_class
            case AvroSerializer() if part.class_name != GENERIC_RECORD:
                yield part.class_name


_INEXACT: Final = {("int", "float"), ("long", "float"), ("long", "double")}
_NULL: Final = "null"


def lost_values(written: TypeSerializer, required: TypeSerializer) -> Iterator[str]:
    """Yield what a compatible type does not hold of the values of another one.

    ``written`` and ``required``: the types of the snapshot and of the job. Flink migrates values from one to the other.
    """
    if isinstance(written, PojoSerializer) and isinstance(required, PojoSerializer):
        yield from _of_pojo(written, required)
    elif isinstance(written, AvroSerializer) and isinstance(required, AvroSerializer):
        before, after = written.schema, required.schema
        yield from _Schemas(before.named, after.named).lost(before.content, after.content)
    elif len(written.children) == len(required.children):
        for old, new in zip(written.children, required.children, strict=True):
            if isinstance(old, TypeSerializer) and isinstance(new, TypeSerializer):
                yield from lost_values(old, new)


def _of_pojo(written: PojoSerializer, required: PojoSerializer) -> Iterator[str]:
    before = {field.name: field.serializer for field in written.fields}
    after = {field.name: field.serializer for field in required.fields}
    for name, type_ in before.items():
        if name in after:
            yield from lost_values(type_, after[name])
            continue
        like = [new for new in after.keys() - before.keys() if str(after[new]) == str(type_)]
        renamed = (
            f"; {' or '.join(map(repr, sorted(like)))} is new and has this type: Flink does not rename fields" if like else ""
        )
        yield f"Flink drops field {name!r} of {written.class_name}{renamed}"


class _Schemas:
    """The named types of a writer's and of a reader's schema."""

    def __init__(self, written: Mapping[str, Any], required: Mapping[str, Any]) -> None:
        self._written, self._required = written, required
        self._visited: set[tuple[str, str]] = set()

    def lost(self, old: Any, new: Any) -> Iterator[str]:
        """Yield what a schema does not hold of the values of another one."""
        if isinstance(old, list) or isinstance(new, list):
            yield from self._of_unions(_branches(old), _branches(new))
            return
        before, after = self._written.get(_name(old), old), self._required.get(_name(new), new)
        if (_kind(before), _kind(after)) in _INEXACT:
            yield f"{_kind(before)} becomes {_kind(after)}, which does not hold all digits"
        elif isinstance(before, Mapping) and isinstance(after, Mapping) and _kind(before) == _kind(after):
            yield from self._of_types(before, after)

    def _of_types(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        match old["type"]:
            case "record" | "error":
                yield from self._of_records(old, new)
            case "array":
                yield from self.lost(old["items"], new["items"])
            case "map":
                yield from self.lost(old["values"], new["values"])
            case "enum":
                for symbol in old["symbols"]:
                    if symbol not in new["symbols"]:
                        yield f"constant {symbol} of {old['name']} becomes the default"

    def _of_records(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        pair = old["name"], new["name"]
        if pair in self._visited:
            return
        self._visited.add(pair)
        fields: dict[str, Any] = {}
        for field in new["fields"]:
            fields |= dict.fromkeys((*field.get("aliases", ()), field["name"]), field)
        for field in old["fields"]:
            if field["name"] in fields:
                yield from self.lost(field["type"], fields[field["name"]]["type"])
            else:
                yield f"Flink drops field {field['name']!r} of {old['name']}"

    def _of_unions(self, old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
        for branch in old:
            same = [candidate for candidate in new if _label(candidate) == _label(branch)]
            for candidate in same or [candidate for candidate in new if _kind(candidate) != _NULL and _kind(branch) != _NULL][:1]:
                yield from self.lost(branch, candidate)


def _branches(schema: Any) -> Sequence[Any]:
    return schema if isinstance(schema, list) else [schema]


def _name(schema: Any) -> str:
    return schema if isinstance(schema, str) else ""


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema["type"])


def _label(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))


HASHMAP: Final = "hashmap"
_FIRST_CHANGE_OF_TTL: Final = (2, 2)
"""The first Flink whose backends add time-to-live to a restored state, or take it away (``TtlAwareSerializer``)."""

_ASYNCHRONOUS: Final = "ForSt does not migrate asynchronous state"
_PARTS: Final = {KEY: "key", NAMESPACE: "namespace", MAP_KEY: "key of the map", VALUE: "value"}


@dataclass(frozen=True, slots=True)
class RestoringJob:
    """The job that restores.

    ``flink`` and ``backend``: Flink version and state backend; ``None`` if unknown.
    """

    flink: str | None = None
    backend: str | None = None
    # classes, and operators by uid, hash or name, whose code the user declares to be unchanged
    unchanged: frozenset[str] = frozenset()
    changes_kryo: bool = False  # whether the snapshot and the job are of different major versions of Flink
    is_unchanged: bool = False  # whether the operator is declared to be unchanged
    migrates: bool = True  # whether the backend changes values to another type. ForSt does not for asynchronous state.
    starts_asynchronous: bool = False  # whether ForSt restores synchronous state for the asynchronous API
    may_ignore_timers: bool = False  # whether timers are in files that a job with timers on the heap does not look at

    @property
    def version(self) -> tuple[int, int] | None:
        """Major and minor version; ``None`` if the minor version is unknown."""
        match = re.match(r"(\d+)\.(\d+)", self.flink or "")
        return None if match is None else (int(match[1]), int(match[2]))

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that the job may have: one, or the first and the last of a major version, or none if it is unknown."""
        if self.version is not None:
            return (self.version,)
        releases = [release for release in RELEASES if str(release[0]) == (self.flink or "").partition(".")[0]]
        return (releases[0], releases[-1]) if releases else ()


def state_verdict(old: StateSignature, new: StateSignature | None, target: RestoringJob) -> StateVerdict:
    """Return the outcome for a state of the snapshot.

    ``old`` and ``new``: the state in the snapshot, and in the job; ``None`` if the job does not register it. ``target``: the job
    that restores.
    """
    verdicts = list(_release_verdicts(old, target))
    if new is None:
        text = "the new job does not register the state; Flink keeps it in later savepoints"
        verdicts.append(StateVerdict(old.name, Outcome.UNUSED, text, cause=Cause.STATE_UNUSED))
    elif old.unread or new.unread:
        verdicts.append(StateVerdict(old.name, Outcome.UNKNOWN, old.unread or new.unread, cause=Cause.CODE))
    elif old.kind != new.kind:
        verdicts.append(_other_kind(old, new))
    else:
        for part in ROLES:
            verdicts += _part_verdicts(part, old, new, target)
    return worst_of(old.name, verdicts)


def _release_verdicts(state: StateSignature, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield verdicts on serializers that the Flink of the new job does not read: those that no possible release reads."""
    notes_of_releases = []
    for release in target.releases:
        obstacles = state_obstacles(state.snapshots, state.kind, release, kryo=False)
        notes_of_releases.append(dict.fromkeys(obstacles))
    for note in notes_of_releases[0] if notes_of_releases else ():
        if all(note in notes for notes in notes_of_releases):
            yield StateVerdict(state.name, Outcome.REFUSED, f"{note}; {note.advice}", cause=Cause.VERSION)


def worst_of(name: str, verdicts: Sequence[StateVerdict]) -> StateVerdict:
    """Return the worst of the verdicts on a state, with the reasons of all that are as bad."""
    worst = max(verdicts, key=lambda verdict: verdict.outcome.severity, default=StateVerdict(name, Outcome.RESTORES))
    reasons = (verdict.reason for verdict in verdicts if verdict.outcome is worst.outcome and verdict.reason)
    return replace(worst, state=name, reason="; ".join(dict.fromkeys(reasons)))


def _other_kind(old: StateSignature, new: StateSignature) -> StateVerdict:
    """Return the outcome for a state of another kind (Flink: ``RegisteredKeyValueStateBackendMetaInfo.checkStateMetaInfo``)."""
    change, outcome = f"was {old.kind} and is {new.kind}", Outcome.LOST
    if old.is_keyed != new.is_keyed:
        api = "keyed" if new.is_keyed else "operator"
        text = f"{change}: Flink does not find it as {api} state, and starts with an empty state"
    elif old.kind in OPERATOR_KINDS and BROADCAST in (old.kind, new.kind):
        text = f"{change}: Flink keeps lists and broadcast state apart, and starts with an empty state"
    else:
        text, outcome = f"{change}: Flink refuses another kind of state", Outcome.REFUSED
    return StateVerdict(old.name, outcome, text, cause=Cause.KIND)


def _part_verdicts(part: str, old: StateSignature, new: StateSignature, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield the verdicts on a part of a state."""
    written, required = old.snapshots.get(part), new.snapshots.get(part)
    if written is None or required is None:
        return
    before, after = old.type_text(part), new.type_text(part)
    change = f"{_PARTS[part]} was {before} and is {after}" if before != after else f"{_PARTS[part]} {after} has changed"
    if part == VALUE and old.ttl != new.ttl:
        outcome, text = _changed_ttl(new, target)
        yield StateVerdict(old.name, outcome, text, cause=Cause.TIME_TO_LIVE, part=part)
    serializer = required.restore_serializer()
    try:
        verdict = _compatibility(written, serializer)
    except UnknownSerializerError as error:
        yield StateVerdict(old.name, Outcome.UNKNOWN, str(error), cause=Cause.CODE, part=part)
        return
    if verdict.is_incompatible:
        apis = {_is_of_api(written.restore_serializer()), _is_of_api(serializer)}
        cause = Cause.ASYNCHRONOUS if apis == {True, False} else Cause.TYPE
        yield StateVerdict(old.name, Outcome.REFUSED, f"{change}: {verdict.reason}", cause=cause, part=part)
    elif verdict.verdict is Verdict.COMPATIBLE_AFTER_MIGRATION:
        outcome, text = _migration(part, old, change, target)
        yield StateVerdict(old.name, outcome, text, cause=Cause.TYPE, part=part)
        lost = dict.fromkeys(lost_values(_without_ttl(written.restore_serializer()), _without_ttl(serializer)))
        if lost:
            yield StateVerdict(old.name, Outcome.CHANGED, "; ".join(lost), cause=Cause.FIELDS, part=part)
    if not verdict.is_incompatible:
        yield from _unseen(part, old, serializer, target)


def _unseen(part: str, old: StateSignature, serializer: TypeSerializer, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield the verdicts on parts of equal types that depend on code, or on the version of Kryo."""
    if target.changes_kryo:
        for inner in walk(serializer):
            if isinstance(inner, KryoSerializer) and is_described_by_kryo(inner) and not is_same_in_kryo_2_and_5(inner):
                text = f"{inner} has other bytes in Kryo 2 of Flink 1.x than in Kryo 5 of Flink 2.x; migrate converts 1.x to 2.x"
                yield StateVerdict(old.name, Outcome.CHANGED, text, cause=Cause.KRYO_VERSION, part=part)
    written = old.serializer(part)
    moved = () if written is None else moved_fields(written, serializer)
    for unseen in (*undescribed_parts(serializer, is_key=part == KEY), *moved):
        is_declared = unseen.subject in target.unchanged if unseen.subject else target.is_unchanged
        if not is_declared or (target.changes_kryo and unseen.is_kryo):
            yield StateVerdict(*(old.name, Outcome.UNKNOWN, unseen.reason), cause=unseen.cause, part=part, subject=unseen.subject)


def _migration(part: str, old: StateSignature, change: str, target: RestoringJob) -> tuple[Outcome, str]:
    """Return the outcome for a part that has to be migrated."""
    if part == VALUE and old.is_keyed and not target.migrates:
        return Outcome.REFUSED, f"{change}: {_ASYNCHRONOUS}"
    if part == VALUE or not old.is_keyed:
        return Outcome.MIGRATES, change
    if part == MAP_KEY and target.backend == HASHMAP:
        return Outcome.MIGRATES, change
    backends = "" if part != MAP_KEY else " in RocksDB and ForSt"
    return Outcome.REFUSED, f"{change}: Flink does not migrate this part of a state{backends}"


def _changed_ttl(new: StateSignature, target: RestoringJob) -> tuple[Outcome, str]:
    change = "the new job adds time-to-live" if new.ttl else "the new job drops time-to-live"
    version = target.version
    since = ".".join(map(str, _FIRST_CHANGE_OF_TTL))
    if version is None:
        return Outcome.REFUSED, f"{change}: Flink before {since} refuses this; name the version of the new job to check it"
    if version < _FIRST_CHANGE_OF_TTL:
        return Outcome.REFUSED, f"{change}: Flink before {since} refuses this"
    if not target.migrates:
        return Outcome.REFUSED, f"{change}: {_ASYNCHRONOUS}"
    return Outcome.MIGRATES, change


def _is_of_api(serializer: TypeSerializer) -> bool | None:
    """Return whether values with time-to-live belong to the asynchronous API; ``None`` without time-to-live."""
    return isinstance(serializer, AsynchronousTtlSerializer) if isinstance(serializer, TtlSerializer) else None


def _without_ttl(serializer: TypeSerializer) -> TypeSerializer:
    return serializer.value if isinstance(serializer, TtlSerializer) else serializer


def _compatibility(written: TypeSerializerSnapshot, required: TypeSerializer) -> SchemaCompatibility:
    was_timed = isinstance(written.restore_serializer(), TtlSerializer)
    if was_timed == isinstance(required, TtlSerializer):
        return written.resolve_schema_compatibility(required)
    aware = TtlAwareSerializerSnapshot.of(written)
    return aware.resolve_schema_compatibility(TtlAwareSerializerSnapshot.of(required.snapshot()))
