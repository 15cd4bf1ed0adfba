"""The class in the union list of ``FlinkKafkaConsumer``. Kryo wrote it field by field."""

from __future__ import annotations

from state_processor.serializers import register_kryo_class


def register() -> None:
    """Describe the class."""
    register_kryo_class(
        "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition",
        {"topic": "java.lang.String", "partition": "int", "cachedHash": "int"},
        final=True,
    )
