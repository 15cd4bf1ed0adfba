"""Tuples, rows, Either, nullable values, enums, and values of the user's own code (Flink: ``…java.typeutils.runtime``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from state_processor.serializers.base import (
    VARIABLE,
    CompositeTypeSerializerSnapshot,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.arrays import (
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    SimpleArraySerializer,
)
from state_processor.serializers.core.basic import BASE
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.decode import ops
from state_processor.serializers.kernel.encode import ops as encode_ops
from state_processor.serializers.kernel.encode.struct_fields import fields_in_order
from state_processor.serializers.registry import register_snapshot, register_snapshots

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

RUNTIME: Final = "org.apache.flink.api.java.typeutils.runtime."
TUPLE: Final = "org.apache.flink.api.java.tuple.Tuple"
TUPLE_SNAPSHOT: Final = f"{RUNTIME}TupleSerializerSnapshot"
TUPLE0_SNAPSHOT: Final = f"{RUNTIME}Tuple0SerializerSnapshot"
ROW_SNAPSHOT: Final = f"{RUNTIME}RowSerializer$RowSerializerSnapshot"
EITHER_SNAPSHOT: Final = f"{RUNTIME}JavaEitherSerializerSnapshot"
LEGACY_EITHER_SNAPSHOT: Final = f"{RUNTIME}EitherSerializerSnapshot"
NULLABLE_SNAPSHOT: Final = f"{RUNTIME}NullableSerializer$NullableSerializerSnapshot"
ENUM_SNAPSHOT: Final = f"{BASE}EnumSerializer$EnumSerializerSnapshot"

ROW_KINDS: Final = ("+I", "-U", "+U", "-D")
"""Flink's short names of ``RowKind``, in the order of its byte values."""
ROW_KIND_FIELD: Final = "row_kind"


def fields_text(serializers: Sequence[TypeSerializer], names: Sequence[str] | None = None) -> str:
    """``STRING,INT``, or ``a:STRING,b:INT`` with names."""
    if names is None:
        return ",".join(map(str, serializers))
    return ",".join(f"{n}:{s}" for n, s in zip(names, serializers, strict=True))


class TupleSerializer(TypeSerializer):
    """``Tuple1`` to ``Tuple25``: the fields one after the other, without nulls of its own.

    Parameters
    ----------
    fields
        The serializers of the fields.
    tuple_class
        The Java class, where it is not the ``TupleN`` of that many fields but a subclass.
    """

    def __init__(self, fields: Sequence[TypeSerializer], tuple_class: str = "") -> None:
        self.fields = tuple(fields)
        self.tuple_class = tuple_class or f"{TUPLE}{len(self.fields)}"
        lengths = [f.length for f in self.fields]
        self.length = sum(lengths) if all(n > 0 for n in lengths) else VARIABLE
        self.smallest = sum(f.smallest for f in self.fields)

    def __str__(self) -> str:
        return f"TUPLE<{fields_text(self.fields)}>"

    def read(self, source: DataInput) -> tuple[Any, ...]:
        return tuple(f.read(source) for f in self.fields)

    def skip(self, source: DataInput) -> None:
        for f in self.fields:
            f.skip(source)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        for f, v in zip(self.fields, value, strict=True):
            f.write(v, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([(f"f{i}", f.arrow_type(options)) for i, f in enumerate(self.fields)])

    def present(self, value: Sequence[Any], options: DecodeOptions) -> dict[str, Any]:
        return {f"f{i}": f.present(v, options) for i, (f, v) in enumerate(zip(self.fields, value, strict=True))}

    def accept(self, value: Any) -> tuple[Any, ...]:
        names = [f"f{i}" for i in range(len(self.fields))]
        parts = fields_in_order(value, names, "a value") if isinstance(value, Mapping) else value
        return tuple(None if v is None else f.accept(v) for f, v in zip(self.fields, parts, strict=True))

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.VALID, column)
        for i, f in enumerate(self.fields):
            with builder.field(f"f{i}"):
                f.emit(builder, column.child(i))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(encode_ops.REQUIRE, column)
        for i, f in enumerate(self.fields):
            with builder.field(f"f{i}"):
                f.emit_encode(builder, column.child(i))

    def snapshot(self) -> TypeSerializerSnapshot:
        return TupleSerializerSnapshot(self.tuple_class, [f.snapshot() for f in self.fields])

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.of_units(0 if v is None else f.hash_code(v) for f, v in zip(self.fields, value, strict=True))


class TupleSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of :class:`TupleSerializer`. The tuple class takes no part in compatibility, as in Flink."""

    current_outer_version = 2

    def __init__(self, tuple_class: str, nested: Sequence[TypeSerializerSnapshot], class_name: str = TUPLE_SNAPSHOT) -> None:
        super().__init__(class_name, nested)
        self.tuple_class = tuple_class

    def read_outer(self, source: DataInput) -> None:
        self.tuple_class = source.read_utf()

    def write_outer(self, target: DataOutput) -> None:
        target.write_utf(self.tuple_class)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return TupleSerializer(nested, self.tuple_class)


class Tuple0Serializer(SimpleSerializer):
    """``Tuple0``: one byte, 42."""

    snapshot_class = TUPLE0_SNAPSHOT
    length = smallest = 1
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

    def present(self, value: Sequence[Any], options: DecodeOptions) -> dict[str, Any]:
        return {}

    def accept(self, value: Any) -> tuple[()]:
        return ()

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.EXPECT, column, self._byte)
        builder.op(ops.VALID, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(bytes([self._byte]))

    def hash_code(self, value: Sequence[Any]) -> int:
        return 0


class RowValue(NamedTuple):
    """``Row``: its kind (one of :data:`ROW_KINDS`) and its fields."""

    kind: str
    fields: tuple[Any, ...]


class RowSerializer(TypeSerializer):
    """``Row``: a bit mask of the kind and of null fields, then the fields that are there.

    Parameters
    ----------
    fields
        The serializers of the fields.
    names
        Names of the fields; snapshots do not hold them, and columns are then called ``f0``, ``f1``, ….
    supports_row_kind
        Whether the mask begins with two bits for the kind (Flink 1.11 and later).
    outer_version
        Version of the snapshot, where an older Flink wrote it.
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
        self.smallest = self._mask_size

    def __str__(self) -> str:
        return f"ROW<{fields_text(self.fields, self.names)}>"

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.names or tuple(f"f{i}" for i in range(len(self.fields)))

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
        kind = [(ROW_KIND_FIELD, pa.string())] if options.row_kind else []
        return pa.struct(kind + [(n, f.arrow_type(options)) for n, f in zip(self.field_names, self.fields, strict=True)])

    def present(self, value: RowValue, options: DecodeOptions) -> dict[str, Any]:
        row: dict[str, Any] = {ROW_KIND_FIELD: value.kind} if options.row_kind else {}
        for n, f, v in zip(self.field_names, self.fields, value.fields, strict=True):
            row[n] = None if v is None else f.present(v, options)
        return row

    def accept(self, value: Any) -> RowValue:
        kind, fields = ROW_KINDS[0], value
        if isinstance(value, RowValue):
            kind, fields = value
        elif isinstance(value, Mapping):
            kind = value.get(ROW_KIND_FIELD) or kind
            _, *fields = fields_in_order(value, (ROW_KIND_FIELD, *self.field_names), "a value")
        return RowValue(kind, tuple(None if v is None else f.accept(v) for f, v in zip(self.fields, fields, strict=True)))

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        mask = builder.register()
        builder.op(ops.MASK, column, mask, self._bits)
        builder.op(ops.VALID, column)
        first = int(builder.options.row_kind)
        if first and self.supports_row_kind:
            builder.op(ops.ROW_KIND, column.child(0), mask, builder.constant("".join(ROW_KINDS).encode()))
        elif first:
            builder.text(column.child(0), ROW_KINDS[0])
        for i, (name, f) in enumerate(zip(self.field_names, self.fields, strict=True)):
            child = column.child(first + i)
            with builder.field(name):
                test = builder.op(ops.MASK_NULL, child, mask, *builder.null_range(child), 0, self._kind_bits + i)
                f.emit(builder, child)
                builder.patch(test, 3, builder.here)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(encode_ops.REQUIRE, column)
        kind = column.find(ROW_KIND_FIELD)
        children = column.children[0 if kind is None else 1 :]
        names = builder.constant("".join(ROW_KINDS).encode())
        first = builder.aux([(c.index, 0, 0, 0) for c in children])
        kind_index = -1 if kind is None else kind.index
        builder.op(encode_ops.MASK, column, first, len(children), self._kind_bits, 0, kind_index, names)
        for name, f, child in zip(self.field_names, self.fields, children, strict=True):
            with builder.field(name), builder.unless(encode_ops.SKIP_NULL, child):
                f.emit_encode(builder, child)

    def snapshot(self) -> TypeSerializerSnapshot:
        nested = [f.snapshot() for f in self.fields]
        return RowSerializerSnapshot(nested, supports_row_kind=self.supports_row_kind, outer_version=self._outer_version)

    def hash_code(self, value: RowValue) -> int:
        """``Row.hashCode`` since Flink 1.11, of a row whose fields have positions."""
        fields = (_row_field_hash(f, v) for f, v in zip(self.fields, value.fields, strict=True))
        return hashing.wrap(31 * ROW_KINDS.index(value.kind) + hashing.of_units(fields, start=1))


