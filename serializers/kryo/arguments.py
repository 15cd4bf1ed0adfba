"""Type arguments of classes that Kryo writes: snapshots do not hold them, so that a restored serializer has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.types import JavaType
from state_processor.serializers.traversal import nested


def java_types(*parts: Any) -> tuple[JavaType, ...]:
    """The types of all Kryo serializers inside of serializers."""
    return tuple(serializer.declared for serializer in nested(KryoSerializer, parts))


def declare(types: Sequence[JavaType], *parts: Any) -> None:
    """Give all Kryo serializers inside of serializers these types, which :func:`java_types` found in others like them."""
    found = nested(KryoSerializer, parts)
    if [serializer.type_class for serializer in found] == [type_.name for type_ in types]:
        for serializer, type_ in zip(found, types, strict=True):
            serializer.declared = type_
