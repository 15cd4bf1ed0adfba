"""Values of flink-scala-api that are columns of text: UUIDs."""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pytest

from state_processor.errors import CorruptSnapshotError, InvalidRowError
from state_processor.plugins.flink_scala_api.values import UuidSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kernel.encode.program import EncodeBuilder
from tests.serializers.harness import decode_with_kernel

MAPPED = "org.apache.flinkx.api.mapper.UuidMapper"


def test_uuids_in_other_forms() -> None:
    serializer = UuidSerializer(MAPPED, BytesSerializer())
    ids = [UUID(int=n) for n in (0, 2**127 + 5, 0x1234567890ABCDEF1234567890ABCDEF)]
    expected = [serializer.serialize(value) for value in ids]
    for shown in (str, lambda value: str(value).upper(), lambda value: value.hex, lambda value: value.urn):
        assert list(encode_column(serializer, pa.array([shown(value) for value in ids]))) == expected
    assert decode_with_kernel(serializer, expected) == [str(value) for value in ids]
    program = EncodeBuilder(pa.schema([("value", pa.string())]))
    serializer.emit_encode(program, program.column("value"))
    assert program.build().prepared[0].convert is not None
    with pytest.raises(InvalidRowError, match="column value of row 1 does not fit: 'x'"):
        encode_column(serializer, pa.array([str(ids[0]), "x"]))
    with pytest.raises(CorruptSnapshotError, match="a UUID of 16 bytes expected, found 15"):
        decode_with_kernel(serializer, [b"\0\0\0\x0f" + bytes(16)])
    assert hash_codes(serializer, pa.array(list(map(str, ids)))).tolist() == [serializer.hash_code(value) for value in ids]
