"""A value of one of two types (Flink: ``EitherSerializer``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import RUNTIME
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.paths import LEFT, RIGHT
from state_processor.serializers.registry import provide_snapshots

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


class EitherSerializer(TypeSerializer):
    """``Either``: a byte, 1 for left, and the value of that side.

    Parameters
    ----------
    left, right
        The serializers of both sides.
    snapshot_class, version
        Class and version of the snapshot, if an older Flink wrote it.
    """

    child_names = (LEFT, RIGHT)

    def __init__(
        self, left: TypeSerializer, right: TypeSerializer, snapshot_class: str = EITHER_SNAPSHOT, version: int | None = None
    ) -> None:
        self.left = left
        self.right = right
        self._snapshot_class = snapshot_class
        self._version = version
        self.min_size = 1 + min(left.min_size, right.min_size)

    def __str__(self) -> str:
        return f"EITHER<{self.left},{self.right}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.left, self.right)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        left, right = children
        return EitherSerializer(left, right, self._snapshot_class, self._version)

    def read(self, source: DataInput) -> EitherValue:
        is_left = source.read_boolean()
        return EitherValue(is_left, (self.left if is_left else self.right).read(source))

    def skip(self, source: DataInput) -> None:
        (self.left if source.read_boolean() else self.right).skip(source)

    def write(self, value: EitherValue, target: DataOutput) -> None:
        is_left, inner = value
        target.write_boolean(is_left)
        (self.left if is_left else self.right).write(inner, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([("left", self.left.arrow_type(options)), ("right", self.right.arrow_type(options))])

    def to_column(self, value: EitherValue, options: DecodeOptions) -> dict[str, Any]:
        if value.is_left:
            return {"left": self.left.to_column(value.value, options), "right": None}
        return {"left": None, "right": self.right.to_column(value.value, options)}

    def from_column(self, value: Any) -> EitherValue:
        if not isinstance(value, EitherValue):
            left, right = value.get("left"), value.get("right")
            if (left is None) == (right is None):
                raise ValueError("exactly one of left and right must have a value")
            value = EitherValue(right is None, right if left is None else left)
        return EitherValue(value.is_left, (self.left if value.is_left else self.right).from_column(value.value))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        left, right = column.child(0), column.child(1)
        builder.op(Op.VALID, column)
        of_right, end = builder.label(), builder.label()
        builder.op(Op.BRANCH_ZERO, target=of_right)
        with builder.field("left"):
            self.left.emit_decode(builder, left)
        builder.fill_nulls(right)
        builder.jump(end)
        builder.place(of_right)
        with builder.field("right"):
            self.right.emit_decode(builder, right)
        builder.fill_nulls(left)
        builder.place(end)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        left, right = column.child(0), column.child(1)
        end = builder.label()
        with builder.unless(Op.EITHER, column, left=left, right=right, left_byte=1, right_byte=0):
            with builder.field("left"):
                self.left.emit_encode(builder, left)
            builder.jump(end)
        with builder.field("right"):
            self.right.emit_encode(builder, right)
        builder.place(end)

    def snapshot(self) -> TypeSerializerSnapshot:
        return EitherSerializerSnapshot(self._snapshot_class, [self.left.snapshot(), self.right.snapshot()], self._version)

    def hash_code(self, value: EitherValue) -> int:
        return (self.left if value.is_left else self.right).hash_code(value.value)


class EitherSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`EitherSerializer`, with its current class name or the one of Flink 1.7 (version 2)."""

    nested_names = EitherSerializer.child_names

    def __init__(self, class_name: str, nested: Sequence[TypeSerializerSnapshot], version: int | None = None) -> None:
        super().__init__(class_name, nested, version, version if version == 2 else None)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return EitherSerializer(nested[0], nested[1], self.class_name, self.version)

    def continues_as(self, new: TypeSerializerSnapshot) -> bool:
        return new.class_name in (self.class_name, EITHER_SNAPSHOT)


provide_snapshots((EITHER_SNAPSHOT, LEGACY_EITHER_SNAPSHOT), EitherSerializerSnapshot)
