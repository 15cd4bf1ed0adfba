"""Parts of a state that a snapshot does not describe: code of the job defines their bytes or their meaning.

Equal serializer snapshots of such parts do not prove that the new job reads the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from state_processor.applications.jobs.signature import ROLES, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause
from state_processor.serializers import KryoSerializer, PojoSerializer, TypeSerializer
from state_processor.support import is_foreign
from state_processor.types import (
    GENERIC_RECORD,
    AvroSerializer,
    BinaryDataSerializer,
    EnumSerializer,
    JavaSerializer,
    NFAStateSerializer,
    OpaqueSerializer,
    RowSerializer,
    SelfWrittenSerializer,
    UnreadSerializer,
    UserCodeSerializer,
    is_collection,
    is_described_by_kryo,
    is_map,
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
    pojos = {pojo.class_name: pojo for pojo in walk(required) if isinstance(pojo, PojoSerializer)}
    for pojo in (pojo for pojo in walk(written) if isinstance(pojo, PojoSerializer) and pojo.class_name in pojos):
        declaring = {field.name: field.declaring_class for field in pojos[pojo.class_name].fields}
        for field in pojo.fields:
            if field.declaring_class not in (pojo.class_name, declaring.get(field.name, field.declaring_class)):
                text = f"Flink drops field {field.name!r} of {pojo.class_name} unless {field.declaring_class} still declares it"
                yield Undescribed(pojo.class_name, text, Cause.FIELDS)


def combined_states(old: OperatorSignature, new: OperatorSignature) -> list[str]:
    """Return the names of the states of both operators that a function of the job combines with what comes next.

    Their values restore as they are. Another function goes on with them: a maximum with what was a sum.
    """
    states = [(one.states or {}) for one in (old, new)]
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
