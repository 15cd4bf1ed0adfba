"""Serializers inside of serializers, and what they are told that snapshots do not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.kryo.nested_kryo import declare, java_types
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.types import JavaType
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.traversal import nested

LONGS = "java.util.List<java.lang.Long>"
COUNTS = "java.util.Map<java.lang.String,java.lang.Long>"
NESTED: dict[str, Callable[[], TypeSerializer]] = {
    "itself": lambda: KryoSerializer(LONGS),
    "list": lambda: ListSerializer(KryoSerializer(LONGS)),
    "map": lambda: MapSerializer(KryoSerializer("java.util.UUID"), KryoSerializer(COUNTS)),
    "tuple in a list": lambda: ListSerializer(TupleSerializer([StringSerializer(), KryoSerializer(LONGS)])),
    "pojo with ttl": lambda: TtlSerializer.of(
        PojoSerializer.of("Order", {"z": KryoSerializer(LONGS), "a": ListSerializer(KryoSerializer(COUNTS))})
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_a_restored_serializer_is_told_type_arguments(name: str) -> None:
    given = NESTED[name]()
    restored = read_serializer_snapshot(given.snapshot().to_bytes()).restore_serializer()
    assert set(java_types(restored)) == {JavaType(type_.name) for type_ in java_types(given)}
    declare(java_types(given), restored)
    assert java_types(restored) == java_types(given)
    assert restored.snapshot().to_bytes() == given.snapshot().to_bytes()


def test_types_of_other_serializers_are_not_taken() -> None:
    serializer = ListSerializer(KryoSerializer("java.util.Set"))
    declare([JavaType.parse(LONGS)], serializer)
    declare([JavaType.parse("java.util.Set<java.lang.Long>")] * 2, serializer)
    assert java_types(serializer) == (JavaType("java.util.Set"),)


def test_a_type_that_contains_itself_ends() -> None:
    text = StringSerializer()
    order = TupleSerializer([text, StringSerializer()])
    order.fields = (*order.fields, order)
    assert nested(StringSerializer, order)[0] is text
