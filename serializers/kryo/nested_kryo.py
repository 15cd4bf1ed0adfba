"""Kryo serializers nested in other types: their paths (``value.counters``, ``list_value.f0``), and replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from state_processor.serializers.codec import Codec
from state_processor.serializers.core.arrays import GenericArraySerializer
from state_processor.serializers.core.collections import (
    JoinedListCodec,
    ListSerializer,
    MapSerializer,
    NullFlagged,
    SetSerializer,
)
from state_processor.serializers.core.nullable import EitherSerializer, NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.columns import shape
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer, UndescribedClassesCodec
from state_processor.serializers.traversal import join_path, outermost_of, transform
from state_processor.support.errors import OptionError
from state_processor.support.mappings import names_of

P = TypeVar("P")

_ENTERED: Final = (
    PojoSerializer,
    TupleSerializer,
    RowSerializer,
    ListSerializer,
    SetSerializer,
    JoinedListCodec,
    GenericArraySerializer,
    MapSerializer,
    EitherSerializer,
    NullableSerializer,
    NullFlagged,
    TtlSerializer,
    UndescribedClassesCodec,
)
"""Types whose bytes lack lengths of their parts, so that a part can be replaced by one of another size."""


def kryo_parts(type_: Codec, path: str) -> Iterator[tuple[str, KryoSerializer]]:
    """Yield the path of each part that Kryo writes, and its serializer.

    A field that subclasses inherit is yielded once for each of them.

    ``path``: its path (:mod:`~state_processor.serializers.traversal`).
    """
    if isinstance(type_, KryoSerializer):
        yield path, type_
    elif isinstance(type_, _ENTERED):
        for name, part in type_.column_parts:
            yield from kryo_parts(part, join_path(path, name))


def with_replacements(type_: P, replacements: Mapping[int, Codec]) -> P:
    """Return a type with some parts, given by their ``id``, replaced by other serializers."""
    return transform(type_, lambda part: replacements.get(id(part), part))


def declared_as(part: KryoSerializer, type_: JavaType, path: str) -> JavaType:
    """Return the Java type of a part, with type arguments from the user."""
    declared = JavaType(part.type_class, type_.arguments)
    if shape(declared)[0] == shape(type_)[0] and (type_.arguments or declared.name == type_.name):
        return declared
    if part.type_class in _ANYTHING:
        return type_
    raise OptionError(f"types: {path} is declared as {part.type_class}, whose values are not of type {type_}")


_ANYTHING: Final = frozenset({"java.lang.Object", "java.io.Serializable", "java.lang.Iterable"})


def java_types(*parts: Any) -> tuple[JavaType, ...]:
    """Return the types of all Kryo serializers in serializers."""
    return tuple(serializer.declared for serializer in outermost_of(KryoSerializer, parts))


def declare(types: Sequence[JavaType], part: P) -> P:
    """Return a type, or a state description, with the types that :func:`java_types` found in a similar one.

    If the classes of the nested Kryo serializers differ, return it unchanged.
    """
    if [serializer.type_class for serializer in outermost_of(KryoSerializer, part)] != names_of(types):
        return part
    remaining = iter(types)
    return transform(part, lambda s: s.declared_as(next(remaining)) if isinstance(s, KryoSerializer) else s)


def for_flink(part: P, major: int) -> P:
    """Return a serializer, or an object with serializers, that writes Kryo's values for a major version of Flink.

    Kryo serializers that already have a version of Flink do not change.
    """

    def of_version(serializer: Codec) -> Codec:
        if isinstance(serializer, KryoSerializer) and serializer.flink is None:
            return serializer.for_flink(major)
        return serializer

    return transform(part, of_version)
