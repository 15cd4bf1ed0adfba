"""Splits of the Pulsar source, and committables of its sink: transactions.

flink-connector-pulsar: ``PulsarPartitionSplit``, ``PulsarSourceEnumState``, ``PulsarCommittable``.
"""

from __future__ import annotations

import json
import re
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
from state_processor.connectors.codecs import Content
from state_processor.errors import InvalidRowError
from state_processor.plugins.pulsar import layouts as pulsar

CONSUMER_STATE: Final = "topic-offset-states"
"""The union state of ``FlinkPulsarSource``."""
_ALL_KEYS: Final = {"start": 0, "end": 65535}
_OF_PARTITION: Final = re.compile(r"(.*)-partition-(\d+)", re.DOTALL)
_ID: Final = "latestConsumedId"
_BYTES: Final = "latestConsumedIdBytes"


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
        content[_BYTES] = None if nothing else pulsar.message_bytes(message)

    return Part(pa.field(name, pa.int64()), take, put)


def _partition(row: Values) -> Content:
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
        "partition": _partition(row),
        "stopCursor": {"class": pulsar.NEVER_STOP} if cursor is None else json.loads(cursor),
        _ID: None,
        _BYTES: None,
        "uncommittedTransactionId": None if transaction is None else json.loads(transaction),
    }
    for name, key in _MESSAGE_COLUMNS.items():
        if row.get(name) is not None:
            _message_part(name, key).put(content, row[name])
    return content


_MESSAGE_COLUMNS: Final = {"ledger_id": "ledgerId", "entry_id": "entryId"}


def _new_state(rows: Sequence[Values]) -> Content:
    """Return the state of an enumerator that contains the topics of the splits: it does not assign them again."""
    return {"appendedPartitions": list(map(_partition, rows))}


_PULSAR: Final = ContentSource(
    name="pulsar",
    what="Pulsar",
    layouts=pulsar.LAYOUTS,
    splits=pulsar.SPLITS,
    enumerator=pulsar.ENUMERATOR,
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
    complete=lambda values: values | {SPLIT_ID: values[SPLIT_ID] or _split_id({"partition": _partition(values)})},
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
        pulsar.LAYOUTS,
        pulsar.COMMITTABLES,
        part("topic", pa.string(), "topic"),
        part("transaction_most_bits", pa.int64(), "mostSigBits"),
        part("transaction_least_bits", pa.int64(), "leastSigBits"),
    ),
)

CONNECTORS: Final = (PULSAR, PULSAR_SINK)
