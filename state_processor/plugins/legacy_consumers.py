"""Classes in the union lists of ``FlinkKafkaConsumer`` and ``FlinkKinesisConsumer``. Kryo wrote them field by field."""

from __future__ import annotations

from state_processor.serializers import register_kryo_class

_PACKAGE = "org.apache.flink.streaming.connectors."


def register() -> None:
    """Describe the classes."""
    register_kryo_class(
        f"{_PACKAGE}kafka.internals.KafkaTopicPartition",
        {"topic": "java.lang.String", "partition": "int", "cachedHash": "int"},
        final=True,
    )
    register_kryo_class(
        f"{_PACKAGE}kinesis.model.SequenceNumber",
        {"cachedHash": "int", "sequenceNumber": "java.lang.String", "subSequenceNumber": "long"},
        final=True,
    )