def _row_field_hash(serializer: TypeSerializer, value: Any) -> int:
    """The hash of a field of a row: that of Java's deep array hash, which lists and maps follow as well."""
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
        case SimpleArraySerializer() | GenericArraySerializer():
            return hashing.of_units((_row_field_hash(serializer.element, v) for v in value), start=1)
        case ListSerializer() if not isinstance(serializer, SetSerializer):
            return hashing.of_units((_row_field_hash(serializer.element, v) for v in value), start=1)
    return hashing.wrap(31 + serializer.hash_code(value))


class RowSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of :class:`RowSerializer`; its outer version says, or says where it stands, whether rows have kinds."""

    current_outer_version = 4

    def __init__(
        self, nested: Sequence[TypeSerializerSnapshot], *, supports_row_kind: bool = True, outer_version: int | None = None
    ) -> None:
        super().__init__(ROW_SNAPSHOT, nested, outer_version=outer_version)
        self.supports_row_kind = supports_row_kind

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


class EitherValue(NamedTuple):
    """``Either``: which side it is, and the value there."""

    is_left: bool
    value: Any


class EitherSerializer(TypeSerializer):
    """``Either``: a byte, 1 for left, and the value of that side.

    Parameters
    ----------
    left, right
        The serializers of both sides.
    snapshot_class, version
        How the snapshot was written, where that was not by a current Flink.
    """

    def __init__(
        self, left: TypeSerializer, right: TypeSerializer, snapshot_class: str = EITHER_SNAPSHOT, version: int | None = None
    ) -> None:
        self.left = left
        self.right = right
        self._snapshot_class = snapshot_class
        self._version = version
        self.smallest = 1 + min(left.smallest, right.smallest)

    def __str__(self) -> str:
        return f"EITHER<{self.left},{self.right}>"

    def read(self, source: DataInput) -> EitherValue:
        is_left = source.read_boolean()
        return EitherValue(is_left, (self.left if is_left else self.right).read(source))

    def skip(self, source: DataInput) -> None:
        (self.left if source.read_boolean() else self.right).skip(source)

    def write(self, value: EitherValue, target: DataOutput) -> None:
        is_left, inner = value
        target.write_boolean(is_left)
        (self.left if is_left else self.right).write(inner, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([("left", self.left.arrow_type(options)), ("right", self.right.arrow_type(options))])

    def present(self, value: EitherValue, options: DecodeOptions) -> dict[str, Any]:
        if value.is_left:
            return {"left": self.left.present(value.value, options), "right": None}
        return {"left": None, "right": self.right.present(value.value, options)}

    def accept(self, value: Any) -> EitherValue:
        if not isinstance(value, EitherValue):
            left, right = value.get("left"), value.get("right")
            if (left is None) == (right is None):
                raise ValueError("exactly one of left and right must be there")
            value = EitherValue(right is None, right if left is None else left)
        return EitherValue(value.is_left, (self.left if value.is_left else self.right).accept(value.value))

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        left, right = column.child(0), column.child(1)
        builder.op(ops.VALID, column)
        branch = builder.op(ops.BRANCH_ZERO)
        with builder.field("left"):
            self.left.emit(builder, left)
        builder.fill_nulls(right)
        end = builder.op(ops.JUMP)
        builder.patch(branch, 0, builder.here)
        with builder.field("right"):
            self.right.emit(builder, right)
        builder.fill_nulls(left)
        builder.patch(end, 0, builder.here)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        left, right = column.child(0), column.child(1)
        with builder.unless(encode_ops.EITHER, column, left.index, right.index, 0, 0, 1, 0):
            with builder.field("left"):
                self.left.emit_encode(builder, left)
            end = builder.op(encode_ops.JUMP)
        with builder.field("right"):
            self.right.emit_encode(builder, right)
        builder.patch(end, 0, builder.here)

    def snapshot(self) -> TypeSerializerSnapshot:
        return EitherSerializerSnapshot(self._snapshot_class, [self.left.snapshot(), self.right.snapshot()], self._version)

    def hash_code(self, value: EitherValue) -> int:
        return (self.left if value.is_left else self.right).hash_code(value.value)


class EitherSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of :class:`EitherSerializer`, under its present name and the one of Flink 1.7 (version 2)."""

    def __init__(self, class_name: str, nested: Sequence[TypeSerializerSnapshot], version: int | None = None) -> None:
        super().__init__(class_name, nested, version, version if version == 2 else None)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> CompositeTypeSerializerSnapshot:
        if version < 2:
            raise UnsupportedFormatError(
                f"{source.source}, offset {source.position}: version {version} of {class_name} holds Java objects of Flink 1.6 "
                "and before; restore the snapshot with Flink 1.16 and take a new savepoint"
            )
        return super().read(class_name, version, source)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return EitherSerializer(nested[0], nested[1], self.class_name, self.version)

    def continues_as(self, new: TypeSerializerSnapshot) -> bool:
        return new.class_name in (self.class_name, EITHER_SNAPSHOT)


