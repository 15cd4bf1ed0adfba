"""Serializer snapshots of many levels, whatever the composite: refused in words beyond the limit."""

from __future__ import annotations

import pytest

from state_processor.serializers import TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import TypeSerializerSnapshot
from state_processor.serializers.core.arrays import GenericArraySerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.nullable import EitherSerializer, NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.io import MAX_NESTING
from state_processor.support.errors import UnsupportedFormatError

INT = NumberSerializer("INT")
WRAPPERS = {
    "list": ListSerializer,
    "set": SetSerializer,
    "map": lambda inner: MapSerializer(INT, inner),
    "tuple": lambda inner: TupleSerializer([INT, inner]),
    "row": lambda inner: RowSerializer([inner, INT]),
    "either": lambda inner: EitherSerializer(INT, inner),
    "nullable": NullableSerializer,
    "POJO": lambda inner: PojoSerializer.of("a.B", {"c": inner}),
    "array": lambda inner: GenericArraySerializer(inner, "java.lang.Object"),
}


def nested(name: str, levels: int) -> TypeSerializerSnapshot:
    made: TypeSerializer = INT
    for _ in range(levels - 1):
        made = WRAPPERS[name](made)
    return made.snapshot()


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_most_levels_are_read(name: str) -> None:
    data = nested(name, MAX_NESTING).to_bytes()
    assert read_serializer_snapshot(data).restore_serializer().snapshot().to_bytes() == data


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("levels", [MAX_NESTING + 1, MAX_NESTING + 30])
def test_more_levels_are_refused(name: str, levels: int) -> None:
    data = nested(name, levels).to_bytes()
    with pytest.raises(UnsupportedFormatError, match=f"nested more than {MAX_NESTING} levels deep"):
        read_serializer_snapshot(data)
