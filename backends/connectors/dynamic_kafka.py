"""Splits of ``DynamicKafkaSource``: partitions of topics in several clusters (flink-connector-kafka 3.1)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Connector
from state_processor.backends.connectors.content_rows import ContentEnumerator, ContentSplits, part, refuse_new
from state_processor.backends.connectors.kafka import PARTITION, STARTING, STOPPING, TOPIC
from state_processor.backends.connectors.layouts import kafka
from state_processor.backends.connectors.layouts.codecs import Content

CLUSTER: Final = "cluster_id"
RETAINED: Final = "retained_until"


def _split_id(content: Content) -> str:
    split = content["split"]
    return f"{content['clusterId']}-{split['topic']}-{split['partition']}"


_SPLITS: Final = ContentSplits(
    "splits of DynamicKafkaSource",
    kafka.LAYOUTS[kafka.DYNAMIC_SPLITS],
    (
        part(CLUSTER, pa.string(), "clusterId"),
        part(TOPIC, pa.string(), "split", "topic"),
        part(PARTITION, pa.int32(), "split", "partition"),
        part(STARTING, pa.int64(), "split", "startingOffset"),
        part(STOPPING, pa.int64(), "split", "stoppingOffset"),
        part(RETAINED, pa.int64(), "retainedUntilMs"),
    ),
    split_id=_split_id,
    new=refuse_new("DynamicKafkaSource"),
)


DYNAMIC_KAFKA: Final = Connector(
    name="dynamic-kafka",
    fields=_SPLITS.fields,
    splits=_SPLITS.formats(),
    enumerator=ContentEnumerator(
        "enumerator of DynamicKafkaSource",
        kafka.LAYOUTS[kafka.DYNAMIC_ENUMERATOR],
        _SPLITS,
        lambda content: max(kafka.SPLIT),
        lambda content: (),
        lambda rows: {"streams": [], "stateVersion": 2, "clusters": []},
        usual=1,
    ).formats(),
)
"""The state of the enumerator has the streams and what it knows about the partitions of each cluster."""
