"""Flink's binary rows, arrays and maps, the form of SQL's state (Flink: ``org.apache.flink.table.data.binary``).

A container is a slot itself, and contains slots.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state_processor.serializers.core.rows import ROW_KIND_FIELD, ROW_KINDS
from state_processor.serializers.decode_options import WIDEST, DecodeOptions
from state_processor.serializers.kernel.encode.conversion import fields_in_order
from state_processor.serializers.kernel.encode.distinct_keys import Distinct
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.kernel.outcomes import OUT_OF_BOUNDS, decoding_problem
from state_processor.serializers.table.binary_slots import (
    HEADER_BITS,
    INT,
    BinaryWriter,
    BytesSlot,
    NullSlot,
    Slot,
    SlotAddress,
    null_bytes,
    pointed,
)
from state_processor.serializers.table.binary_values import Limit, limits_of
from state_processor.serializers.table.logical_types import (
    ArrayType,
    LogicalType,
    MapType,
    RawType,
    RowType,
    StructuredType,
    without_name_and_alias,
)
from state_processor.serializers.table.type_descriptors import codecs_of
from state_processor.support.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


@dataclass(frozen=True, slots=True, eq=False)
class BinaryValue:
    """A row, an array or a map: its bytes and their type. Values with equal bytes are equal."""

    data: bytes
    slot: ContainerSlot

    def content(self) -> Any:
        """Return the Python form: a tuple of fields, a list of elements, or a list of pairs."""
        return self.slot.content(self.data)

    @property
    def row_kind(self) -> str:
        """A row's kind: one of ``+I``, ``-U``, ``+U`` and ``-D``."""
        return _row_kind(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryValue) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"<{self.slot.type} {self.content()!r}>"


def _row_kind(data: bytes) -> str:
    if data[0] >= len(ROW_KINDS):
        raise CorruptSnapshotError(f"expected the kind of a row, found {data[0]}")
    return ROW_KINDS[data[0]]


class ContainerSlot(Slot):
    """A row, array or map: bytes that the slot points to, or that follow their size in a file."""

    registers: int = 2
    encode_registers: int = 1
    min_size: int
    """Least number of bytes."""

    def get(self, data: bytes, at: int) -> BinaryValue:
        return self.wrap(pointed(data, at))

    def put(self, writer: BinaryWriter, at: int, value: Any) -> None:
        writer.append(at, self.encode(value))

    def wrap(self, data: bytes) -> BinaryValue:
        """Return the value that has these bytes."""
        if len(data) < self.min_size:
            raise CorruptSnapshotError(f"{len(data)} bytes are too few for {self.type}, which needs {self.min_size}")
        return BinaryValue(data, self)

    @abstractmethod
    def content(self, data: bytes) -> Any:
        """Return the Python form of the content of bytes."""

    @abstractmethod
    def build(self, value: Any) -> bytes:
        """Return the bytes of a value of :meth:`content` or :meth:`to_column`."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value; the bytes of a :class:`BinaryValue` are returned unchanged."""
        return value.data if isinstance(value, BinaryValue) else self.build(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column, place: SlotAddress) -> None:
        if column.index >= 0:
            region = builder.registers(self.registers)
            builder.op(Op.SUBREGION, column, place=place, inner=region, min_size=self.min_size)
            self.emit_content(builder, column, region)

    def emit_framed(self, builder: DecodeBuilder, column: Column) -> None:
        """Append the instructions that read an int size and that many bytes."""
        region = builder.registers(self.registers)
        builder.op(Op.REGION, column, region=region, min_size=self.min_size)
        if column.index >= 0:
            self.emit_content(builder, column, region)

    @abstractmethod
    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        """Append the instructions that read the content of a region into a column that is not discarded."""

    def emit_encode(self, builder: EncodeBuilder, column: Column, place: SlotAddress) -> None:
        region = builder.registers(self.encode_registers)
        self.emit_encode_content(builder, column, region)
        builder.op(Op.CLOSE, region=region, slot=(place.register, place.offset), outer=place.region)

    def emit_encode_framed(self, builder: EncodeBuilder, column: Column) -> None:
        """Append the instructions that write an int size and the bytes."""
        builder.op(Op.REQUIRE, column)
        with builder.frame():
            self.emit_encode_content(builder, column, builder.registers(self.encode_registers))

    @abstractmethod
    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int) -> None:
        """Append the instructions that write a region from its begin to its end."""


