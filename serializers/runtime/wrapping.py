"""Serializers around others that add no bytes, and values in Java serialization (Flink: ``JavaSerializer``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import STATE
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaObject, read_java_object
from state_processor.serializers.registry import provide_snapshots


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


class WrappingSerializer(DelegatingSerializer):
    """A serializer around another one that adds no bytes; its snapshot identifies the wrapper.

    ``inner``: the serializer that does the work. ``wrap``: makes the snapshot from the snapshot of ``inner``.
    """

    child_names = ("",)
    content: TypeSerializer
    is_declared: ClassVar[bool] = False
    """Whether the wrapper is a part of the type that the job declares."""

    def __init__(self, inner: TypeSerializer, wrap: Callable[[TypeSerializerSnapshot], TypeSerializerSnapshot]) -> None:
        super().__init__(inner)
        self._wrap = wrap

    def __str__(self) -> str:
        return str(self.content)

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.content,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (content,) = children
        return type(self)(content, self._wrap)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._wrap(self.content.snapshot())

    def hash_code(self, value: Any) -> int:
        return self.content.hash_code(value)


class SingleThreadAccessCheckingSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of a wrapper of Flink's tests. The wrapper detects a serializer that threads share."""

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return WrappingSerializer(nested[0], lambda inner: SingleThreadAccessCheckingSnapshot(self.class_name, [inner]))


_CHECKING: Final = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer"


provide_snapshots((f"{_CHECKING}$SingleThreadAccessCheckingTypeSerializerSnapshot",), SingleThreadAccessCheckingSnapshot)
