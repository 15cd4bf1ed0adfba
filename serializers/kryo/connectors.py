"""Classes of Flink's own connectors that Kryo wrote into state, described like classes of users."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.kryo.classes import register_kryo_class, user_class

KAFKA_TOPIC_PARTITION: Final = "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition"

if user_class(KAFKA_TOPIC_PARTITION) is None:
    register_kryo_class(KAFKA_TOPIC_PARTITION, {"topic": "java.lang.String", "partition": "int", "cachedHash": "int"}, final=True)
