"""Case classes and sealed traits of flink-scala-api: other versions, other numbers of fields, nulls, verdicts, damage."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.plugins.flink_scala_api.case_classes import ENUM_VALUE_SNAPSHOT, CaseClassSerializer, ConstantSerializer
from state_processor.plugins.flink_scala_api.choices import COPRODUCT_SNAPSHOT, ENUM_SNAPSHOT, ChosenValue, CoproductSerializer
from state_processor.plugins.flink_scala_api.collections import (
    COLLECTION_SNAPSHOT,
    MAP_SNAPSHOT,
    SORTED_MAP_SNAPSHOTS,
    CollectionSerializer,
    OrderingSerializer,
    ScalaMapSerializer,
    WrappedOrderingSerializer,
)
from state_processor.plugins.flink_scala_api.parts import SERIALIZERS
from state_processor.plugins.flink_scala_api.values import (
    DurationSerializer,
    FlinkxOptionSerializer,
    MappedSerializer,
    UuidSerializer,
)
from state_processor.serializers import DecodeOptions, TypeSerializer, read_serializer_snapshot, register_case_class
from state_processor.serializers.base import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.io import DataOutput
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, StateProcessorError, UnsupportedFormatError
from tests.serializers.harness import check_codec, check_payloads, check_snapshot, decode_with_kernel

PLAIN = DecodeOptions()
INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
CLICK = CaseClassSerializer("com.acme.Click", [STRING, LONG])
OLD = CaseClassSerializer("com.acme.Click", [STRING, LONG], False, 2)
POINT = CaseClassSerializer("com.acme.Point", [INT, LONG])
HEARTBEAT = ConstantSerializer(("com.acme.Heartbeat$",))
EVENT = CoproductSerializer(("com.acme.Click", "com.acme.Heartbeat$"), (CLICK, HEARTBEAT))
RED, BLUE = (ConstantSerializer(("com.acme.Colour$", name), ENUM_VALUE_SNAPSHOT) for name in ("Red", "Blue"))
COLOUR = CoproductSerializer(("Red", "Blue"), (RED, BLUE), ENUM_SNAPSHOT)
ORDERING = OrderingSerializer("DefaultString", f"{SERIALIZERS}DefaultStringOrderingSerializerSnapshot")
REVERSE = WrappedOrderingSerializer(ORDERING, f"{SERIALIZERS}ReverseOrderingSerializerSnapshot")
SORTED_MAP = ScalaMapSerializer(SORTED_MAP_SNAPSHOTS[0], STRING, LONG, REVERSE)

texts, longs = st.none() | st.text(max_size=5), st.integers(-(2**63), 2**63 - 1)
clicks = st.tuples(texts, longs) | st.tuples(texts) | st.just(()) | st.none()


def collection(kind: str, element: TypeSerializer, ordering: TypeSerializer | None = None) -> CollectionSerializer:
    return CollectionSerializer(f"{SERIALIZERS}{kind}Serializer", "com.acme.Element", element, ordering)


@given(st.data())
@pytest.mark.parametrize(
    ("serializer", "values"),
    [
        (CLICK, clicks),
        (NullableSerializer(CLICK), clicks.filter(lambda v: v is not None)),
        (POINT, st.none() | st.tuples(st.integers(-5, 5), longs)),
        (EVENT, st.none() | st.builds(ChosenValue, st.just("com.acme.Click"), st.tuples(texts, longs))),
        (COLOUR, st.sampled_from([ChosenValue("Red", "Red"), ChosenValue("Blue", "Blue"), None])),
        (collection("Vector", CLICK), st.lists(clicks, max_size=3)),
        (collection("MutableQueue", LONG), st.none() | st.lists(longs, max_size=3)),
        (collection("MutableSortedSet", LONG, ORDERING), st.none() | st.lists(longs, max_size=3, unique=True)),
        (SORTED_MAP, st.none() | st.lists(st.tuples(st.text(max_size=3), longs), max_size=3, unique_by=lambda p: p[0])),
    ],
    ids=str,
)
def test_values(serializer: TypeSerializer, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    check_codec(serializer, data.draw(st.lists(values, max_size=4)))


def test_fields_that_were_added_later_are_null() -> None:
    short = bytes.fromhex("00000001 0261")
    assert check_payloads(CLICK, [short]) == [("a",)]
    assert decode_with_kernel(CLICK, [short]) == [{"_1": "a", "_2": None}]
    with pytest.raises(InvalidRowError, match="LONG"):
        CLICK.serialize(CLICK.from_column({"_1": "a", "_2": None}))


def test_nulls_of_all_versions() -> None:
    former, padded = bytes.fromhex("ffffffff"), bytes.fromhex("80000000") + bytes(12)
    assert decode_with_kernel(POINT, [former, padded]) == [None, None]
    assert [POINT.deserialize(data) for data in (former, padded)] == [None, None]
    assert POINT.serialize(None) == padded
    assert CLICK.serialize(None) == bytes.fromhex("80000000")
    for serializer in (OLD, CoproductSerializer(("a.A",), (OLD,), version=2)):
        with pytest.raises(InvalidRowError, match="can't store null"):
            serializer.serialize(None)


@pytest.mark.usefixtures("own_registrations")
def test_values_without_the_number_of_fields() -> None:
    data = OLD.snapshot().to_bytes()
    plain = bytes.fromhex("0261 0000000000000005")
    for decode in (OLD.deserialize, lambda payload: decode_with_kernel(OLD, [payload])):
        with pytest.raises(CorruptSnapshotError, match=r"register_case_class"):
            decode(plain)
    register_case_class("com.acme.Click", ["id", "at"], field_count=False)
    restored = read_serializer_snapshot(data).restore_serializer()
    assert check_payloads(restored, [plain]) == [("a", 5)]
    assert decode_with_kernel(restored, [plain]) == [{"id": "a", "at": 5}]
    assert restored.snapshot().to_bytes() == data
    with pytest.raises(ValueError, match="expected 2 fields"):
        restored.write(("a",), DataOutput())


def test_snapshots_of_version_2() -> None:
    check_snapshot(OLD.snapshot())
    assert OLD.snapshot().to_bytes() == CLICK.snapshot().to_bytes().replace(
        b"\x00\x00\x00\x03\x00\x0ecom.acme.Click\x01", b"\x00\x00\x00\x02\x00\x0ecom.acme.Click"
    )
    event = CoproductSerializer(EVENT.names, EVENT.subtypes, version=2)
    check_snapshot(event.snapshot())
    payload = event.snapshot().to_bytes().removeprefix(len(COPRODUCT_SNAPSHOT).to_bytes(2, "big") + COPRODUCT_SNAPSHOT.encode())
    assert payload.startswith(struct.pack(">ii", 2, 2) + b"\x00\x0ecom.acme.Click\x00\x13com.acme.Heartbeat$")
    empty = CaseClassSerializer("com.acme.Gone", [], False, 2)
    restored = read_serializer_snapshot(empty.snapshot().to_bytes()).restore_serializer()
    assert restored.serialize(()) == b""


@pytest.mark.parametrize(
    ("serializer", "data"),
    [
        (CLICK, "00000003 0261 0000000000000005 00"),
        (CLICK, "00000002 0261 00000000"),
        (CLICK, "80000001"),
        (EVENT, "02"),
        (EVENT, "7f"),
        (DurationSerializer(), "04"),
        (collection("MutableBuffer", LONG), "80000001"),
        (collection("List", LONG), "ffffffff"),
        (SORTED_MAP, "00000002 0261"),
        (UuidSerializer("org.apache.flinkx.api.mapper.UuidMapper", collection("Array", NumberSerializer("BYTE"))), "00000001 00"),
    ],
    ids=str,
)
def test_damaged_values(serializer: TypeSerializer, data: str) -> None:
    with pytest.raises(CorruptSnapshotError):
        serializer.deserialize(bytes.fromhex(data))
    if not isinstance(serializer, UuidSerializer):
        with pytest.raises(StateProcessorError):
            decode_with_kernel(serializer, [bytes.fromhex(data)])


def test_collections_of_other_serializers_are_refused() -> None:
    snapshot = collection("List", LONG).snapshot()
    own = snapshot.to_bytes().replace(f"{SERIALIZERS}ListSerializer".encode(), b"com.acme.own.collection.of.acm.MyListSerializer")
    assert len(own) == len(snapshot.to_bytes())
    with pytest.raises(UnsupportedFormatError, match=r"collections that com\.acme\.own.*MyListSerializer writes"):
        read_serializer_snapshot(own).restore_serializer()
    ordered = collection("SortedSet", STRING, CLICK).snapshot()
    with pytest.raises(UnsupportedFormatError, match="a sorted collection whose ordering has content"):
        ordered.restore_serializer()


MORE = CaseClassSerializer("com.acme.Click", [STRING, LONG, INT])


@pytest.mark.parametrize(
    ("written", "wanted", "verdict"),
    [
        (CLICK, CLICK, Verdict.COMPATIBLE_AS_IS),
        (OLD, CLICK, Verdict.COMPATIBLE_AS_IS),
        (CLICK, POINT, Verdict.INCOMPATIBLE),
        (CLICK, MORE, Verdict.INCOMPATIBLE),
        (EVENT, EVENT, Verdict.COMPATIBLE_AS_IS),
        (EVENT, CoproductSerializer(("com.acme.Click",), (CLICK,)), Verdict.INCOMPATIBLE),
        (HEARTBEAT, ConstantSerializer(("com.acme.Other$",)), Verdict.INCOMPATIBLE),
        (RED, BLUE, Verdict.INCOMPATIBLE),
        (collection("List", LONG), collection("List", LONG), Verdict.COMPATIBLE_AS_IS),
        (collection("List", LONG), collection("Vector", LONG), Verdict.INCOMPATIBLE),
        (collection("List", LONG), collection("List", STRING), Verdict.INCOMPATIBLE),
        (ScalaMapSerializer(MAP_SNAPSHOT, STRING, CLICK), ScalaMapSerializer(MAP_SNAPSHOT, STRING, POINT), Verdict.INCOMPATIBLE),
        (SORTED_MAP, SORTED_MAP, Verdict.COMPATIBLE_AS_IS),
        (MappedSerializer("a.M", STRING), MappedSerializer("a.N", STRING), Verdict.INCOMPATIBLE),
        (FlinkxOptionSerializer(LONG), FlinkxOptionSerializer(STRING), Verdict.INCOMPATIBLE),
    ],
)
def test_compatibility(written: TypeSerializer, wanted: TypeSerializer, verdict: Verdict) -> None:
    assert written.snapshot().resolve_schema_compatibility(wanted).verdict is verdict


def test_version_1_is_refused_with_the_way_out() -> None:
    data = len(COLLECTION_SNAPSHOT).to_bytes(2, "big") + COLLECTION_SNAPSHOT.encode() + struct.pack(">i", 1)
    refused = r"only 2 \(flink-scala-api 1\.2\.7\)\.\nA flink-scala-api before 1\.2\.7 wrote it.*take a new savepoint"
    with pytest.raises(StateProcessorError, match=refused):
        read_serializer_snapshot(data)
    later = data[:-4] + struct.pack(">i", 9)
    with pytest.raises(StateProcessorError, match="A later flink-scala-api probably wrote it"):
        read_serializer_snapshot(later)
