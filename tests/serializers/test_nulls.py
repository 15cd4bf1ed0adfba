"""Which types have bytes for null: the property, Python's writing and the kernel's agree, and with what Flink does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.basic import StringValueSerializer
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.kernel.encoder import encode_column
from state_processor.serializers.streaming import TtlSerializer
from state_processor.types import Types as T

WITH_NULL = [
    *(T.STRING(), T.BIG_INT(), T.BIG_DEC(), T.DATE(), T.SQL_DATE(), T.SQL_TIME(), T.SQL_TIMESTAMP()),
    *(T.INSTANT(), T.LOCAL_DATE(), T.LOCAL_TIME(), T.LOCAL_DATE_TIME()),
    *(T.POJO("com.acme.Point", {"x": T.INT()}), T.NULLABLE(T.LONG()), T.KRYO("java.util.Date").for_flink(2)),  # type: ignore[attr-defined]
]
WITHOUT_NULL = [
    *(T.BOOLEAN(), T.BYTE(), T.SHORT(), T.INT(), T.LONG(), T.FLOAT(), T.DOUBLE(), T.CHAR(), T.BYTES(), StringValueSerializer()),
    *(T.LIST(T.STRING()), T.SET(T.STRING()), T.MAP(T.STRING(), T.STRING()), T.TUPLE([T.STRING()]), T.ROW([T.STRING()])),
    *(T.BASIC_ARRAY(T.STRING()), T.PRIMITIVE_ARRAY(T.LONG()), T.ENUM("com.acme.Status", ["OPEN"]), T.ROW_DATA("a INT")),
    *(T.EITHER(T.STRING(), T.STRING()), T.TIME_WINDOW(), TtlSerializer.of(T.STRING())),
    T.AVRO({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}),
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


@pytest.mark.parametrize("serializer", WITHOUT_NULL, ids=str)
def test_types_without_null(serializer: TypeSerializer) -> None:
    assert not serializer.writes_null
    if not isinstance(serializer, TtlSerializer):  # a null column is a value with a time
        assert in_kernel(serializer) is None
