"""Which types have bytes for null: the property, Python's and the kernel's writing agree with Flink."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.core.basic import StringValueSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types
from tests.serializers.harness import decode_with_kernel
from tests.serializers.scalar_samples import SAMPLES

WITH_NULL = [
    *(scalar.serializer for name, scalar in SCALARS.items() if SAMPLES[name].has_null),
    *(Types.POJO("com.acme.Point", {"x": Types.INT()}), Types.NULLABLE(Types.LONG()), Types.KRYO("java.util.Date").for_flink(2)),  # type: ignore[attr-defined]
]
WITHOUT_NULL = [
    *(scalar.serializer for name, scalar in SCALARS.items() if not SAMPLES[name].has_null),
    StringValueSerializer(),
    *(
        Types.LIST(Types.STRING()),
        Types.SET(Types.STRING()),
        Types.MAP(Types.STRING(), Types.STRING()),
        Types.TUPLE([Types.STRING()]),
        Types.ROW([Types.STRING()]),
    ),
    *(
        Types.BASIC_ARRAY(Types.STRING()),
        Types.PRIMITIVE_ARRAY(Types.LONG()),
        Types.ENUM("com.acme.Status", ["OPEN"]),
        Types.ROW_DATA("a INT"),
    ),
    *(Types.EITHER(Types.STRING(), Types.STRING()), Types.TIME_WINDOW(), TtlSerializer.of(Types.STRING())),
    Types.AVRO({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}),
]


def in_kernel(serializer: TypeSerializer) -> bytes | None:
    try:
        return next(iter(encode_column(serializer, pa.nulls(1, serializer.arrow_type(DecodeOptions())))))
    except InvalidRowError:
        return None


@pytest.mark.parametrize("serializer", WITH_NULL, ids=str)
def test_types_with_null(serializer: TypeSerializer) -> None:
    assert serializer.writes_null
    assert in_kernel(serializer) == serializer.serialize(None)
    assert serializer.deserialize(serializer.serialize(None)) is None
    if not isinstance(serializer, KryoSerializer):  # Python decodes it
        assert decode_with_kernel(serializer, [serializer.serialize(None)]) == [None]


@pytest.mark.parametrize("serializer", WITHOUT_NULL, ids=str)
def test_types_without_null(serializer: TypeSerializer) -> None:
    assert not serializer.writes_null
    if not isinstance(serializer, TtlSerializer):  # a null column is a value with a time
        assert in_kernel(serializer) is None
