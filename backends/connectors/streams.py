"""Splits of the sources of Kinesis and of DynamoDB streams: a split is a shard.

flink-connector-aws: ``KinesisShardSplit``, ``KinesisStreamsSourceEnumeratorState``, ``DynamoDbStreamsShardSplit``,
``DynamoDbStreamsSourceEnumeratorState``; flink-connector-aws 5: ``FlinkKinesisConsumer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import ASSIGNED, SPLIT_ID, UNASSIGNED, Connector, Values
from state_processor.backends.connectors.content_rows import (
    ContentEnumerator,
    ContentSplits,
    Listings,
    SplitListing,
    json_part,
    part,
    refuse_new,
)
from state_processor.backends.connectors.layouts import aws
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.serializers.errors import InvalidRowError

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


def _version(content: Content) -> int:
    return int(content[_VERSION])


def _kinesis_marker(row: Mapping[str, Any]) -> Content:
    if row.get(SEQUENCE) is not None and row.get(TIME) is not None:
        raise InvalidRowError(f"shard {row[SHARD]!r} has both {SEQUENCE!r} and {TIME!r}: set one of them to null")
    if row.get(SEQUENCE) is not None:
        return {"sequenceNumber": row[SEQUENCE]}
    return {"epochMillis": row[TIME]} if row.get(TIME) is not None else None


def _put_marker(name: str, other: str) -> Any:
    def put(content: Content, value: Any) -> None:
        marker = dict(content["startingMarker"] or {})
        if value is None:
            marker.pop(name, None)
        else:
            marker.pop(other, None)
            marker[name] = value
        content["startingMarker"] = marker or None

    return put


def _marker_part(column: str, type_: pa.DataType, name: str, other: str) -> Any:
    plain = part(column, type_, "startingMarker", name)
    return type(plain)(plain.field, plain.take, _put_marker(name, other))


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


_KINESIS_SPLITS: Final = ContentSplits(
    "splits of Kinesis",
    aws.KINESIS_SPLIT,
    (
        *_COMMON,
        _marker_part(SEQUENCE, pa.string(), "sequenceNumber", "epochMillis"),
        _marker_part(TIME, pa.int64(), "epochMillis", "sequenceNumber"),
        part("parent_shard_ids", pa.list_(pa.string()), "parentShardIds"),
        part("starting_hash_key", pa.string(), "startingHashKey"),
        part("ending_hash_key", pa.string(), "endingHashKey"),
        part("finished", pa.bool_(), "finished"),
    ),
    split_id=lambda content: str(content["shardId"]),
    new=_new_kinesis,
)


def _new_kinesis_state(rows: Sequence[Values]) -> Content:
    last = max((row[SHARD] for row in rows), default=None)
    return {"lastSeenShardId": last, _VERSION: max(aws.KINESIS_SPLIT), "knownSplits": []}


_KINESIS_LISTINGS: Listings = _kinesis_listings
KINESIS: Final = Connector(
    name="kinesis",
    fields=_KINESIS_SPLITS.fields,
    splits=_KINESIS_SPLITS.formats(),
    enumerator=ContentEnumerator(
        "enumerator of Kinesis",
        aws.KINESIS_STATE,
        _KINESIS_SPLITS,
        _version,
        _KINESIS_LISTINGS,
        _new_kinesis_state,
    ).formats(),
    keeps_assigned=True,
    complete=lambda values: values | {SPLIT_ID: values[SPLIT_ID] or values[SHARD]},
)
"""``sequence_number`` or ``starting_timestamp`` (milliseconds) is the position, depending on ``iterator_type``."""


_DYNAMODB_SPLITS: Final = ContentSplits(
    "splits of DynamoDB streams",
    aws.DYNAMODB_SPLIT,
    (
        *_COMMON,
        part(SEQUENCE, pa.string(), "startingMarker"),
        part("parent_shard_id", pa.string(), "parentShardId"),
        part("finished", pa.bool_(), "isFinished"),
        json_part("child_splits", "childSplits"),
    ),
    split_id=lambda content: str(content["shardId"]),
    new=refuse_new("DynamoDB streams"),
)
DYNAMODB: Final = Connector(
    name="dynamodb",
    fields=_DYNAMODB_SPLITS.fields,
    splits=_DYNAMODB_SPLITS.formats(),
    enumerator=ContentEnumerator(
        "enumerator of DynamoDB streams",
        aws.LAYOUTS[aws.DYNAMODB_ENUMERATOR],
        _DYNAMODB_SPLITS,
        _version,
        lambda content: (_with_status((ASSIGNED, UNASSIGNED, "FINISHED")),),
        lambda rows: {_VERSION: max(aws.DYNAMODB_SPLIT), "knownSplits": [], "startTimestampMillis": 0},
    ).formats(),
    keeps_assigned=True,
)


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
    known = number in _SENTINELS or number == _ENDED
    inside = element["f1"]["subSequenceNumber"] >= 0
    usual = "AT_SEQUENCE_NUMBER" if inside else "AFTER_SEQUENCE_NUMBER"
    blank = dict.fromkeys(f.name for f in KINESIS.fields)
    parents = (metadata["parentShardId"], metadata["adjacentParentShardId"])
    return blank | {
        SPLIT_ID: metadata["shardId"],
        ARN: metadata["streamName"],
        SHARD: metadata["shardId"],
        ITERATOR: _SENTINELS.get(number, "TRIM_HORIZON" if number == _ENDED else usual),
        SEQUENCE: None if known else number,
        "parent_shard_ids": [parent for parent in parents if parent is not None],
        "starting_hash_key": metadata["startingHashKey"],
        "ending_hash_key": metadata["endingHashKey"],
        "finished": number == _ENDED,
    }
