"""The serializers that Flink infers for fields of a Java class that are declared as collections. Flink: ``TypeExtractor``.

A ``List<T>``, ``Set<T>`` or ``Map<K,V>`` is Kryo's in Flink 1.x. Flink 2.x has serializers for it where the type arguments are
plain classes, and lets null in everywhere.
"""

from __future__ import annotations

from dataclasses import replace

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.composite import NullableSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.kryo import KryoSerializer
from state_processor.serializers.kryo.declared import java_type_of
from state_processor.serializers.pojo import PojoSerializer

_COLLECTIONS = (ListSerializer, MapSerializer, SetSerializer)


def inferred_by_flink(type_: TypeSerializer, major: int) -> TypeSerializer:
    """The serializer that Flink infers for a type, as a Java class declares it.

    Parameters
    ----------
    type_
        ``LIST``, ``SET`` or ``MAP``, or a POJO with such fields; any other type is taken word for word.
    major
        The major version of Flink.

    Raises
    ------
    OptionError
        If type arguments have arguments of their own, which Flink 2.x leaves to Kryo; or, for Flink 1.x, if an argument stands
        for no class that Kryo knows.
    """
    if isinstance(type_, PojoSerializer):
        fields = [replace(f, serializer=inferred_by_flink(f.serializer, major)) for f in type_.fields]
        return PojoSerializer(type_.class_name, fields, type_.registered, type_.unregistered)
    if not isinstance(type_, _COLLECTIONS):
        return type_
    return KryoSerializer(str(java_type_of(type_))) if major < 2 else _collection(type_)


def _collection(type_: TypeSerializer) -> TypeSerializer:
    """What Flink 2.x infers for a collection."""
    match type_:
        case SetSerializer():
            arguments = [inferred_by_flink(type_.element.inner, 2)]  # type: ignore[attr-defined]
            inferred: TypeSerializer = SetSerializer(arguments[0])
        case ListSerializer():
            arguments = [inferred_by_flink(type_.element, 2)]
            inferred = ListSerializer(_nullable(*arguments))
        case MapSerializer():
            arguments = [inferred_by_flink(a, 2) for a in (type_.key, type_.value.inner)]
            inferred = MapSerializer(_nullable(arguments[0]), arguments[1])
    if any(isinstance(a, NullableSerializer) and isinstance(a.inner, _COLLECTIONS) for a in arguments):
        raise OptionError(
            f"{type_}: Flink 2.x infers no serializer for collections inside collections, it leaves the whole to Kryo; "
            'give KRYO("java.util.List"), or "java.util.Set" or "java.util.Map", the class of the field'
        )
    return NullableSerializer(inferred)


def _nullable(type_: TypeSerializer) -> TypeSerializer:
    return type_ if isinstance(type_, NullableSerializer) else NullableSerializer(type_)
