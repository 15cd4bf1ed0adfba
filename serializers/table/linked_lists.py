"""``LinkedList``, a container for values of Flink SQL's operators and of ``LAG``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.collections import ListCodec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.opcodes import COUNTED, Op
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.table.single_values import TABLE

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

LINKED_LIST_SNAPSHOT: Final = f"{TABLE}LinkedListSerializer$LinkedListSerializerSnapshot"
_NULL_MASK_SINCE: Final = 2
_NULL_MASK_OPTIONAL_SINCE: Final = 3


class LinkedListSerializer(ListCodec, TypeSerializer):
    """``LinkedList``: a count, a bit mask of null elements, the other elements (Flink: ``LinkedListSerializer``).

    Parameters
    ----------
    element
        The serializer of an element.
    has_null_mask
        Whether the mask is present; Flink 1.13 and earlier wrote no mask.
    outer_version
        Version of the snapshot, if an older Flink wrote it.
    """

    element: TypeSerializer

    def __init__(
        self, element: TypeSerializer, *, has_null_mask: bool = True, outer_version: int = _NULL_MASK_OPTIONAL_SINCE
    ) -> None:
        super().__init__(element)
        self.has_null_mask = has_null_mask
        self._outer_version = outer_version

    def _nulls(self, source: DataInput) -> list[bool]:
        if not self.has_null_mask:
            return [False] * source.read_count("list elements", self.element.min_size)
        start, count = source.position, source.read_int()
        if count < 0:
            raise source.corrupt(f"{count} list elements announced", start)
        mask = source.read_bytes((count + 7) // 8, "bit mask of a list")
        return [bool(mask[i >> 3] & 0x80 >> (i & 7)) for i in range(count)]

    def read(self, source: DataInput) -> list[Any]:
        return [None if null else self.element.read(source) for null in self._nulls(source)]

    def skip(self, source: DataInput) -> None:
        for null in self._nulls(source):
            if not null:
                self.element.skip(source)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        target.write_int(len(value))
        if self.has_null_mask:
            mask = bytearray((len(value) + 7) // 8)
            for i, element in enumerate(value):
                mask[i >> 3] |= (element is None) * (0x80 >> (i & 7))
            target.write_bytes(mask)
        for element in value:
            if element is not None:
                self.element.write(element, target)

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> list[Any]:
        return [None if v is None else self.element.to_column(v, options) for v in value]

    def from_column(self, value: Sequence[Any]) -> list[Any]:
        return [None if v is None else self.element.from_column(v) for v in value]

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        child = column.child(0)
        if not self.has_null_mask:
            with builder.counted(column, min_size=self.element.min_size):
                self.element.emit_decode(builder, child)
            return
        registers = builder.registers(3)
        with (
            builder.loop(Op.MASKED, Op.MASKED_NEXT, column, registers=registers, child=child),
            builder.unless(Op.MASKED_NULL, child, registers=registers, nulls=child),
        ):
            self.element.emit_decode(builder, child)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        child = column.child(0)
        with builder.elements(column, COUNTED, nulls_of=child if self.has_null_mask else None), builder.field("element"):
            if self.has_null_mask:
                with builder.unless(Op.SKIP_NULL, child):
                    self.element.emit_encode(builder, child)
            else:
                builder.op(Op.REQUIRE, child)
                self.element.emit_encode(builder, child)

    def snapshot(self) -> TypeSerializerSnapshot:
        snapshot = LinkedListSerializerSnapshot(
            LINKED_LIST_SNAPSHOT, [self.element.snapshot()], outer_version=self._outer_version
        )
        snapshot.has_null_mask = self.has_null_mask
        return snapshot

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.of_units((0 if v is None else self.element.hash_code(v) for v in value), start=1)


class LinkedListSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`LinkedListSerializer`."""

    current_outer_version = _NULL_MASK_OPTIONAL_SINCE
    has_null_mask = True

    def read_outer(self, source: DataInput) -> None:
        self.has_null_mask = self.outer_version >= _NULL_MASK_SINCE
        if self.outer_version >= _NULL_MASK_OPTIONAL_SINCE:
            self.has_null_mask = source.read_boolean()

    def write_outer(self, target: DataOutput) -> None:
        if self.outer_version >= _NULL_MASK_OPTIONAL_SINCE:
            target.write_boolean(self.has_null_mask)

    def resolve_outer(self, new: Any) -> SchemaCompatibility:
        if self.has_null_mask != new.has_null_mask:
            return SchemaCompatibility.compatible_after_migration()
        return SchemaCompatibility.compatible_as_is()

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return LinkedListSerializer(nested[0], has_null_mask=self.has_null_mask, outer_version=self.outer_version)


provide_snapshots((LINKED_LIST_SNAPSHOT,), LinkedListSerializerSnapshot)
