"""Descriptions of classes that Kryo writes, from the POJO type that another job has for the same class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from state_processor.applications.jobs.signature import ROLES, StateSignature
from state_processor.serializers import register_kryo_class, registrations
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.java.types import BOXES, JavaType
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.user_classes import java_type_of
from state_processor.serializers.traversal import walk

Descriptions = Mapping[str, Mapping[str, str] | Sequence[str]]
"""Fields with their Java types, or constants, by class: the arguments of :func:`register_kryo_class`."""
_STRUCTURES: Final = (KryoSerializer, PojoSerializer, RowSerializer, TupleSerializer)
_BOXES: Final = {False: dict[str, str](), True: BOXES}


def undescribed(*states: StateSignature) -> list[str]:
    """Return the classes of states that Kryo writes, and that are neither built in nor described."""
    kryo = (part for state in states for part in _parts(state) if isinstance(part, KryoSerializer))
    return list(dict.fromkeys(part.type_class for part in kryo if not part.self_delimiting))


def has_structures(state: StateSignature) -> bool:
    """Return whether a state may have values with fields."""
    return any(isinstance(part, _STRUCTURES) for part in _parts(state))


def possible_descriptions(old: StateSignature, new: StateSignature) -> Iterator[Descriptions]:
    """Yield descriptions of all classes without one: with primitive numbers, then with boxed ones.

    Nothing is yielded if a class is not a POJO in the other state, or a field has a type without a name in Java.
    """
    pojos = {part.class_name: part for state in (old, new) for part in _parts(state) if isinstance(part, PojoSerializer)}
    names = undescribed(old, new)
    if not names or not pojos.keys() >= set(names):
        return
    for is_boxed in (False, True):
        try:
            yield _described([pojos[name] for name in names], _BOXES[is_boxed])
        except OptionError:
            return


def _described(pojos: Sequence[PojoSerializer], boxes: Mapping[str, str]) -> Descriptions:
    descriptions: dict[str, Mapping[str, str] | Sequence[str]] = {}
    with registrations():
        for part in reversed([part for pojo in pojos for part in walk(pojo)]):  # inner classes first
            if isinstance(part, EnumSerializer):
                descriptions[part.enum_class] = list(part.names)
            elif isinstance(part, PojoSerializer):
                descriptions[part.class_name] = {field.name: _java_name(field.serializer, boxes) for field in part.fields}
            else:
                continue
            register_kryo_class(*list(descriptions.items())[-1])
    return descriptions


def _java_name(serializer: TypeSerializer, boxes: Mapping[str, str]) -> str:
    type_ = java_type_of(serializer)
    return str(JavaType(boxes.get(type_.name, type_.name), type_.arguments))


def _parts(state: StateSignature) -> Iterator[TypeSerializer]:
    for serializer in map(state.serializer, ROLES):
        if serializer is not None:
            yield from walk(serializer)
