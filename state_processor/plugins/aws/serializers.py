"""The class in the union list of ``FlinkKinesisConsumer``. Kryo wrote it field by field."""

from __future__ import annotations

from state_processor.serializers import register_kryo_class


def register() -> None:
    """Describe the class."""
    register_kryo_class(
        "org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber",
        {"cachedHash": "int", "sequenceNumber": "java.lang.String", "subSequenceNumber": "long"},
        final=True,
    )
