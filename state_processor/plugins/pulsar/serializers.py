"""State of ``FlinkPulsarSource``, the Pulsar source before FLIP-27: subscribed topics and ids of messages.

pulsar-flink (StreamNative): ``TopicSubscriptionSerializer``, ``MessageIdSerializer``, ``SerializableRange``. Pulsar:
``MessageIdData``, a message of Protocol Buffers.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from state_processor.connectors.java import (
    EXTERNAL,
    JavaClassDescription,
    JavaInstance,
    class_name,
    read_java_object,
    write_java_object,
)
from state_processor.serializers import DataInput, DataOutput, DecodeOptions, SimpleSerializer, simple_snapshots
from state_processor.serializers.extension import declared_versions

_PACKAGE: Final = "org.apache.flink.streaming.connectors.pulsar.internal."
_RANGE: Final = f"{_PACKAGE}SerializableRange"
_SPAN: Final = struct.Struct(">ii")
_UID_AT: Final = 4 + 2 + 2 + len(_RANGE)
"""Where the number of the class is in the bytes of a range: behind the header, the marks and the name of the class."""


class TopicSubscriptionSerializer(SimpleSerializer):
    """A topic, the range of hashes of its keys (a Java object), and the name of the subscription.

    Releases have different numbers of the class of ranges, so that the number is a part of the value.
    """

    snapshot_class = f"{_PACKAGE}TopicSubscriptionSerializer$TopicSubscriptionSerializerSnapshot"
    min_size = 13

    def __str__(self) -> str:
        return "TOPIC_SUBSCRIPTION"

    def read(self, source: DataInput) -> dict[str, Any]:
        topic = _read_text(source)
        start = source.position
        data = source.read_bytes(source.read_count("bytes", 1), "range")
        range_ = read_java_object(DataInput(data, f"{source.source}, range at offset {start}")).content
        name = _read_text(source)
        return {"topic": topic, "range": _span(source, start, data, range_), "subscription_name": name or None}

    def write(self, value: dict[str, Any], target: DataOutput) -> None:
        _write_text(value["topic"], target)
        span = value["range"]
        content, uid = None, 0
        if span is not None:
            content = JavaInstance(_RANGE, annotations=[_SPAN.pack(span["start"], span["end"])])
            uid = span["serial_version_uid"]
        data = write_java_object(content, {_RANGE: JavaClassDescription(_RANGE, uid, flags=EXTERNAL)})
        target.write_int(len(data))
        target.write_bytes(data)
        _write_text(value["subscription_name"] or "", target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        span = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("serial_version_uid", pa.int64())])
        return pa.struct([("topic", pa.string()), ("range", span), ("subscription_name", pa.string())])


def _span(source: DataInput, start: int, data: bytes, range_: Any) -> dict[str, int] | None:
    if range_ is None:
        return None
    if class_name(range_) != _RANGE or list(map(len, range_.annotations)) != [_SPAN.size]:
        raise source.corrupt(f"expected a {_RANGE}, found {class_name(range_)}", start)
    first, last = _SPAN.unpack(range_.annotations[0])
    (uid,) = struct.unpack_from(">q", data, _UID_AT)
    return {"start": first, "end": last, "serial_version_uid": uid}


def _read_text(source: DataInput) -> str:
    start = source.position
    try:
        return source.read_bytes(source.read_count("bytes", 1), "text").decode()
    except UnicodeDecodeError as error:
        raise source.corrupt(f"not text: {error}", start) from None


def _write_text(text: str, target: DataOutput) -> None:
    data = text.encode()
    target.write_int(len(data))
    target.write_bytes(data)


class MessageIdSerializer(SimpleSerializer):
    """The id of a message. Fields that it does not have are null; fields of chunks and acknowledgements are kept as bytes."""

    snapshot_class = f"{_PACKAGE}MessageIdSerializer$MessageIdSerializerSnapshot"
    min_size = 4

    def __str__(self) -> str:
        return "PULSAR_MESSAGE_ID"

    def read(self, source: DataInput) -> dict[str, Any]:
        data = source.read_bytes(source.read_count("bytes", 1), "message id")
        fields: dict[str, Any] = dict.fromkeys((*_FIELDS.values(), _OTHER))
        inner = DataInput(data, f"{source.source}, message id")
        while not inner.at_end():
            start = inner.position
            tag = read_varint(inner)
            if tag & 7 or tag >> 3 not in _FIELDS:
                fields[_OTHER] = data[start:]
                break
            fields[_FIELDS[tag >> 3]] = signed(read_varint(inner))
        return fields

    def write(self, value: dict[str, Any], target: DataOutput) -> None:
        data = DataOutput()
        for number, name in _FIELDS.items():
            if value[name] is not None:
                data.write_unsigned_varint(number << 3)
                data.write_unsigned_varint(value[name] & (1 << 64) - 1)
        data.write_bytes(value[_OTHER] or b"")
        target.write_int(len(data.to_bytes()))
        target.write_bytes(data.to_bytes())

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        numbers = [(name, pa.int64() if name.endswith("_id") else pa.int32()) for name in _FIELDS.values()]
        return pa.struct([*numbers, (_OTHER, pa.binary())])


_FIELDS: Final = {1: "ledger_id", 2: "entry_id", 3: "partition", 4: "batch_index", 6: "batch_size"}
_OTHER: Final = "other"


def read_varint(source: DataInput) -> int:
    """Read a variable-length integer of Protocol Buffers, as a number without a sign of 64 bits."""
    start, value = source.position, 0
    for shift in range(0, 70, 7):
        byte = source.read_unsigned_byte()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1
    raise source.corrupt("variable-length integer of more than ten bytes", start)


def signed(value: int) -> int:
    """Return a number of 64 bits with its sign."""
    return value - (1 << 64) if value >> 63 else value


SNAPSHOTS: Final = simple_snapshots(TopicSubscriptionSerializer(), MessageIdSerializer())
VERSIONS: Final = {name: declared_versions(name, {3: "1.9"}) for name in SNAPSHOTS}
