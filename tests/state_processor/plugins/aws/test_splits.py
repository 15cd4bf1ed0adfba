"""Splits of sources of AWS as tables: positions, new shards, and the consumer of older versions."""

from __future__ import annotations

from typing import Any

import pytest

from state_processor import connectors
from state_processor.backends.connectors.source_splits import written_source
from state_processor.errors import InvalidRowError
from state_processor.plugins.aws import layouts as aws
from state_processor.plugins.aws.layouts import kinesis_snapshot
from tests.backends import state_files as files
from tests.backends.connectors.source_operators import list_state
from tests.backends.connectors.source_operators import rows_of as rows_of_operator
from tests.backends.connectors.source_tests import Family, SourceTests, SourceWithoutNewSplitsTests, rows_of

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


class TestKinesis(SourceTests):
    connector = "kinesis"
    family = KINESIS


class TestDynamoDb(SourceWithoutNewSplitsTests):
    connector = "dynamodb"
    family = DYNAMODB


def test_positions_of_kinesis() -> None:
    base = KINESIS.source_state()
    rows = rows_of(base)
    shard = next(row for row in rows if row["subtask"] == 0)
    assert (shard["shard_id"], shard["sequence_number"], shard["starting_timestamp"]) == (SHARD["shardId"], "4959", None)
    shard |= {"iterator_type": "AT_TIMESTAMP", "sequence_number": None, "starting_timestamp": 1700000000000}
    (content,), enumerator = KINESIS.decoded(written_source(rows, base))
    assert content == SHARD | {"shardIteratorType": "AT_TIMESTAMP", "startingMarker": {"epochMillis": 1700000000000}}
    assert enumerator == KINESIS.state


def test_new_shards_of_kinesis() -> None:
    rows = [{"subtask": 0, "stream_arn": "arn", "shard_id": "s", "sequence_number": "5"}]
    contents, enumerator = KINESIS.decoded(written_source(rows, None, "kinesis"))
    assert [(c["shardIteratorType"], c["startingMarker"]) for c in contents] == [
        ("AFTER_SEQUENCE_NUMBER", {"sequenceNumber": "5"})
    ]
    assert enumerator["lastSeenShardId"] == "s"
    assert [entry["split"] for entry in enumerator["knownSplits"]] == contents


def test_the_kinesis_consumer_of_older_versions() -> None:
    metadata = dict.fromkeys(aws.SHARD_FIELDS) | {
        "streamName": "orders",
        "shardId": "shardId-1",
        "parentShardId": "shardId-0",
    }
    elements = []
    for number, inside in (("4960", -1), ("LATEST_SEQUENCE_NUM", -1), ("SHARD_ENDING_SEQUENCE_NUM", -1), ("4961", 2)):
        position = {"sequenceNumber": number, "subSequenceNumber": inside, "cachedHash": 5}
        content = {"streamShardMetadata": metadata, "sequenceNumber": position}
        elements.append(bytearray(connectors.encode("TupleSerializer", 0, content)))
    element = kinesis_snapshot().restore_serializer()
    handles = [list_state(aws.CONSUMER_STATE_NAME, element, elements, mode=1)]
    found = rows_of_operator(files.operator(*handles))
    names = ("split_id", "stream_arn", "iterator_type", "sequence_number", "finished", "parent_shard_ids")
    assert [tuple(row[n] for n in names) for row in found] == [
        ("shardId-1", "orders", "AFTER_SEQUENCE_NUMBER", "4960", False, ["shardId-0"]),
        ("shardId-1", "orders", "LATEST", None, False, ["shardId-0"]),
        ("shardId-1", "orders", "TRIM_HORIZON", None, True, ["shardId-0"]),
        ("shardId-1", "orders", "AT_SEQUENCE_NUMBER", "4961", False, ["shardId-0"]),
    ]
    row = found[0]
    contents, _ = KINESIS.decoded(written_source([row | {"stream_arn": "arn:orders"}], None, "kinesis"))
    assert contents[0] | {"startingHashKey": "0"} == contents[0]
    assert (contents[0]["streamArn"], contents[0]["startingMarker"]) == ("arn:orders", {"sequenceNumber": "4960"})


def test_fields_that_contradict_each_other() -> None:
    state = {"lastSeenShardId": None, "splitSerializerVersion": 2, "knownSplits": []}
    split = {"streamArn": "a", "shardId": "s", "shardIteratorType": "LATEST", "startingMarker": None, "parentShardIds": []}
    split |= {"startingHashKey": "0", "endingHashKey": "1", "finished": False}
    known = [{"split": split, "assignmentStatus": "UNASSIGNED", "assignmentStatusCode": 0}]
    with pytest.raises(InvalidRowError, match="'assignmentStatusCode' is 0, but 'assignmentStatus' is 'UNASSIGNED'"):
        connectors.encode("KinesisStreamsSourceEnumeratorStateSerializer", 1, state | {"knownSplits": known})
