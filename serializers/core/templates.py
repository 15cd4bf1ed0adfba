"""Templates of serializers: nested serializers alone, fields in a fixed order, a choice of two values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
)
from state_processor.serializers.codec import Codec, default_names, total_length, total_min_size
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.temporal import instant_type, present_instant
from state_processor.serializers.core.time_values import Instant, exact_millis, to_instant
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.encode.conversion import fields_in_order
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import provide_snapshots

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_SIGN: Final = 1 << 63


class NestedSerializer(TypeSerializer):
    """A serializer whose snapshot contains only the snapshots of its nested serializers, the arguments of its constructor.

    Subclasses set :attr:`snapshot_class`, :attr:`outer_version`, :attr:`nested_count` and, if paths
    name the nested types by other names than the default ones, :attr:`nested_names`. :func:`register_nested` registers them.
    """

    snapshot_class: str
    outer_version: int = 1
    nested_count: ClassVar[int] = 1
    nested_names: ClassVar[Sequence[str]] = ()
    nested: tuple[TypeSerializer, ...]

    def __init__(self, *nested: TypeSerializer) -> None:
        self.nested = nested

    @property
    def child_names(self) -> Sequence[str]:
        return self.nested_names or default_names(len(self.nested))

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return self.nested

    def with_children(self, children: Sequence[Any]) -> TypeSerializer:
        return type(self)(*children).written_by(self.snapshot_class, self.outer_version)

    def snapshot(self) -> TypeSerializerSnapshot:
        snapshot = NestedSnapshot(self.snapshot_class, self.child_snapshots, outer_version=self.outer_version)
        snapshot.serializer_class = type(self)
        return snapshot

    def written_by(self, snapshot_class: str, outer_version: int) -> Self:
        """Return the same serializer with the snapshot class and version that it was restored from."""
        if (snapshot_class, outer_version) == (self.snapshot_class, self.outer_version):
            return self
        return self._copy_with(snapshot_class=snapshot_class, outer_version=outer_version)


class NestedSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of a :class:`NestedSerializer`."""

    serializer_class: type[NestedSerializer]

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> CompositeTypeSerializerSnapshot:
        snapshot = super().read(class_name, version, source)
        count = cls.serializer_class.nested_count
        if len(snapshot.nested) != count:
            raise source.corrupt(f"{count} nested serializers of {class_name} expected, found {len(snapshot.nested)}")
        return snapshot

    @property
    def nested_names(self) -> Sequence[str]:
        return self.serializer_class.nested_names or super().nested_names

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return self.serializer_class(*nested).written_by(self.class_name, self.outer_version)


def nested_snapshots(*serializers: type[NestedSerializer]) -> dict[str, type[NestedSnapshot]]:
    """Return the snapshot classes of classes of :class:`NestedSerializer`, by the names of these classes in Java."""
    return {serializer.snapshot_class: _nested_snapshot(serializer) for serializer in serializers}


def _nested_snapshot(serializer: type[NestedSerializer]) -> type[NestedSnapshot]:
    return type("NestedSnapshot", (NestedSnapshot,), {"serializer_class": serializer})


def register_nested(serializer: type[NestedSerializer], *other_names: str) -> None:
    """Register the snapshot class of a :class:`NestedSerializer`, and its earlier names."""
    provide_snapshots((serializer.snapshot_class, *other_names), _nested_snapshot(serializer))


class FieldsCodec(Codec):
    """Fields one after the other, without nulls; a column is a struct of them.

    It is a part of some serializers of Flink.

    ``value_class``: the named tuple that holds a value. ``fields``: the codecs of the fields by the names of their columns, in
    wire order.
    """

    def __init__(self, value_class: Callable[..., Any], fields: Mapping[str, Codec]) -> None:
        self.value_class = value_class
        self.fields = dict(fields)
        self.length = total_length(self.fields.values())
        self.min_size = total_min_size(self.fields.values())

    def __str__(self) -> str:
        return f"STRUCT<{','.join(f'{name}:{f}' for name, f in self.fields.items())}>"

    @property
    def child_names(self) -> Sequence[str]:
        return tuple(self.fields)

    @property
    def children(self) -> Sequence[Codec]:
        return tuple(self.fields.values())

    def with_children(self, children: Sequence[Codec]) -> Codec:
        return FieldsCodec(self.value_class, dict(zip(self.fields, children, strict=True)))

    def read(self, source: DataInput) -> Any:
        return self.value_class(*[f.read(source) for f in self.fields.values()])

    def skip(self, source: DataInput) -> None:
        for field in self.fields.values():
            field.skip(source)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        for field, part in zip(self.fields.values(), value, strict=True):
            field.write(part, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._struct_of_children(options)

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> Any:
        return {name: f.to_column(part, options) for (name, f), part in zip(self.fields.items(), value, strict=True)}

    def from_column(self, value: Any) -> Any:
        parts = fields_in_order(value, list(self.fields), f"a value of {self}")
        return self.value_class(*[f.from_column(part) for f, part in zip(self.fields.values(), parts, strict=True)])

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.VALID, column)
        for number, (name, field) in enumerate(self.fields.items()):
            with builder.field(name):
                field.emit_decode(builder, column.child(number))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        for number, (name, field) in enumerate(self.fields.items()):
            with builder.field(name):
                field.emit_encode(builder, column.child(number))