class RowSlot(ContainerSlot):
    """A row: a byte of kind, a null bit for each field, a slot for each field."""

    type: RowType

    def __init__(self, type_: RowType) -> None:
        super().__init__(type_)
        self.fields = tuple(map(slot_of, type_.types))
        self.limits = tuple(map(limits_of, type_.types))
        self._first = null_bytes(len(self.fields))
        self.min_size = self._first + 8 * len(self.fields)

    def content(self, data: bytes) -> tuple[Any, ...]:
        values = []
        for i, (name, field) in enumerate(zip(self.type.names, self.fields, strict=True)):
            values.append(None if self._is_null(data, i) else _in_field(name, field.get, data, self._first + 8 * i))
        return tuple(values)

    @staticmethod
    def _is_null(data: bytes, field: int) -> bool:
        bit = field + HEADER_BITS
        return bool(data[bit >> 3] & 1 << (bit & 7))

    def build(self, value: Any, kind: str = ROW_KINDS[0], *, reserve_nulls: bool = False) -> bytes:
        """Return the bytes of a row.

        ``value``: the fields in order, or a mapping by name. ``kind``: the row's kind; a mapping may name it as ``row_kind``.
        ``reserve_nulls``: reserve the space that a null decimal or timestamp of high precision would need, as Flink's generated
        projections do. Keys of SQL operators are such rows, and their hash covers all bytes.
        """
        row_kind, *value = fields_in_order(value, (ROW_KIND_FIELD, *self.type.names), f"a value of {self.type}")
        kind = row_kind or kind
        writer = BinaryWriter(self.min_size)
        writer.data[0] = ROW_KINDS.index(kind)
        for i, (name, slot, field) in enumerate(zip(self.type.names, self.fields, value, strict=True)):
            at = self._first + 8 * i
            _check_field(name, self.limits[i], field)
            if field is not None:
                _put_field(name, slot, writer, at, field)
                continue
            bit = i + HEADER_BITS
            writer.data[bit >> 3] |= 1 << (bit & 7)
            if reserve_nulls and slot.reserved:
                writer.append(at, bytes(slot.reserved))
                writer.put(INT, at, 0)
        return bytes(writer.data)

    def to_column(self, value: BinaryValue, options: DecodeOptions) -> dict[str, Any]:
        columns_of_value: dict[str, Any] = {ROW_KIND_FIELD: value.row_kind} if options.row_kind else {}
        for name, slot, field in zip(self.type.names, self.fields, value.content(), strict=True):
            columns_of_value[name] = None if field is None else _in_field(name, slot.to_column, field, options)
        return columns_of_value

    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        builder.op(Op.VALID, column)
        first = int(builder.options.row_kind)
        if first:
            builder.op(Op.BINARY_KIND, column.child(0), region=region, kinds=builder.constant("".join(ROW_KINDS).encode()))
        for i, (name, slot) in enumerate(zip(self.type.names, self.fields, strict=True)):
            child, bit = column.child(first + i), i + HEADER_BITS
            with builder.field(name), builder.unless(Op.BIT_NULL, child, region=region, nulls=child, bit=bit):
                slot.emit_decode(builder, child, SlotAddress(region, region, self._first + 8 * i))

    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int, *, reserve_nulls: bool = False) -> None:
        """Append the instructions that write a row; for ``reserve_nulls`` see :meth:`build`."""
        builder.op(Op.OPEN, region=region, size=self.min_size)
        kind = column.find(ROW_KIND_FIELD)
        if kind is not None:
            with builder.field(ROW_KIND_FIELD):
                builder.op(Op.BINARY_KIND, kind, region=region, kinds=builder.constant("".join(ROW_KINDS).encode()))
        for i, (name, slot) in enumerate(zip(self.type.names, self.fields, strict=True)):
            child, at = column.named(name), self._first + 8 * i
            builder.limit(child, self.limits[i])
            reserved, bit = slot.reserved if reserve_nulls else 0, i + HEADER_BITS
            with builder.field(name), builder.unless(Op.BIT_NULL, child, region=region, kept=reserved, at=at, bit=bit):
                slot.emit_encode(builder, child, SlotAddress(region, region, at))

    def emit_encode_key(self, builder: EncodeBuilder, column: Column) -> None:
        """Append the instructions that write an int size and a row that is a key, with space for null fields."""
        builder.op(Op.REQUIRE, column)
        with builder.frame():
            self.emit_encode_content(builder, column, builder.registers(self.encode_registers), reserve_nulls=True)


