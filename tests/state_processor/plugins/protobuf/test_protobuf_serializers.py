"""Messages of Protocol Buffers by serializers of their own, and the serializers of Stateful Functions.

Bytes of messages are those of the package ``protobuf``. The frames around them follow the source of Stateful Functions 3.3.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from state_processor.errors import CorruptSnapshotError, InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.plugins.protobuf import (
    MESSAGE_SNAPSHOT,
    REMOTE_VALUE_SNAPSHOT,
    STATEFUN_SNAPSHOT,
    message_class,
    register_protobuf_serializer,
)
from state_processor.serializers import (
    DataOutput,
    DecodeOptions,
    TypeSerializer,
    read_serializer_snapshot,
)
from tests.serializers.harness import check_payloads, check_snapshot

PLAIN = DecodeOptions()
F = descriptor_pb2.FieldDescriptorProto
OWN = "com.acme.OrderSerializerSnapshot"
pytestmark = pytest.mark.usefixtures("own_registrations")


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """A message with a field of each kind: ``acme.Order``, whose ``at`` is of another file."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="acme", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("UNKNOWN", "RETAIL")):
        kind.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=F.TYPE_INT64, label=1)
    for number, (name, type_, label, type_name) in enumerate(
        (
            ("id", F.TYPE_INT64, 1, ""),
            ("total", F.TYPE_UINT64, 1, ""),
            ("kind", F.TYPE_ENUM, 1, ".acme.Kind"),
            ("tags", F.TYPE_STRING, 3, ""),
            ("digest", F.TYPE_BYTES, 1, ""),
            ("at", F.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"),
            ("counts", F.TYPE_MESSAGE, 3, ".acme.Order.CountsEntry"),
            ("ratio", F.TYPE_FLOAT, 1, ""),
        ),
        1,
    ):
        order.field.add(name=name, number=number, type=type_, label=label, **({"type_name": type_name} if type_name else {}))
    node = file.message_type.add(name="Node")
    node.field.add(name="name", number=1, type=F.TYPE_STRING, label=1)
    node.field.add(name="children", number=2, type=F.TYPE_MESSAGE, label=3, type_name=".acme.Node")
    return file


def descriptor_set() -> bytes:
    """The set, with the file that the other one needs after it."""
    needed = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(needed)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[order_file(), needed]).SerializeToString())


def statefun_snapshot(java_class: str = "com.acme.Order", message: str = "acme.Order") -> bytes:
    """A snapshot as Stateful Functions frames it: the size of a message with Java class, name and descriptors."""
    fields = enumerate((java_class.encode(), message.encode(), descriptor_set()), 1)
    data = b"".join(bytes([number << 3 | 2]) + varint(len(part)) + part for number, part in fields)
    return framed(STATEFUN_SNAPSHOT, 1, struct.pack(">i", len(data)) + data)


def varint(value: int) -> bytes:
    target = DataOutput()
    target.write_unsigned_varint(value)
    return target.to_bytes()


def framed(class_name: str, version: int, payload: bytes) -> bytes:
    target = DataOutput()
    target.write_utf(class_name)
    target.write_int(version)
    target.write_bytes(payload)
    return target.to_bytes()


def restored(data: bytes) -> TypeSerializer:
    snapshot = read_serializer_snapshot(data)
    assert snapshot.to_bytes() == data
    check_snapshot(snapshot)
    return snapshot.restore_serializer()


ORDER: dict[str, Any] = {
    "id": 7,
    "total": Decimal((1 << 64) - 1),
    "kind": "RETAIL",
    "tags": ["x", "y"],
    "digest": b"\x00\xff",
    "at": {"seconds": 5, "nanos": 6},
    "counts": [("a", 1), ("b", 2)],
    "ratio": 0.5,
}


def message_bytes() -> bytes:
    order = message_class("acme.Order", descriptor_set())
    made = order(id=7, total=(1 << 64) - 1, kind=1, tags=["x", "y"], digest=b"\x00\xff", counts={"a": 1, "b": 2}, ratio=0.5)
    made.at.seconds, made.at.nanos = 5, 6
    return bytes(made.SerializeToString(deterministic=True))


def test_messages_of_stateful_functions_are_structs() -> None:
    serializer = restored(statefun_snapshot())
    data = message_bytes()
    payload = struct.pack(">i", len(data)) + data
    (value,) = check_payloads(serializer, [payload])
    assert serializer.to_column(value, PLAIN) == ORDER
    assert serializer.arrow_type(PLAIN).field("total").type == pa.decimal128(20, 0)
    assert serializer.serialize(serializer.from_column(ORDER)) == payload
    empty = serializer.to_column(b"", PLAIN)
    assert (empty["id"], empty["kind"], empty["at"], empty["tags"]) == (0, "UNKNOWN", None, [])
    assert serializer.from_column(dict.fromkeys(ORDER)) == b""
    assert str(serializer) == "PROTOBUF<acme.Order>"
    with pytest.raises(InvalidRowError, match=r"acme\.Order lacks a field 'count'; it has: id, total"):
        serializer.from_column({"count": 1})
    with pytest.raises(InvalidRowError, match=r"expected a message acme\.Order, found"):
        serializer.from_column({"kind": "WHOLESALE"})
    with pytest.raises(UnsupportedFormatError, match="field with number 99 that its description lacks"):
        serializer.to_column(data + b"\x98\x06\x01", PLAIN)
    with pytest.raises(UnsupportedFormatError, match=r"not a message acme\.Order"):
        serializer.to_column(b"\x0a\xff", PLAIN)


