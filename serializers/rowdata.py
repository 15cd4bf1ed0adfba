"""Serializers of Flink SQL's internal data structures (Flink: ``org.apache.flink.table.runtime.typeutils``)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from state_processor.serializers import hashing
from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_nested_snapshots,
    write_nested_snapshots,
)
from state_processor.serializers.basic import BASE
from state_processor.serializers.binary_format import (
    ArraySlot,
    BinaryValue,
    ContainerSlot,
    MapSlot,
    RowSlot,
    TimestampData,
    Variant,
    checked_timestamp,
    decimal_operands,
    decode_text,
    encode_text,
    hash_bytes,
    hash_words,
    null_bytes,
    present_decimal,
    present_text,
    present_timestamp,
    timestamp_operands,
    to_bytes,
    to_decimal,
    to_java_bytes,
    to_timestamp,
    to_unscaled,
    to_variant,
)
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.composite import ROW_KINDS
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java_objects import JavaObject, read_java_object
from state_processor.serializers.kernel import encode_ops, ops
from state_processor.serializers.logical_types import (
    ArrayType,
    DecimalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    logical_type,
    type_of_data_type,
)
from state_processor.serializers.options import DecodeOptions
from state_processor.serializers.registry import register_simple, register_snapshot, register_snapshots
from state_processor.serializers.streaming import WrappingSerializer

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.encode_program import EncodeBuilder
    from state_processor.serializers.kernel.program import DecodeBuilder

TABLE: Final = "org.apache.flink.table.runtime.typeutils."


def worst_of_nested(old: Sequence[TypeSerializerSnapshot], new: Sequence[TypeSerializerSnapshot]) -> SchemaCompatibility:
    """The verdict on nested serializers, which must be as many (Flink: ``CompositeTypeSerializerUtil``)."""
    if len(old) != len(new):
        return SchemaCompatibility.incompatible(f"{len(old)} nested serializers were written, {len(new)} are wanted")
    return SchemaCompatibility.worst(*(o.resolve_schema_compatibility(n) for o, n in zip(old, new, strict=True)))


class BinaryDataSerializer(TypeSerializer):
    """An int size, then a row, array or map in Flink's binary form. Python holds a :class:`BinaryValue`.

    Parameters
    ----------
    slot
        What the bytes mean.
    written
        The snapshot that the serializer was restored from. It holds Java objects, which this library keeps but does not
        make: a serializer without one reads and writes values, and has no snapshot.
    """

    def __init__(self, slot: ContainerSlot, written: TypeSerializerSnapshot | None = None) -> None:
        self.slot = slot
        self.smallest = 4 + slot.smallest
        self._written = written

    def __str__(self) -> str:
        return self.slot.type.summary

    def read(self, source: DataInput) -> BinaryValue:
        start = source.position
        size = source.read_int()
        if size < self.slot.smallest:
            raise source.corrupt(f"{size} bytes are too few for {self}, which needs {self.slot.smallest}", start)
        return self.slot.wrap(source.read_bytes(size, str(self)))

    def skip(self, source: DataInput) -> None:
        source.skip(source.read_count("bytes"), str(self))

    def write(self, value: Any, target: DataOutput) -> None:
        data = self.slot.encode(value)
        target.write_int(len(data))
        target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.slot.arrow_type(options)

    def present(self, value: BinaryValue, options: DecodeOptions) -> Any:
        return self.slot.present(value, options)

    def accept(self, value: Any) -> BinaryValue:
        return self.slot.wrap(self.slot.encode(value))

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        self.slot.emit_framed(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        self.slot.emit_encode_framed(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        if self._written is None:
            raise UnsupportedFormatError(
                f"the snapshot of {self} holds Java objects, which can be carried over from a savepoint but not made: "
                "take the serializer from one"
            )
        return self._written

    def hash_code(self, value: Any) -> int:
        return hash_words(self.slot.encode(value))


class RowDataSerializer(BinaryDataSerializer):
    """``RowData`` as a binary row (Flink: ``RowDataSerializer``; before 1.11 ``BaseRowSerializer``).

    Snapshots hold the fields' types but not their names, which are ``f0``, ``f1``, … unless the type says otherwise.
    """

    slot: RowSlot

    def __init__(self, type_: RowType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(RowSlot(type_), written)

    def named_as(self, type_: LogicalType) -> RowDataSerializer:
        """The same serializer with the field names of a row type, if its fields have the same types."""
        own = self.slot.type
        if not isinstance(type_, RowType) or type_.types != own.types:
            return self
        return RowDataSerializer(type_, self._written)

    def accept_key(self, value: Any) -> BinaryValue:
        return value if isinstance(value, BinaryValue) else self.row(value, reserve_nulls=True)

    def emit_encode_key(self, builder: EncodeBuilder, column: Column) -> None:
        self.slot.emit_encode_key(builder, column)

    def row(self, fields: Any, kind: str = ROW_KINDS[0], *, reserve_nulls: bool = False) -> BinaryValue:
        """A row of these fields; see :meth:`RowSlot.build`."""
        return self.slot.wrap(self.slot.build(fields, kind, reserve_nulls=reserve_nulls))


class RowDataSerializerSnapshot(TypeSerializerSnapshot):
    """Of :class:`RowDataSerializer`: the types of the fields, as Java objects, and snapshots of their serializers."""

    current_version = 3

    def __init__(
        self, class_name: str, types: Sequence[JavaObject], nested: Sequence[TypeSerializerSnapshot], version: int | None = None
    ) -> None:
        super().__init__(class_name, version)
        self.types = tuple(types)
        self.nested = tuple(nested)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> RowDataSerializerSnapshot:
        types = [read_java_object(source) for _ in range(source.read_count("field types"))]
        return cls(class_name, types, read_nested_snapshots(source), version)

    def write(self, target: DataOutput) -> None:
        target.write_int(len(self.types))
        for type_ in self.types:
            target.write_bytes(type_.raw)
        write_nested_snapshots(self.nested, target)

    @property
    def logical_types(self) -> tuple[LogicalType, ...]:
        """The types of the fields."""
        return tuple(logical_type(t.content) for t in self.types)

    def restore_serializer(self) -> TypeSerializer:
        return RowDataSerializer(RowType.of(*self.logical_types), self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, RowDataSerializerSnapshot)
        old_types, new_types = self.logical_types, new.logical_types
        if len(old_types) != len(new_types):
            return SchemaCompatibility.incompatible(f"a row of {len(old_types)} fields was written, {len(new_types)} are wanted")
        for i, (old, other) in enumerate(zip(old_types, new_types, strict=True)):
            if old != other:
                return SchemaCompatibility.incompatible(f"field {i} was written as {old}, {other} is wanted")
        return worst_of_nested(self.nested, new.nested)


class ArrayDataSerializer(BinaryDataSerializer):
    """``ArrayData`` as a binary array (Flink: ``ArrayDataSerializer``; before 1.11 ``BaseArraySerializer``)."""

    def __init__(self, type_: ArrayType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(ArraySlot(type_), written)


class MapDataSerializer(BinaryDataSerializer):
    """``MapData`` as a binary map (Flink: ``MapDataSerializer``; before 1.11 ``BaseMapSerializer``). Multisets are maps, too."""

    def __init__(self, type_: MapType | MultisetType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(MapSlot(type_.as_map if isinstance(type_, MultisetType) else type_), written)


class JavaObjectsSnapshot(TypeSerializerSnapshot):
    """A snapshot that is nothing but Java objects: as many types, then as many serializers.

    The serializers say nothing that the types do not: they are carried along.
    """

    current_version = 3
    type_count: ClassVar[int] = 1

    def __init__(self, class_name: str, objects: Sequence[JavaObject], version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.objects = tuple(objects)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> JavaObjectsSnapshot:
        return cls(class_name, [read_java_object(source) for _ in range(2 * cls.type_count)], version)

    def write(self, target: DataOutput) -> None:
        for written in self.objects:
            target.write_bytes(written.raw)

    @property
    def logical_types(self) -> tuple[LogicalType, ...]:
        """The types: that of the elements, or those of keys and values."""
        return tuple(logical_type(o.content) for o in self.objects[: self.type_count])

    def restore_serializer(self) -> TypeSerializer:
        return self.create_serializer(*self.logical_types)

    def create_serializer(self, *types: Any) -> TypeSerializer:
        """The serializer for these types."""
        raise NotImplementedError

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, JavaObjectsSnapshot)
        for old, other in zip(self.logical_types, new.logical_types, strict=True):
            if old != other:
                return SchemaCompatibility.incompatible(f"{old} was written, {other} is wanted")
        for old_object, new_object in zip(self.objects, new.objects, strict=True):
            if old_object.class_name != new_object.class_name:
                return SchemaCompatibility.incompatible(f"{old_object.class_name} was written, {new_object.class_name} is wanted")
        return SchemaCompatibility.compatible_as_is()


class ArrayDataSerializerSnapshot(JavaObjectsSnapshot):
    """Of :class:`ArrayDataSerializer`."""

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return ArrayDataSerializer(ArrayType(*types), self)


class MapDataSerializerSnapshot(JavaObjectsSnapshot):
    """Of :class:`MapDataSerializer`."""

    type_count = 2

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return MapDataSerializer(MapType(*types), self)


class NumbersSnapshot(TypeSerializerSnapshot):
    """A snapshot of ints, all of which must stay what they were.

    Subclasses name them in :attr:`names` and build the serializer from them.
    """

    names: ClassVar[tuple[str, ...]]

    def __init__(self, class_name: str, numbers: Sequence[int], version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.numbers = tuple(numbers)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> NumbersSnapshot:
        return cls(class_name, [source.read_int() for _ in cls.names], version)

    def write(self, target: DataOutput) -> None:
        for number in self.numbers:
            target.write_int(number)

    def restore_serializer(self) -> TypeSerializer:
        return self.create_serializer(*self.numbers)

    def create_serializer(self, *numbers: int) -> TypeSerializer:
        """The serializer for these numbers."""
        raise NotImplementedError

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, NumbersSnapshot)
        for name, old, other in zip(self.names, self.numbers, new.numbers, strict=True):
            if old != other:
                return SchemaCompatibility.incompatible(f"{name} {old} was written, {other} is wanted")
        return SchemaCompatibility.compatible_as_is()


BINARY_ROW_SNAPSHOT: Final = f"{TABLE}BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot"


class BinaryRowDataSerializer(TypeSerializer):
    """A binary row of which only the number of fields is known: a column holds the row's bytes (Flink:
    ``BinaryRowDataSerializer``; before 1.11 ``BinaryRowSerializer``).
    """

    def __init__(self, arity: int, snapshot_class: str = BINARY_ROW_SNAPSHOT) -> None:
        if arity < 0:
            raise UnsupportedFormatError(f"a binary row of {arity} fields")
        self.arity = arity
        self._least = null_bytes(arity) + 8 * arity
        self.smallest = 4 + self._least
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"BINARY_ROW({self.arity} fields of types that the snapshot does not hold)"

    def read(self, source: DataInput) -> bytes:
        start = source.position
        size = source.read_int()
        if size < self._least:
            raise source.corrupt(f"{size} bytes are too few for a binary row of {self.arity} fields", start)
        return source.read_bytes(size, "binary row")

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_int(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def accept(self, value: Any) -> bytes:
        return to_bytes(value)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.BYTES, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(encode_ops.BYTES, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return BinaryRowDataSerializerSnapshot(self._snapshot_class, [self.arity])

    def hash_code(self, value: bytes) -> int:
        return hash_words(value)


class BinaryRowDataSerializerSnapshot(NumbersSnapshot):
    """Of :class:`BinaryRowDataSerializer`."""

    current_version = 3
    names = ("number of fields",)

    def create_serializer(self, *numbers: int) -> TypeSerializer:
        (arity,) = numbers
        return BinaryRowDataSerializer(arity, self.class_name)


class StringDataSerializer(SimpleSerializer):
    """``StringData``: an int size and UTF-8 (Flink: ``StringDataSerializer``; before 1.11 ``BinaryStringSerializer``)."""

    snapshot_class = f"{TABLE}StringDataSerializer$StringDataSerializerSnapshot"
    smallest = 4

    def __str__(self) -> str:
        return "STRING"

    def read(self, source: DataInput) -> str:
        return decode_text(source.read_bytes(source.read_int(), "text"))

    def write(self, value: str, target: DataOutput) -> None:
        data = encode_text(value)
        target.write_int(len(data))
        target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def present(self, value: str, options: DecodeOptions) -> str:
        return present_text(value)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.UTF8, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(encode_ops.UTF8, column)

    def hash_code(self, value: str) -> int:
        return hash_bytes(encode_text(value))


DECIMAL_SNAPSHOT: Final = f"{TABLE}DecimalDataSerializer$DecimalSerializerSnapshot"


class DecimalDataSerializer(TypeSerializer):
    """``DecimalData``: a long up to 18 digits, else an int size and bytes (Flink: ``DecimalDataSerializer``; before 1.11
    ``DecimalSerializer``).
    """

    def __init__(self, precision: int, scale: int, snapshot_class: str = DECIMAL_SNAPSHOT) -> None:
        self.type = DecimalType(precision, scale)
        self.smallest = 8 if self.type.is_compact else 5
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return self.type.summary

    def read(self, source: DataInput) -> Decimal:
        if self.type.is_compact:
            return to_decimal(source.read_long(), self.type.scale)
        data = source.read_bytes(source.read_int(), "decimal")
        return to_decimal(int.from_bytes(data, "big", signed=True), self.type.scale)

    def write(self, value: Decimal, target: DataOutput) -> None:
        unscaled = to_unscaled(value, self.type)
        if self.type.is_compact:
            target.write_long(unscaled)
        else:
            data = to_java_bytes(unscaled)
            target.write_int(len(data))
            target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.type.arrow_type(options)

    def present(self, value: Decimal, options: DecodeOptions) -> Decimal:
        return present_decimal(value, self.type)

    def accept(self, value: Any) -> Decimal:
        return to_decimal(to_unscaled(value, self.type), self.type.scale)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.DECIMAL, column, 0, 0, 0, *decimal_operands(self.type))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        compact, high, low = decimal_operands(self.type)
        builder.op(encode_ops.DECIMAL, column, encode_ops.IN_LONG if compact else encode_ops.SIZED, 0, 0, 0, high, low)

    def snapshot(self) -> TypeSerializerSnapshot:
        return DecimalDataSerializerSnapshot(self._snapshot_class, [self.type.precision, self.type.scale])

    def hash_code(self, value: Decimal) -> int:
        return hashing.of_big_decimal(to_unscaled(value, self.type), self.type.scale)


class DecimalDataSerializerSnapshot(NumbersSnapshot):
    """Of :class:`DecimalDataSerializer`."""

    current_version = 3
    names = ("precision", "scale")

    def create_serializer(self, *numbers: int) -> TypeSerializer:
        precision, scale = numbers
        return DecimalDataSerializer(precision, scale, self.class_name)


TIMESTAMP_SNAPSHOT: Final = f"{TABLE}TimestampDataSerializer$TimestampDataSerializerSnapshot"


class TimestampDataSerializer(TypeSerializer):
    """``TimestampData``: long milliseconds, above precision 3 also int nanoseconds of the millisecond (Flink:
    ``TimestampDataSerializer``; before 1.11 ``SqlTimestampSerializer``).

    The snapshot does not say whether it is a ``TIMESTAMP`` or a ``TIMESTAMP_LTZ``: columns have no zone.
    """

    def __init__(self, precision: int, snapshot_class: str = TIMESTAMP_SNAPSHOT) -> None:
        self.type = TimestampType(precision)
        self.length = self.smallest = 8 if self.type.is_compact else 12
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return self.type.summary

    def read(self, source: DataInput) -> TimestampData:
        millis = source.read_long()
        return TimestampData(millis) if self.type.is_compact else checked_timestamp(millis, source.read_int())

    def write(self, value: TimestampData | datetime, target: DataOutput) -> None:
        millis, nano = to_timestamp(value, self.type)
        target.write_long(millis)
        if not self.type.is_compact:
            target.write_int(nano)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.type.arrow_type(options)

    def present(self, value: TimestampData, options: DecodeOptions) -> datetime | str:
        return present_timestamp(value, self.type, options)

    def accept(self, value: Any) -> TimestampData:
        return to_timestamp(value, self.type)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.TIMESTAMP, column, 0, 0, 0, *timestamp_operands(self.type, builder.options))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(encode_ops.TIMESTAMP, column, int(self.type.is_compact), int(pa.types.is_string(column.type)))

    def snapshot(self) -> TypeSerializerSnapshot:
        return TimestampDataSerializerSnapshot(self._snapshot_class, [self.type.precision])

    def hash_code(self, value: TimestampData) -> int:
        return hashing.wrap(31 * hashing.of_long(value.millis) + value.nano_of_milli)


class TimestampDataSerializerSnapshot(NumbersSnapshot):
    """Of :class:`TimestampDataSerializer`."""

    current_version = 1
    names = ("precision",)

    def create_serializer(self, *numbers: int) -> TypeSerializer:
        (precision,) = numbers
        return TimestampDataSerializer(precision, self.class_name)


class SizedBytesSerializer(TypeSerializer):
    """An int size and bytes that only Java can make sense of."""

    smallest = 4

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(source.read_int(), str(self))

    def skip(self, source: DataInput) -> None:
        source.skip(source.read_int(), str(self))

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_int(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def accept(self, value: Any) -> bytes:
        return to_bytes(value)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.BYTES, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(encode_ops.BYTES, column)


RAW_VALUE_SNAPSHOT: Final = f"{TABLE}RawValueDataSerializer$RawValueDataSerializerSnapshot"


class RawValueDataSerializer(SizedBytesSerializer):
    """``RawValueData``: an int size and what the nested serializer wrote (Flink: ``RawValueDataSerializer``; before 1.11
    ``BinaryGenericSerializer``). A column holds the bytes, as it does for raw fields of rows.
    """

    def __init__(self, inner: TypeSerializer, snapshot_class: str = RAW_VALUE_SNAPSHOT) -> None:
        self.inner = inner
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"RAW<{self.inner}>"

    def snapshot(self) -> TypeSerializerSnapshot:
        return RawValueDataSerializerSnapshot(self._snapshot_class, [self.inner.snapshot()])

    def hash_code(self, value: bytes) -> int:
        return hash_words(value)


class RawValueDataSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of :class:`RawValueDataSerializer`."""

    current_outer_version = 0

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return RawValueDataSerializer(nested[0], self.class_name)


class ExternalSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of values of a ``DataType``, which are written in internal form (Flink: ``ExternalSerializer``).

    The data type tells what the internal serializer does not know: the names of fields, and whether a timestamp has a zone.
    """

    data_type: JavaObject
    internal_input: bool

    def read_outer(self, source: DataInput) -> None:
        self.data_type = read_java_object(source)
        self.internal_input = source.read_boolean()

    def write_outer(self, target: DataOutput) -> None:
        target.write_bytes(self.data_type.raw)
        target.write_boolean(self.internal_input)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        inner, type_ = nested[0], type_of_data_type(self.data_type.content)
        if isinstance(inner, RowDataSerializer):
            inner = inner.named_as(type_)
        elif isinstance(inner, TimestampDataSerializer) and isinstance(type_, TimestampType):
            inner.type = type_
        return WrappingSerializer(inner, lambda _: self)


class VariantSerializer(SimpleSerializer):
    """``Variant``: the sizes of value and dictionary as ints, the value, the dictionary (since 2.1)."""

    snapshot_class = f"{BASE}VariantSerializer$VariantSerializerSnapshot"
    smallest = 8

    def __str__(self) -> str:
        return "VARIANT"

    def read(self, source: DataInput) -> Variant:
        value, metadata = source.read_int(), source.read_int()
        return Variant(source.read_bytes(value, "variant"), source.read_bytes(metadata, "dictionary of a variant"))

    def write(self, value: Sequence[bytes], target: DataOutput) -> None:
        content, metadata = value
        target.write_int(len(content))
        target.write_int(len(metadata))
        target.write_bytes(content)
        target.write_bytes(metadata)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([("value", pa.binary()), ("metadata", pa.binary())])

    def present(self, value: Variant, options: DecodeOptions) -> dict[str, bytes]:
        return value._asdict()

    def accept(self, value: Any) -> Variant:
        return to_variant(value)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.VALID, column)
        builder.op(ops.VARIANT, column.child(0), 0, 0, 0, column.child(1).index)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        parts = (column.named(n).index for n in Variant._fields)
        builder.op(encode_ops.REQUIRE, column)
        builder.op(encode_ops.VARIANT, column, 0, 0, 0, *parts)


class BitmapSerializer(SimpleSerializer, SizedBytesSerializer):
    """``Bitmap``: an int size and its bytes (since 2.3); a column holds the bytes."""

    snapshot_class = f"{BASE}BitmapSerializer$BitmapSerializerSnapshot"

    def __str__(self) -> str:
        return "BITMAP"


register_snapshots(
    (f"{TABLE}RowDataSerializer$RowDataSerializerSnapshot", f"{TABLE}BaseRowSerializer$BaseRowSerializerSnapshot"),
    RowDataSerializerSnapshot,
)
register_snapshots(
    (BINARY_ROW_SNAPSHOT, f"{TABLE}BinaryRowSerializer$BinaryRowSerializerSnapshot"), BinaryRowDataSerializerSnapshot
)
register_snapshots(
    (f"{TABLE}ArrayDataSerializer$ArrayDataSerializerSnapshot", f"{TABLE}BaseArraySerializer$BaseArraySerializerSnapshot"),
    ArrayDataSerializerSnapshot,
)
register_snapshots(
    (f"{TABLE}MapDataSerializer$MapDataSerializerSnapshot", f"{TABLE}BaseMapSerializer$BaseMapSerializerSnapshot"),
    MapDataSerializerSnapshot,
)
register_simple(StringDataSerializer(), f"{TABLE}BinaryStringSerializer$BinaryStringSerializerSnapshot")
register_snapshots((DECIMAL_SNAPSHOT, f"{TABLE}DecimalSerializer$DecimalSerializerSnapshot"), DecimalDataSerializerSnapshot)
register_snapshots(
    (TIMESTAMP_SNAPSHOT, f"{TABLE}SqlTimestampSerializer$SqlTimestampSerializerSnapshot"), TimestampDataSerializerSnapshot
)
register_snapshots(
    (RAW_VALUE_SNAPSHOT, f"{TABLE}BinaryGenericSerializer$BinaryGenericSerializerSnapshot"), RawValueDataSerializerSnapshot
)
register_snapshot(f"{TABLE}ExternalSerializer$ExternalSerializerSnapshot", ExternalSerializerSnapshot)
register_simple(VariantSerializer())
register_simple(BitmapSerializer())
