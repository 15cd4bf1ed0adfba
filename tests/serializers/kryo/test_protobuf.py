"""Messages of Protocol Buffers that Kryo wrote: a class number, a reference marker, a length, the message."""

from __future__ import annotations

import json

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from state_processor.serializers import DecodeOptions, register_protobuf
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, OptionError, UnsupportedFormatError

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
