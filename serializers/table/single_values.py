"""Serializers of single values of Flink SQL (Flink: ``org.apache.flink.table.runtime.typeutils``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.big_numbers import to_decimal, to_java_bytes
from state_processor.serializers.core.temporal import present_date
from state_processor.serializers.core.time_values import LocalDate
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long, hash_bytes, hash_words, signed
from state_processor.serializers.kernel.opcodes import CLOCK_TEXT, COUNTS, DATE_TEXT, IN_LONG, SIZED, Op
from state_processor.serializers.registry import BASE, provide_snapshots
from state_processor.serializers.table.binary_slots import null_bytes
from state_processor.serializers.table.binary_values import (
    OfSqlType,
    TimestampData,
    Variant,
    checked_timestamp,
    decimal_limit,
    decode_text,
    emit_timestamp,
    encode_text,
    limits_of,
    present_decimal,
    present_text,
    present_timestamp,
    time_text,
    to_bytes,
    to_epoch_day,
    to_millis_of_day,
    to_timestamp,
    to_unscaled,
    to_variant,
)
from state_processor.serializers.table.logical_types import AtomicType, DateType, DecimalType, TextType, TimestampType, TimeType
from state_processor.support.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_DAYS: Final = 0
_SINCE_MIDNIGHT: Final = 2
_MILLIS: Final = 1000


class _CountSerializer(OfSqlType, SimpleSerializer):
    """An int that counts the days since 1970, or the milliseconds of a day."""

    snapshot_class = f"{BASE}IntSerializer$IntSerializerSnapshot"
    length = min_size = 4
    type: DateType | TimeType
    _units: int
    """Units of a second; 0 for days."""
    _text_form: int

    def read(self, source: DataInput) -> int:
        return source.read_int()

    def write(self, value: int, target: DataOutput) -> None:
        target.write_int(value)

    @abstractmethod
    def from_column(self, value: Any) -> int:
        """Return the count of a value of a column."""

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        meaning = _SINCE_MIDNIGHT if self._units else 0
        builder.op(Op.EPOCH, column, mode=builder.options.time_mode, meaning=meaning, units=self._units, size=self.length)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        form = self._text_form if pa.types.is_string(column.type) else COUNTS
        builder.op(Op.EPOCH, column, units=self._units, size=self.length, form=form)

    def hash_code(self, value: int) -> int:
        return value


class DateDataSerializer(_CountSerializer):
    """``DATE``: an int, the days since 1970 (Flink: ``IntSerializer``)."""

    type = DateType()
    _units = _DAYS
    _text_form = DATE_TEXT

    def from_column(self, value: Any) -> int:
        return to_epoch_day(value)

    def to_column(self, value: int, options: DecodeOptions) -> date | str:
        return present_date(LocalDate.of_epoch_day(value), options)


class TimeDataSerializer(_CountSerializer):
    """``TIME``: an int, the milliseconds of the day (Flink: ``IntSerializer``)."""

    _units = _MILLIS
    _text_form = CLOCK_TEXT

    def __init__(self, precision: int = 0, snapshot_class: str = "") -> None:
        super().__init__(snapshot_class)
        self.type = TimeType(precision)

    def from_column(self, value: Any) -> int:
        return to_millis_of_day(value)

    def to_column(self, value: int, options: DecodeOptions) -> str:
        return time_text(value)


TABLE: Final = "org.apache.flink.table.runtime.typeutils."
DATA_VIEW: Final = "org.apache.flink.table.dataview."


class NumbersSnapshot(TypeSerializerSnapshot):
    """A snapshot of ints; a new snapshot is compatible only if all of them are equal.

    Subclasses name them in :attr:`names`.
    """

    names: ClassVar[tuple[str, ...]]
    serializer: ClassVar[Callable[..., TypeSerializer]]
    """The class of the serializer; its arguments are the numbers and the class of the snapshot."""

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
        return type(self).serializer(*self.numbers, self.class_name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, NumbersSnapshot)
        for name, old, new_number in zip(self.names, self.numbers, new.numbers, strict=True):
            if old != new_number:
                return SchemaCompatibility.incompatible(f"{name} {old} was written, {new_number} is required")
        return SchemaCompatibility.compatible_as_is()


class SizedBytesSerializer(TypeSerializer):
    """An int size, and bytes that only Java can interpret."""

    min_size = 4

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(source.read_int(), str(self))

    def skip(self, source: DataInput) -> None:
        source.skip(source.read_int(), str(self))

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_int(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def from_column(self, value: Any) -> bytes:
        return to_bytes(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.BYTES, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.BYTES, column)


BINARY_ROW_SNAPSHOT: Final = f"{TABLE}BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot"


class BinaryRowDataSerializer(SizedBytesSerializer):
    """A binary row with a known number of fields of unknown types: a column contains the row's bytes.

    Flink: ``BinaryRowDataSerializer``; before 1.11 ``BinaryRowSerializer``.
    """

    def __init__(self, arity: int, snapshot_class: str = BINARY_ROW_SNAPSHOT) -> None:
        if arity < 0:
            raise UnsupportedFormatError(f"a binary row of {arity} fields")
        self.arity = arity
        self._least = null_bytes(arity) + 8 * arity
        self.min_size = 4 + self._least
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"BINARY_ROW({self.arity} fields of types that the snapshot does not contain)"

    def read(self, source: DataInput) -> bytes:
        start = source.position
        size = source.read_int()
        if size < self._least:
            raise source.corrupt(f"{size} bytes are too few for a binary row of {self.arity} fields", start)
        return source.read_bytes(size, "binary row")

    def skip(self, source: DataInput) -> None:
        self.read(source)

    def snapshot(self) -> TypeSerializerSnapshot:
        return BinaryRowDataSerializerSnapshot(self._snapshot_class, [self.arity])

    def hash_code(self, value: bytes) -> int:
        return hash_words(value)


class BinaryRowDataSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`BinaryRowDataSerializer`."""

    current_version = 3
    names = ("number of fields",)
    serializer = BinaryRowDataSerializer


