"""Scalar types: their description, and all but dates and times (Flink: ``api.common.typeutils.base``)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from operator import index
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers import big_numbers
from state_processor.serializers.base import SimpleSerializer, register_simple
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.format_versions import declare_simple
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.java.types import BOXES
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import BASE
from state_processor.serializers.text_grammar import to_number, to_whole_number
from state_processor.support.mappings import index_by_name

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class PythonCoder(Enum):
    """Form in which PyFlink's workers write a value (PyFlink: ``pyflink.fn_execution.coders``)."""

    SAME = auto()
    """The bytes of the serializer itself."""
    TEXT = auto()
    LONG = auto()
    DECIMAL_TEXT = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    NONE = auto()
    """PyFlink lacks a coder for the type."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type of one value, without parameters.

    The serializer has the rest: name (``str``), width, Arrow type, kernel instruction, snapshot class, hash code.
    """

    serializer: SimpleSerializer  # the serializer. Its ``str`` is the name of the type in ``Types`` and in the text of types.
    java_class: str  # the Java type of values: ``java.time.Instant``, or ``long`` for a primitive type
    python_coder: PythonCoder  # the form in which PyFlink's workers write a value
    inferred_from: tuple[pa.DataType, ...] = ()  # Arrow types of columns that become this type if none is declared
    boxed_class: str | None = None  # the class of values that may be null, for a primitive type
    since: str = "1.7"  # the first Flink that wrote the snapshot class
    # true if Flink infers the serializer for fields of the class (``TypeExtractor``); it leaves other classes to Kryo
    extracted: bool = True

    @property
    def name(self) -> str:
        """The type's name."""
        return str(self.serializer)


def register_scalars(scalars: Iterable[ScalarType]) -> None:
    """Register the snapshot classes of scalar types, and the versions that Flink writes."""
    for scalar in scalars:
        declare_simple(scalar.serializer.snapshot_class, scalar.since)
        register_simple(scalar.serializer)


@dataclass(frozen=True, slots=True)
class _Number:
    """Properties of a fixed-width type."""

    name: str
    layout: struct.Struct
    operation: Op
    arrow_type: pa.DataType
    hash_code: Callable[[Any], int]
    from_column: Callable[[Any], Any]

    def __reduce__(self) -> tuple[Callable[[str], _Number], tuple[str]]:
        return _number, (self.name,)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f"expected a number, found {value!r}")
    return index(value)


def _floating(layout: str) -> Callable[[Any], float]:
    """Return a function that accepts numbers that a floating type holds exactly and refuses all others."""

    def accept(value: Any) -> float:
        if isinstance(value, str | bool):
            raise TypeError(f"expected a number, found {value!r}")
        try:
            (number,) = struct.unpack(layout, struct.pack(layout, value))
        except OverflowError:
            number = None
        if number != value and number == number:
            raise ValueError(f"{value!r} is not exactly a number of {struct.calcsize(layout)} bytes")
        return float(value)

    return accept


def _number(name: str) -> _Number:
    return _NUMBERS[name]


_NUMBERS: Final = index_by_name(
    (
        _Number("BOOLEAN", struct.Struct(">?"), Op.INT8, pa.bool_(), hashing.of_boolean, _truth),
        _Number("BYTE", struct.Struct(">b"), Op.INT8, pa.int8(), int, _integer),
        _Number("SHORT", struct.Struct(">h"), Op.INT16, pa.int16(), int, _integer),
        _Number("INT", struct.Struct(">i"), Op.INT32, pa.int32(), int, _integer),
        _Number("LONG", struct.Struct(">q"), Op.INT64, pa.int64(), hashing.of_long, _integer),
        _Number("FLOAT", struct.Struct(">f"), Op.FLOAT32, pa.float32(), hashing.of_float, _floating(">f")),
        _Number("DOUBLE", struct.Struct(">d"), Op.FLOAT64, pa.float64(), hashing.of_double, _floating(">d")),
    )
)


def number_layout(name: str, order: str = ">") -> struct.Struct:
    """Return the bytes of a number type, big-endian as in Java or little-endian (``<``)."""
    return struct.Struct(order + _NUMBERS[name].layout.format[1:])


