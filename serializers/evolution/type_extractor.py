"""The serializers that Flink infers for fields of a Java class. Flink: ``TypeExtractor``.

The Java class decides most types. There are two exceptions:

* ``LocalDate``, ``LocalTime`` and ``LocalDateTime`` belong to Kryo in all versions up to 2.3. Flink has serializers for them, but
  its extractor does not use them. It uses the serializers of ``Instant``, ``java.util.Date`` and the types of ``java.sql``.
* A ``List<T>``, ``Set<T>`` or ``Map<K,V>`` belongs to Kryo in Flink 1.x. Flink 2.x has serializers for it if the type arguments
  are plain classes, and allows null everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import GenericArraySerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.nullable import EitherSerializer, NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.user_classes import java_type_of
from state_processor.serializers.traversal import fold
from state_processor.support.errors import OptionError

_ARGUMENTS: Final[dict[type[TypeSerializer], tuple[bool, ...]]] = {
    ListSerializer: (False,),
    SetSerializer: (True,),
    MapSerializer: (False, True),
}
"""Collections, and whether they write a null flag before each type argument's values; without a flag the argument is nullable."""
_WITH_ARGUMENTS: Final = (ListSerializer, MapSerializer, SetSerializer, TupleSerializer, EitherSerializer)
LEFT_TO_KRYO: Final = tuple(type(scalar.serializer) for scalar in SCALARS.values() if not scalar.extracted)
"""Types that Flink has serializers for, but its extractor does not use them."""

_FLINK_2: Final = 2


def inferred_by_flink(type_: TypeSerializer, major: int) -> TypeSerializer:
    """Return the serializer that Flink infers for a type in a Java class.

    ``type_``: the type. The types inside POJOs, tuples, ``Either``, arrays and collections are inferred too. A ``NULLABLE``, and
    a type without a generic class in Java, is used exactly as given. ``major``: the major version of Flink.
    """
    return fold(type_, lambda _, part, inner: _inferred(part, inner, major))


def _inferred(type_: TypeSerializer, inner: Callable[[TypeSerializer], list[TypeSerializer]], major: int) -> TypeSerializer:
    if isinstance(type_, (PojoSerializer, TupleSerializer, EitherSerializer, GenericArraySerializer)):
        return type_.with_children(inner(type_))
    if type(type_) in _ARGUMENTS:
        return KryoSerializer(str(java_type_of(type_))) if major < _FLINK_2 else _collection(type_, inner)
    return KryoSerializer(str(java_type_of(type_))) if isinstance(type_, LEFT_TO_KRYO) else type_


def _collection(type_: TypeSerializer, inner: Callable[[TypeSerializer], list[TypeSerializer]]) -> TypeSerializer:
    """Return the type that Flink 2.x infers for a collection."""
    if any(isinstance(g, _WITH_ARGUMENTS) or (isinstance(g, KryoSerializer) and g.declared.arguments) for g in type_.children):
        raise OptionError(
            f"{type_}: Flink 2.x infers no serializer for collections of types with type arguments (lists of lists, of tuples), "
            'it leaves the whole to Kryo; give KRYO("java.util.List"), or "java.util.Set" or "java.util.Map", the field\'s class'
        )
    flagged = _ARGUMENTS[type(type_)]
    arguments = [a if has_flag else _nullable(a) for a, has_flag in zip(inner(type_), flagged, strict=True)]
    return NullableSerializer(type_.with_children(arguments))


def _nullable(type_: TypeSerializer) -> TypeSerializer:
    return type_ if isinstance(type_, NullableSerializer) else NullableSerializer(type_)