def _in_field(name: str, action: Callable[[Any, Any], Any], *arguments: Any) -> Any:
    """Run a step, and name the field in its errors."""
    try:
        return action(*arguments)
    except StateProcessorError as e:
        raise type(e)(f"field {name!r}: {e}") from None


def _check_field(name: str, limits: Sequence[Limit], value: Any) -> None:
    for limit in limits:
        try:
            limit.check(value)
        except InvalidRowError as e:
            raise InvalidRowError(f"field {name!r}: {e}") from None
        except (ArithmeticError, AttributeError, TypeError, ValueError) as e:
            raise InvalidRowError(f"field {name!r}: {value!r} is not a value of type {limit.type}: {e}") from e


def _put_field(name: str, slot: Slot, writer: BinaryWriter, at: int, value: Any) -> None:
    try:
        slot.put(writer, at, value)
    except InvalidRowError as e:
        raise InvalidRowError(f"field {name!r}: {e}") from None
    except (ArithmeticError, AttributeError, TypeError, ValueError, struct.error) as e:
        raise InvalidRowError(f"field {name!r}: {value!r} is not a value of type {slot.type}: {e}") from e


class ArraySlot(ContainerSlot):
    """An array: an int count, a null bit for each element, the elements' slots."""

    registers = 5
    encode_registers = 3
    min_size = 4

    def __init__(self, type_: ArrayType) -> None:
        super().__init__(type_)
        self.element = slot_of(type_.element)
        self.limits = limits_of(type_.element)
        if isinstance(self.element, NullSlot):
            raise UnsupportedFormatError(f"Flink does not store {type_} in binary form")

    def content(self, data: bytes) -> list[Any]:
        count = INT.unpack_from(data)[0]
        first = 4 + (count + 31) // 32 * 4
        if count < 0 or first + count * self.element.width > len(data):
            raise CorruptSnapshotError(f"{count} elements in {len(data)} bytes: {decoding_problem(OUT_OF_BOUNDS)}")
        elements = []
        for i in range(count):
            is_null = data[4 + (i >> 3)] & 1 << (i & 7)
            elements.append(None if is_null else self.element.get(data, first + i * self.element.width))
        return elements

    def build(self, value: Sequence[Any]) -> bytes:
        first = 4 + (len(value) + 31) // 32 * 4
        writer = BinaryWriter(first + len(value) * self.element.width)
        writer.put(INT, 0, len(value))
        for i, element in enumerate(value):
            _check_field("element", self.limits, element)
            if element is None:
                writer.data[4 + (i >> 3)] |= 1 << (i & 7)
            else:
                _put_field("element", self.element, writer, first + i * self.element.width, element)
        return bytes(writer.data)

    def to_column(self, value: BinaryValue, options: DecodeOptions) -> list[Any]:
        return self.present_all(value.content(), options)

    def present_all(self, elements: Iterable[Any], options: DecodeOptions) -> list[Any]:
        """Return elements as a column shows them."""
        return [None if e is None else self.element.to_column(e, options) for e in elements]

    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        child = column.child(0)
        with builder.loop(Op.ELEMENTS, Op.ELEMENTS_NEXT, column, region=region, child=child, width=self.element.width):
            self.emit_element(builder, child, region)

    def emit_element(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        """Append the instructions that read the current element of an array."""
        with builder.unless(Op.ELEMENT_NULL, column, region=region, nulls=column):
            self.element.emit_decode(builder, column, SlotAddress(region, region + 4))

    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int) -> None:
        self.emit_encode_elements(builder, column, column.child(0), region)

    def emit_encode_elements(self, builder: EncodeBuilder, column: Column, child: Column, region: int) -> None:
        """Append the instructions that write an array of the values in ``child``: of a list, or of one side of a map."""
        builder.limit(child, self.limits)
        with (
            builder.loop(Op.ELEMENTS, Op.ELEMENTS_NEXT, column, region=region, width=self.element.width),
            builder.field("element"),
            builder.unless(Op.ELEMENT_NULL, child, region=region),
        ):
            self.element.emit_encode(builder, child, SlotAddress(region, region + 2))


