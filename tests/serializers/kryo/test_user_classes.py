"""What Flink infers for fields of Java classes; messages of Protocol Buffers that Kryo wrote."""

from __future__ import annotations

import json

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from state_processor.serializers import DecodeOptions, register_protobuf
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.user_classes import inferred_by_flink
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.types.flink_types import Types

T = Types

POINT = "com.acme.Point"


@pytest.mark.parametrize(
    ("declared", "in_flink_1", "in_flink_2"),
    [
        (T.LIST(T.STRING()), "KRYO<java.util.List<java.lang.String>>", "NULLABLE<LIST<NULLABLE<STRING>>>"),
        (T.SET(T.LONG()), "KRYO<java.util.Set<java.lang.Long>>", "NULLABLE<SET<LONG>>"),
        (
            T.MAP(T.STRING(), T.LONG()),
            "KRYO<java.util.Map<java.lang.String,java.lang.Long>>",
            "NULLABLE<MAP<NULLABLE<STRING>,LONG>>",
        ),
        (T.NULLABLE(T.LIST(T.STRING())), "NULLABLE<LIST<STRING>>", "NULLABLE<LIST<STRING>>"),
        (T.LOCAL_DATE(), "KRYO<java.time.LocalDate>", "KRYO<java.time.LocalDate>"),
        (T.LOCAL_TIME(), "KRYO<java.time.LocalTime>", "KRYO<java.time.LocalTime>"),
        (T.LOCAL_DATE_TIME(), "KRYO<java.time.LocalDateTime>", "KRYO<java.time.LocalDateTime>"),
        (T.NULLABLE(T.LOCAL_DATE()), "NULLABLE<LOCAL_DATE>", "NULLABLE<LOCAL_DATE>"),
        (T.INSTANT(), "INSTANT", "INSTANT"),
        (T.SQL_DATE(), "SQL_DATE", "SQL_DATE"),
        (T.OBJECT_ARRAY(T.LOCAL_DATE()), *["OBJECT_ARRAY<KRYO<java.time.LocalDate>>"] * 2),
        (T.TUPLE([T.INT(), T.LOCAL_DATE()]), *["TUPLE<INT,KRYO<java.time.LocalDate>>"] * 2),
        (T.EITHER(T.INT(), T.LOCAL_TIME()), *["EITHER<INT,KRYO<java.time.LocalTime>>"] * 2),
        (
            T.LIST(T.LOCAL_DATE()),
            "KRYO<java.util.List<java.time.LocalDate>>",
            "NULLABLE<LIST<NULLABLE<KRYO<java.time.LocalDate>>>>",
        ),
        (T.LIST(T.KRYO("java.util.List<java.lang.Long>")), "KRYO<java.util.List<java.util.List<java.lang.Long>>>", None),
        (T.KRYO("java.util.List"), "KRYO<java.util.List>", "KRYO<java.util.List>"),
    ],
)
def test_types(declared: TypeSerializer, in_flink_1: str, in_flink_2: str | None) -> None:
    assert str(inferred_by_flink(declared, 1)) == in_flink_1
    if in_flink_2 is not None:
        assert str(inferred_by_flink(declared, 2)) == in_flink_2


def test_fields_of_pojos() -> None:
    declared = T.POJO(POINT, {"tags": T.LIST(T.STRING()), "inner": T.POJO(POINT + "2", {"ids": T.SET(T.INT())}), "x": T.INT()})
    inner, tags, x = inferred_by_flink(declared, 1).fields  # type: ignore[attr-defined]
    assert [str(tags.serializer), str(x.serializer)] == ["KRYO<java.util.List<java.lang.String>>", "INT"]
    assert [str(f.serializer) for f in inner.serializer.fields] == ["KRYO<java.util.Set<java.lang.Integer>>"]


def test_fields_of_pojos_inside_collections() -> None:
    inferred = inferred_by_flink(T.LIST(T.POJO(POINT, {"tags": T.LIST(T.STRING()), "x": T.INT()})), 2)
    (tags, x) = inferred.inner.element.inner.fields  # type: ignore[attr-defined]
    assert [str(tags.serializer), str(x.serializer)] == ["NULLABLE<LIST<NULLABLE<STRING>>>", "INT"]