def test_a_message_that_contains_itself_is_json() -> None:
    serializer = restored(statefun_snapshot("com.acme.Node", "acme.Node"))
    text = '{"name": "a", "children": [{"name": "b"}]}'
    value = serializer.from_column(text)
    assert serializer.to_column(value, PLAIN) == text
    assert serializer.arrow_type(PLAIN) == pa.string()


def test_classes_of_messages_have_to_be_the_same() -> None:
    written = read_serializer_snapshot(statefun_snapshot())
    assert not written.resolve_schema_compatibility(read_serializer_snapshot(statefun_snapshot())).is_incompatible
    other = written.resolve_schema_compatibility(read_serializer_snapshot(statefun_snapshot("com.acme.Bill")))
    assert "messages of com.acme.Order were written, com.acme.Bill is required" in str(other)


def test_damaged_snapshots_and_messages() -> None:
    data = statefun_snapshot()
    for end in (len(data) - 1, len(data) // 2, len(STATEFUN_SNAPSHOT) + 8):
        with pytest.raises(CorruptSnapshotError):
            read_serializer_snapshot(data[:end])
    with pytest.raises(UnsupportedFormatError, match=r"messages acme\.Bill of Stateful .*is not in the descriptor set"):
        read_serializer_snapshot(statefun_snapshot("com.acme.Bill", "acme.Bill")).restore_serializer()
    odd = framed(STATEFUN_SNAPSHOT, 1, struct.pack(">i", 2) + b"\x22\x00")
    with pytest.raises(CorruptSnapshotError, match="unknown field 4 of a serializer snapshot"):
        read_serializer_snapshot(odd).restore_serializer()
    serializer = restored(data)
    payload = struct.pack(">i", 3) + b"\x08\x07"
    with pytest.raises(CorruptSnapshotError, match="a message of 3 bytes announced, 2 left"):
        serializer.deserialize(payload)


@pytest.mark.parametrize(("size", "prefix"), [("int", "00000006"), ("varint", "06")])
def test_a_serializer_of_the_job(size: Any, prefix: str) -> None:
    register_protobuf_serializer(OWN, timestamp_pb2.Timestamp, size=size, snapshot_bytes=2)
    serializer = restored(framed(OWN, 5, b"ab"))
    data = timestamp_pb2.Timestamp(seconds=1 << 30).SerializeToString()
    (value,) = check_payloads(serializer, [bytes.fromhex(prefix) + data])
    assert serializer.to_column(value, PLAIN) == {"seconds": 1 << 30, "nanos": 0}


def test_registrations_that_are_refused() -> None:
    with pytest.raises(OptionError, match="size is 'long'; expected 'int' or 'varint'"):
        register_protobuf_serializer(OWN, timestamp_pb2.Timestamp, size="long")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="is not a class that protoc generated"):
        register_protobuf_serializer(OWN, int)
    with pytest.raises(OptionError, match=r"'acme\.Bill' is not in the descriptor set"):
        register_protobuf_serializer(OWN, "acme.Bill", descriptor_set())


def test_values_of_remote_functions() -> None:
    data = framed(REMOTE_VALUE_SNAPSHOT, 1, b"\x00\x08com.acme\x00\x04User")
    serializer = restored(data)
    assert str(serializer) == "REMOTE_VALUE<com.acme/User>"
    assert check_payloads(serializer, [bytes.fromhex("00000002abcd")]) == [b"\xab\xcd"]
    other = read_serializer_snapshot(framed(REMOTE_VALUE_SNAPSHOT, 1, b"\x00\x08com.acme\x00\x04Cart"))
    verdict = read_serializer_snapshot(data).resolve_schema_compatibility(other)
    assert "REMOTE_VALUE<com.acme/User> was written, REMOTE_VALUE<com.acme/Cart> is required" in str(verdict)


@pytest.mark.parametrize(
    ("version", "payload"),
    [(1, b"\x00\x11WITH_RAW_PAYLOADS"), (2, b"\x00\x11WITH_RAW_PAYLOADS\x00"), (2, b"\x00\x01C\x01\x00\x05a.Own")],
)
def test_messages_between_functions(version: int, payload: bytes) -> None:
    serializer = restored(framed(MESSAGE_SNAPSHOT, version, payload))
    assert check_payloads(serializer, [bytes.fromhex("000000021200")]) == [b"\x12\x00"]
    other = read_serializer_snapshot(framed(MESSAGE_SNAPSHOT, 1, b"\x00\x01X"))
    assert other.resolve_schema_compatibility(serializer).is_incompatible