class StringDataSerializer(OfSqlType, SimpleSerializer):
    """``StringData``: an int size and UTF-8 (Flink: ``StringDataSerializer``; before 1.11 ``BinaryStringSerializer``)."""

    never_null = True
    snapshot_class = f"{TABLE}StringDataSerializer$StringDataSerializerSnapshot"
    min_size = 4
    type = TextType()

    def read(self, source: DataInput) -> str:
        return decode_text(source.read_bytes(source.read_int(), "text"))

    def write(self, value: str, target: DataOutput) -> None:
        data = encode_text(value)
        target.write_int(len(data))
        target.write_bytes(data)

    def to_column(self, value: str, options: DecodeOptions) -> str:
        return present_text(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.UTF8, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.UTF8, column)

    def hash_code(self, value: str) -> int:
        return hash_bytes(encode_text(value))


DECIMAL_SNAPSHOT: Final = f"{TABLE}DecimalDataSerializer$DecimalSerializerSnapshot"


class DecimalDataSerializer(OfSqlType, TypeSerializer):
    """``DecimalData``: a long up to 18 digits, else an int size and bytes.

    Flink: ``DecimalDataSerializer``; before 1.11 ``DecimalSerializer``.
    """

    type: DecimalType

    def __init__(self, precision: int, scale: int, snapshot_class: str = DECIMAL_SNAPSHOT) -> None:
        self.type = DecimalType(precision, scale)
        self.min_size = 8 if self.type.is_compact else 5
        self._snapshot_class = snapshot_class

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

    def to_column(self, value: Decimal, options: DecodeOptions) -> Decimal:
        return present_decimal(value, self.type)

    def from_column(self, value: Any) -> Decimal:
        return to_decimal(to_unscaled(value, self.type), self.type.scale)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.DECIMAL, column, compact=int(self.type.is_compact), limit=decimal_limit(self.type.precision))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        form = IN_LONG if self.type.is_compact else SIZED
        builder.op(Op.DECIMAL, column, form=form, size=0, limit=decimal_limit(self.type.precision))

    def snapshot(self) -> TypeSerializerSnapshot:
        return DecimalDataSerializerSnapshot(self._snapshot_class, [self.type.precision, self.type.scale])

    def hash_code(self, value: Decimal) -> int:
        return hashing.of_big_decimal(to_unscaled(value, self.type), self.type.scale)


class DecimalDataSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`DecimalDataSerializer`."""

    current_version = 3
    names = ("precision", "scale")
    serializer = DecimalDataSerializer


TIMESTAMP_SNAPSHOT: Final = f"{TABLE}TimestampDataSerializer$TimestampDataSerializerSnapshot"


class TimestampDataSerializer(OfSqlType, TypeSerializer):
    """``TimestampData``: long milliseconds, above precision 3 also int nanoseconds of the millisecond.

    Flink: ``TimestampDataSerializer``; before 1.11 ``SqlTimestampSerializer``.

    The snapshot does not distinguish ``TIMESTAMP`` and ``TIMESTAMP_LTZ``, so columns lack a zone.
    """

    type: TimestampType

    def __init__(self, precision: int, snapshot_class: str = TIMESTAMP_SNAPSHOT) -> None:
        self.type = TimestampType(precision)
        self.length = self.min_size = 8 if self.type.is_compact else 12
        self._snapshot_class = snapshot_class

    def shown_as(self, type_: TimestampType) -> Self:
        """Return the same serializer with a column of a type that may have a zone."""
        return self._copy_with(type=type_)

    def read(self, source: DataInput) -> TimestampData:
        millis = source.read_long()
        return TimestampData(millis) if self.type.is_compact else checked_timestamp(millis, source.read_int())

    def write(self, value: TimestampData | datetime, target: DataOutput) -> None:
        millis, nano = to_timestamp(value, self.type)
        target.write_long(millis)
        if not self.type.is_compact:
            target.write_int(nano)

    def to_column(self, value: TimestampData, options: DecodeOptions) -> datetime | str:
        return present_timestamp(value, self.type, options)

    def from_column(self, value: Any) -> TimestampData:
        for limit in limits_of(self.type):
            limit.check(value)
        return to_timestamp(value, self.type)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        emit_timestamp(builder, self.type, column, Op.TIMESTAMP, Op.TIMESTAMP_TEXT)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.limit(column, limits_of(self.type))
        builder.op(Op.TIMESTAMP, column, compact=int(self.type.is_compact), text=int(pa.types.is_string(column.type)))

    def snapshot(self) -> TypeSerializerSnapshot:
        return TimestampDataSerializerSnapshot(self._snapshot_class, [self.type.precision])

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        nano = 0 if self.type.is_compact else signed(values, 8, 12)
        return (31 * fold_long(signed(values, 0, 8)).astype(np.int64) + nano).astype(np.int32)


class TimestampDataSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`TimestampDataSerializer`."""

    current_version = 1
    names = ("precision",)
    serializer = TimestampDataSerializer


