"""Scalar types in Flink's encoding of Avro data (Flink: ``DataOutputEncoder``, ``DataInputDecoder``), and logical types."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.big_numbers import EXACT, to_decimal, to_java_bytes
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.basic import NumberSerializer, VoidSerializer
from state_processor.serializers.core.temporal import date_type, present_date, present_time
from state_processor.serializers.core.time_values import (
    NANOS_OF_SECOND,
    SECONDS_OF_DAY,
    Instant,
    LocalDate,
    LocalTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.opcodes import CLOCK_TEXT, COUNTS, DATE_TEXT, FIXED, INSTANT_TEXT, LOCAL_TEXT, SIZED, Op
from state_processor.serializers.table.binary_values import decimal_limit
from state_processor.serializers.text_grammar import message_text, to_number, to_whole_number
from state_processor.support.errors import NotCompilableError, UndecodableValueError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class AvroType(Codec):
    """A node of a schema. It is a part of a serializer, without a snapshot of its own."""

    min_size = 0
    name: str

    def __str__(self) -> str:
        return self.name


class AvroNull(VoidSerializer):
    """``null``: zero bytes."""

    length = min_size = 0

    def __str__(self) -> str:
        return "null"


class AvroNumber(NumberSerializer):
    """``boolean``, ``int``, ``long``, ``float``, ``double``."""

    def __str__(self) -> str:
        return self._number.name.lower()


class AvroBytes(AvroType):
    """``bytes``: an int length and the bytes."""

    name = "bytes"
    min_size = 4

    def read(self, source: DataInput) -> Any:
        return source.read_bytes(source.read_count("bytes"))

    def write(self, value: Any, target: DataOutput) -> None:
        target.write_int(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def from_column(self, value: Any) -> bytes:
        return bytes.fromhex(value) if isinstance(value, str) else value

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.BYTES, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.BYTES, column)


class AvroString(AvroType):
    """``string``: an int length and UTF-8."""

    name = "string"
    min_size = 4

    def read(self, source: DataInput) -> str:
        start = source.position
        try:
            return source.read_bytes(source.read_count("bytes of text")).decode()
        except UnicodeDecodeError as problem:
            raise source.corrupt(f"not UTF-8: {problem.reason}", start) from None

    def write(self, value: str, target: DataOutput) -> None:
        data = value.encode()
        target.write_int(len(data))
        target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.UTF8, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.UTF8, column)

    def hash_code(self, value: str) -> int:
        return hashing.of_units(struct.unpack(f"{len(value.encode())}b", value.encode()))


class AvroFixed(AvroType):
    """``fixed``: as many bytes as the schema defines."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.length = self.min_size = size

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(self.length)

    def write(self, value: bytes, target: DataOutput) -> None:
        if len(value) != self.length:
            raise ValueError(f"{len(value)} bytes for the fixed type {self.name} of {self.length}")
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def from_column(self, value: Any) -> bytes:
        return bytes.fromhex(value) if isinstance(value, str) else value

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.FIXED_BYTES, column, size=self.length)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.FIXED_BYTES, column, size=self.length)

    def hash_code(self, value: bytes) -> int:
        return hashing.of_units(struct.unpack(f"{len(value)}b", value), start=1)


class AvroEnum(AvroType):
    """``enum``: the index of a symbol. Python holds the symbol."""

    length = min_size = 4

    def __init__(self, name: str, symbols: Sequence[str]) -> None:
        self.name = name
        self.symbols = tuple(symbols)

    def read(self, source: DataInput) -> str:
        start = source.position
        index = source.read_int()
        if not 0 <= index < len(self.symbols):
            raise source.corrupt(f"symbol {index} of {self.name}, whose schema has {len(self.symbols)}", start)
        return self.symbols[index]

    def write(self, value: str, target: DataOutput) -> None:
        if value not in self.symbols:
            raise ValueError(f"expected a symbol of {self.name} ({', '.join(self.symbols)}), found {value!r}")
        target.write_int(self.symbols.index(value))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.enum(column, list(map(str.encode, self.symbols)))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.enum(column, list(map(str.encode, self.symbols)))

    def hash_code(self, value: str) -> int:
        return self.symbols.index(value)


_MAX_DECIMAL: Final = 38
_SINCE_MIDNIGHT: Final = 2
_TEXT_FORMS: Final = {
    "date": DATE_TEXT,
    "time": CLOCK_TEXT,
    "timestamp": INSTANT_TEXT,
    "local": LOCAL_TEXT,
}
_UNITS: Final = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


