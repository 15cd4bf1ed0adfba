"""The serializers that Flink infers for fields of a Java class. Flink: ``TypeExtractor``.

The Java class decides most types. There are two exceptions:

* ``LocalDate``, ``LocalTime`` and ``LocalDateTime`` belong to Kryo in all versions up to 2.3. Flink has serializers for them, but
  its extractor does not use them. It uses the serializers of ``Instant``, ``java.util.Date`` and the types of ``java.sql``.
* A ``List<T>``, ``Set<T>`` or ``Map<K,V>`` belongs to Kryo in Flink 1.x. Flink 2.x has serializers for it if the type arguments
  are plain classes, and allows null everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import GenericArraySerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.either import EitherSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.user_classes import java_type_of

_COLLECTIONS: Final = (ListSerializer, MapSerializer, SetSerializer)
_WITH_ARGUMENTS: Final = (*_COLLECTIONS, TupleSerializer, EitherSerializer)
LEFT_TO_KRYO: Final = tuple(type(scalar.serializer) for scalar in SCALARS.values() if not scalar.extracted)
"""Types that Flink has serializers for, but its extractor does not use them."""

_FLINK_2: Final = 2


def inferred_by_flink(type_: TypeSerializer, major: int) -> TypeSerializer:
    """Return the serializer that Flink infers for a type in a Java class.

    Parameters
    ----------
    type_
        The type. The types inside POJOs, tuples, ``Either``, arrays and collections are inferred too. A ``NULLABLE``, and a type
        without a generic class in Java, is used exactly as given.
    major
        The major version of Flink.

    Raises
    ------
    OptionError
        For Flink 2.x, if type arguments have type arguments, because Flink leaves them to Kryo. For Flink 1.x, if an argument
        does not correspond to a class that Kryo supports.
    """
    match type_:
        case PojoSerializer():
            return _pojo(type_, major)
        case TupleSerializer():
            return TupleSerializer([inferred_by_flink(f, major) for f in type_.fields], type_.tuple_class)
        case EitherSerializer():
            return EitherSerializer(inferred_by_flink(type_.left, major), inferred_by_flink(type_.right, major))
        case GenericArraySerializer():
            return GenericArraySerializer(inferred_by_flink(type_.element, major), type_.component_class)
        case ListSerializer() | MapSerializer() | SetSerializer():
            return KryoSerializer(str(java_type_of(type_))) if major < _FLINK_2 else _collection(type_)
    return KryoSerializer(str(java_type_of(type_))) if isinstance(type_, LEFT_TO_KRYO) else type_


def _pojo(type_: PojoSerializer, major: int) -> TypeSerializer:
    def subclasses(given: Mapping[str, TypeSerializer | None]) -> dict[str, TypeSerializer | None]:
        return {name: s and inferred_by_flink(s, major) for name, s in given.items()}

    fields = [replace(f, serializer=inferred_by_flink(f.serializer, major)) for f in type_.fields]
    return PojoSerializer(type_.class_name, fields, subclasses(type_.registered), subclasses(type_.unregistered))


def _collection(type_: TypeSerializer) -> TypeSerializer:
    """Return the type that Flink 2.x infers for a collection."""
    match type_:
        case SetSerializer():
            given = [type_.element.inner]  # type: ignore[attr-defined]
        case ListSerializer():
            given = [type_.element]
        case MapSerializer():
            given = [type_.key, type_.value.inner]
    if any(isinstance(g, _WITH_ARGUMENTS) or (isinstance(g, KryoSerializer) and g.declared.arguments) for g in given):
        raise OptionError(
            f"{type_}: Flink 2.x infers no serializer for collections of types with type arguments (lists of lists, of tuples), "
            'it leaves the whole to Kryo; give KRYO("java.util.List"), or "java.util.Set" or "java.util.Map", the field\'s class'
        )
    arguments = [inferred_by_flink(g, _FLINK_2) for g in given]
    match type_:
        case SetSerializer():
            inferred: TypeSerializer = SetSerializer(arguments[0])
        case ListSerializer():
            inferred = ListSerializer(_nullable(arguments[0]))
        case MapSerializer():
            inferred = MapSerializer(_nullable(arguments[0]), arguments[1])
    return NullableSerializer(inferred)


def _nullable(type_: TypeSerializer) -> TypeSerializer:
    return type_ if isinstance(type_, NullableSerializer) else NullableSerializer(type_)
