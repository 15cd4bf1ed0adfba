"""Value arrays of Flink's graph library."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from state_processor.plugins.gelly import (
    LongValueWithProperHashCodeSerializer,
    NullValueArraySerializer,
    StringValueArraySerializer,
)
from state_processor.serializers import read_serializer_snapshot
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.serializers.harness import PLAIN, check_codec, check_specimen, specimens

VALUES = {
    "byte-value-array": [123, 89],
    "char-value-array": ["\x17", '"', "-"],
    "double-value-array": [1.2, 3.4],
    "float-value-array": [1.2000000476837158, 3.4000000953674316],
    "int-value-array": [123, 456],
    "long-value-array": [123, 456],
    "null-value-array": 2,
    "short-value-array": [123, 456],
    "string-value-array": ["123", "456"],
    "long-value-with-proper-hash-code": 12345,
}


def test_strings() -> None:
    serializer = StringValueArraySerializer()
    check_codec(serializer, [[], ["a", "", "ä€😀"], ["x" * 200]])
    assert serializer.serialize(["ä"]).hex() == "000000010000000301e401"
    assert serializer.arrow_type(PLAIN) == pa.list_(pa.string())
    for damaged in ("0000000200000002" + "0161", "0000000100000003" + "016100", "00000001ffffffff", "ffffffff00000000"):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize(bytes.fromhex(damaged))


def test_others() -> None:
    check_codec(NullValueArraySerializer(), [0, 5])
    check_codec(LongValueWithProperHashCodeSerializer(), [0, -1])
    with pytest.raises(UnsupportedFormatError, match="hashCode"):
        LongValueWithProperHashCodeSerializer().hash_code(1)


@pytest.mark.corpus(instead="tests/state_processor/plugins/gelly/test_gelly.py::test_others")
@pytest.mark.parametrize("specimen", specimens("flink-gelly*", "*"), ids=str)
def test_official_specimens(specimen: Any) -> None:
    assert check_specimen(specimen) == VALUES[specimen.name.partition("-serializer")[0]]
    serializer = read_serializer_snapshot(specimen.snapshot).restore_serializer()
    assert serializer.snapshot().to_bytes() == specimen.snapshot
