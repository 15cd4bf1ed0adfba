"""Apache Pulsar: splits of the source, transactions of the sink, and state of the source before FLIP-27.

flink-connector-pulsar: ``PulsarPartitionSplitSerializer``, ``PulsarSourceEnumStateSerializer``, ``PulsarCommittableSerializer``.
pulsar-flink (StreamNative): ``TopicSubscriptionSerializer``, ``MessageIdSerializer``, ``SerializableRange``. Pulsar:
``MessageIdData``, a message of Protocol Buffers.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from state_processor.connectors import (
    SPLIT_ID,
    Consumer,
    ContentSource,
    Part,
    SinkConnector,
    Values,
    committables,
    json_part,
    part,
)
from state_processor.connectors.codecs import (
    BOOL,
    BYTES,
    INT,
    LONG,
    UTF,
    Codec,
    Content,
    Framed,
    Kept,
    ListOf,
    Mapped,
    OptionalOf,
    Struct,
    Versions,
)
from state_processor.connectors.java import (
    EXTERNAL,
    JavaClassDescription,
    JavaInstance,
    JavaObjectCodec,
    class_name,
    described,
    read_java_object,
    write_java_object,
)
from state_processor.errors import InvalidRowError
from state_processor.serializers import DataInput, DataOutput, DecodeOptions, SimpleSerializer, simple_snapshots
from state_processor.serializers.extension import declared_versions

_PACKAGE: Final = "org.apache.flink.connector.pulsar"
SPLITS: Final = f"{_PACKAGE}.source.split.PulsarPartitionSplitSerializer"
ENUMERATOR: Final = f"{_PACKAGE}.source.enumerator.PulsarSourceEnumStateSerializer"
COMMITTABLES: Final = f"{_PACKAGE}.sink.committer.PulsarCommittableSerializer"


# Cursors that end a source

_STOP: Final = f"{_PACKAGE}.source.enumerator.cursor.stop"
_INCLUSIVE: Final = ("Z", "inclusive")
_TIME: Final = ("J", "timestamp")
_MESSAGE: Final = ("Lorg/apache/pulsar/client/api/MessageId;", "messageId")
NEVER_STOP: Final = f"{_STOP}.NeverStopCursor"
_CURSORS: Final = described(
    JavaClassDescription(NEVER_STOP, -3113601090292771786),
    JavaClassDescription(f"{_STOP}.PublishTimestampStopCursor", 4386276745339324527, (_INCLUSIVE, _TIME)),
    JavaClassDescription(f"{_STOP}.EventTimestampStopCursor", 2391576769339369027, (_INCLUSIVE, _TIME)),
    JavaClassDescription(f"{_STOP}.LatestMessageStopCursor", 1702059838323965723, (_INCLUSIVE, _MESSAGE)),
)


def _cursor_content(cursor: Any) -> Content:
    if not isinstance(cursor, JavaInstance):
        raise TypeError("expected a StopCursor")
    plain = {name: value for name, value in cursor.fields.items() if not isinstance(value, JavaInstance | list)}
    return {"class": cursor.class_name} | plain


def _cursor_object(content: Content) -> Any:
    name = content["class"]
    if name not in _CURSORS:
        raise ValueError(f"the class {name} can't be written, only {', '.join(_CURSORS)}")
    return JavaInstance(name, {field: content[field] for _, field in _CURSORS[name].fields})


_CURSOR: Final = Kept(Framed(JavaObjectCodec(_cursor_content, _cursor_object, _CURSORS)))


# Ids of messages

_ID_FIELDS: Final = {1: "ledgerId", 2: "entryId", 3: "partition", 4: "batchIndex", 6: "batchSize"}
_ID_DEFAULTS: Final = {"ledgerId": 0, "entryId": 0, "partition": -1, "batchIndex": -1, "batchSize": 0}
_VARINT: Final = 0


def message_id(text: str) -> dict[str, Any] | None:
    """Return the fields of an id, or ``None`` where it has others."""
    source = DataInput(bytes.fromhex(text), "message id")
    fields: dict[str, Any] = dict(_ID_DEFAULTS)
    while not source.at_end():
        tag = read_varint(source)
        if tag & 7 != _VARINT or tag >> 3 not in _ID_FIELDS:
            return None
        fields[_ID_FIELDS[tag >> 3]] = signed(read_varint(source))
    return fields


def message_bytes(content: Mapping[str, Any]) -> str:
    """Return the bytes of an id, in hexadecimal."""
    target = DataOutput()
    for number, name in _ID_FIELDS.items():
        value = content[name]
        if name in ("partition", "batchIndex") and value == -1:
            continue
        target.write_unsigned_varint(number << 3)
        target.write_unsigned_varint(value & (1 << 64) - 1)
    return target.to_bytes().hex()


_ID: Final = "latestConsumedId"
_ID_BYTES: Final = "latestConsumedIdBytes"


def _with_id(content: dict[str, Any]) -> Content:
    raw = content[_ID_BYTES]
    return content | {_ID: message_id(raw) if raw is not None else None}


def _without_id(content: Content) -> Any:
    """Return content with the bytes of the id. The bytes take precedence over the fields of the id, and both have to agree."""
    raw, fields = content.get(_ID_BYTES), content.get(_ID)
    if raw is None:
        return {**content, _ID_BYTES: message_bytes(fields) if fields is not None else None}
    if _ID in content and fields != message_id(raw):
        raise InvalidRowError(f"{_ID!r} and {_ID_BYTES!r} are of different messages: change one and remove the other")
    return content


def _partition(version: int) -> Struct:
    span = Struct.of(("start", INT), ("end", INT))
    begin = Struct.of(("topic", UTF), ("partitionId", INT))
    if version == 0:
        return begin + Struct.of(("ranges", Mapped(span, lambda range_: [range_], _only)))
    ranges = begin + Struct.of(("ranges", ListOf(span)))
    return ranges + Struct.of(("subscriptionMode", INT)) if version == 1 else ranges


def _only(ranges: list[Content]) -> Content:
    if len(ranges) != 1:
        raise InvalidRowError(f"version 0 holds one range, found {len(ranges)}")
    return ranges[0]


def _split(version: int) -> Codec:
    fields = Struct.of(
        ("partition", _partition(version)),
        ("stopCursor", _CURSOR),
        (_ID_BYTES, OptionalOf(BYTES)),
        ("uncommittedTransactionId", OptionalOf(Struct.of(("mostSigBits", LONG), ("leastSigBits", LONG)))),
    )
    return Mapped(fields, _with_id, _without_id)


_PARTITIONS: Final = {version: Struct.of(("appendedPartitions", ListOf(_partition(version)))) for version in range(3)}
_FIRST_SPLITS: Final = ListOf(_split(0))
_FIRST_STATE: Final = _PARTITIONS[0] + Struct.of(
    ("pendingPartitionSplits", _FIRST_SPLITS),
    ("sharedPendingPartitionSplits", ListOf(Struct.of(("key", INT), ("value", _FIRST_SPLITS)))),
    ("readerAssignedSplits", ListOf(Struct.of(("key", INT), ("value", ListOf(UTF))))),
    ("initialized", BOOL),
)

LAYOUTS: Final[Mapping[str, Versions]] = {
    SPLITS: {version: _split(version) for version in range(3)},
    ENUMERATOR: {0: _FIRST_STATE, 1: _PARTITIONS[0], 2: _PARTITIONS[1], 3: _PARTITIONS[2]},
    COMMITTABLES: {1: Struct.of(("mostSigBits", LONG), ("leastSigBits", LONG), ("topic", UTF))},
}


# The connectors

CONSUMER_STATE: Final = "topic-offset-states"
"""The union state of ``FlinkPulsarSource``."""
_ALL_KEYS: Final = {"start": 0, "end": 65535}
_OF_PARTITION: Final = re.compile(r"(.*)-partition-(\d+)", re.DOTALL)


def _split_id(content: Content) -> str:
    partition = content["partition"]
    ranges = ",".join(f"{r['start']}-{r['end']}" for r in partition["ranges"])
    return f"{partition['topic']}-{partition['partitionId']}|{ranges}"


def _message_part(name: str, key: str) -> Part:
    """Return a column with one number of the last message that was read."""

    def take(content: Content) -> Any:
        return (content[_ID] or {}).get(key)

    def put(content: Content, value: Any) -> None:
        stored = content[_ID] or {"partition": content["partition"]["partitionId"], "batchIndex": -1, "batchSize": 0}
        message = {"ledgerId": 0, "entryId": 0} | stored | {key: value}
        nothing = message["ledgerId"] is None or message["entryId"] is None
        content[_ID] = None if nothing else message
        content[_ID_BYTES] = None if nothing else message_bytes(message)

    return Part(pa.field(name, pa.int64()), take, put)


def _partition_of_row(row: Values) -> Content:
    if row.get("topic") is None:
        raise InvalidRowError("a split of Pulsar needs 'topic'")
    ranges, partition = row.get("ranges"), row.get("partition")
    return {
        "topic": row["topic"],
        "partitionId": -1 if partition is None else partition,
        "ranges": [_ALL_KEYS] if ranges is None else json.loads(ranges),
    }


def _new_split(row: Values, version: int) -> Content:
    """Return a new split. Without a cursor to stop at, it is read forever."""
    cursor, transaction = row.get("stop_cursor"), row.get("uncommitted_transaction_id")
    content: Content = {
        "partition": _partition_of_row(row),
        "stopCursor": {"class": NEVER_STOP} if cursor is None else json.loads(cursor),
        _ID: None,
        _ID_BYTES: None,
        "uncommittedTransactionId": None if transaction is None else json.loads(transaction),
    }
    for name, key in _MESSAGE_COLUMNS.items():
        if row.get(name) is not None:
            _message_part(name, key).put(content, row[name])
    return content


_MESSAGE_COLUMNS: Final = {"ledger_id": "ledgerId", "entry_id": "entryId"}


def _new_state(rows: Sequence[Values]) -> Content:
    """Return the state of an enumerator that contains the topics of the splits: it does not assign them again."""
    return {"appendedPartitions": list(map(_partition_of_row, rows))}


_PULSAR: Final = ContentSource(
    name="pulsar",
    what="Pulsar",
    layouts=LAYOUTS,
    splits=SPLITS,
    enumerator=ENUMERATOR,
    parts=(
        part("topic", pa.string(), "partition", "topic"),
        part("partition", pa.int32(), "partition", "partitionId"),
        json_part("ranges", "partition", "ranges"),
        *(_message_part(name, key) for name, key in _MESSAGE_COLUMNS.items()),
        json_part("stop_cursor", "stopCursor"),
        json_part("uncommitted_transaction_id", "uncommittedTransactionId"),
    ),
    split_id=_split_id,
    new_split=_new_split,
    new_state=_new_state,
    keeps_assigned=True,
    complete=lambda values: values | {SPLIT_ID: values[SPLIT_ID] or _split_id({"partition": _partition_of_row(values)})},
    about=(
        "``ledger_id`` and ``entry_id`` are the last message that was read; the next one follows. Null means the start cursor."
    ),
).connector()


def consumer_topic(element: Mapping[str, Any]) -> Values:
    """Return a topic of ``FlinkPulsarSource`` as a split of ``PulsarSource``.

    The name of a partition's topic is divided into the topic and the number of the partition. The name of the subscription is
    an option of the new source, and not part of its splits.
    """
    topic, message = element["f0"], element["f1"]
    match = _OF_PARTITION.fullmatch(topic["topic"])
    span = topic["range"] or _ALL_KEYS
    ranges = [{name: span[name] for name in _ALL_KEYS}]
    partition = {"topic": match[1] if match else topic["topic"], "partitionId": int(match[2]) if match else -1}
    return dict.fromkeys(f.name for f in _PULSAR.fields) | {
        SPLIT_ID: _split_id({"partition": {**partition, "ranges": ranges}}),
        "topic": partition["topic"],
        "partition": partition["partitionId"],
        "ranges": json.dumps(ranges),
        "ledger_id": message["ledger_id"],
        "entry_id": message["entry_id"],
    }


PULSAR: Final = replace(_PULSAR, consumer=Consumer("FlinkPulsarSource", CONSUMER_STATE, consumer_topic))
PULSAR_SINK: Final = SinkConnector(
    name="pulsar",
    **committables(
        "committables of Pulsar",
        LAYOUTS,
        COMMITTABLES,
        part("topic", pa.string(), "topic"),
        part("transaction_most_bits", pa.int64(), "mostSigBits"),
        part("transaction_least_bits", pa.int64(), "leastSigBits"),
    ),
)

CONNECTORS: Final = (PULSAR, PULSAR_SINK)


# Serializers of ``FlinkPulsarSource``, the source before FLIP-27

_FORMER_PACKAGE: Final = "org.apache.flink.streaming.connectors.pulsar.internal."
_RANGE: Final = f"{_FORMER_PACKAGE}SerializableRange"
_SPAN: Final = struct.Struct(">ii")
_UID_AT: Final = 4 + 2 + 2 + len(_RANGE)
"""Where the number of the class is in the bytes of a range: behind the header, the marks and the name of the class."""


class TopicSubscriptionSerializer(SimpleSerializer):
    """A topic, the range of hashes of its keys (a Java object), and the name of the subscription.

    Releases have different numbers of the class of ranges, so that the number is a part of the value.
    """

    snapshot_class = f"{_FORMER_PACKAGE}TopicSubscriptionSerializer$TopicSubscriptionSerializerSnapshot"
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

    snapshot_class = f"{_FORMER_PACKAGE}MessageIdSerializer$MessageIdSerializerSnapshot"
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
