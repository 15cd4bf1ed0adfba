"""Tuples, and rows with kinds and nullable fields (Flink: ``TupleSerializer``, ``Tuple0Serializer``, ``RowSerializer``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.codec import VARIABLE, total_min_size
from state_processor.serializers.core.arrays import (
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    SimpleArraySerializer,
)
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.encode.conversion import fields_in_order
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import RUNTIME, provide_snapshots
from state_processor.serializers.traversal import field_names

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

TUPLE: Final = "org.apache.flink.api.java.tuple.Tuple"
TUPLE_SNAPSHOT: Final = f"{RUNTIME}TupleSerializerSnapshot"
TUPLE0_SNAPSHOT: Final = f"{RUNTIME}Tuple0SerializerSnapshot"


def fields_text(serializers: Sequence[TypeSerializer], names: Sequence[str] | None = None) -> str:
    """Return ``STRING,INT``, or ``a:STRING,b:INT`` with names."""
    if names is None:
        return ",".join(map(str, serializers))
    return ",".join(f"{n}:{s}" for n, s in zip(names, serializers, strict=True))


class FieldsSerializer(TypeSerializer):
    """A serializer of fields in a fixed order; a column is a struct of them. Subclasses set :attr:`fields`."""

    never_null = True
    fields: tuple[TypeSerializer, ...]

    @property
    @abstractmethod
    def field_names(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def child_names(self) -> Sequence[str]:
        return self.field_names

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return self.fields

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._struct_of_children(options)

    def _parts_of(self, value: Any, value_name: str) -> tuple[Any, ...]:
        """Convert the fields of a value of a column; ``value_name`` names the value in errors."""
        parts = fields_in_order(value, self.field_names, value_name)
        return tuple(None if v is None else f.from_column(v) for f, v in zip(self.fields, parts, strict=True))

    def _decode_fields(self, builder: DecodeBuilder, column: Column) -> None:
        """Append the instructions that read one field after the other."""
        builder.op(Op.VALID, column)
        for i, (name, f) in enumerate(zip(self.field_names, self.fields, strict=True)):
            with builder.field(name):
                f.emit_decode(builder, column.child(i))

    def _encode_fields(self, builder: EncodeBuilder, column: Column) -> None:
        """Append the instructions that write one field after the other."""
        for i, (name, f) in enumerate(zip(self.field_names, self.fields, strict=True)):
            with builder.field(name):
                f.emit_encode(builder, column.child(i))


class TupleSerializer(FieldsSerializer):
    """``Tuple1`` to ``Tuple25``: the fields one after the other, without null flags.

    Parameters
    ----------
    fields
        The serializers of the fields.
    tuple_class
        The Java class: the ``TupleN`` of that many fields, or a subclass of it.
    names
        Names of the columns, ``f0``, ``f1``, … by default.
    """

    def __init__(self, fields: Sequence[TypeSerializer], tuple_class: str = "", names: Sequence[str] | None = None) -> None:
        self.fields = tuple(fields)
        self.tuple_class = tuple_class or f"{TUPLE}{len(self.fields)}"
        self.names = None if names is None else tuple(names)
        lengths = [f.length for f in self.fields]
        self.length = sum(lengths) if all(n > 0 for n in lengths) else VARIABLE
        self.min_size = total_min_size(self.fields)

    def __str__(self) -> str:
        return f"TUPLE<{fields_text(self.fields)}>"

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return TupleSerializer(children, self.tuple_class, self.names)

    def with_names(self, names: Sequence[str] | None) -> TupleSerializer:
        """Return the same serializer with other names of the fields."""
        return TupleSerializer(self.fields, self.tuple_class, names)

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names or field_names(len(self.fields))

    def read(self, source: DataInput) -> tuple[Any, ...]:
        return tuple(f.read(source) for f in self.fields)

    def skip(self, source: DataInput) -> None:
        for f in self.fields:
            f.skip(source)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        for f, v in zip(self.fields, value, strict=True):
            f.write(v, target)

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> dict[str, Any]:
        return {n: f.to_column(v, options) for n, f, v in zip(self.field_names, self.fields, value, strict=True)}

    def from_column(self, value: Any) -> tuple[Any, ...]:
        return self._parts_of(value, "a value")

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        self._decode_fields(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        self._encode_fields(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return TupleSerializerSnapshot(self.tuple_class, self.child_snapshots)

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.of_units(0 if v is None else f.hash_code(v) for f, v in zip(self.fields, value, strict=True))


class TupleSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`TupleSerializer`. Compatibility ignores the tuple class, as in Flink."""

    current_outer_version = 2

    def __init__(self, tuple_class: str, nested: Sequence[TypeSerializerSnapshot], class_name: str = TUPLE_SNAPSHOT) -> None:
        super().__init__(class_name, nested)
        self.tuple_class = tuple_class

    @property
    def nested_names(self) -> Sequence[str]:
        return field_names(len(self.nested))

    def read_outer(self, source: DataInput) -> None:
        self.tuple_class = source.read_utf()

    def write_outer(self, target: DataOutput) -> None:
        target.write_utf(self.tuple_class)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return TupleSerializer(nested, self.tuple_class)


