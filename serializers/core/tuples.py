"""Tuples (Flink: ``TupleSerializer``, ``Tuple0Serializer``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.codec import VARIABLE
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import RUNTIME
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.encode.conversion import fields_in_order
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.paths import field_names
from state_processor.serializers.registry import provide_snapshots

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
        return pa.struct([(n, f.arrow_type(options)) for n, f in zip(self.field_names, self.fields, strict=True)])

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
        self.min_size = sum(f.min_size for f in self.fields)

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
        return TupleSerializerSnapshot(self.tuple_class, [f.snapshot() for f in self.fields])

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
