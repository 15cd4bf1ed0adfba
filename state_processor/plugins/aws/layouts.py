"""Layouts of the AWS connectors: splits and enumerators of Kinesis and DynamoDB streams, buffered requests of the sinks.

flink-connector-aws: ``KinesisShardSplitSerializer``, ``KinesisStreamsSourceEnumeratorStateSerializer``,
``DynamoDbStreamsShardSplitSerializer``, ``DynamoDbStreamsSourceEnumeratorStateSerializer``, ``AsyncSinkWriterStateSerializer``;
flink-connector-aws 5: ``KinesisStateUtil``, ``StreamShardMetadata``, ``SequenceNumber``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from state_processor.connectors.codecs import (
    BOOL,
    BYTE,
    BYTES,
    LONG,
    STRING,
    UTF,
    Codec,
    Constant,
    Content,
    Enumerated,
    Kept,
    ListOf,
    OptionalOf,
    Remark,
    SnapshotCodec,
    SplitList,
    Struct,
    Text,
    Versions,
    read_number,
)
from state_processor.connectors.java import KRYO_2, KryoInput, KryoOutput
from state_processor.errors import InvalidRowError
from state_processor.serializers import (
    DataInput,
    DataOutput,
    KryoSerializer,
    PojoField,
    PojoSerializer,
    StringSerializer,
    TupleSerializer,
    TupleSerializerSnapshot,
    TypeSerializerSnapshot,
)

_CONNECTORS: Final = "org.apache.flink.connector"
KINESIS_SPLITS: Final = f"{_CONNECTORS}.kinesis.source.split.KinesisShardSplitSerializer"
KINESIS_ENUMERATOR: Final = f"{_CONNECTORS}.kinesis.source.enumerator.KinesisStreamsSourceEnumeratorStateSerializer"
DYNAMODB_SPLITS: Final = f"{_CONNECTORS}.dynamodb.source.split.DynamoDbStreamsShardSplitSerializer"
DYNAMODB_ENUMERATOR: Final = f"{_CONNECTORS}.dynamodb.source.enumerator.DynamoDbStreamsSourceEnumeratorStateSerializer"
KINESIS_WRITER: Final = f"{_CONNECTORS}.kinesis.sink.KinesisStreamsStateSerializer"
FIREHOSE_WRITER: Final = f"{_CONNECTORS}.firehose.sink.KinesisFirehoseStateSerializer"
SQS_WRITER: Final = f"{_CONNECTORS}.sqs.sink.SqsStateSerializer"
DYNAMODB_WRITER: Final = f"{_CONNECTORS}.dynamodb.sink.DynamoDbWriterStateSerializer"


# Sources


@dataclass(frozen=True, slots=True)
class TaggedValue:
    """A value of one of several types: content with the type as its only key."""

    by_number: Mapping[int, tuple[str, Codec]]
    number: Codec = BYTE

    @property
    def min_size(self) -> int:
        return self.number.min_size

    def read(self, source: DataInput) -> dict[str, Any]:
        _, (name, codec) = read_number(source, self.number, self.by_number, "type")
        with source.nested("values"):
            return {name: codec.read(source)}

    def write(self, content: Content, target: DataOutput) -> None:
        names = {name: (number, codec) for number, (name, codec) in self.by_number.items()}
        if not isinstance(content, Mapping) or len(content) != 1 or not names.keys() >= content.keys():
            raise InvalidRowError(f"expected one of the types {', '.join(map(repr, names))} and its value, found {content!r}")
        ((name, value),) = content.items()
        number, codec = names[name]
        self.number.write(number, target)
        codec.write(value, target)


@dataclass(frozen=True, slots=True)
class _KinesisMarker:
    """A position: a flag for a time and the time, a flag for a sequence number and the number."""

    min_size: int = 2

    def read(self, source: DataInput) -> dict[str, Any]:
        marker: dict[str, Any] = {}
        for name, codec in _MARKERS.items():
            if source.read_boolean():
                marker[name] = codec.read(source)
        return marker

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, Mapping) or not _MARKERS.keys() >= content.keys():
            raise InvalidRowError(f"a position has {' or '.join(map(repr, _MARKERS))}, found {content!r}")
        for name, codec in _MARKERS.items():
            target.write_boolean(name in content)
            if name in content:
                codec.write(content[name], target)


_MARKERS: Final[Mapping[str, Codec]] = {"epochMillis": LONG, "sequenceNumber": UTF}

_KINESIS_FIRST: Final = Struct.of(
    ("streamArn", UTF),
    ("shardId", UTF),
    ("shardIteratorType", UTF),
    ("startingMarker", OptionalOf(_KinesisMarker())),
)
_KINESIS_SECOND: Final = _KINESIS_FIRST + Struct.of(
    ("parentShardIds", ListOf(UTF)), ("startingHashKey", UTF), ("endingHashKey", UTF)
)
KINESIS_SPLIT: Final[Versions] = {
    0: _KINESIS_FIRST,
    1: _KINESIS_SECOND,
    2: _KINESIS_SECOND + Struct.of(("finished", BOOL)),
}
_ASSIGNMENTS: Final = {0: "ASSIGNED", 1: "UNASSIGNED"}


def _status(names: Mapping[Any, str]) -> Codec:
    return Enumerated("assignmentStatus", names, "assignmentStatusCode")


def _with_status(names: Mapping[Any, str]) -> Callable[[Codec], Codec]:
    return lambda split: Struct.of(("split", split), (None, _status(names)))


_LAST_SEEN: Final = Struct.of(("lastSeenShardId", OptionalOf(UTF)))
KINESIS_STATE: Final[Versions] = {
    0: _LAST_SEEN + Struct.of((None, SplitList(KINESIS_SPLIT, KINESIS_SPLITS, "unassignedSplits", lambda split: split))),
    1: _LAST_SEEN + Struct.of((None, SplitList(KINESIS_SPLIT, KINESIS_SPLITS, "knownSplits", _with_status(_ASSIGNMENTS)))),
}

_CHILD: Final = Struct.of(
    ("shardId", UTF), ("parentShardId", UTF), ("startingSequenceNumber", UTF), ("endingSequenceNumber", OptionalOf(UTF))
)


@dataclass(frozen=True, slots=True)
class _SequenceMarker:
    """A position: a flag for a sequence number, and the number."""

    min_size: int = 1

    def read(self, source: DataInput) -> str:
        start = source.position
        if not source.read_boolean():
            raise source.corrupt("a position without a sequence number", start)
        return source.read_utf()

    def write(self, content: Content, target: DataOutput) -> None:
        target.write_boolean(True)
        UTF.write(content, target)


_DYNAMODB_FIRST: Final = Struct.of(
    ("streamArn", UTF),
    ("shardId", UTF),
    ("shardIteratorType", UTF),
    ("startingMarker", OptionalOf(_SequenceMarker())),
    ("parentShardId", OptionalOf(UTF)),
)
_DYNAMODB_SECOND: Final = _DYNAMODB_FIRST + Struct.of(("isFinished", BOOL))
DYNAMODB_SPLIT: Final[Versions] = {
    0: _DYNAMODB_FIRST,
    1: _DYNAMODB_SECOND,
    2: _DYNAMODB_SECOND + Struct.of(("childSplits", ListOf(_CHILD))),
}
_DYNAMODB_STATE: Final = Struct.of(
    (None, SplitList(DYNAMODB_SPLIT, DYNAMODB_SPLITS, "knownSplits", _with_status(_ASSIGNMENTS | {2: "FINISHED"}))),
    ("startTimestampMillis", LONG),
)


# The source before FLIP-27: elements of the list state of ``FlinkKinesisConsumer``

CONSUMER_STATE_NAME: Final = "Kinesis-Stream-Shard-State"
_REGISTERED: Final = 85 + 2
"""The id of the class: Kryo's ids begin at 2."""
_NEW_OBJECT: Final = 1
SHARD_FIELDS: Final = (
    *("adjacentParentShardId", "endingHashKey", "endingSequenceNumber", "parentShardId"),
    *("shardId", "startingHashKey", "startingSequenceNumber", "streamName"),
)


