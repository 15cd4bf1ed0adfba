"""Bytes that a Python process wrote, as keys of map state (Flink: ``org.apache.flink.streaming.api.utils`` of PyFlink)."""

from __future__ import annotations

from state_processor.serializers.base import register_simple
from state_processor.serializers.core.arrays import BytesSerializer


class ByteArrayWrapperSerializer(BytesSerializer):
    """``ByteArrayWrapper``: a count and the bytes. PyFlink wraps arrays because Java's have no equality of content."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot_class = "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot"


register_simple(ByteArrayWrapperSerializer())