@pytest.mark.parametrize(
    "nested",
    [
        T.LIST(T.LIST(T.INT())),
        T.MAP(T.STRING(), T.SET(T.INT())),
        T.SET(T.MAP(T.INT(), T.INT())),
        T.LIST(T.TUPLE([T.INT()])),
        T.LIST(T.KRYO("java.util.List<java.lang.Long>")),
    ],
)
def test_collections_of_types_with_arguments_stay_with_kryo(nested: TypeSerializer) -> None:
    with pytest.raises(OptionError, match=r'give KRYO\("java.util.List"\)'):
        inferred_by_flink(nested, 2)


def test_classes_that_kryo_does_not_know_have_to_be_described() -> None:
    with pytest.raises(OptionError, match="does not map to a Java type"):
        inferred_by_flink(T.LIST(T.POJO("com.acme.Undescribed", {"x": T.INT()})), 1)


def test_versions() -> None:
    assert str(T.INFERRED(T.LIST(T.INT()))) == "KRYO<java.util.List<java.lang.Integer>>"
    assert str(T.INFERRED(T.LIST(T.INT()), "2.x")) == "NULLABLE<LIST<NULLABLE<INT>>>"
    with pytest.raises(OptionError, match="a version like"):
        T.INFERRED(T.LIST(T.INT()), "newest")


def test_fields_of_subclasses() -> None:
    inferred = T.INFERRED(T.POJO(POINT, {"x": T.LOCAL_DATE()}, {POINT + "3": {"z": T.LIST(T.INT())}}))
    (subclass,) = inferred.registered.values()  # type: ignore[attr-defined]
    assert [str(f.serializer) for f in subclass.fields] == [
        "KRYO<java.time.LocalDate>",
        "KRYO<java.util.List<java.lang.Integer>>",
    ]


CLASS = "com.acme.Orders$Order"
pytestmark = pytest.mark.usefixtures("own_registrations")


def descriptor_set(*names: str) -> bytes:
    """A set with the message ``acme.Order``: a number and texts."""
    kinds = {"id": 3, "name": 9, "tags": 9}
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="acme", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, name in enumerate(names, 1):
        message.field.add(name=name, number=number, type=kinds[name], label=3 if name == "tags" else 1)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


MESSAGE = bytes.fromhex("0807120261621a01781a0179")
"""id 7, name ``ab``, tags ``x`` and ``y``."""
WRITTEN = bytes.fromhex("5701") + bytes([len(MESSAGE)]) + MESSAGE
"""The class has the first number of a registration."""


@pytest.mark.parametrize("flink", [1, 2])
def test_a_message_of_a_descriptor_set(flink: int) -> None:
    register_protobuf(CLASS, "acme.Order", descriptor_set("id", "name", "tags"))
    serializer = KryoSerializer(CLASS, flink=flink)
    value = serializer.deserialize(WRITTEN)
    column = serializer.to_column(value, DecodeOptions())
    assert json.loads(column) == {"id": "7", "name": "ab", "tags": ["x", "y"]}
    assert serializer.serialize(value) == WRITTEN
    assert serializer.serialize(serializer.from_column(column)) == WRITTEN
    changed = serializer.serialize(serializer.from_column(json.dumps({"id": 300})))
    assert changed == bytes.fromhex("5701") + b"\3" + bytes.fromhex("08ac02")
    for cut in range(3, len(WRITTEN)):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize(WRITTEN[:cut])
    with pytest.raises(InvalidRowError, match=r"expected a message com\.acme\.Orders\$Order.*'count'"):
        serializer.serialize(serializer.from_column(json.dumps({"count": 1})))


def test_a_generated_class() -> None:
    register_protobuf("com.google.protobuf.Timestamp", timestamp_pb2.Timestamp)
    serializer = KryoSerializer("com.google.protobuf.Timestamp", flink=1)
    data = bytes.fromhex("5701") + b"\2" + timestamp_pb2.Timestamp(seconds=5).SerializeToString()
    assert json.loads(serializer.to_column(serializer.deserialize(data), DecodeOptions())) == "1970-01-01T00:00:05Z"


def test_messages_that_are_refused() -> None:
    register_protobuf(CLASS, "acme.Order", descriptor_set("id"))
    with pytest.raises(UnsupportedFormatError, match=r"Orders\$Order: it has fields that the registered message does not have"):
        KryoSerializer(CLASS, flink=1).deserialize(WRITTEN)
    with pytest.raises(OptionError, match=r"the descriptor set does not have the message 'acme\.Bill'"):
        register_protobuf(CLASS, "acme.Bill", descriptor_set("id"))
