"""Kryo serializers nested in other types: their paths (``value.counters``, ``list_value.f0``), and replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import GenericArraySerializer
from state_processor.serializers.core.collections import (
    JoinedListSerializer,
    ListSerializer,
    MapSerializer,
    NullFlagged,
    SetSerializer,
)
from state_processor.serializers.core.either import EitherSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.columns import shape
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.runtime.undescribed import UndescribedClassesSerializer
from state_processor.serializers.traversal import nested, transform

P = TypeVar("P")

Parts = Iterator[tuple[str, TypeSerializer]]


def kryo_parts(type_: TypeSerializer, path: str) -> Iterator[tuple[str, KryoSerializer]]:
    """Yield the path of each part that Kryo writes, and its serializer.

    A path is the names of fields joined with dots, after ``path``: ``f0`` and so on in tuples, ``element`` in lists, sets and
    arrays, ``key`` and ``value`` in maps, ``left`` and ``right`` in ``Either``. Nullable values and values with TTL add nothing.
    A field that subclasses inherit is yielded once for each of them.
    """
    if isinstance(type_, KryoSerializer):
        yield path, type_
        return
    for kind, inside in _INSIDE:
        if isinstance(type_, kind):
            for name, part in inside(type_):
                yield from kryo_parts(part, f"{path}.{name}" if name else path)
            return


def _of_pojo(pojo: PojoSerializer) -> Parts:
    return iter(pojo.columns())


def _of_tuple(type_: TupleSerializer) -> Parts:
    return ((f"f{i}", f) for i, f in enumerate(type_.fields))


def _of_row(type_: RowSerializer) -> Parts:
    names = type_.names or [f"f{i}" for i in range(len(type_.fields))]
    return zip(names, type_.fields, strict=True)


_INSIDE: Final[tuple[tuple[type[TypeSerializer], Callable[[Any], Parts]], ...]] = (
    (PojoSerializer, _of_pojo),
    (TupleSerializer, _of_tuple),
    (RowSerializer, _of_row),
    (SetSerializer, lambda s: iter([("element", s.element)])),
    (ListSerializer, lambda s: iter([("element", s.element)])),
    (JoinedListSerializer, lambda s: iter([("element", s.element)])),
    (GenericArraySerializer, lambda s: iter([("element", s.element)])),
    (MapSerializer, lambda s: iter([("key", s.key), ("value", s.value)])),
    (EitherSerializer, lambda s: iter([("left", s.left), ("right", s.right)])),
    (NullableSerializer, lambda s: iter([("", s.inner)])),
    (NullFlagged, lambda s: iter([("", s.inner)])),
    (TtlSerializer, lambda s: iter([("", s.value)])),
    (UndescribedClassesSerializer, lambda s: iter([("", s.pojo)])),
)


def replaced(type_: TypeSerializer, stand_ins: Mapping[int, TypeSerializer]) -> TypeSerializer:
    """Return a type with some parts, given by their ``id``, replaced by other serializers."""
    return transform(type_, lambda part: stand_ins.get(id(part), part))


def declared_as(part: KryoSerializer, given: JavaType, path: str) -> JavaType:
    """Return the Java type of a part, with type arguments from the user.

    Raises
    ------
    OptionError
        If values of the class of the part are not of the given type.
    """
    own = JavaType(part.type_class, given.arguments)
    if shape(own)[0] == shape(given)[0] and (given.arguments or own.name == given.name):
        return own
    if part.type_class in _ANYTHING:
        return given
    raise OptionError(f"types: {path} is declared as {part.type_class}, whose values are not of type {given}")


_ANYTHING: Final = frozenset({"java.lang.Object", "java.io.Serializable", "java.lang.Iterable"})


def java_types(*parts: Any) -> tuple[JavaType, ...]:
    """Return the types of all Kryo serializers in serializers."""
    return tuple(serializer.declared for serializer in nested(KryoSerializer, parts))


def declare(types: Sequence[JavaType], part: P) -> P:
    """Return a type, or a state description, with the types that :func:`java_types` found in a similar one.

    If the classes of the nested Kryo serializers differ, return it unchanged.
    """
    if [serializer.type_class for serializer in nested(KryoSerializer, part)] != [type_.name for type_ in types]:
        return part
    remaining = iter(types)
    return transform(part, lambda s: s.declared_as(next(remaining)) if isinstance(s, KryoSerializer) else s)


def for_flink(part: P, major: int) -> P:
    """Return a serializer, or an object with serializers, that writes Kryo's values for a major version of Flink.

    Kryo serializers that already have a version of Flink do not change.
    """

    def of_version(serializer: TypeSerializer) -> TypeSerializer:
        if isinstance(serializer, KryoSerializer) and serializer.flink is None:
            return serializer.for_flink(major)
        return serializer

    return transform(part, of_version)