class NumberSerializer(SimpleSerializer):
    """A primitive type of Java except ``char``: a fixed number of bytes, big-endian.

    Parameters
    ----------
    name
        ``BOOLEAN``, ``BYTE``, ``SHORT``, ``INT``, ``LONG``, ``FLOAT`` or ``DOUBLE``.
    """

    never_null = True

    def __init__(self, name: str, snapshot_class: str = "") -> None:
        title = name.capitalize()
        super().__init__(snapshot_class or f"{BASE}{title}Serializer${title}SerializerSnapshot")
        self._number = _NUMBERS[name]
        self.length = self.min_size = self._number.layout.size

    def __str__(self) -> str:
        return self._number.name

    def read(self, source: DataInput) -> Any:
        return self._number.layout.unpack(source.read_bytes(self.length, str(self)))[0]

    def write(self, value: Any, target: DataOutput) -> None:
        # Java writes every NaN with the same bits. A key with other bits would not be found again.
        target.write_bytes(self._number.layout.pack(value if value == value else math.nan))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._number.arrow_type

    def from_column(self, value: Any) -> Any:
        return self._number.from_column(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(self._number.operation, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(self._number.operation, column)

    def hash_code(self, value: Any) -> int:
        return self._number.hash_code(value)


class CharSerializer(SimpleSerializer):
    """A UTF-16 unit. Python holds it as a string of one character."""

    never_null = True
    snapshot_class = f"{BASE}CharSerializer$CharSerializerSnapshot"
    length = min_size = 2

    def __str__(self) -> str:
        return "CHAR"

    def read(self, source: DataInput) -> str:
        return chr(source.read_unsigned_short())

    def write(self, value: str, target: DataOutput) -> None:
        target.write_short(ord(value))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def to_column(self, value: str, options: DecodeOptions) -> str:
        return without_lone_surrogates(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.CHAR, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.CHAR, column)

    def hash_code(self, value: str) -> int:
        return ord(value)


class StringSerializer(SimpleSerializer):
    """``java.lang.String`` or null: length + 1 and UTF-16 units, each as a varint (Flink: ``StringValue.writeString``)."""

    never_null = True
    snapshot_class = f"{BASE}StringSerializer$StringSerializerSnapshot"
    _lengths_start_at = 1
    _operation = Op.STRING

    def __str__(self) -> str:
        return "STRING"

    def read(self, source: DataInput) -> str | None:
        start = source.position
        units = source.read_unsigned_varint() - self._lengths_start_at
        if units < 0:
            return None
        if units > source.remaining:
            raise source.corrupt(f"string of {units} characters announced, {source.remaining} bytes left", start)
        raw = struct.pack(f"<{units}H", *[self._unit(source) for _ in range(units)])
        return raw.decode("utf-16-le", "surrogatepass")

    @staticmethod
    def _unit(source: DataInput) -> int:
        start = source.position
        unit = source.read_unsigned_varint()
        if unit > 0xFFFF:
            raise source.corrupt(f"expected a UTF-16 unit, found {unit}", start)
        return unit

    def write(self, value: str | None, target: DataOutput) -> None:
        if value is None:
            target.write_unsigned_varint(0)
            return
        raw = value.encode("utf-16-le", "surrogatepass")
        target.write_unsigned_varint(len(raw) // 2 + self._lengths_start_at)
        for (unit,) in struct.iter_unpack("<H", raw):
            target.write_unsigned_varint(unit)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def to_column(self, value: str | None, options: DecodeOptions) -> str | None:
        return None if value is None else without_lone_surrogates(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(self._operation, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(self._operation, column)

    def hash_code(self, value: str | None) -> int:
        return 0 if value is None else hashing.of_string(value)


class StringValueSerializer(StringSerializer):
    """``StringValue``: encoded as a string, but with the plain length; it can't be null."""

    snapshot_class = f"{BASE}StringValueSerializer$StringValueSerializerSnapshot"
    _lengths_start_at = 0
    _operation = Op.STRING_VALUE

    def write(self, value: str | None, target: DataOutput) -> None:
        if value is None:
            raise ValueError("null; STRING_VALUE can't store null")
        super().write(value, target)


_BIG_CONSTANTS: Final = {1: 0, 2: 1, 3: 10}


class SpelledOut(int):
    """A zero, one or ten that is not Java's constant object (``BigInteger.ONE``): Flink writes its bytes."""


class SpelledOutDecimal(Decimal):
    """A decimal whose unscaled number is :class:`SpelledOut`."""


class BigIntegerSerializer(SimpleSerializer):
    """``java.math.BigInteger`` or null: size + 4 and two's complement bytes, or one of three constants.

    Zero, one and ten have two forms. The forms differ as part of a key, so :class:`SpelledOut` distinguishes them.
    """

    never_null = True
    snapshot_class = f"{BASE}BigIntSerializer$BigIntSerializerSnapshot"
    min_size = 4

    def __str__(self) -> str:
        return "BIG_INT"

    def read(self, source: DataInput) -> int | None:
        start = source.position
        head = source.read_int()
        if head == 0:
            return None
        if head in _BIG_CONSTANTS:
            return _BIG_CONSTANTS[head]
        if head <= 4:
            raise source.corrupt(f"expected the size of a big integer, found {head}", start)
        value = int.from_bytes(source.read_bytes(head - 4, "big integer"), "big", signed=True)
        return SpelledOut(value) if value in _BIG_CONSTANTS.values() else value

    def write(self, value: int | None, target: DataOutput) -> None:
        if value is None:
            target.write_int(0)
            return
        if not isinstance(value, SpelledOut):
            for head, constant in _BIG_CONSTANTS.items():
                if value == constant:
                    target.write_int(head)
                    return
        raw = big_numbers.to_java_bytes(value)
        target.write_int(len(raw) + 4)
        target.write_bytes(raw)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return options.column_type(pa.string(), "whole")

    def to_column(self, value: int | None, options: DecodeOptions) -> str | None:
        return None if value is None else big_numbers.to_text(value)

    def from_column(self, value: Any) -> int | None:
        return None if value is None else to_whole_number(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.BIG_INTEGER, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.number(Op.BIG_INTEGER, column)

    def hash_code(self, value: int | None) -> int:
        return 0 if value is None else hashing.of_big_integer(value)


class BigDecimalSerializer(SimpleSerializer):
    """``java.math.BigDecimal`` or null: the unscaled number as a big integer, then the scale.

    Python holds it as a ``Decimal`` with the same digits and exponent.
    """

    never_null = True
    snapshot_class = f"{BASE}BigDecSerializer$BigDecSerializerSnapshot"
    min_size = 4
    _unscaled = BigIntegerSerializer()

    def __str__(self) -> str:
        return "BIG_DEC"

    def read(self, source: DataInput) -> Decimal | None:
        unscaled = self._unscaled.read(source)
        if unscaled is None:
            return None
        number = big_numbers.to_decimal(unscaled, source.read_int())
        return SpelledOutDecimal(number) if isinstance(unscaled, SpelledOut) else number

    def write(self, value: Decimal | None, target: DataOutput) -> None:
        if value is None:
            self._unscaled.write(None, target)
            return
        unscaled, scale = unscaled_and_scale(value)
        self._unscaled.write(unscaled, target)
        target.write_int(scale)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return options.column_type(pa.string(), "number")

    def to_column(self, value: Decimal | None, options: DecodeOptions) -> str | None:
        return None if value is None else str(value)

    def from_column(self, value: Any) -> Decimal | None:
        return None if value is None else to_number(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.BIG_DECIMAL, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.number(Op.BIG_DECIMAL, column)

    def hash_code(self, value: Decimal | None) -> int:
        return 0 if value is None else hashing.of_big_decimal(*unscaled_and_scale(value))


class VoidSerializer(SimpleSerializer):
    """``java.lang.Void``: always null, one byte."""

    snapshot_class = f"{BASE}VoidSerializer$VoidSerializerSnapshot"
    length = min_size = 1

    def __str__(self) -> str:
        return "VOID"

    def read(self, source: DataInput) -> None:
        source.skip(self.length)

    def write(self, value: None, target: DataOutput) -> None:
        target.write_bytes(bytes(self.length))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if self.length:
            builder.skip(self.length)
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(self.serialize(None))


class NullValueSerializer(VoidSerializer):
    """``NullValue``: no bytes at all."""

    snapshot_class = f"{BASE}NullValueSerializer$NullValueSerializerSnapshot"
    length = min_size = 0

    def __str__(self) -> str:
        return "NULL_VALUE"


def unscaled_and_scale(value: Decimal) -> tuple[int, int]:
    """Return the two numbers that make a ``BigDecimal``."""
    unscaled, scale = big_numbers.to_unscaled_and_scale(value)
    return SpelledOut(unscaled) if isinstance(value, SpelledOutDecimal) else unscaled, scale


def without_lone_surrogates(text: str) -> str:
    """Replace every unpaired surrogate by U+FFFD, because UTF-8, and so Arrow, can't hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _number_type(name: str) -> ScalarType:
    java_name = name.lower()
    return ScalarType(NumberSerializer(name), java_name, PythonCoder.SAME, (_NUMBERS[name].arrow_type,), BOXES[java_name])


SCALARS: Final = (
    *map(_number_type, _NUMBERS),
    ScalarType(CharSerializer(), "char", PythonCoder.TEXT, boxed_class=BOXES["char"]),
    ScalarType(StringSerializer(), "java.lang.String", PythonCoder.TEXT, (pa.string(), pa.large_string())),
    ScalarType(BigIntegerSerializer(), "java.math.BigInteger", PythonCoder.LONG),
    ScalarType(BigDecimalSerializer(), "java.math.BigDecimal", PythonCoder.DECIMAL_TEXT),
)

register_scalars(SCALARS)
for _name in _NUMBERS:
    _title = _name.capitalize()
    register_simple(NumberSerializer(_name, f"{BASE}{_title}ValueSerializer${_title}ValueSerializerSnapshot"))
register_simple(CharSerializer(f"{BASE}CharValueSerializer$CharValueSerializerSnapshot"))
for _simple_serializer in (StringValueSerializer, VoidSerializer, NullValueSerializer):
    register_simple(_simple_serializer())
