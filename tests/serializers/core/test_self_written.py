"""Classes that write themselves: bytes that Hadoop 3.5 wrote, values of Flink, and classes of users."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, read_serializer_snapshot, register_snapshot, register_value_class
from state_processor.serializers.base import TypeSerializer, Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.core.self_written import (
    KNOWN,
    GenericTypeSerializerSnapshot,
    UserCodeSerializer,
    read_vlong,
    write_vlong,
)
from state_processor.serializers.core.unread import reason_end_unknown
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import RUNTIME
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, OptionError, UnsupportedFormatError
from tests.serializers.harness import Specimen, check_snapshot, specimens

PLAIN, WITH_KIND = DecodeOptions(), DecodeOptions(row_kind=True)
BYTE, INT, LONG, STRING = NumberSerializer("BYTE"), NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
VALUE_SNAPSHOT = f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot"


def test_values_that_write_themselves_are_refused_by_name() -> None:
    serializer = UserCodeSerializer("com.acme.Money", VALUE_SNAPSHOT)
    check_snapshot(serializer.snapshot())
    assert str(serializer) == "VALUE<com.acme.Money>"
    assert serializer.arrow_type(PLAIN) == pa.binary()
    assert "com.acme.Money" in reason_end_unknown(ListSerializer(serializer))
    with pytest.raises(UnsupportedFormatError, match=r"com\.acme\.Money.*Value\.write.*register_value_class"):
        serializer.deserialize(b"\0")
    with pytest.raises(UnsupportedFormatError, match=r"com\.acme\.Money"):
        serializer.serialize(None)
    other = UserCodeSerializer("com.acme.Cash", VALUE_SNAPSHOT)
    assert "com.acme.Cash is required" in serializer.snapshot().resolve_schema_compatibility(other).reason
    assert serializer.snapshot().resolve_schema_compatibility(serializer).verdict is Verdict.COMPATIBLE_AS_IS


class MoneySnapshot(GenericTypeSerializerSnapshot):
    def restore_serializer(self) -> TypeSerializer:
        return TupleSerializer([LONG, STRING]) if self.type_class == "com.acme.Money" else super().restore_serializer()


@pytest.mark.usefixtures("own_registrations")
def test_users_put_their_reader_in_the_place_of_flinks() -> None:
    register_snapshot(VALUE_SNAPSHOT, MoneySnapshot)
    data = UserCodeSerializer("com.acme.Money", VALUE_SNAPSHOT).snapshot().to_bytes()
    snapshot = read_serializer_snapshot(data)
    assert snapshot.to_bytes() == data
    assert snapshot.restore_serializer().deserialize(bytes.fromhex("0000000000000005036162")) == (5, "ab")


NAMES = {"value": "VALUE<", "copyable-value": "COPYABLE_VALUE<", "writeable": "WRITABLE<"}


@pytest.mark.parametrize(
    "specimen",
    [
        s
        for module, pattern in (
            ("flink-core", "value-serializer-*"),
            ("flink-core", "copyable-value-*"),
            ("flink-hadoop-compatibility", "*"),
        )
        for s in specimens(module, pattern)
    ],
    ids=str,
)
def test_specimens_of_user_code(specimen: Specimen) -> None:
    snapshot = read_serializer_snapshot(specimen.snapshot)
    assert snapshot.to_bytes() == specimen.snapshot
    restored = str(snapshot.restore_serializer())
    assert restored.startswith(NAMES[specimen.name[: specimen.name.index("-serializer")]] + "org.apache.flink.")


WRITABLES = f"{RUNTIME}WritableSerializer$WritableSerializerSnapshot"
VALUES = f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot"
HADOOP = "org.apache.hadoop.io."


def serializer_of(name: str, snapshot_class: str = WRITABLES) -> TypeSerializer:
    """The serializer that a snapshot restores."""
    written = DataOutput()
    written.write_utf(snapshot_class)
    written.write_int(2)
    written.write_utf(name)
    snapshot = read_serializer_snapshot(written.to_bytes())
    restored = snapshot.restore_serializer()
    assert restored.snapshot().to_bytes() == written.to_bytes()
    return restored


K_1 = {"key": {f"{HADOOP}Text": "k"}, "value": {f"{HADOOP}IntWritable": 1}}
SORTED = [
    {"key": {f"{HADOOP}Text": "a"}, "value": {f"{HADOOP}NullWritable": None}},
    {"key": {f"{HADOOP}Text": "b"}, "value": {f"{HADOOP}BytesWritable": "01"}},
]
OF_HADOOP: list[tuple[str, str, Any]] = [
    ("IntWritable", "fffffff9", -7),
    ("LongWritable", "7fffffffffffffff", (1 << 63) - 1),
    ("ShortWritable", "012c", 300),
    ("ByteWritable", "ff", -1),
    ("BooleanWritable", "01", True),
    ("FloatWritable", "3fc00000", 1.5),
    ("DoubleWritable", "c002000000000000", -2.25),
    ("Text", "0761c3a4f09f9880", "aä😀"),
    ("Text", "00", ""),
    ("Text", "8fc8" + "78" * 200, "x" * 200),
    ("BytesWritable", "0000000200ff", b"\0\xff"),
    ("NullWritable", "", None),
    ("VIntWritable", "90", -112),
    ("VIntWritable", "8770", -113),
    ("VIntWritable", "7f", 127),
    ("VIntWritable", "8f80", 128),
    ("VIntWritable", "8fff", 255),
    ("VIntWritable", "8e0100", 256),
    ("VIntWritable", "87ff", -256),
    ("VIntWritable", "860100", -257),
    ("VIntWritable", "847fffffff", -(1 << 31)),
    ("VIntWritable", "8c7fffffff", (1 << 31) - 1),
    ("VLongWritable", "807fffffffffffffff", -(1 << 63)),
    ("MD5Hash", "0cc175b9c0f1b6a831c399e269772661", bytes.fromhex("0cc175b9c0f1b6a831c399e269772661")),
    ("MapWritable", "0000000000", []),
    ("MapWritable", "00000000018c016b8500000001", [K_1]),
    (
        "MapWritable",
        "000000000185000000058700000000018c016b8500000001",
        [{"key": {f"{HADOOP}IntWritable": 5}, "value": {f"{HADOOP}MapWritable": [K_1]}}],
    ),
    ("SortedMapWritable", "00000000028c0161898c0162830000000101", SORTED),
]


@pytest.mark.parametrize(("name", "written", "value"), OF_HADOOP)
def test_bytes_of_hadoop(name: str, written: str, value: Any) -> None:
    serializer, data = serializer_of(HADOOP + name), bytes.fromhex(written)
    assert str(serializer) == f"WRITABLE<{HADOOP}{name}>"
    assert serializer.deserialize(data) == value
    assert serializer.serialize(value) == data
    options = DecodeOptions()
    column = pa.array([serializer.to_column(value, options)], serializer.arrow_type(options))
    assert serializer.serialize(serializer.from_column(column[0].as_py())) == data
    for cut in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize(data[:cut])


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_of_variable_length(value: int) -> None:
    target = DataOutput()
    write_vlong(value, target)
    assert read_vlong(DataInput(target.to_bytes())) == value


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("IntValue", 7, "00000007"),
        ("StringValue", "ab", "026162"),
        ("StringValue", "ä表", "02e401e89002"),
        ("FloatValue", 1.5, "3fc00000"),
        ("BooleanValue", True, "01"),
        ("NullValue", None, "00"),
        ("DoubleValue", 1.0, "3ff0000000000000"),
        ("CharValue", "c", "0063"),
    ],
)
def test_values_of_flink(name: str, value: Any, written: str) -> None:
    serializer = serializer_of(f"org.apache.flink.types.{name}", VALUES)
    assert serializer.serialize(value).hex() == written
    assert serializer.deserialize(bytes.fromhex(written)) == value


@pytest.mark.parametrize("name", ["ArrayWritable", "TwoDArrayWritable", "ObjectWritable"])
def test_writables_without_the_class_of_their_elements_are_refused_by_name(name: str) -> None:
    serializer = serializer_of(HADOOP + name)
    assert HADOOP + name not in KNOWN
    with pytest.raises(UnsupportedFormatError, match=rf"{name}.*register_value_class\('org\.apache\.hadoop\.io\.{name}'"):
        serializer.deserialize(b"\0")


POINT = bytes.fromhex("010100075724506f696e74000000018c0170010000000102c3a4")
"""A map with a class of a user, ``W$Point``, whose ``write`` writes an int and a ``Text``."""


@pytest.mark.usefixtures("own_registrations")
def test_a_class_of_a_user() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"a map holds a W\$Point.*register_value_class"):
        serializer_of(f"{HADOOP}MapWritable").deserialize(POINT)
    register_value_class("W$Point", {"number": NumberSerializer("INT"), "name": f"{HADOOP}Text"})
    serializer, options = serializer_of("W$Point"), DecodeOptions()
    data = bytes.fromhex("0000000102c3a4")
    assert serializer.arrow_type(options) == pa.struct([("number", pa.int32()), ("name", pa.string())])
    row = serializer.to_column(serializer.deserialize(data), options)
    assert row == {"number": 1, "name": "ä"}
    assert serializer.serialize(serializer.from_column(row)) == data
    whole = serializer_of(f"{HADOOP}MapWritable")
    column = whole.to_column(whole.deserialize(POINT), options)
    assert list(json.loads(column)[0]["value"]) == ["W$Point"]
    register_value_class("com.acme.Points", NumberSerializer("LONG"))
    assert serializer_of("com.acme.Points", VALUES).deserialize(bytes(8)) == 0
    assert isinstance(serializer.snapshot(), GenericTypeSerializerSnapshot)
    with pytest.raises(OptionError, match=r"the layout of org\.apache\.hadoop\.io\.ArrayWritable is not known"):
        register_value_class("com.acme.Rows", {"rows": f"{HADOOP}ArrayWritable"})


def test_values_that_do_not_fit() -> None:
    with pytest.raises(InvalidRowError, match="a NullWritable is null"):
        serializer_of(f"{HADOOP}NullWritable").serialize(1)
    with pytest.raises(InvalidRowError, match="expected 16 bytes, found 1"):
        serializer_of(f"{HADOOP}MD5Hash").serialize(b"a")
    with pytest.raises(CorruptSnapshotError, match="class -1 of a map is not registered"):
        serializer_of(f"{HADOOP}MapWritable").deserialize(bytes.fromhex("0000000001ff00"))
