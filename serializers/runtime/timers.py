"""Timers (Flink: ``TimerSerializer``)."""

from __future__ import annotations

from typing import Any, NamedTuple

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.templates import (
    FieldsCodec,
    NestedDelegatingSerializer,
    SignFlippedLongSerializer,
    register_nested,
)
from state_processor.serializers.flink_packages import STREAMING


class Timer(NamedTuple):
    """A timer: when it fires (milliseconds), its key and its namespace."""

    timestamp: int
    key: Any
    namespace: Any


class TimerSerializer(NestedDelegatingSerializer):
    """A timer: time, key and namespace (Flink: ``TimerSerializer``). The time sorts as bytes: its sign is flipped."""

    snapshot_class = f"{STREAMING}api.operators.TimerSerializerSnapshot"
    outer_version = 2
    nested_count = 2

    def __init__(self, key: TypeSerializer, namespace: TypeSerializer) -> None:
        fields = {"timestamp": SignFlippedLongSerializer(), "key": key, "namespace": namespace}
        super().__init__(FieldsCodec(Timer, fields), key, namespace)
        self.key = key
        self.namespace = namespace

    def __str__(self) -> str:
        return f"TIMER<{self.key},{self.namespace}>"


register_nested(TimerSerializer)