class MapSlot(ContainerSlot):
    """A map: the size of the key array as an int, the key array, the value array. Python holds a list of pairs."""

    registers = 2 + 2 * ArraySlot.registers
    encode_registers = 1 + 2 * ArraySlot.encode_registers
    min_size = 12

    def __init__(self, type_: MapType) -> None:
        super().__init__(type_)
        self.keys = ArraySlot(ArrayType(type_.key))
        self.values = ArraySlot(ArrayType(type_.value))

    def content(self, data: bytes) -> list[tuple[Any, Any]]:
        size = INT.unpack_from(data)[0]
        if not ArraySlot.min_size <= size <= len(data) - 4 - ArraySlot.min_size:
            raise CorruptSnapshotError(f"{size} bytes of keys in a map of {len(data)}: {decoding_problem(OUT_OF_BOUNDS)}")
        keys, values = self.keys.content(data[4 : 4 + size]), self.values.content(data[4 + size :])
        if len(keys) != len(values):
            raise CorruptSnapshotError(f"a map of {len(keys)} keys and {len(values)} values")
        return list(zip(keys, values, strict=True))

    def build(self, value: Any) -> bytes:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        keys = self.keys.build([k for k, _ in pairs])
        return INT.pack(len(keys)) + keys + self.values.build([v for _, v in pairs])

    def to_column(self, value: BinaryValue, options: DecodeOptions) -> list[tuple[Any, Any]]:
        pairs = value.content()
        keys, values = zip(*pairs, strict=True) if pairs else ((), ())
        if any(key is None for key in keys):
            raise UndecodableValueError(f"a value of type {self.type} has a null key, which Spark's map type can't hold")
        return list(zip(self.keys.present_all(keys, options), self.values.present_all(values, options), strict=True))

    def emit_content(self, builder: DecodeBuilder, column: Column, region: int) -> None:
        keys, values = region + 2, region + 2 + ArraySlot.registers
        widths = {"key_width": self.keys.element.width, "value_width": self.values.element.width}
        with builder.loop(Op.PAIRS, Op.PAIRS_NEXT, column, region=region, child=column.child(0), **widths):
            self.keys.emit_element(builder, column.child(0), keys)
            self.values.emit_element(builder, column.child(1), values)

    def emit_encode_content(self, builder: EncodeBuilder, column: Column, region: int) -> None:
        keys, values = region + 1, region + 1 + ArraySlot.encode_registers
        builder.distinct(column, Distinct(self.keys.element.arrow_type(WIDEST), lambda key: self.keys.build([key])))
        builder.op(Op.KEYS, region=region)
        self.keys.emit_encode_elements(builder, column, column.child(0), keys)
        builder.op(Op.END_KEYS, region=region)
        self.values.emit_encode_elements(builder, column, column.child(1), values)


_SLOTS: Final[dict[type, Callable[[Any], Slot]]] = {
    ArrayType: ArraySlot,
    MapType: MapSlot,
    RowType: RowSlot,
    StructuredType: RowSlot,
    RawType: BytesSlot,
}
"""Slots of types with nested types, and of types of user classes. Other types have theirs in their descriptor."""


def provide_slot(type_: type[LogicalType], make: Callable[[Any], Slot]) -> None:
    """Add the slot of a type whose bytes are those of a serializer, which this module does not know."""
    _SLOTS[type_] = make


def slot_of(type_: LogicalType) -> Slot:
    """Return the slot of a type's values in a row or an array."""
    held = without_name_and_alias(type_)
    make = _SLOTS.get(type(held)) or codecs_of(held).slot
    return make(held)
