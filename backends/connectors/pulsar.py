"""Splits of the Pulsar source, and committables of its sink: transactions.

flink-connector-pulsar: ``PulsarPartitionSplit``, ``PulsarSourceEnumState``, ``PulsarCommittable``.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Connector
from state_processor.backends.connectors.content_rows import ContentEnumerator, ContentSplits, Part, json_part, part, refuse_new
from state_processor.backends.connectors.content_sinks import committables
from state_processor.backends.connectors.layouts import pulsar
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.backends.connectors.sinks import SinkConnector

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
        known = content[_ID] or {"partition": content["partition"]["partitionId"], "batchIndex": -1, "batchSize": 0}
        found = {"ledgerId": 0, "entryId": 0} | known | {key: value}
        nothing = found["ledgerId"] is None or found["entryId"] is None
        content[_ID] = None if nothing else found
        content[_BYTES] = None if nothing else pulsar.message_bytes(found)

    return Part(pa.field(name, pa.int64()), take, put)


_SPLITS: Final = ContentSplits(
    "splits of Pulsar",
    pulsar.LAYOUTS[pulsar.SPLITS],
    (
        part("topic", pa.string(), "partition", "topic"),
        part("partition", pa.int32(), "partition", "partitionId"),
        json_part("ranges", "partition", "ranges"),
        _message_part("ledger_id", "ledgerId"),
        _message_part("entry_id", "entryId"),
        json_part("stop_cursor", "stopCursor"),
        json_part("uncommitted_transaction_id", "uncommittedTransactionId"),
    ),
    split_id=_split_id,
    new=refuse_new("Pulsar"),
)


def _new_state(rows: Any) -> Content:
    return {"appendedPartitions": []}


PULSAR: Final = Connector(
    name="pulsar",
    fields=_SPLITS.fields,
    splits=_SPLITS.formats(),
    enumerator=ContentEnumerator(
        "enumerator of Pulsar",
        pulsar.LAYOUTS[pulsar.ENUMERATOR],
        _SPLITS,
        lambda content: max(pulsar.LAYOUTS[pulsar.SPLITS]),
        lambda content: (),
        _new_state,
    ).formats(),
)
"""``ledger_id`` and ``entry_id`` are the last message that was read; the next one follows. Null means the start cursor."""

PULSAR_SINK: Final = SinkConnector(
    name="pulsar",
    **committables(
        "committables of Pulsar",
        pulsar.LAYOUTS[pulsar.COMMITTABLES],
        part("topic", pa.string(), "topic"),
        part("transaction_most_bits", pa.int64(), "mostSigBits"),
        part("transaction_least_bits", pa.int64(), "leastSigBits"),
    ),
)
