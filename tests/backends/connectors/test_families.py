"""Tables of the splits of connectors whose splits are layouts: reads, preserved content, and edits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor import connectors
from state_processor.backends.connectors.connector import CoordinatorState, SourceState, Versioned
from state_processor.backends.connectors.layouts import kafka
from state_processor.backends.connectors.source_splits import _table, recognized, shown_splits
from state_processor.backends.connectors.splits_writer import written_source
from state_processor.plugins.aws import layouts as aws
from state_processor.plugins.aws.layouts import kinesis_snapshot
from state_processor.plugins.flink_cdc import layouts as flink_cdc
from state_processor.plugins.iceberg import layouts as iceberg
from state_processor.plugins.paimon import layouts as paimon
from state_processor.serializers.io import DataOutput
from state_processor.serializers.java.object_input import JavaInstance
from state_processor.serializers.java.object_output import JavaClassDescription, write_java_object
from state_processor.support.errors import InvalidRowError
from tests.backends import state_files as files
from tests.backends.connectors.test_source_splits import list_state
from tests.backends.connectors.test_source_splits import rows_of as rows_of_operator

TABLE = {"catalog": "shop", "schema": None, "table": "orders"}
OTHER = {"catalog": "shop", "schema": None, "table": "users"}
OFFSET = {"ts_sec": "0", "file": "mysql-bin.000003", "pos": "154", "kind": "SPECIFIC", "row": "0", "event": "0"}
SCHEMA = {
    "type": "CREATE",
    "id": TABLE,
    "defaultCharsetName": "utf8",
    "primaryKeyColumnNames": ["id"],
    "columns": [],
    "comment": None,
}


def chunk(table: dict[str, Any], number: int, mark: Any = None) -> dict[str, Any]:
    return {
        "kind": "snapshot",
        "tableId": table,
        "splitId": f"shop.{table['table']}:{number}",
        "splitKeyType": "ROW<`id` INT>",
        "splitStart": None,
        "splitEnd": [{"class": "java.lang.Integer", "value": 7}],
        "highWatermark": mark,
        "tableSchemas": [],
    }


def info(table: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "tableId": table,
        "splitId": f"shop.{table['table']}:{number}",
        "splitStart": None,
        "splitEnd": None,
        "highWatermark": OFFSET,
    }


BINLOG = {
    "kind": "binlog",
    "splitId": "binlog-split",
    "startingOffset": OFFSET,
    "endingOffset": None,
    "finishedSnapshotSplitInfos": [info(TABLE, 0), info(OTHER, 0)],
    "tableSchemas": [{"tableId": TABLE, "change": SCHEMA}, {"tableId": OTHER, "change": SCHEMA | {"id": OTHER}}],
    "totalFinishedSplitSize": 2,
    "isSuspended": False,
}
ASSIGNER = {
    "kind": "hybrid",
    "snapshotPendingSplits": {
        "kind": "snapshot",
        "splitVersion": 4,
        "alreadyProcessedTables": [TABLE, OTHER],
        "remainingSplits": [],
        "assignedSplits": [{"key": f"shop.{t['table']}:0", "split": chunk(t, 0)} for t in (TABLE, OTHER)],
        "splitFinishedOffsets": [{"splitId": f"shop.{t['table']}:0", "offset": OFFSET} for t in (TABLE, OTHER)],
        "assignerStatus": "INITIAL_ASSIGNING_FINISHED",
        "assignerStatusCode": 1,
        "remainingTables": [],
        "isTableIdCaseSensitive": True,
        "tableSchemas": BINLOG["tableSchemas"],
        "chunkSplitterState": None,
    },
    "isBinlogSplitAssigned": True,
}
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
DYNAMODB_SHARD = {
    "streamArn": "arn:aws:dynamodb:us-east-1:1:table/Orders/stream/1",
    "shardId": "shardId-1",
    "shardIteratorType": "TRIM_HORIZON",
    "startingMarker": None,
    "parentShardId": None,
    "isFinished": False,
    "childSplits": [],
}
TASK = json.dumps({"data-file": {"file-path": "s3://b/a.parquet"}, "start": 0, "length": 9, "delete-files": []})
ICEBERG_SPLIT = {
    "fileOffset": 0,
    "recordOffset": 3,
    "tasks": [{"json": TASK, "location": "s3://b/a.parquet", "start": 0, "length": 9, "deletes": 0}],
}
ICEBERG_OTHER = {
    "json": TASK.replace("a.parquet", "b.parquet"),
    "location": "s3://b/b.parquet",
    "start": 0,
    "length": 9,
    "deletes": 0,
}
ROW = {"arity": 0, "values": [], "row": "0000000000000000"}
PAIMON_SPLIT = {
    "id": "id-0",
    "split": {
        "class": "org.apache.paimon.table.source.DataSplit",
        "dataSplitVersion": 9,
        "snapshotId": 1,
        "partition": ROW,
        "bucket": 0,
        "bucketPath": "b",
        "totalBuckets": None,
        "dataFiles": [],
        "dataDeletionFiles": None,
        "isStreaming": True,
        "rawConvertible": False,
    },
    "recordsToSkip": 5,
}
DYNAMIC_SPLIT = {
    "clusterId": "east",
    "retainedUntilMs": None,
    "splitVersion": 0,
    "split": {"topic": "orders", "partition": 3, "startingOffset": 42, "stoppingOffset": None},
}
FAMILIES: dict[str, tuple[str, int, list[dict[str, Any]], str, int, dict[str, Any]]] = {
    "mysql-cdc": (flink_cdc.MYSQL_SPLITS, 4, [BINLOG], flink_cdc.MYSQL_ASSIGNER, 5, ASSIGNER),
    "dynamic-kafka": (
        kafka.DYNAMIC_SPLITS,
        2,
        [DYNAMIC_SPLIT],
        kafka.DYNAMIC_ENUMERATOR,
        1,
        {
            "streams": [
                {"streamId": "s", "clusters": [{"clusterId": "east", "topics": ["orders"], "bootstrapServers": "b:9092"}]}
            ],
            "stateVersion": 2,
            "clusters": [
                {
                    "clusterId": "east",
                    "state": {
                        "partitions": [{"topic": "orders", "partition": 3, "assignmentStatus": "ASSIGNED"}],
                        "initialDiscoveryFinished": True,
                    },
                }
            ],
        },
    ),
    "kinesis": (
        aws.KINESIS_SPLITS,
        2,
        [SHARD],
        aws.KINESIS_ENUMERATOR,
        1,
        {
            "lastSeenShardId": SHARD["shardId"],
            "splitSerializerVersion": 2,
            "knownSplits": [{"split": SHARD, "assignmentStatus": "ASSIGNED", "assignmentStatusCode": 0}],
        },
    ),
    "dynamodb": (
        aws.DYNAMODB_SPLITS,
        2,
        [DYNAMODB_SHARD],
        aws.DYNAMODB_ENUMERATOR,
        0,
        {
            "splitSerializerVersion": 2,
            "knownSplits": [{"split": DYNAMODB_SHARD, "assignmentStatus": "FINISHED", "assignmentStatusCode": 2}],
            "startTimestampMillis": 7,
        },
    ),
    "iceberg": (
        iceberg.SPLITS,
        3,
        [ICEBERG_SPLIT],
        iceberg.ENUMERATOR,
        2,
        {
            "lastEnumeratedPosition": {"snapshotId": 5, "snapshotTimestampMs": 6},
            "positionVersion": 1,
            "splitVersion": 3,
            "pendingSplits": [{"split": ICEBERG_SPLIT | {"tasks": [ICEBERG_OTHER]}, "status": "UNASSIGNED"}],
            "enumerationSplitCountHistory": [1],
        },
    ),
    "paimon": (
        paimon.SPLITS,
        1,
        [PAIMON_SPLIT],
        paimon.PENDING,
        1,
        {"splits": [PAIMON_SPLIT | {"id": "id-1"}], "currentSnapshotId": 3},
    ),
}
NAMES = pytest.mark.parametrize("name", FAMILIES)


def state(name: str) -> SourceState:
    splits, version, contents, enumerator, its_version, its_content = FAMILIES[name]
    held = [(i, Versioned(version, connectors.encode(splits, version, content))) for i, content in enumerate(contents)]
    coordinator = CoordinatorState(Versioned(its_version, connectors.encode(enumerator, its_version, its_content)))
    return SourceState("operator 'op'", tuple(held), coordinator)


def rows_of(base: SourceState) -> list[dict[str, Any]]:
    found = recognized(base)
    assert found is not None
    rows: list[dict[str, Any]] = _table(*shown_splits(base, found)).to_pylist()
    return rows


def decoded(name: str, written: Any) -> tuple[list[Any], Any]:
    splits, version, _, enumerator, its_version, _ = FAMILIES[name]
    contents = [connectors.decode(splits, version, element[8:]) for element in written.elements]
    return contents, connectors.decode(enumerator, its_version, CoordinatorState.read(written.coordinator, "").enumerator.data)


@NAMES
def test_unchanged_rows_are_the_same_bytes(name: str) -> None:
    base = state(name)
    found = recognized(base)
    assert found is not None
    assert found.name == name
    written = written_source(rows_of(base), base)
    assert written.elements == [split.to_bytes() for _, split in base.splits]
    assert base.coordinator is not None
    assert written.coordinator == base.coordinator.to_bytes()


@NAMES
def test_the_state_of_the_enumerator_is_a_row(name: str) -> None:
    base = state(name)
    rows = rows_of(base)
    (row,) = [row for row in rows if row["split_id"] == "enumerator"]
    rest = json.loads(row["enumerator"])
    inner = rest.get("snapshotPendingSplits", rest)
    if name == "iceberg":
        inner["lastEnumeratedPosition"]["snapshotId"] = 99
    elif name == "mysql-cdc":
        inner |= {"assignerStatus": "NEWLY_ADDED_ASSIGNING", "assignerStatusCode": 2}
    elif name == "kinesis":
        inner["lastSeenShardId"] = "shardId-9"
    elif name == "dynamic-kafka":
        inner["clusters"] = []
    else:
        inner[{"dynamodb": "startTimestampMillis", "paimon": "currentSnapshotId"}[name]] = 99
    row["enumerator"] = json.dumps(rest)
    _, changed = decoded(name, written_source(rows, base))
    expected = dict(FAMILIES[name][5])
    assert changed != expected
    assert {**changed, **dict.fromkeys(rest)} == {**expected, **dict.fromkeys(rest)}


def test_a_position_in_the_binlog() -> None:
    base = state("mysql-cdc")
    rows = rows_of(base)
    (binlog,) = [row for row in rows if row["kind"] == "binlog"]
    assert (binlog["file"], binlog["position"], binlog["subtask"], binlog["gtids"]) == ("mysql-bin.000003", 154, 0, None)
    binlog |= {"file": "mysql-bin.000002", "position": 4}
    (content,), assigner = decoded("mysql-cdc", written_source(rows, base))
    assert content == BINLOG | {"startingOffset": OFFSET | {"file": "mysql-bin.000002", "pos": "4"}}
    assert assigner == ASSIGNER
    binlog["offset"] = json.dumps(OFFSET | {"pos": "5"})
    with pytest.raises(InvalidRowError, match=r"'binlog-split'.*'file' and 'position'|'offset'.*contradicts"):
        written_source(rows, base)


def test_a_table_is_dropped() -> None:
    base = state("mysql-cdc")
    rows = [row for row in rows_of(base) if row["table"] != "shop.orders"]
    for row in rows:
        for name in ("finished_splits", "table_schemas"):
            row[name] = [entry for entry in row[name] or () if entry["table"] != "shop.orders"] if row[name] is not None else None
    (content,), assigner = decoded("mysql-cdc", written_source(rows, base))
    assert [entry["tableId"] for entry in content["finishedSnapshotSplitInfos"]] == [OTHER]
    assert [entry["tableId"] for entry in content["tableSchemas"]] == [OTHER]
    assert content["totalFinishedSplitSize"] == 1
    inner = assigner["snapshotPendingSplits"]
    assert inner["alreadyProcessedTables"] == [OTHER]
    assert [entry["key"] for entry in inner["assignedSplits"]] == ["shop.users:0"]
    assert [entry["splitId"] for entry in inner["splitFinishedOffsets"]] == ["shop.users:0"]
    assert [entry["tableId"] for entry in inner["tableSchemas"]] == [OTHER]


def test_positions_of_kinesis() -> None:
    base = state("kinesis")
    rows = rows_of(base)
    shard = next(row for row in rows if row["subtask"] == 0)
    assert (shard["shard_id"], shard["sequence_number"], shard["starting_timestamp"]) == (SHARD["shardId"], "4959", None)
    shard |= {"iterator_type": "AT_TIMESTAMP", "sequence_number": None, "starting_timestamp": 1700000000000}
    (content,), enumerator = decoded("kinesis", written_source(rows, base))
    assert content == SHARD | {"shardIteratorType": "AT_TIMESTAMP", "startingMarker": {"epochMillis": 1700000000000}}
    assert enumerator == FAMILIES["kinesis"][5]


def test_new_shards_of_kinesis() -> None:
    rows = [{"subtask": 0, "stream_arn": "arn", "shard_id": "s", "sequence_number": "5"}]
    contents, enumerator = decoded("kinesis", written_source(rows, None, "kinesis"))
    assert [(c["shardIteratorType"], c["startingMarker"]) for c in contents] == [
        ("AFTER_SEQUENCE_NUMBER", {"sequenceNumber": "5"})
    ]
    assert enumerator["lastSeenShardId"] == "s"
    assert [entry["split"] for entry in enumerator["knownSplits"]] == contents


def test_positions_in_splits() -> None:
    for name, change, expected in (
        ("iceberg", {"record_offset": 8}, ("recordOffset", 8)),
        ("dynamic-kafka", {"starting_offset": 8}, ("split", {**DYNAMIC_SPLIT["split"], "startingOffset": 8})),
        ("paimon", {"records_to_skip": 0}, ("recordsToSkip", 0)),
    ):
        base = state(name)
        rows = rows_of(base)
        next(row for row in rows if row["subtask"] == 0).update(change)
        (content,), enumerator = decoded(name, written_source(rows, base))
        assert content[expected[0]] == expected[1]
        assert enumerator == FAMILIES[name][5]


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "kinesis"])
def test_new_splits_are_refused(name: str) -> None:
    base = state(name)
    rows = rows_of(base)
    held = next(row for row in rows if row["subtask"] == 0)
    with pytest.raises(InvalidRowError, match=r"new splits of .* can't be written; keep the columns 'version' and 'raw'"):
        written_source([*rows, {**held, "split_id": "new", "version": None, "raw": None}], base)


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
    contents, _ = decoded("kinesis", written_source([row | {"stream_arn": "arn:orders"}], None, "kinesis"))
    assert contents[0] | {"startingHashKey": "0"} == contents[0]
    assert (contents[0]["streamArn"], contents[0]["startingMarker"]) == ("arn:orders", {"sequenceNumber": "4960"})


ORACLE_FACTORY = "org.apache.flink.cdc.connectors.oracle.source.meta.offset.RedoLogOffsetFactory"


def _with_factory_of_oracle(data: bytes) -> bytes:
    """Replace the factory of Postgres by one whose number is not known."""
    postgres = "org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetFactory"
    parent = JavaClassDescription("org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory", 1)

    def text(name: str, uid: int) -> bytes:
        classes = {d.name: d for d in (parent, JavaClassDescription(name, uid, parent=parent.name))}
        target = DataOutput()
        target.write_utf(write_java_object(JavaInstance(name), classes).hex())
        return target.to_bytes()

    before, after = text(postgres, -9086775444826524796), text(ORACLE_FACTORY, 77)
    assert before in data
    return data.replace(before, after)


def test_a_position_of_oracle_keeps_the_objects_of_its_connector() -> None:
    infos = [
        info(TABLE, 0)
        | {"offsetFactory": "org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetFactory"}
        | {"highWatermark": {"scn": "5"}}
    ]
    content = BINLOG | {"kind": "stream", "startingOffset": {"scn": "7"}, "finishedSnapshotSplitInfos": infos}
    content |= {"splitId": "stream-split", "isSnapshotCompleted": True, "totalFinishedSplitSize": 1}
    data = _with_factory_of_oracle(connectors.encode(flink_cdc.BASE_SPLITS, 6, content))
    base = SourceState("operator 'op'", ((0, Versioned(6, data)),), None)
    (row,) = rows_of(base)
    assert row["scn"] == "7"
    written = written_source([row | {"scn": "8"}], base)
    assert written.elements[0][8:] == data.replace(b'{"scn":"7"}', b'{"scn":"8"}')


def test_an_edited_enumerator_keeps_the_text_of_schemas() -> None:
    assigner = connectors.encode(flink_cdc.MYSQL_ASSIGNER, 5, ASSIGNER)
    comment, longer = b'"comment":null}', b'"comment":null, "new": 1}'
    start = assigner.index(b'{"type"')
    text_size = int.from_bytes(assigner[start - 4 : start], "big")
    text = assigner[start : start + text_size]
    other = text.replace(comment, longer)
    data = assigner.replace(text_size.to_bytes(4, "big") + text, len(other).to_bytes(4, "big") + other)
    assert data != assigner
    held = ((0, Versioned(4, connectors.encode(flink_cdc.MYSQL_SPLITS, 4, BINLOG))),)
    base = SourceState("operator 'op'", held, CoordinatorState(Versioned(5, data)))
    rows = rows_of(base)
    (row,) = [row for row in rows if row["split_id"] == "enumerator"]
    row["enumerator"] = row["enumerator"].replace('"isBinlogSplitAssigned": true', '"isBinlogSplitAssigned": false')
    written = CoordinatorState.read(written_source(rows, base).coordinator, "").enumerator.data
    assert written == data[:-1] + b"\0"
