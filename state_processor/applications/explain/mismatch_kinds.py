"""The kind of a cause by the verdict of a check, and by the types of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from state_processor.applications.explain.kinds import Kind
from state_processor.applications.jobs.field_changes import field_changes
from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.signature import KEY, MAP_KEY, NAMESPACE, ROLES, VALUE, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.serializers import KryoSerializer, PojoSerializer, TypeSerializer
from state_processor.states import BROADCAST
from state_processor.types import BinaryDataSerializer, EnumSerializer, is_collection, is_map, walk

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
            described = [signature for signature in (state, new) if signature is not None]
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
    constants = {
        serializer.enum_class: serializer.names for serializer in walk(required) if isinstance(serializer, EnumSerializer)
    }
    enums = [serializer for serializer in walk(old) if isinstance(serializer, EnumSerializer)]
    if any(set(enum.names) - set(constants.get(enum.enum_class, enum.names)) for enum in enums):
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


def is_of_query(state: StateSignature) -> bool:
    """Return whether a state has rows of Flink SQL."""
    return any(isinstance(inner, BinaryDataSerializer) for inner in serializers_of(state))


def serializers_of(state: StateSignature) -> Iterator[TypeSerializer]:
    """Yield all serializers of a state."""
    for serializer in map(state.serializer, ROLES):
        if serializer is not None:
            yield from walk(serializer)  # type: ignore[misc]


def kryo_classes(state: StateSignature) -> Iterator[str]:
    """Yield the classes of a state that Kryo writes."""
    yield from (inner.type_class for inner in serializers_of(state) if isinstance(inner, KryoSerializer))


def has_kryo_collections(state: StateSignature) -> bool:
    """Return whether Kryo wrote collections of a state. Flink 2.x has serializers for them."""
    return any(is_collection(name) or is_map(name) for name in kryo_classes(state))


def changed_field(state: StateSignature | None, new: StateSignature | None, reason: str) -> str | None:
    """Return the first field that a change is about."""
    named = _quoted_field(reason)
    if named is not None or state is None or new is None or state.kind != new.kind:
        return named
    changes = field_changes(state, new)
    before = {(pojo.class_name, field.name) for pojo in _pojos(state) for field in pojo.fields}
    added = (field.name for pojo in _pojos(new) for field in pojo.fields if (pojo.class_name, field.name) not in before)
    return next((path.rpartition(".")[2] for path in (*changes.gone, *changes.defaults, *added)), None)


def _pojos(state: StateSignature) -> Iterator[PojoSerializer]:
    return (serializer for serializer in serializers_of(state) if isinstance(serializer, PojoSerializer))


def _quoted_field(reason: str) -> str | None:
    _, separator, rest = reason.partition("field '")
    return rest.partition("'")[0] if separator else None
