"""Constants of Java enums (Flink: ``EnumSerializer``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from state_processor.serializers.base import SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import BASE, provide_snapshots
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.mappings import positions_of

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


ENUM_SNAPSHOT: Final = f"{BASE}EnumSerializer$EnumSerializerSnapshot"


class EnumSerializer(TypeSerializer):
    """A constant of an enum: its index among the names of the snapshot. Python holds the name.

    ``enum_class``: the Java class. ``names``: the constants in the order of their indices. A reordering in Java does not change
    this order.
    """

    never_null = True
    length = min_size = 4

    def __init__(self, enum_class: str, names: Sequence[str]) -> None:
        self.enum_class = enum_class
        self.names = tuple(names)
        self._indices = positions_of(self.names)

    def __str__(self) -> str:
        return f"ENUM<{self.enum_class}>"

    def read(self, source: DataInput) -> str:
        start = source.position
        index = source.read_int()
        if not 0 <= index < len(self.names):
            raise source.corrupt(f"constant {index} of {self.enum_class}, whose snapshot has {len(self.names)}", start)
        return self.names[index]

    def write(self, value: str, target: DataOutput) -> None:
        index = self._indices.get(value)
        if index is None:
            raise ValueError(f"expected a constant of {self.enum_class} ({', '.join(self.names)}), found {value!r}")
        target.write_int(index)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.enum(column, list(map(str.encode, self.names)))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.enum(column, list(map(str.encode, self.names)))

    def snapshot(self) -> TypeSerializerSnapshot:
        return EnumSerializerSnapshot(self.enum_class, self.names)

    def hash_code(self, value: str) -> int:
        raise UnsupportedFormatError(
            f"{self}: the hashCode of an enum differs from one JVM to the next; Flink refuses it as a key"
        )


class EnumSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`EnumSerializer`: class and names."""

    def __init__(self, enum_class: str, names: Sequence[str], version: int | None = None) -> None:
        super().__init__(ENUM_SNAPSHOT, version)
        self.enum_class = enum_class
        self.names = tuple(names)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> EnumSerializerSnapshot:
        enum_class = source.read_utf()
        return cls(enum_class, source.read_list("enum constants", DataInput.read_utf, 2), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.enum_class)
        target.write_int(len(self.names))
        for name in self.names:
            target.write_utf(name)

    def restore_serializer(self) -> TypeSerializer:
        return EnumSerializer(self.enum_class, self.names)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, EnumSerializerSnapshot)
        if self.enum_class != new.enum_class:
            return SchemaCompatibility.incompatible(f"the enum {self.enum_class} was written, {new.enum_class} is required")
        removed = [name for name in self.names if name not in new.names]
        if removed:
            return SchemaCompatibility.incompatible(f"{self.enum_class} no longer has {', '.join(removed)}")
        if self.names == new.names:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_with_reconfigured_serializer()


provide_snapshots((ENUM_SNAPSHOT,), EnumSerializerSnapshot)
