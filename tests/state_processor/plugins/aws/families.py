"""The state of sources of AWS, for tests of all sources."""

from __future__ import annotations

from typing import Any

from state_processor.plugins.aws import layouts as aws
from tests.backends.connectors.split_families import Family

SHARD = {
    "streamArn": "arn:aws:kinesis:eu-west-1:1:stream/orders",
    "shardId": "shardId-000000000000",
    "shardIteratorType": "AFTER_SEQUENCE_NUMBER",
    "startingMarker": {"sequenceNumber": "4959"},
    "parentShardIds": [],
    "startingHashKey": "0",
    "endingHashKey": "9",
    "finished": False,
}
DYNAMODB_SHARD: dict[str, Any] = {
    "streamArn": "arn:aws:dynamodb:us-east-1:1:table/Orders/stream/1",
    "shardId": "shardId-1",
    "shardIteratorType": "TRIM_HORIZON",
    "startingMarker": None,
    "parentShardId": None,
    "isFinished": False,
    "childSplits": [],
}
KINESIS = Family(
    aws.KINESIS_SPLITS,
    2,
    SHARD,
    aws.KINESIS_ENUMERATOR,
    1,
    {
        "lastSeenShardId": SHARD["shardId"],
        "splitSerializerVersion": 2,
        "knownSplits": [{"split": SHARD, "assignmentStatus": "ASSIGNED", "assignmentStatusCode": 0}],
    },
    edit_state=lambda state: state.update(lastSeenShardId="shardId-9"),
    columns={"sequence_number": "5"},
    fields={"startingMarker": {"sequenceNumber": "5"}},
    makes_splits=True,
)
DYNAMODB = Family(
    aws.DYNAMODB_SPLITS,
    2,
    DYNAMODB_SHARD,
    aws.DYNAMODB_ENUMERATOR,
    0,
    {
        "splitSerializerVersion": 2,
        "knownSplits": [{"split": DYNAMODB_SHARD, "assignmentStatus": "FINISHED", "assignmentStatusCode": 2}],
        "startTimestampMillis": 7,
    },
    edit_state=lambda state: state.update(startTimestampMillis=99),
    columns={"finished": True},
    fields={"isFinished": True},
)
FAMILIES = {"kinesis": KINESIS, "dynamodb": DYNAMODB}