class Tuple0Serializer(SimpleSerializer):
    """``Tuple0``: one byte, 42."""

    snapshot_class = TUPLE0_SNAPSHOT
    length = min_size = 1
    _byte = 42

    def __str__(self) -> str:
        return "TUPLE<>"

    def read(self, source: DataInput) -> tuple[()]:
        byte = source.read_unsigned_byte()
        if byte != self._byte:
            raise source.corrupt(f"byte {self._byte} of a Tuple0 expected, found {byte}", source.position - 1)
        return ()

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        target.write_byte(self._byte)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([])

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> dict[str, Any]:
        return {}

    def from_column(self, value: Any) -> tuple[()]:
        return ()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.expect(self._byte)
        builder.op(Op.VALID, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(bytes([self._byte]))

    def hash_code(self, value: Sequence[Any]) -> int:
        return 0


provide_snapshots((TUPLE_SNAPSHOT,), TupleSerializerSnapshot)
register_simple(Tuple0Serializer())


# Rows

ROW_SNAPSHOT: Final = f"{RUNTIME}RowSerializer$RowSerializerSnapshot"
ROW_KINDS: Final = ("+I", "-U", "+U", "-D")
"""Flink's short names of ``RowKind``, in the order of its byte values."""
ROW_KIND_FIELD: Final = "row_kind"


class RowValue(NamedTuple):
    """``Row``: its kind (one of :data:`ROW_KINDS`) and its fields."""

    kind: str
    fields: tuple[Any, ...]


class RowSerializer(FieldsSerializer):
    """``Row``: a bit mask of the kind and of null fields, then the fields that are not null.

    ``names``: names of the fields. Snapshots do not hold them; by default columns are ``f0``, ``f1``, …. ``supports_row_kind``:
    whether the mask begins with two bits for the kind (Flink 1.11 and later). ``outer_version``: version of the snapshot, if an
    older Flink wrote it.
    """

    def __init__(
        self,
        fields: Sequence[TypeSerializer],
        names: Sequence[str] | None = None,
        *,
        supports_row_kind: bool = True,
        outer_version: int | None = None,
    ) -> None:
        self.fields = tuple(fields)
        self.names = None if names is None else tuple(names)
        self.supports_row_kind = supports_row_kind
        self._outer_version = outer_version
        self._kind_bits = 2 if supports_row_kind else 0
        self._bits = self._kind_bits + len(self.fields)
        self._mask_size = (self._bits + 7) // 8
        self.min_size = self._mask_size

    def __str__(self) -> str:
        return f"ROW<{fields_text(self.fields, self.names)}>"

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return self._copy_with(fields=tuple(children))

    def with_names(self, names: Sequence[str] | None) -> Self:
        """Return the same serializer with other names of the fields."""
        return self._copy_with(names=None if names is None else tuple(names))

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names or field_names(len(self.fields))

    @property
    def mask_bits(self) -> int:
        """Number of bits in the mask: the bits of the kind, and one for each field."""
        return self._bits

    def _mask(self, source: DataInput) -> tuple[str, list[bool]]:
        mask = source.read_bytes(self._mask_size, "bit mask of a row")
        bits = [bool(mask[i >> 3] & 0x80 >> (i & 7)) for i in range(self._bits)]
        if not self.supports_row_kind:
            return ROW_KINDS[0], bits
        return ROW_KINDS[bits[0] + 2 * bits[1]], bits[2:]

    def read(self, source: DataInput) -> RowValue:
        kind, nulls = self._mask(source)
        return RowValue(kind, tuple(None if n else f.read(source) for f, n in zip(self.fields, nulls, strict=True)))

    def skip(self, source: DataInput) -> None:
        for f, null in zip(self.fields, self._mask(source)[1], strict=True):
            if not null:
                f.skip(source)

    def write(self, value: RowValue, target: DataOutput) -> None:
        kind, fields = value
        index = ROW_KINDS.index(kind)
        bits = [bool(index & 1), bool(index & 2)][: self._kind_bits] + [v is None for v in fields]
        mask = bytearray(self._mask_size)
        for i, bit in enumerate(bits):
            mask[i >> 3] |= bit * (0x80 >> (i & 7))
        target.write_bytes(mask)
        for f, v in zip(self.fields, fields, strict=True):
            if v is not None:
                f.write(v, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        kind = [pa.field(ROW_KIND_FIELD, pa.string())] if options.row_kind else []
        return pa.struct([*kind, *super().arrow_type(options)])

    def to_column(self, value: RowValue, options: DecodeOptions) -> dict[str, Any]:
        row: dict[str, Any] = {ROW_KIND_FIELD: value.kind} if options.row_kind else {}
        for n, f, v in zip(self.field_names, self.fields, value.fields, strict=True):
            row[n] = None if v is None else f.to_column(v, options)
        return row

    def from_column(self, value: Any) -> RowValue:
        kind, fields = ROW_KINDS[0], value
        if isinstance(value, RowValue):
            kind, fields = value
        else:
            row_kind, *fields = fields_in_order(value, (ROW_KIND_FIELD, *self.field_names), "a value")
            kind = row_kind or kind
        return RowValue(kind, tuple(None if v is None else f.from_column(v) for f, v in zip(self.fields, fields, strict=True)))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        mask = builder.register()
        builder.op(Op.MASK, column, register=mask, bits=self._bits)
        builder.op(Op.VALID, column)
        first = int(builder.options.row_kind)
        if first and self.supports_row_kind:
            builder.op(Op.ROW_KIND, column.child(0), register=mask, kinds=builder.constant("".join(ROW_KINDS).encode()))
        elif first:
            builder.text(column.child(0), ROW_KINDS[0])
        for i, (name, f) in enumerate(zip(self.field_names, self.fields, strict=True)):
            child = column.child(first + i)
            bit = self._kind_bits + i
            with builder.field(name), builder.unless(Op.MASK_NULL, child, register=mask, nulls=child, bit=bit):
                f.emit_decode(builder, child)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        kind = column.find(ROW_KIND_FIELD)
        children = column.children[0 if kind is None else 1 :]
        builder.op(
            Op.MASK,
            column,
            fields=builder.aux([(child,) for child in children]),
            count=len(children),
            kind_bits=self._kind_bits,
            kind=kind,
            kinds=builder.constant("".join(ROW_KINDS).encode()),
        )
        for name, f, child in zip(self.field_names, self.fields, children, strict=True):
            with builder.field(name), builder.unless(Op.SKIP_NULL, child):
                f.emit_encode(builder, child)

    def snapshot(self) -> TypeSerializerSnapshot:
        return RowSerializerSnapshot(
            self.child_snapshots, supports_row_kind=self.supports_row_kind, outer_version=self._outer_version
        )

    def hash_code(self, value: RowValue) -> int:
        """Return ``Row.hashCode`` of Flink 1.11 and later, for a row whose fields have positions."""
        fields = (_row_field_hash(f, v) for f, v in zip(self.fields, value.fields, strict=True))
        return hashing.wrap(31 * ROW_KINDS.index(value.kind) + hashing.of_units(fields, start=1))


def _row_field_hash(serializer: TypeSerializer, value: Any) -> int:
    """Return the hash of a field of a row by Java's deep array hash, also for lists and maps."""
    if value is None:
        return 0
    match serializer:
        case NullableSerializer():
            return _row_field_hash(serializer.inner, value)
        case MapSerializer():
            entries = (_row_field_hash(serializer.key, k) ^ _row_field_hash(serializer.value.inner, v) for k, v in value)
            return hashing.wrap(1 + sum(entries))
        case PrimitiveArraySerializer() | BytesSerializer():
            return hashing.wrap(31 + serializer.content_hash(value))
        case SimpleArraySerializer() | GenericArraySerializer() | ListSerializer():
            return hashing.of_units((_row_field_hash(serializer.element, v) for v in value), start=1)
    return hashing.wrap(31 + serializer.hash_code(value))


class RowSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`RowSerializer`. The outer version decides whether rows have kinds; since version 4 a flag does."""

    current_outer_version = 4

    def __init__(
        self, nested: Sequence[TypeSerializerSnapshot], *, supports_row_kind: bool = True, outer_version: int | None = None
    ) -> None:
        super().__init__(ROW_SNAPSHOT, nested, outer_version=outer_version)
        self.supports_row_kind = supports_row_kind

    @property
    def nested_names(self) -> Sequence[str]:
        return field_names(len(self.nested))

    def read_outer(self, source: DataInput) -> None:
        self.supports_row_kind = source.read_boolean() if self.outer_version >= 4 else self.outer_version == 3

    def write_outer(self, target: DataOutput) -> None:
        if self.outer_version >= 4:
            target.write_boolean(self.supports_row_kind)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return RowSerializer(nested, supports_row_kind=self.supports_row_kind, outer_version=self.outer_version)

    def resolve_outer(self, new: RowSerializerSnapshot) -> SchemaCompatibility:
        if self.supports_row_kind == new.supports_row_kind:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_after_migration()


provide_snapshots((ROW_SNAPSHOT,), RowSerializerSnapshot)
