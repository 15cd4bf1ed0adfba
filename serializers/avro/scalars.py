"""Avro's scalar types in Flink's own encoding of Avro data (Flink: ``DataOutputEncoder``, ``DataInputDecoder``).

This encoding differs from Avro's binary encoding. Numbers have a fixed width and are big-endian. Text and bytes have an int
length. The branch of a union and the constant of an enum are ints. Arrays and maps consist of blocks whose counts are varints.
Logical types keep their base values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from state_processor.serializers.codec import Codec
from state_processor.serializers.core.basic import NumberSerializer, VoidSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.opcodes import Op

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
        builder.enum(column, [symbol.encode() for symbol in self.symbols])

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.enum(column, [symbol.encode() for symbol in self.symbols])

    def hash_code(self, value: str) -> int:
        return self.symbols.index(value)
