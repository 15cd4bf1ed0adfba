"""Sources and sinks of AWS: splits of Kinesis and of DynamoDB streams, and requests that the writers of sinks have buffered.

A split is a shard. flink-connector-aws: ``KinesisShardSplit``, ``KinesisStreamsSourceEnumeratorState``,
``DynamoDbStreamsShardSplit``, ``DynamoDbStreamsSourceEnumeratorState``, ``KinesisStreamsStateSerializer``,
``KinesisFirehoseStateSerializer``, ``SqsStateSerializer``, ``DynamoDbWriterStateSerializer``; flink-connector-aws 5:
``FlinkKinesisConsumer``. Flink: ``AsyncSinkWriter``, ``BufferedRequestState``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from state_processor.connectors import (
    ASSIGNED,
    SPLIT_ID,
    UNASSIGNED,
    Consumer,
    ContentSource,
    Format,
    Formats,
    Part,
    SinkConnector,
    SplitListing,
    Values,
    json_part,
    parsed,
    part,
)
from state_processor.connectors.codecs import Content
from state_processor.errors import InvalidRowError
from state_processor.plugins.aws import layouts as aws
from state_processor.plugins.aws.layouts import CONSUMER_LAYOUTS
from state_processor.serializers import DataInput, DataOutput

ARN: Final = "stream_arn"
SHARD: Final = "shard_id"
ITERATOR: Final = "iterator_type"
SEQUENCE: Final = "sequence_number"
TIME: Final = "starting_timestamp"
_VERSION: Final = "splitSerializerVersion"
_STATUS: Final = "assignmentStatus"
_CODES: Final = {ASSIGNED: 0, UNASSIGNED: 1, "FINISHED": 2}
_ALL_KEYS: Final = ("0", str((1 << 128) - 1))

_COMMON: Final = (
    part(ARN, pa.string(), "streamArn"),
    part(SHARD, pa.string(), "shardId"),
    part(ITERATOR, pa.string(), "shardIteratorType"),
)


def _with_status(accepted: Sequence[str]) -> SplitListing:
    return SplitListing(
        "knownSplits",
        split=lambda entry: entry["split"],
        assignment=lambda entry: str(entry[_STATUS]),
        entry=lambda split, assignment: {
            "split": split,
            _STATUS: assignment,
            "assignmentStatusCode": _CODES[assignment],
        },
        accepts=lambda assignment: assignment in accepted,
    )


def _kinesis_listings(content: Content) -> Sequence[SplitListing]:
    if "unassignedSplits" in content:
        return (SplitListing("unassignedSplits"),)
    return (_with_status((ASSIGNED, UNASSIGNED)),)


def _split_version(content: Content) -> int:
    return int(content[_VERSION])


def _kinesis_marker(row: Mapping[str, Any]) -> Content:
    if row.get(SEQUENCE) is not None and row.get(TIME) is not None:
        raise InvalidRowError(f"shard {row[SHARD]!r} has both {SEQUENCE!r} and {TIME!r}: set one of them to null")
    if row.get(SEQUENCE) is not None:
        return {"sequenceNumber": row[SEQUENCE]}
    return {"epochMillis": row[TIME]} if row.get(TIME) is not None else None


def _marker_part(column: str, type_: pa.DataType, name: str, alternative: str) -> Part:
    """Return a column with a position. A shard has one of two positions."""

    def put(content: Content, value: Any) -> None:
        marker = dict(content["startingMarker"] or {})
        if value is None:
            marker.pop(name, None)
        else:
            marker.pop(alternative, None)
            marker[name] = value
        content["startingMarker"] = marker or None

    return replace(part(column, type_, "startingMarker", name), put=put)


def _new_kinesis(row: Values, version: int) -> Content:
    needed = [name for name in (ARN, SHARD) if row.get(name) is None]
    if needed:
        raise InvalidRowError(f"a shard of Kinesis needs {' and '.join(map(repr, needed))}")
    marker = _kinesis_marker(row)
    usual = "TRIM_HORIZON" if marker is None else "AFTER_SEQUENCE_NUMBER" if "sequenceNumber" in marker else "AT_TIMESTAMP"
    return {
        "streamArn": row[ARN],
        "shardId": row[SHARD],
        "shardIteratorType": row.get(ITERATOR) or usual,
        "startingMarker": marker,
        "parentShardIds": row.get("parent_shard_ids") or [],
        "startingHashKey": row.get("starting_hash_key") or _ALL_KEYS[0],
        "endingHashKey": row.get("ending_hash_key") or _ALL_KEYS[1],
        "finished": bool(row.get("finished")),
    }


def _new_kinesis_state(rows: Sequence[Values]) -> Content:
    last = max((row[SHARD] for row in rows), default=None)
    return {"lastSeenShardId": last, _VERSION: max(aws.KINESIS_SPLIT), "knownSplits": []}


_KINESIS: Final = ContentSource(
    name="kinesis",
    what="Kinesis",
    layouts=aws.LAYOUTS,
    splits=aws.KINESIS_SPLITS,
    enumerator=aws.KINESIS_ENUMERATOR,
    parts=(
        *_COMMON,
        _marker_part(SEQUENCE, pa.string(), "sequenceNumber", "epochMillis"),
        _marker_part(TIME, pa.int64(), "epochMillis", "sequenceNumber"),
        part("parent_shard_ids", pa.list_(pa.string()), "parentShardIds"),
        part("starting_hash_key", pa.string(), "startingHashKey"),
        part("ending_hash_key", pa.string(), "endingHashKey"),
        part("finished", pa.bool_(), "finished"),
    ),
    split_id=lambda content: str(content["shardId"]),
    split_version=_split_version,
    new_split=_new_kinesis,
    new_state=_new_kinesis_state,
    listings=_kinesis_listings,
    keeps_assigned=True,
    complete=lambda values: values | {SPLIT_ID: values[SPLIT_ID] or values[SHARD]},
    about="``sequence_number`` or ``starting_timestamp`` (milliseconds) is the position, depending on ``iterator_type``.",
).connector()

DYNAMODB: Final = ContentSource(
    name="dynamodb",
    what="DynamoDB streams",
    layouts=aws.LAYOUTS,
    splits=aws.DYNAMODB_SPLITS,
    enumerator=aws.DYNAMODB_ENUMERATOR,
    parts=(
        *_COMMON,
        part(SEQUENCE, pa.string(), "startingMarker"),
        part("parent_shard_id", pa.string(), "parentShardId"),
        part("finished", pa.bool_(), "isFinished"),
        json_part("child_splits", "childSplits"),
    ),
    split_id=lambda content: str(content["shardId"]),
    split_version=_split_version,
    new_state=lambda rows: {_VERSION: max(aws.DYNAMODB_SPLIT), "knownSplits": [], "startTimestampMillis": 0},
    listings=lambda content: (_with_status((ASSIGNED, UNASSIGNED, "FINISHED")),),
    keeps_assigned=True,
    about="``sequence_number`` is the position, depending on ``iterator_type``. ``child_splits`` is JSON.",
).connector()


# The source before FLIP-27

_SENTINELS: Final = {
    "LATEST_SEQUENCE_NUM": "LATEST",
    "EARLIEST_SEQUENCE_NUM": "TRIM_HORIZON",
    "AT_TIMESTAMP_SEQUENCE_NUM": "AT_TIMESTAMP",
}
_ENDED: Final = "SHARD_ENDING_SEQUENCE_NUM"


def consumer_shard(element: Mapping[str, Any]) -> Values:
    """Return a shard of ``FlinkKinesisConsumer`` as a split of ``KinesisStreamsSource``.

    The state of the old source has the name of the stream. The column ``stream_arn`` holds this name until it is replaced by the
    ARN. If the position is inside of an aggregated record, the new source reads this record again.
    """
    metadata, number = element["f0"], element["f1"]["sequenceNumber"]
    is_sentinel = number in _SENTINELS or number == _ENDED
    inside = element["f1"]["subSequenceNumber"] >= 0
    usual = "AT_SEQUENCE_NUMBER" if inside else "AFTER_SEQUENCE_NUMBER"
    blank = dict.fromkeys(f.name for f in _KINESIS.fields)
    parents = (metadata["parentShardId"], metadata["adjacentParentShardId"])
    return blank | {
        SPLIT_ID: metadata["shardId"],
        ARN: metadata["streamName"],
        SHARD: metadata["shardId"],
        ITERATOR: _SENTINELS.get(number, "TRIM_HORIZON" if number == _ENDED else usual),
        SEQUENCE: None if is_sentinel else number,
        "parent_shard_ids": [parent for parent in parents if parent is not None],
        "starting_hash_key": metadata["startingHashKey"],
        "ending_hash_key": metadata["endingHashKey"],
        "finished": number == _ENDED,
    }


KINESIS: Final = replace(
    _KINESIS,
    layouts={**_KINESIS.layouts, **CONSUMER_LAYOUTS},
    consumer=Consumer("FlinkKinesisConsumer", aws.CONSUMER_STATE_NAME, consumer_shard),
)


# Sinks

DATA: Final = "data"
KEY: Final = "partition_key"
BODY: Final = "message_body"
MESSAGE: Final = "message_id"
TYPE: Final = "request_type"
ITEM: Final = "item"
SIZE: Final = "size"
_ENTRIES: Final = "bufferedRequestEntries"


def _sink(
    name: str,
    serializer: str,
    fields: tuple[pa.Field, ...],
    row: Callable[[Content], Values],
    entry: Callable[[Values], Content],
    about: str = "",
) -> SinkConnector:
    """Return a sink. ``row`` and ``entry`` convert a request to a row and back. A state without requests is a row of nulls."""
    names = [f.name for f in fields]

    def whole(values: Values) -> Content:
        missing = [n for n in names if values.get(n) is None]
        if missing:
            raise InvalidRowError(f"a request of the sink {name!r} needs {' and '.join(map(repr, missing))}")
        return entry(values)

    def has_request(values: Values) -> bool:
        return any(values.get(name) is not None for name in names)

    def formats(codec: Any) -> Format[list[Values]]:
        def read(source: DataInput) -> list[Values]:
            return list(map(row, codec.read(source)[_ENTRIES])) or [dict.fromkeys(names)]

        def write(rows: list[Values], target: DataOutput) -> None:
            codec.write({_ENTRIES: list(map(whole, filter(has_request, rows)))}, target)

        return Format(read, write)

    return SinkConnector(
        name=name,
        fields=fields,
        writer=Formats.of_codecs(f"buffered requests of the sink {name!r}", aws.LAYOUTS[serializer], formats),
        element_of=lambda row, number: _element(row, names, number),
        layouts={serializer: aws.LAYOUTS[serializer]},
        about=about,
    )


def _element(row: Values, names: list[str], number: int) -> Any:
    """Return the element of a row: all requests of one state have its bytes."""
    if row.get("raw") is None:
        return "new"
    return bytes(row["raw"]) if any(row.get(name) is not None for name in names) else number


KINESIS_SINK: Final = _sink(
    "kinesis",
    aws.KINESIS_WRITER,
    (pa.field(DATA, pa.binary()), pa.field(KEY, pa.string())),
    lambda entry: {DATA: bytes.fromhex(entry["data"]), KEY: entry["partitionKey"]},
    lambda row: {"size": len(row[DATA]), "data": row[DATA].hex(), "partitionKey": row[KEY]},
)
FIREHOSE_SINK: Final = _sink(
    "firehose",
    aws.FIREHOSE_WRITER,
    (pa.field(DATA, pa.binary()),),
    lambda entry: {DATA: bytes.fromhex(entry["data"])},
    lambda row: {"size": len(row[DATA]), "data": row[DATA].hex()},
)
SQS_SINK: Final = _sink(
    "sqs",
    aws.SQS_WRITER,
    (pa.field(BODY, pa.string()), pa.field(MESSAGE, pa.string())),
    lambda entry: {BODY: entry["messageBody"], MESSAGE: entry["id"]},
    lambda row: {"size": len(row[BODY].encode()), "messageBody": row[BODY], "id": row[MESSAGE]},
)
DYNAMODB_SINK: Final = _sink(
    "dynamodb",
    aws.DYNAMODB_WRITER,
    (pa.field(TYPE, pa.string()), pa.field(ITEM, pa.string()), pa.field(SIZE, pa.int64())),
    lambda entry: {TYPE: entry["type"], ITEM: json.dumps(entry["item"], ensure_ascii=False), SIZE: entry["size"]},
    lambda row: {"size": row[SIZE], "type": row[TYPE], "item": parsed(ITEM, row[ITEM])},
    about=("``item`` has the attributes as JSON, in the order of the sink. ``size`` is the sink's own measure of a request."),
)

CONNECTORS: Final = (KINESIS, DYNAMODB, KINESIS_SINK, FIREHOSE_SINK, SQS_SINK, DYNAMODB_SINK)