@dataclass(frozen=True, slots=True)
class OfKryo:
    """A value of Kryo 2."""

    take: Callable[[KryoInput], Any]
    give: Callable[[KryoOutput, Any], None]
    min_size: int = 1

    def read(self, source: DataInput) -> Content:
        return self.take(KryoInput(source, KRYO_2))

    def write(self, content: Content, target: DataOutput) -> None:
        self.give(KryoOutput(target, KRYO_2), content)


_NULLABLE: Final = OptionalOf(STRING, BYTE, 0, 1)
_VARINT: Final = OfKryo(KryoInput.varint, KryoOutput.varint)

STREAM_SHARD: Final[Codec] = Struct.of(
    (None, Remark("what", f"one element of the union list state {CONSUMER_STATE_NAME}")),
    ("streamShardMetadata", Struct.of((None, Constant(BYTE, 2)), *((name, _NULLABLE) for name in SHARD_FIELDS))),
    (
        "sequenceNumber",
        Struct.of(
            (None, Constant(_VARINT, _REGISTERED)),
            (None, Constant(BYTE, _NEW_OBJECT)),
            ("cachedHash", OfKryo(KryoInput.int_, KryoOutput.int_)),
            (None, Constant(BYTE, _NEW_OBJECT)),
            ("sequenceNumber", OfKryo(KryoInput.text, KryoOutput.string)),
            ("subSequenceNumber", OfKryo(KryoInput.long, KryoOutput.long)),
        ),
    ),
)


