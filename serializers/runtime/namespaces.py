"""Namespaces of keyed state: ``VoidNamespace`` and windows; timers, which have a key and a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer, TypeSerializer, register_simple
from state_processor.serializers.core.basic import NumberSerializer, VoidSerializer
from state_processor.serializers.core.templates import (
    EpochMillisSerializer,
    FieldsCodec,
    NestedDelegatingSerializer,
    SignFlippedLongSerializer,
    SimpleDelegatingSerializer,
    register_nested,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import STATE, STREAMING, TABLE_WINDOWS, WINDOWS

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


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


class VoidNamespaceSerializer(VoidSerializer):
    """``VoidNamespace``: one byte, although its length in Flink is 0.

    Because of the length 0, Flink appends no length to a preceding key.
    """

    snapshot_class = f"{STATE}VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
    length = 0
    min_size = 1

    @property
    def size(self) -> int:
        """One byte, although Flink declares 0."""
        return 1

    def __str__(self) -> str:
        return "VOID_NAMESPACE"

    def read(self, source: DataInput) -> None:
        source.skip(1, "void namespace")

    def skip(self, source: DataInput) -> None:
        source.skip(1, "void namespace")

    def write(self, value: None, target: DataOutput) -> None:
        target.write_byte(0)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.skip(1)
        builder.fill_nulls(column)


class TimeWindow(NamedTuple):
    """``TimeWindow``: its first millisecond, and the millisecond after its last."""

    start: int
    end: int


class TimeWindowSerializer(SimpleDelegatingSerializer):
    """``TimeWindow`` of the DataStream and the Table API: start and end as longs."""

    never_null = True
    snapshot_class = f"{WINDOWS}TimeWindow$Serializer$TimeWindowSerializerSnapshot"
    content = FieldsCodec(TimeWindow, {"start": EpochMillisSerializer(), "end": EpochMillisSerializer()})

    def __str__(self) -> str:
        return "TIME_WINDOW"


class GlobalWindowSerializer(SimpleSerializer):
    """``GlobalWindow``: one byte. A column contains windows, all null."""

    snapshot_class = f"{WINDOWS}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"
    length = min_size = 1

    def __str__(self) -> str:
        return "GLOBAL_WINDOW"

    def read(self, source: DataInput) -> None:
        source.skip(1, "global window")

    def write(self, value: None, target: DataOutput) -> None:
        target.write_byte(0)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return TimeWindowSerializer().arrow_type(options)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.skip(1)
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(self.serialize(None))


class CountWindowSerializer(NumberSerializer):
    """``CountWindow`` of the Table API: its number, a long."""

    def __init__(self) -> None:
        super().__init__("LONG", f"{TABLE_WINDOWS}CountWindow$Serializer$CountWindowSerializerSnapshot")

    def __str__(self) -> str:
        return "COUNT_WINDOW"


register_simple(VoidNamespaceSerializer())
for _home in (WINDOWS, TABLE_WINDOWS):
    register_simple(TimeWindowSerializer(f"{_home}TimeWindow$Serializer$TimeWindowSerializerSnapshot"))
    register_simple(GlobalWindowSerializer(f"{_home}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"))
register_simple(CountWindowSerializer())