class NullableSerializer(TypeSerializer):
    """A byte, 1 for null, then the value, or as many bytes as pad a null to the length of a value.

    Parameters
    ----------
    inner
        The serializer of a value that is not null.
    padding
        Bytes after the flag of a null; 0 where nulls are not padded.
    """

    def __init__(self, inner: TypeSerializer, padding: int = 0) -> None:
        self.inner = inner
        self.padding = padding
        self.length = 1 + padding if padding else VARIABLE
        self.smallest = 1 + min(padding, inner.smallest)

    def __str__(self) -> str:
        return f"NULLABLE<{self.inner}>"

    def read(self, source: DataInput) -> Any:
        if source.read_boolean():
            source.skip(self.padding, "padding of a null")
            return None
        return self.inner.read(source)

    def skip(self, source: DataInput) -> None:
        if source.read_boolean():
            source.skip(self.padding, "padding of a null")
        else:
            self.inner.skip(source)

    def write(self, value: Any, target: DataOutput) -> None:
        target.write_boolean(value is None)
        if value is None:
            target.write_bytes(bytes(self.padding))
        else:
            self.inner.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.inner.arrow_type(options)

    def present(self, value: Any, options: DecodeOptions) -> Any:
        return None if value is None else self.inner.present(value, options)

    def accept(self, value: Any) -> Any:
        return None if value is None else self.inner.accept(value)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=True, padding=self.padding):
            self.inner.emit(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=True, padding=self.padding):
            self.inner.emit_encode(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return NullableSerializerSnapshot(self.padding, self.inner.snapshot())

    def hash_code(self, value: Any) -> int:
        return 0 if value is None else self.inner.hash_code(value)


class NullableSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of :class:`NullableSerializer`."""

    current_outer_version = 2

    def __init__(self, padding: int, inner: TypeSerializerSnapshot) -> None:
        super().__init__(NULLABLE_SNAPSHOT, [inner])
        self.padding = padding

    def read_outer(self, source: DataInput) -> None:
        start = source.position
        self.padding = source.read_int()
        if self.padding < 0:
            raise source.corrupt(f"a null can't be padded to {self.padding} bytes", start)

    def write_outer(self, target: DataOutput) -> None:
        target.write_int(self.padding)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return NullableSerializer(nested[0], self.padding)

    def resolve_outer(self, new: NullableSerializerSnapshot) -> SchemaCompatibility:
        if self.padding == new.padding:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"nulls were padded to {self.padding} bytes, {new.padding} are wanted")


class EnumSerializer(TypeSerializer):
    """A constant of an enum: its index among the names of the snapshot. Python holds the name.

    Parameters
    ----------
    enum_class
        The Java class.
    names
        The constants in the order of their indices; after a reordering in Java this is still the first order.
    """

    length = smallest = 4

    def __init__(self, enum_class: str, names: Sequence[str]) -> None:
        self.enum_class = enum_class
        self.names = tuple(names)
        self._indices = {name: i for i, name in enumerate(self.names)}

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
            raise ValueError(f"{value!r} is no constant of {self.enum_class}: it has {', '.join(self.names)}")
        target.write_int(index)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        names = [name.encode() for name in self.names]
        builder.op(ops.ENUM, column, builder.aux([(builder.constant(n), len(n), 0, 0) for n in names]), len(names))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        names = [name.encode() for name in self.names]
        builder.op(encode_ops.ENUM, column, builder.aux([(builder.constant(n), len(n), 0, 0) for n in names]), len(names))

    def snapshot(self) -> TypeSerializerSnapshot:
        return EnumSerializerSnapshot(self.enum_class, self.names)

    def hash_code(self, value: str) -> int:
        raise UnsupportedFormatError(
            f"{self}: the hashCode of an enum differs from one JVM to the next; Flink refuses it as a key"
        )


class EnumSerializerSnapshot(TypeSerializerSnapshot):
    """Of :class:`EnumSerializer`: class and names."""

    def __init__(self, enum_class: str, names: Sequence[str], version: int | None = None) -> None:
        super().__init__(ENUM_SNAPSHOT, version)
        self.enum_class = enum_class
        self.names = tuple(names)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> EnumSerializerSnapshot:
        enum_class = source.read_utf()
        return cls(enum_class, [source.read_utf() for _ in range(source.read_count("enum constants", 2))], version)

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
            return SchemaCompatibility.incompatible(f"the enum {self.enum_class} was written, {new.enum_class} is wanted")
        removed = [name for name in self.names if name not in new.names]
        if removed:
            return SchemaCompatibility.incompatible(f"{self.enum_class} has lost {', '.join(removed)}")
        if self.names == new.names:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_with_reconfigured_serializer()


class _UserCode(NamedTuple):
    """What tells one serializer of values that write themselves from another."""

    name: str
    method: str


_USER_CODE: Final = {
    f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot": _UserCode("VALUE", "Value.write"),
    f"{RUNTIME}CopyableValueSerializer$CopyableValueSerializerSnapshot": _UserCode("COPYABLE_VALUE", "Value.write"),
    f"{RUNTIME}WritableSerializer$WritableSerializerSnapshot": _UserCode("WRITABLE", "Writable.write"),
}


class UserCodeSerializer(TypeSerializer):
    """Of a class that writes itself (Flink: ``ValueSerializer``, ``CopyableValueSerializer``, ``WritableSerializer``).

    What the bytes mean stands in the user's class alone, so that a value can neither be decoded nor stepped over. Users who
    know it register a reader for the snapshot class that restores a serializer of their own.

    Parameters
    ----------
    type_class
        The user's Java class.
    snapshot_class
        Which of the three serializers it is.
    """

    smallest = 0
    can_find_end = False

    def __init__(self, type_class: str, snapshot_class: str) -> None:
        self.type_class = type_class
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{_USER_CODE[self._snapshot_class].name}<{self.type_class}>"

    @property
    def reason(self) -> str:
        """Why values can't be decoded, and what to do."""
        return (
            f"how {self.type_class} is written stands in its own method {_USER_CODE[self._snapshot_class].method}; "
            f"register_snapshot({self._snapshot_class!r}, …) with a reader whose serializer knows it"
        )

    def _refuse(self) -> NoReturn:
        raise UnsupportedFormatError(f"{self}: {self.reason}")

    def read(self, source: DataInput) -> Any:
        self._refuse()

    def write(self, value: Any, target: DataOutput) -> None:
        self._refuse()

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def snapshot(self) -> TypeSerializerSnapshot:
        return GenericTypeSerializerSnapshot(self._snapshot_class, self.type_class)


class GenericTypeSerializerSnapshot(TypeSerializerSnapshot):
    """Of a serializer that is configured by one class (Flink: ``GenericTypeSerializerSnapshot``)."""

    current_version = 2

    def __init__(self, class_name: str, type_class: str, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.type_class = type_class

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> GenericTypeSerializerSnapshot:
        return cls(class_name, source.read_utf(), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.type_class)

    def restore_serializer(self) -> TypeSerializer:
        return UserCodeSerializer(self.type_class, self.class_name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, GenericTypeSerializerSnapshot)
        if self.type_class == new.type_class:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"values of {self.type_class} were written, {new.type_class} is wanted")


register_snapshot(TUPLE_SNAPSHOT, TupleSerializerSnapshot)
register_simple(Tuple0Serializer())
register_snapshot(ROW_SNAPSHOT, RowSerializerSnapshot)
register_snapshots((EITHER_SNAPSHOT, LEGACY_EITHER_SNAPSHOT), EitherSerializerSnapshot)
register_snapshot(NULLABLE_SNAPSHOT, NullableSerializerSnapshot)
register_snapshot(ENUM_SNAPSHOT, EnumSerializerSnapshot)
register_snapshots(_USER_CODE, GenericTypeSerializerSnapshot)
