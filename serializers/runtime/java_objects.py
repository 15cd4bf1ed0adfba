"""Values in Java serialization (Flink: ``JavaSerializer``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer, register_simple
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import STATE
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaObject, read_java_object


class JavaSerializer(SimpleSerializer):
    """Java serialization (Flink: ``JavaSerializer``): a stream of one object, without a length or an end marker.

    Python holds its bytes and its content; a column contains the bytes.
    """

    snapshot_class = f"{STATE}JavaSerializer$JavaSerializerSnapshot"
    min_size = 5

    def __str__(self) -> str:
        return "JAVA"

    def read(self, source: DataInput) -> JavaObject:
        return read_java_object(source)

    def write(self, value: JavaObject, target: DataOutput) -> None:
        target.write_bytes(value.raw)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def to_column(self, value: JavaObject, options: DecodeOptions) -> bytes:
        return value.raw

    def from_column(self, value: Any) -> JavaObject:
        return value if isinstance(value, JavaObject) else read_java_object(DataInput(value))


register_simple(JavaSerializer())
