"""Layouts of the Pulsar connector: splits, the enumerator's state, committables of the sink.

flink-connector-pulsar: ``PulsarPartitionSplitSerializer``, ``PulsarSourceEnumStateSerializer``, ``PulsarCommittableSerializer``.
Pulsar: ``MessageIdData``, a message of Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
from state_processor.connectors.java import JavaClassDescription, JavaInstance, JavaObjectCodec, described
from state_processor.errors import InvalidRowError
from state_processor.plugins.pulsar.serializers import read_varint, signed
from state_processor.serializers import DataInput, DataOutput

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
