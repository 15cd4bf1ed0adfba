"""Splits of the sources of Pulsar as tables: reads, unchanged bytes, and edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import connectors
from state_processor.connectors import CoordinatorState, SourceState, Versioned, fitting
from state_processor.errors import InvalidRowError
from state_processor.plugins import pulsar
from state_processor.plugins.pulsar import MessageIdSerializer, TopicSubscriptionSerializer
from state_processor.serializers import DecodeOptions, TupleSerializer

SPLIT = {
    "partition": {"topic": "persistent://a/b/c", "partitionId": 0, "ranges": [{"start": 0, "end": 65535}]},
    "stopCursor": {"class": "org.apache.flink.connector.pulsar.source.enumerator.cursor.stop.NeverStopCursor"},
    "latestConsumedId": {"ledgerId": 7, "entryId": 8, "partition": 0, "batchIndex": -1, "batchSize": 0},
    "latestConsumedIdBytes": "0807100818003000",
    "uncommittedTransactionId": None,
}
STATE = {"appendedPartitions": [SPLIT["partition"]]}
BYTES = connectors.encode(pulsar.SPLITS, 2, SPLIT)
STATE_BYTES = connectors.encode(pulsar.ENUMERATOR, 3, STATE)
ROWS = [
    {"subtask": 0, "split_id": "a", "enumerator": None, "version": 2, "raw": BYTES},
    {"subtask": None, "split_id": "enumerator", "enumerator": json.dumps(STATE), "version": None, "raw": None},
]


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    writer = sp.arrow.SavepointWriter.new().with_source_splits("events", ROWS, connector="pulsar")
    writer.write(tmp_path / "first")
    return str(tmp_path / "first")


def splits_of(path: str, connector: str | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sp.arrow.read_source_splits(path, "events", connector).to_pylist()
    return rows


def rewritten(savepoint: str, rows: list[dict[str, Any]], target: Path) -> tuple[list[Any], bytes]:
    """Return the content of the splits, and the bytes of the metadata, after rows were written."""
    sp.arrow.SavepointWriter.from_existing(savepoint).with_source_splits("events", rows).write(target)
    return contents_of(str(target)), (target / "_metadata").read_bytes()


def contents_of(path: str) -> list[Any]:
    data = [row["raw"] for row in splits_of(path, "raw") if row["subtask"] is not None]
    return [connectors.decode(pulsar.SPLITS, 2, split) for split in data]


def test_unchanged_rows_are_the_same_bytes(savepoint: str, tmp_path: Path) -> None:
    assert STATE_BYTES in (Path(savepoint) / "_metadata").read_bytes()
    rows = splits_of(savepoint)
    assert [row["raw"] for row in rows if row["subtask"] == 0] == [BYTES]
    assert rows == splits_of(savepoint, "pulsar")
    _, metadata = rewritten(savepoint, rows, tmp_path / "second")
    assert STATE_BYTES in metadata
    assert splits_of(str(tmp_path / "second"), "raw") == splits_of(savepoint, "raw")


def test_the_state_of_the_enumerator_is_a_row(savepoint: str, tmp_path: Path) -> None:
    rows = splits_of(savepoint)
    (row,) = [row for row in rows if row["split_id"] == "enumerator"]
    assert json.loads(row["enumerator"]) == STATE
    row["enumerator"] = json.dumps({"appendedPartitions": []})
    _, metadata = rewritten(savepoint, rows, tmp_path / "second")
    assert STATE_BYTES not in metadata
    assert json.loads(splits_of(str(tmp_path / "second"))[-1]["enumerator"]) == {"appendedPartitions": []}


def test_the_position_is_the_last_message(savepoint: str, tmp_path: Path) -> None:
    rows = splits_of(savepoint)
    assert [(row["ledger_id"], row["entry_id"]) for row in rows if row["subtask"] == 0] == [(7, 8)]
    next(row for row in rows if row["subtask"] == 0).update({"ledger_id": 9, "entry_id": 1})
    (content,), metadata = rewritten(savepoint, rows, tmp_path / "second")
    assert content["latestConsumedIdBytes"] == "0809100118003000"
    assert STATE_BYTES in metadata


def test_an_empty_source_may_be_of_pulsar() -> None:
    empty = SourceState("operator 'op'", (), CoordinatorState(Versioned(1, bytes(4))))
    assert {"kafka", "pulsar"} <= {connector.name for connector in fitting(empty)}


# The source before Flink 1.14

RANGE = (  # as ``ObjectOutputStream`` writes an Externalizable: its class, and two ints in a block
    b"\xac\xed\0\5sr\0\x47org.apache.flink.streaming.connectors.pulsar.internal.SerializableRange"
    + bytes.fromhex("0123456789abcdef 0c0000 7870 7708 00000005 00000009 78".replace(" ", ""))
)
ELEMENT = TupleSerializer([TopicSubscriptionSerializer(), MessageIdSerializer()])


def element(topic: str, span: bytes, subscription: str, message: str) -> bytes:
    """Return an element as ``TopicSubscriptionSerializer`` and ``MessageIdSerializer`` write it."""
    parts = (topic.encode(), span, subscription.encode(), bytes.fromhex(message))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


ELEMENTS = [
    element("persistent://a/b/c-partition-3", RANGE, "sub", "08071008180320043005"),
    element("persistent://a/b/größe", bytes.fromhex("aced000570"), "", "08ffffffffffffffffff0110ffffffffffffffffff01"),
    element("t", RANGE, "s", "08011002280a3005"),
]


def test_elements_of_the_consumer_are_columns() -> None:
    assert [ELEMENT.serialize(ELEMENT.deserialize(data)) for data in ELEMENTS] == ELEMENTS
    columns = [ELEMENT.to_column(ELEMENT.deserialize(data), DecodeOptions()) for data in ELEMENTS]
    assert columns[0]["f0"] == {
        "topic": "persistent://a/b/c-partition-3",
        "range": {"start": 5, "end": 9, "serial_version_uid": 0x0123456789ABCDEF},
        "subscription_name": "sub",
    }
    numbers = {"ledger_id": 7, "entry_id": 8, "partition": 3, "batch_index": 4, "batch_size": 5, "other": None}
    assert columns[0]["f1"] == numbers
    assert (columns[1]["f0"]["range"], columns[1]["f1"]["ledger_id"], columns[2]["f1"]["other"]) == (None, -1, b"\x28\x0a\x30\5")


def test_the_consumer_becomes_splits_of_the_source(tmp_path: Path) -> None:
    values = [{"value": ELEMENT.to_column(ELEMENT.deserialize(data), DecodeOptions())} for data in ELEMENTS]
    writer = sp.arrow.SavepointWriter.new(flink_version="1.20")
    writer.with_union_state("events", "topic-offset-states", values, ELEMENT).write(tmp_path / "first")
    rows = splits_of(str(tmp_path / "first"), "pulsar-consumer")
    names = ("topic", "partition", "ranges", "ledger_id", "entry_id")
    assert [tuple(row[n] for n in names) for row in rows] == [
        ("persistent://a/b/c", 3, '[{"start": 5, "end": 9}]', 7, 8),
        ("persistent://a/b/größe", -1, '[{"start": 0, "end": 65535}]', -1, -1),
        ("t", -1, '[{"start": 5, "end": 9}]', 1, 2),
    ]
    writer = sp.arrow.SavepointWriter.new().with_source_splits("events", rows[:1], connector="pulsar")
    writer.write(tmp_path / "second")
    assert contents_of(str(tmp_path / "second")) == [
        {
            "partition": {"topic": "persistent://a/b/c", "partitionId": 3, "ranges": [{"start": 5, "end": 9}]},
            "stopCursor": SPLIT["stopCursor"],
            "latestConsumedId": {"ledgerId": 7, "entryId": 8, "partition": 3, "batchIndex": -1, "batchSize": 0},
            "latestConsumedIdBytes": "0807100818033000",
            "uncommittedTransactionId": None,
        }
    ]
    state = {"appendedPartitions": [contents_of(str(tmp_path / "second"))[0]["partition"]]}
    assert connectors.encode(pulsar.ENUMERATOR, 3, state) in (tmp_path / "second" / "_metadata").read_bytes()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"subtask": 0, "partition": 3}, "a split of Pulsar needs 'topic'"),
        ({"subtask": None, "topic": "t"}, "needs a reader: the enumerator of Pulsar does not hold splits; set 'subtask'"),
    ],
)
def test_new_splits_need_a_topic_and_a_reader(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRowError, match=problem):
        sp.arrow.SavepointWriter.new().with_source_splits("events", [row], connector="pulsar")