class AvroLogical(AvroType):
    """A logical type over its base type; its kind decides how a column shows it."""

    child_names = ("",)

    def __init__(self, base: Codec, kind: str) -> None:
        self.base = base
        self.kind = kind
        self.name = str(base)
        self.length = base.length
        self.min_size = base.min_size

    @property
    def children(self) -> Sequence[Codec]:
        return (self.base,)

    def with_children(self, children: Sequence[Codec]) -> Codec:
        (base,) = children
        return AvroLogical(base, self.kind)

    def read(self, source: DataInput) -> Any:
        return self.base.read(source)

    def write(self, value: Any, target: DataOutput) -> None:
        self.base.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        if self.kind == "date":
            return date_type(options)
        if self.kind.startswith("time-") or options.as_text:
            return pa.string()
        arrow = pa.timestamp("us", tz=None if self.kind.startswith("local-") else "UTC")
        return options.column_type(arrow, declares_nanos=self._nanos == 1)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        if self.kind == "date":
            return present_date(LocalDate.of_epoch_day(value), options)
        seconds, nano = divmod(value * self._nanos, NANOS_OF_SECOND)
        if self.kind.startswith("time-"):
            if not 0 <= seconds < SECONDS_OF_DAY:
                raise UndecodableValueError(f"expected a time of day of Avro's {self.kind}, found {value}")
            return str(LocalTime.of_second(seconds, nano))
        local = self.kind.startswith("local-")
        if options.as_text:
            instant = Instant(seconds, nano)
            return str(instant.utc if local else instant)
        return present_time(seconds, nano, options, None if local else UTC)

    def from_column(self, value: Any) -> Any:
        if isinstance(value, int):
            return value
        if self.kind == "date":
            return to_local_date(value).epoch_day
        if self.kind.startswith("time-"):
            nanos = to_local_time(value).nano_of_day
        else:
            seconds, nano = to_local_date_time(value).in_utc if self.kind.startswith("local-") else to_instant(value)
            nanos = seconds * NANOS_OF_SECOND + nano
        units, lost = divmod(nanos, self._nanos)
        if lost:
            raise ValueError(f"{value} is finer than Avro's {self.kind}")
        return units

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        of_day, local = self.kind.startswith("time-"), self.kind.startswith("local-")
        meaning = _SINCE_MIDNIGHT if of_day else int(not local)
        builder.op(Op.EPOCH, column, mode=builder.options.time_mode, meaning=meaning, units=self._units, size=self.length)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        form = COUNTS
        if pa.types.is_string(column.type):
            kind = self.kind.partition("-")[0]
            form = _TEXT_FORMS[kind]
        builder.op(Op.EPOCH, column, units=self._units, size=self.length, form=form)

    @property
    def _units(self) -> int:
        """Units of a second; 0 for days."""
        return 0 if self.kind == "date" else NANOS_OF_SECOND // self._nanos

    @property
    def _nanos(self) -> int:
        """Nanoseconds of a unit."""
        return _UNITS[self.kind.rpartition("-")[2]]

    def hash_code(self, value: Any) -> int:
        return self.base.hash_code(value)


class AvroDecimal(AvroLogical):
    """``decimal`` over ``bytes`` or ``fixed``: the unscaled number, big-endian.

    Python holds the bytes, because Avro permits leading bytes without meaning. Numbers of more than Spark's 38 digits are text.
    """

    def __init__(self, base: Codec, precision: int, scale: int) -> None:
        super().__init__(base, "decimal")
        self.precision = precision
        self.scale = scale

    def with_children(self, children: Sequence[Codec]) -> Codec:
        (base,) = children
        return AvroDecimal(base, self.precision, self.scale)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        if self.precision <= _MAX_DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return options.column_type(pa.string(), "number")

    def to_column(self, value: bytes, options: DecodeOptions) -> Any:
        decimal = to_decimal(int.from_bytes(value, "big", signed=True), self.scale)
        if len(decimal.as_tuple().digits) > self.precision:
            raise UndecodableValueError(f"{message_text(decimal)} has more digits than decimal({self.precision},{self.scale})")
        return decimal if self.precision <= _MAX_DECIMAL else str(decimal)

    def from_column(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        unscaled = to_number(value).scaleb(self.scale, EXACT)
        if unscaled != unscaled.to_integral_value() or (unscaled and unscaled.adjusted() >= self.precision):
            raise ValueError(f"expected a decimal({self.precision},{self.scale}), found {message_text(value)}")
        number = to_whole_number(unscaled)
        return to_java_bytes(number) if self.length < 0 else number.to_bytes(self.length, "big", signed=True)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if self.precision <= _MAX_DECIMAL and isinstance(self.base, AvroBytes):
            # The instruction tests by Flink SQL's rule if a decimal fits a long; here a decimal is always bytes.
            builder.op(Op.DECIMAL, column, compact=0, limit=decimal_limit(self.precision))
        else:
            raise NotCompilableError("decimal")

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        if self.precision > _MAX_DECIMAL:
            builder.prepare(self, column)
            return
        form = FIXED if self.length >= 0 else SIZED
        builder.op(Op.DECIMAL, column, form=form, size=max(self.length, 0), limit=decimal_limit(self.precision))
