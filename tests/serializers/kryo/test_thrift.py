"""Structs of Thrift that Kryo wrote: bytes of libthrift 0.16 and the code of ``TBaseSerializer`` of chill-thrift."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor.serializers import DecodeOptions, register_thrift
from state_processor.serializers.errors import CorruptSnapshotError, InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.serializers.kryo.serializer import KryoSerializer

CLASS = "com.acme.Trade"
pytestmark = pytest.mark.usefixtures("own_registrations")


class Point:
    """What ``thrift --gen py`` makes of a struct."""

    thrift_spec: Any = (None, (1, 8, "x", None, None), (2, 4, "y", None, None))


class Trade:
    thrift_spec: Any = (
        None,
        (1, 10, "id", None, None),
        (2, 11, "name", "UTF8", None),
        (3, 15, "tags", (11, "UTF8", False), None),
        (4, 12, "point", [Point, None], None),
        (5, 13, "counts", (11, "UTF8", 10, None, False), None),
        (6, 13, "points", (8, None, 12, [Point, None], False), None),
        (7, 14, "codes", (6, None, False), None),
        (8, 11, "digest", "BINARY", None),
        (9, 2, "open", None, None),
        (10, 8, "side", None, None),
        (11, 3, "small", None, None),
        (12, 11, "note", "UTF8", None),
    )


class Short:
    thrift_spec: Any = Trade.thrift_spec[:3]


FULL = bytes.fromhex(
    "8c010a000100000000000000070b00020000000261620f00030b00000002000000017800000001790c0004080001ffffffff0400024004000000000000"
    "000d00050b0a00000001000000016100000000000000010d0006080c000000010000000908000100000003000e000706000000020005fffa0b00080000"
    "000200ff0200090108000a0000000203000bfd00"
)
EMPTY = bytes.fromhex("1d0a000100000000000000000d00050b0a000000000200090003000b0000")
VALUE = {
    "id": 7,
    "name": "ab",
    "tags": ["x", "y"],
    "point": {"x": -1, "y": 2.5},
    "counts": {"a": 1},
    "points": [{"key": 9, "value": {"x": 3}}],
    "codes": [5, -6],
    "digest": "00ff",
    "open": True,
    "side": 2,
    "small": -3,
}
HEAD = bytes.fromhex("5701")
"""The first number of a registration, and the mark of a new object."""


@pytest.mark.parametrize("flink", [1, 2])
@pytest.mark.parametrize(
    ("data", "value"), [(FULL, VALUE), (EMPTY, {"id": 0, "counts": {}, "open": False, "small": 0})], ids=["full", "empty"]
)
def test_structs(data: bytes, value: dict[str, Any], flink: int) -> None:
    register_thrift(CLASS, Trade)
    serializer = KryoSerializer(CLASS, flink=flink)
    found = serializer.deserialize(HEAD + data)
    column = serializer.to_column(found, DecodeOptions())
    assert json.loads(column) == value
    assert serializer.serialize(found) == HEAD + data
    assert serializer.serialize(serializer.from_column(column)) == HEAD + data
    for end in range(3, len(data) + 2):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize((HEAD + data)[:end])


def test_changed_structs() -> None:
    register_thrift(CLASS, Trade)
    serializer = KryoSerializer(CLASS, flink=1)

    def written(value: Any) -> str:
        return serializer.serialize(serializer.from_column(json.dumps(value))).hex()

    assert written({"note": "é"}) == "5701" + "0a0b000c00000002c3a900"
    with pytest.raises(InvalidRowError, match=r"the struct Trade lacks a field 'price'; it has: id, name"):
        written({"price": 1})
    with pytest.raises(InvalidRowError, match=r"expected a struct com\.acme\.Trade, found"):
        written({"small": 300})


def test_structs_that_are_refused() -> None:
    register_thrift(CLASS, Short)
    with pytest.raises(UnsupportedFormatError, match=r"a field with number 3 that Short lacks; generate the class"):
        KryoSerializer(CLASS, flink=1).deserialize(HEAD + FULL)
    register_thrift(CLASS, Trade)
    with pytest.raises(CorruptSnapshotError, match="field id has type 8, expected 10"):
        KryoSerializer(CLASS, flink=1).deserialize(HEAD + bytes.fromhex("08080001000000070000"))
    with pytest.raises(CorruptSnapshotError, match="1 bytes are left over"):
        KryoSerializer(CLASS, flink=1).deserialize(HEAD + bytes.fromhex("020000"))
    with pytest.raises(OptionError, match="is not a class that thrift --gen py generated: it lacks thrift_spec"):
        register_thrift(CLASS, int)
