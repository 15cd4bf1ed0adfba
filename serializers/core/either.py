"""A value of one of two types (Flink: ``EitherSerializer``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.templates import ChoiceSerializer
from state_processor.serializers.flink_packages import RUNTIME
from state_processor.serializers.io import DataInput
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.paths import LEFT, RIGHT
from state_processor.serializers.registry import provide_snapshots

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder

EITHER_SNAPSHOT: Final = f"{RUNTIME}JavaEitherSerializerSnapshot"
LEGACY_EITHER_SNAPSHOT: Final = f"{RUNTIME}EitherSerializerSnapshot"


class EitherValue(NamedTuple):
    """``Either``: whether it is left, and the value."""

    is_left: bool
    value: Any


class EitherSerializer(ChoiceSerializer):
    """``Either``: a byte, 1 for left, and the value of that side.

    Parameters
    ----------
    left, right
        The serializers of both sides.
    snapshot_class, version
        Class and version of the snapshot, if an older Flink wrote it.
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
        return EitherSerializerSnapshot(self.snapshot_class, [side.snapshot() for side in self.nested], self._version)

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