# Sinks


@dataclass(frozen=True, slots=True)
class OfSize:
    """Bytes or text whose length another field has."""

    size: int
    as_text: bool = False

    @property
    def min_size(self) -> int:
        return self.size

    def read(self, source: DataInput) -> str:
        start = source.position
        if not 0 <= self.size <= source.remaining:
            raise source.corrupt(f"{self.size} bytes announced, {source.remaining} left", start)
        data = source.read_bytes(self.size)
        if not self.as_text:
            return data.hex()
        return Text(None).read(DataInput(data, f"{source.source}, text at offset {start}"))

    def write(self, content: Content, target: DataOutput) -> None:
        data = content.encode() if self.as_text else bytes.fromhex(content)
        if len(data) != self.size:
            raise InvalidRowError(f"'size' is {self.size}, but there are {len(data)} bytes: set it to their number")
        target.write_bytes(data)


@dataclass(frozen=True, slots=True)
class CharCounted:
    """Text in UTF-8 with its length in UTF-16 units before it. The connector reads it back only if it is ASCII."""

    min_size: int = 4

    def read(self, source: DataInput) -> str:
        start = source.position
        units = source.read_int()
        if not 0 <= units <= source.remaining:
            raise source.corrupt(f"{units} characters announced, {source.remaining} bytes left", start)
        size = 0
        while units > 0:
            if size >= source.remaining:
                raise source.corrupt("text ends early", start)
            lead = source.data[source.position + size]
            length = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            size, units = size + length, units - (2 if length == 4 else 1)
        return Text(None).read(DataInput(source.read_bytes(size, "text"), f"{source.source}, text at offset {start}"))

    def write(self, content: Content, target: DataOutput) -> None:
        target.write_int(len(content.encode("utf-16-le")) // 2)
        target.write_bytes(content.encode())


def _sized(as_text: bool = False) -> Callable[[Mapping[str, Any]], Codec]:
    return lambda content: OfSize(content["size"], as_text)


def _buffered(*request: tuple[str | None, Any]) -> Versions:
    entries = ListOf(Struct.of(("size", LONG), *request))
    return {1: Struct.of((None, Constant(LONG, -1)), ("bufferedRequestEntries", entries))}


@dataclass(frozen=True, slots=True)
class _Later:
    """A codec that refers to itself."""

    codec: Callable[[], Codec]
    min_size: int = 1

    def read(self, source: DataInput) -> Content:
        return self.codec().read(source)

    def write(self, content: Content, target: DataOutput) -> None:
        self.codec().write(content, target)


@dataclass(frozen=True, slots=True)
class _Null:
    """The value of the type NULL: true, without bytes."""

    min_size: int = 0

    def read(self, source: DataInput) -> bool:
        return True

    def write(self, content: Content, target: DataOutput) -> None:
        if content is not True:
            raise InvalidRowError(f"the value of the type NULL is true, found {content!r}")


def _attribute_value() -> Codec:
    return _ATTRIBUTE_VALUE


_ATTRIBUTE: Final = _Later(_attribute_value)
_ITEM: Final = ListOf(Struct.of(("key", UTF), ("value", _ATTRIBUTE)))
_ATTRIBUTE_VALUE: Final[Codec] = TaggedValue(
    {
        0: ("S", UTF),
        1: ("N", UTF),
        2: ("BOOL", BOOL),
        3: ("NULL", _Null()),
        4: ("B", BYTES),
        5: ("SS", ListOf(UTF)),
        6: ("NS", ListOf(UTF)),
        7: ("BS", ListOf(BYTES)),
        8: ("L", ListOf(_ATTRIBUTE)),
        9: ("M", _ITEM),
    }
)
_WRITE: Final = Enumerated("type", {0: "PUT", 1: "DELETE"}, codec=BYTE)

LAYOUTS: Final[Mapping[str, Versions]] = {
    KINESIS_SPLITS: KINESIS_SPLIT,
    KINESIS_ENUMERATOR: KINESIS_STATE,
    DYNAMODB_SPLITS: DYNAMODB_SPLIT,
    DYNAMODB_ENUMERATOR: {0: _DYNAMODB_STATE},
    KINESIS_WRITER: _buffered(("data", _sized()), ("partitionKey", CharCounted())),
    FIREHOSE_WRITER: _buffered(("data", _sized())),
    SQS_WRITER: _buffered(("messageBody", _sized(as_text=True)), ("id", CharCounted())),
    DYNAMODB_WRITER: _buffered((None, _WRITE), ("item", _ITEM)),
}


_KINESIS: Final = "org.apache.flink.streaming.connectors.kinesis.model"
_SHARD: Final = f"{_KINESIS}.StreamShardMetadata"
_SEQUENCE: Final = f"{_KINESIS}.SequenceNumber"
_TUPLES: Final = "org.apache.flink.api.java.typeutils.runtime.TupleSerializer"


@cache
def kinesis_snapshot() -> TypeSerializerSnapshot:
    """Return the snapshot of the serializer of ``Kinesis-Stream-Shard-State``."""
    fields = [PojoField(name, StringSerializer(), _SHARD) for name in SHARD_FIELDS]
    return TupleSerializer([PojoSerializer(_SHARD, fields), KryoSerializer(_SEQUENCE, [_SEQUENCE], flink=1)]).snapshot()


def _tuple_content(snapshot: TupleSerializerSnapshot) -> Content:
    def field_content(serializer: Any) -> str:
        name = getattr(serializer, "class_name", None) or getattr(serializer, "type_class", "")
        return f"{type(serializer).__name__}<{name}>" if name else type(serializer).__name__

    restored: Any = snapshot.restore_serializer()
    return {
        "what": (
            "TypeSerializerSnapshot.writeVersionedSnapshot of the state's element serializer: "
            "class name (UTF), version (int), then the snapshot"
        ),
        "tupleClass": restored.tuple_class,
        "fieldSerializers": list(map(field_content, restored.fields)),
    }


CONSUMER_LAYOUTS: Final[Mapping[str, Versions]] = {
    _TUPLES: {0: STREAM_SHARD},
    f"{_TUPLES}Snapshot": {3: Kept(SnapshotCodec(_tuple_content, kinesis_snapshot, TupleSerializerSnapshot))},
}
