"""Classes of ``FlinkKinesisConsumer`` that Kryo wrote, with the fields of their descriptions, for the tests of all plug-ins."""

from __future__ import annotations

FIELDS = {
    "org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber": ["cachedHash", "sequenceNumber", "subSequenceNumber"]
}