class DelegatingCodec(Codec):
    """A codec with the bytes and columns of another, :attr:`content`. Subclasses add the name."""

    content: Codec

    def __init__(self, content: Codec) -> None:
        self.content = content
        self.length = content.length
        self.min_size = content.min_size

    def read(self, source: DataInput) -> Any:
        return self.content.read(source)

    def skip(self, source: DataInput) -> None:
        self.content.skip(source)

    def write(self, value: Any, target: DataOutput) -> None:
        self.content.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.content.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return self.content.to_column(value, options)

    def from_column(self, value: Any) -> Any:
        return self.content.from_column(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        self.content.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        self.content.emit_encode(builder, column)

    def key_from_column(self, value: Any) -> Any:
        return self.content.key_from_column(value)

    def emit_encode_key(self, builder: EncodeBuilder, column: Column) -> None:
        self.content.emit_encode_key(builder, column)


class DelegatingSerializer(DelegatingCodec, TypeSerializer):
    """A serializer with the bytes and columns of a codec, :attr:`content`. Subclasses add name and snapshot."""


class ObservedCodec(DelegatingCodec):
    """A codec that reports each value that it reads, in Python; its list of children is empty, so that a walk ends at it.

    ``content``: the codec that does the work. ``observe``: called with the source behind the value, the position of the value's
    begin, and the value.
    """

    def __init__(self, content: Codec, observe: Callable[[DataInput, int, Any], None]) -> None:
        super().__init__(content)
        self._observe = observe

    def __str__(self) -> str:
        return str(self.content)

    @property
    def self_delimiting(self) -> bool:
        return self.content.self_delimiting

    @property
    def reason(self) -> str:
        return self.content.reason

    def read(self, source: DataInput) -> Any:
        start = source.position
        value = self.content.read(source)
        self._observe(source, start, value)
        return value

    def skip(self, source: DataInput) -> None:
        self.read(source)

    emit_decode = Codec.emit_decode
    emit_encode = Codec.emit_encode


class SimpleDelegatingSerializer(DelegatingSerializer, SimpleSerializer):
    """A serializer without configuration that delegates to :attr:`content`, an attribute of the class."""

    def __init__(self, snapshot_class: str = "") -> None:
        DelegatingSerializer.__init__(self, type(self).content)
        SimpleSerializer.__init__(self, snapshot_class)


class NestedDelegatingSerializer(DelegatingSerializer, NestedSerializer):
    """A serializer that has only nested serializers and delegates to a combination of them.

    ``content``: the codec that does the work. ``nested``: the serializers that the snapshot holds.
    """

    def __init__(self, content: Codec, *nested: TypeSerializer) -> None:
        DelegatingSerializer.__init__(self, content)
        NestedSerializer.__init__(self, *nested)


class ChoiceSerializer(NestedSerializer):
    """A byte that selects one of two values, then the value; a column is a struct of both, one of them null.

    Subclasses set :attr:`names` of the columns, :attr:`markers`, the bytes, and :attr:`value_class`, the named tuple of
    marker and value that holds a value. If the bytes are 1 and 0, the marker is ``True`` or ``False``.
    """

    nested_count = 2
    names: ClassVar[tuple[str, str]]
    markers: ClassVar[tuple[int, int]]
    value_class: ClassVar[Callable[..., Any]]

    def __init__(self, first: TypeSerializer, second: TypeSerializer) -> None:
        super().__init__(first, second)
        self.min_size = 1 + min(first.min_size, second.min_size)

    def _marker(self, source: DataInput) -> int:
        marker = source.read_unsigned_byte()
        if marker not in self.markers:
            first, second = self.markers
            raise source.corrupt(f"byte {first} ({self.names[0]}) or {second} ({self.names[1]}) expected, found {marker}")
        return marker

    def _chosen(self, marker: int) -> TypeSerializer:
        return self.nested[self.markers.index(marker)]

    def read(self, source: DataInput) -> Any:
        marker = self._marker(source)
        return self.value_class(bool(marker) if 0 in self.markers else marker, self._chosen(marker).read(source))

    def skip(self, source: DataInput) -> None:
        self._chosen(self._marker(source)).skip(source)

    def write(self, value: tuple[int, Any], target: DataOutput) -> None:
        marker, inner = value
        target.write_byte(marker)
        self._chosen(marker).write(inner, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([(name, s.arrow_type(options)) for name, s in zip(self.names, self.nested, strict=True)])

    def to_column(self, value: tuple[int, Any], options: DecodeOptions) -> Any:
        marker, inner = value
        columns_of_value: dict[str, Any] = dict.fromkeys(self.names)
        columns_of_value[self.names[self.markers.index(marker)]] = self._chosen(marker).to_column(inner, options)
        return columns_of_value

    def from_column(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            chosen = [number for number, name in enumerate(self.names) if value.get(name) is not None]
            if len(chosen) != 1:
                raise ValueError(f"exactly one of {' and '.join(self.names)} must have a value")
            marker = self.markers[chosen[0]]
            value = (bool(marker) if 0 in self.markers else marker, value[self.names[chosen[0]]])
        return self.value_class(value[0], self._chosen(value[0]).from_column(value[1]))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        def side(number: int) -> None:
            builder.op(Op.VALID, column)
            with builder.field(self.names[number]):
                self.nested[number].emit_decode(builder, column.child(number))
            builder.fill_nulls(column.child(1 - number))

        branches: list[Callable[[], None] | None] = [None] * (max(self.markers) + 1)
        for number, marker in enumerate(self.markers):
            branches[marker] = partial(side, number)
        emit_choice(builder, column, branches)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        first, second = column.child(0), column.child(1)
        markers, end = self.markers, builder.label()
        with builder.unless(Op.EITHER, column, left=first, right=second, left_byte=markers[0], right_byte=markers[1]):
            with builder.field(self.names[0]):
                self.nested[0].emit_encode(builder, first)
            builder.jump(end)
        with builder.field(self.names[1]):
            self.nested[1].emit_encode(builder, second)
        builder.place(end)


def emit_choice(builder: DecodeBuilder, column: Column, branches: Sequence[Callable[[], None] | None]) -> None:
    """Append instructions for a byte that selects what follows; ``None`` for a byte that must not occur."""
    targets = [None if branch is None else builder.label() for branch in branches]
    end = builder.label()
    builder.op(Op.CHOOSE_BYTE, column, branches=builder.aux([(target,) for target in targets]), count=len(targets))
    for branch, target in zip(branches, targets, strict=True):
        if branch is not None:
            builder.place(target)
            branch()
            builder.jump(end)
    builder.place(end)


class EpochMillisSerializer(NumberSerializer):
    """A long, written as a plain ``Long``, that is a point in time in milliseconds; a column is of timestamps."""

    never_null = False

    def __init__(self) -> None:
        super().__init__("LONG")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return instant_type(options)

    def to_column(self, value: int, options: DecodeOptions) -> Any:
        return present_instant(Instant.of_millis(value), options)

    def from_column(self, value: Any) -> int:
        return value if type(value) is int else exact_millis(to_instant(value))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.MILLIS, column, mode=builder.options.time_mode, utc=1)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.MILLIS, column, null=-1, text=int(pa.types.is_string(column.type)))


class SignFlippedLongSerializer(NumberSerializer):
    """A long whose first bit is inverted, so that bytes sort like numbers."""

    def __init__(self) -> None:
        super().__init__("LONG")

    def read(self, source: DataInput) -> int:
        return (source.read_long() & (1 << 64) - 1) - _SIGN

    def write(self, value: int, target: DataOutput) -> None:
        target.write_bytes((value + _SIGN).to_bytes(8, "big"))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.SIGN_FLIPPED_INT64, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.SIGN_FLIPPED_INT64, column)