class NullSerializer(OfSqlType, SimpleSerializer):
    """A zero byte for a field that is always null, such as a data view: its content is another state."""

    snapshot_class = f"{DATA_VIEW}NullSerializer$NullSerializerSnapshot"
    length = min_size = 1
    type = AtomicType("NULL")

    def read(self, source: DataInput) -> None:
        if source.read_byte():
            raise source.corrupt("a zero byte for null expected", source.position - 1)

    def write(self, value: None, target: DataOutput) -> None:
        target.write_byte(0)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.expect(0)
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(self.serialize(None))

    def hash_code(self, value: None) -> int:
        return 0


RAW_VALUE_SNAPSHOT: Final = f"{TABLE}RawValueDataSerializer$RawValueDataSerializerSnapshot"


class RawValueDataSerializer(SizedBytesSerializer):
    """``RawValueData``: an int size and the bytes of the nested serializer; a column contains these bytes.

    Flink: ``RawValueDataSerializer``; before 1.11 ``BinaryGenericSerializer``.
    """

    child_names = ("",)

    def __init__(self, inner: TypeSerializer, snapshot_class: str = RAW_VALUE_SNAPSHOT) -> None:
        self.inner = inner
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"RAW<{self.inner}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.inner,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (inner,) = children
        return RawValueDataSerializer(inner, self._snapshot_class)

    def snapshot(self) -> TypeSerializerSnapshot:
        return RawValueDataSerializerSnapshot(self._snapshot_class, [self.inner.snapshot()])

    def hash_code(self, value: bytes) -> int:
        return hash_words(value)


class RawValueDataSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`RawValueDataSerializer`."""

    current_outer_version = 0

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return RawValueDataSerializer(nested[0], self.class_name)


class VariantSerializer(OfSqlType, SimpleSerializer):
    """``Variant``: the sizes of value and dictionary as ints, the value, the dictionary (since 2.1)."""

    snapshot_class = f"{BASE}VariantSerializer$VariantSerializerSnapshot"
    min_size = 8
    type = AtomicType("VARIANT")

    def read(self, source: DataInput) -> Variant:
        value, metadata = source.read_int(), source.read_int()
        return Variant(source.read_bytes(value, "variant"), source.read_bytes(metadata, "dictionary of a variant"))

    def write(self, value: Sequence[bytes], target: DataOutput) -> None:
        content, metadata = value
        target.write_int(len(content))
        target.write_int(len(metadata))
        target.write_bytes(content)
        target.write_bytes(metadata)

    def to_column(self, value: Variant, options: DecodeOptions) -> dict[str, bytes]:
        return value._asdict()

    def from_column(self, value: Any) -> Variant:
        return to_variant(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.VALID, column)
        builder.op(Op.VARIANT, column.child(0), dictionary=column.child(1))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        value, dictionary = map(column.named, Variant._fields)
        builder.op(Op.REQUIRE, column)
        builder.op(Op.VARIANT, column, value=value, dictionary=dictionary)


class BitmapSerializer(OfSqlType, SimpleSerializer, SizedBytesSerializer):
    """``Bitmap``: an int size and its bytes (since 2.3); a column contains the bytes."""

    snapshot_class = f"{BASE}BitmapSerializer$BitmapSerializerSnapshot"
    type = AtomicType("BITMAP")


provide_snapshots(
    (BINARY_ROW_SNAPSHOT, f"{TABLE}BinaryRowSerializer$BinaryRowSerializerSnapshot"), BinaryRowDataSerializerSnapshot
)
register_simple(StringDataSerializer(), f"{TABLE}BinaryStringSerializer$BinaryStringSerializerSnapshot")
provide_snapshots((DECIMAL_SNAPSHOT, f"{TABLE}DecimalSerializer$DecimalSerializerSnapshot"), DecimalDataSerializerSnapshot)
provide_snapshots(
    (TIMESTAMP_SNAPSHOT, f"{TABLE}SqlTimestampSerializer$SqlTimestampSerializerSnapshot"), TimestampDataSerializerSnapshot
)
provide_snapshots(
    (RAW_VALUE_SNAPSHOT, f"{TABLE}BinaryGenericSerializer$BinaryGenericSerializerSnapshot"), RawValueDataSerializerSnapshot
)
register_simple(VariantSerializer())
register_simple(BitmapSerializer())
register_simple(NullSerializer())
