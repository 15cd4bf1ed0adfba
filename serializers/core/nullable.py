"""Values that may be null, and values of one of two types (Flink: ``NullableSerializer``, ``EitherSerializer``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
)
from state_processor.serializers.codec import VARIABLE, Codec
from state_processor.serializers.core.templates import ChoiceSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import RUNTIME, provide_snapshots
from state_processor.serializers.traversal import LEFT, RIGHT

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

EITHER_SNAPSHOT: Final = f"{RUNTIME}JavaEitherSerializerSnapshot"
LEGACY_EITHER_SNAPSHOT: Final = f"{RUNTIME}EitherSerializerSnapshot"


class EitherValue(NamedTuple):
    """``Either``: whether it is left, and the value."""

    is_left: bool
    value: Any


class EitherSerializer(ChoiceSerializer):
    """``Either``: a byte, 1 for left, and the value of that side.

    ``left`` and ``right``: the serializers of both sides. ``snapshot_class`` and ``version``: class and version of the snapshot,
    if an older Flink wrote it.
    """

    nested_names = (LEFT, RIGHT)
    names = ("left", "right")
    markers = (1, 0)
    value_class = EitherValue

    def __init__(
        self, left: TypeSerializer, right: TypeSerializer, snapshot_class: str = EITHER_SNAPSHOT, version: int | None = None
    ) -> None:
        super().__init__(left, right)
        self.snapshot_class = snapshot_class
        self._version = version

    def __str__(self) -> str:
        return f"EITHER<{self.nested[0]},{self.nested[1]}>"

    def with_children(self, children: Sequence[Any]) -> TypeSerializer:
        left, right = children
        return EitherSerializer(left, right, self.snapshot_class, self._version)

    def _marker(self, source: DataInput) -> int:
        return source.read_boolean()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        left, right = column.child(0), column.child(1)
        builder.op(Op.VALID, column)
        of_right, end = builder.label(), builder.label()
        builder.op(Op.BRANCH_ZERO, target=of_right)
        with builder.field("left"):
            self.nested[0].emit_decode(builder, left)
        builder.fill_nulls(right)
        builder.jump(end)
        builder.place(of_right)
        with builder.field("right"):
            self.nested[1].emit_decode(builder, right)
        builder.fill_nulls(left)
        builder.place(end)

    def snapshot(self) -> TypeSerializerSnapshot:
        return EitherSerializerSnapshot(self.snapshot_class, self.child_snapshots, self._version)

    def hash_code(self, value: EitherValue) -> int:
        return self._chosen(value.is_left).hash_code(value.value)


class EitherSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`EitherSerializer`, with its current class name or the one of Flink 1.7 (version 2)."""

    nested_names = EitherSerializer.nested_names

    def __init__(self, class_name: str, nested: Sequence[TypeSerializerSnapshot], version: int | None = None) -> None:
        super().__init__(class_name, nested, version, version if version == 2 else None)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return EitherSerializer(nested[0], nested[1], self.class_name, self.version)

    def continues_as(self, new: TypeSerializerSnapshot) -> bool:
        return new.class_name in (self.class_name, EITHER_SNAPSHOT)


provide_snapshots((EITHER_SNAPSHOT, LEGACY_EITHER_SNAPSHOT), EitherSerializerSnapshot)


NULLABLE_SNAPSHOT: Final = f"{RUNTIME}NullableSerializer$NullableSerializerSnapshot"


Inner = TypeVar("Inner", bound=Codec)


class NullMarking(Codec, Generic[Inner]):
    """A mark in front of a value, or null. Subclasses read and write the mark.

    ``inner``: the codec of a value that is not null.
    """

    child_names = ("",)

    def __init__(self, inner: Inner) -> None:
        self.inner = inner

    def __str__(self) -> str:
        return str(self.inner)

    @property
    def children(self) -> Sequence[Codec]:
        return (self.inner,)

    def with_children(self, children: Sequence[Any]) -> Codec:
        (inner,) = children
        return self._copy_with(inner=inner)

    @abstractmethod
    def is_null(self, source: DataInput) -> bool:
        """Step over the mark, and over all bytes of a null. Return whether the value is null."""

    def read(self, source: DataInput) -> Any:
        return None if self.is_null(source) else self.inner.read(source)

    def skip(self, source: DataInput) -> None:
        if not self.is_null(source):
            self.inner.skip(source)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.inner.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return None if value is None else self.inner.to_column(value, options)

    def from_column(self, value: Any) -> Any:
        return None if value is None else self.inner.from_column(value)

    def hash_code(self, value: Any) -> int:
        return 0 if value is None else self.inner.hash_code(value)


class NullableSerializer(NullMarking[TypeSerializer], TypeSerializer):
    """A byte, 1 for null, then the value; a null may be padded to the length of a value.

    ``inner``: the serializer of a value that is not null. ``padding``: bytes after the flag of a null; 0 if nulls are not padded.
    """

    def __init__(self, inner: TypeSerializer, padding: int = 0) -> None:
        super().__init__(inner)
        self.padding = padding
        self.length = 1 + padding if padding else VARIABLE
        self.min_size = 1 + min(padding, inner.min_size)

    def __str__(self) -> str:
        return f"NULLABLE<{self.inner}>"

    def with_children(self, children: Sequence[Any]) -> TypeSerializer:
        (inner,) = children
        return NullableSerializer(inner, self.padding)

    def is_null(self, source: DataInput) -> bool:
        null = source.read_boolean()
        if null:
            source.skip(self.padding, "padding of a null")
        return null

    def write(self, value: Any, target: DataOutput) -> None:
        target.write_boolean(value is None)
        if value is None:
            target.write_bytes(bytes(self.padding))
        else:
            self.inner.write(value, target)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=True, padding=self.padding):
            self.inner.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=True, padding=self.padding):
            self.inner.emit_encode(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return NullableSerializerSnapshot(self.padding, self.inner.snapshot())


class NullableSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`NullableSerializer`."""

    current_outer_version = 2

    def __init__(self, padding: int, inner: TypeSerializerSnapshot) -> None:
        super().__init__(NULLABLE_SNAPSHOT, [inner])
        self.padding = padding

    def read_outer(self, source: DataInput) -> None:
        start = source.position
        self.padding = source.read_int()
        if self.padding < 0:
            raise source.corrupt(f"a null can't be padded to {self.padding} bytes", start)

    def write_outer(self, target: DataOutput) -> None:
        target.write_int(self.padding)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return NullableSerializer(nested[0], self.padding)

    def resolve_outer(self, new: NullableSerializerSnapshot) -> SchemaCompatibility:
        if self.padding == new.padding:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"nulls were padded to {self.padding} bytes, {new.padding} are required")


provide_snapshots((NULLABLE_SNAPSHOT,), NullableSerializerSnapshot)
