"""Serializers around others, and values in Java serialization (Flink: ``JavaSerializer``).

Wrappers of Flink add no bytes. Time-to-live adds a time (Flink: ``TtlStateFactory.TtlSerializer``,
``TtlAwareSerializerSnapshot``). A codec around a POJO reads values of undescribed subclasses as bytes: if their end is known,
they are not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    register_simple,
    write_versioned_snapshot,
)
from state_processor.serializers.codec import Codec, total_length
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import MapStateValue
from state_processor.serializers.core.pojo import PojoCodec
from state_processor.serializers.core.pojo_fields import CLASS_FIELD, PojoValue
from state_processor.serializers.core.templates import (
    DelegatingSerializer,
    EpochMillisSerializer,
    NestedSerializer,
    register_nested,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaObject, read_java_object
from state_processor.serializers.kernel.columns import is_timed
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import STATE, provide_snapshots
from state_processor.support.errors import InvalidRowError, UndescribedClassError
from state_processor.support.mappings import without_keys

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class JavaSerializer(SimpleSerializer):
    """Java serialization (Flink: ``JavaSerializer``): a stream of one object, without a length or an end marker.

    Python holds its bytes and its content; a column contains the bytes.
    """

    snapshot_class = f"{STATE}JavaSerializer$JavaSerializerSnapshot"
    min_size = 5

    def __str__(self) -> str:
        return "JAVA"

    def read(self, source: DataInput) -> JavaObject:
        return read_java_object(source)

    def write(self, value: JavaObject, target: DataOutput) -> None:
        target.write_bytes(value.raw)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def to_column(self, value: JavaObject, options: DecodeOptions) -> bytes:
        return value.raw

    def from_column(self, value: Any) -> JavaObject:
        return value if isinstance(value, JavaObject) else read_java_object(DataInput(value))


register_simple(JavaSerializer())


class WrappingSerializer(DelegatingSerializer):
    """A serializer around another one that adds no bytes; its snapshot identifies the wrapper.

    ``inner``: the serializer that does the work. ``wrap``: makes the snapshot from the snapshot of ``inner``.
    """

    child_names = ("",)
    content: TypeSerializer
    is_declared: ClassVar[bool] = False
    """Whether the wrapper is a part of the type that the job declares."""

    def __init__(self, inner: TypeSerializer, wrap: Callable[[TypeSerializerSnapshot], TypeSerializerSnapshot]) -> None:
        super().__init__(inner)
        self._wrap = wrap

    def __str__(self) -> str:
        return str(self.content)

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.content,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (content,) = children
        return type(self)(content, self._wrap)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._wrap(self.content.snapshot())

    def hash_code(self, value: Any) -> int:
        return self.content.hash_code(value)


class SingleThreadAccessCheckingSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of a wrapper of Flink's tests. The wrapper detects a serializer that threads share."""

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return WrappingSerializer(nested[0], lambda inner: SingleThreadAccessCheckingSnapshot(self.class_name, [inner]))


_CHECKING: Final = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer"


provide_snapshots((f"{_CHECKING}$SingleThreadAccessCheckingTypeSerializerSnapshot",), SingleThreadAccessCheckingSnapshot)


# Time-to-live

LAST_ACCESS_FIELD: Final = "_last_access"
"""The field with a value's time of last use, with ``DecodeOptions.ttl``."""
_MILLIS: Final = EpochMillisSerializer()
_AS_TIMESTAMP: Final = DecodeOptions()
"""Times of last use fit microseconds and the clock's range, so that they are timestamps with all options."""


class TtlValue(NamedTuple):
    """A value of a state with time-to-live: its time of last use (milliseconds since 1970), and the value."""

    last_access: int
    value: Any


class TtlSerializer(NestedSerializer):
    """A value with time-to-live: time of last use as a long, then the value (Flink: ``TtlStateFactory.TtlSerializer``).

    A column contains the values alone, or with ``DecodeOptions.ttl`` a struct of ``_last_access`` and ``value``.

    ``timestamp``: the serializer of the time, always a ``Long``.
    """

    snapshot_class = f"{STATE}ttl.TtlStateFactory$TtlSerializerSnapshot"
    outer_version = 2
    nested_count = 2
    nested_names = ("", "")

    def __init__(self, timestamp: TypeSerializer, value: TypeSerializer) -> None:
        super().__init__(timestamp, value)
        self.value = value
        self.length = total_length((timestamp, value))
        self.min_size = _MILLIS.min_size + value.min_size

    @classmethod
    def of(cls, value: TypeSerializer) -> TtlSerializer:
        """Return the serializer that Flink makes for a state with such values."""
        return cls(NumberSerializer("LONG"), value)

    def __str__(self) -> str:
        return f"TTL<{self.value}>"

    def as_remainder(self) -> TypeSerializer:
        value = self.value.as_remainder()
        return self if value is self.value else self.with_children((self.nested[0], value))

    def read(self, source: DataInput) -> TtlValue:
        return TtlValue(source.read_long(), self.value.read(source))

    def skip(self, source: DataInput) -> None:
        _MILLIS.skip(source)
        self.value.skip(source)

    def write(self, value: TtlValue, target: DataOutput) -> None:
        last_access, inner = value
        target.write_long(last_access)
        self.value.write(inner, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        inner = self.value.arrow_type(options)
        return pa.struct([(LAST_ACCESS_FIELD, _MILLIS.arrow_type(_AS_TIMESTAMP)), ("value", inner)]) if options.ttl else inner

    def to_column(self, value: TtlValue, options: DecodeOptions) -> Any:
        inner = self.value.to_column(value.value, options)
        return {LAST_ACCESS_FIELD: _MILLIS.to_column(value.last_access, _AS_TIMESTAMP), "value": inner} if options.ttl else inner

    def from_column(self, value: Any) -> TtlValue:
        """See :meth:`TypeSerializer.from_column`; the time of a value without one is 1970."""
        if isinstance(value, TtlValue):
            return TtlValue(value.last_access, self.value.from_column(value.value))
        if isinstance(value, Mapping) and value.keys() == {LAST_ACCESS_FIELD, "value"}:
            return TtlValue(_MILLIS.from_column(value[LAST_ACCESS_FIELD]), self.value.from_column(value["value"]))
        return TtlValue(0, self.value.from_column(value))

    def emit_time(self, builder: DecodeBuilder, column: Column) -> None:
        """Append the instructions that read the time of a value into its column, with ``DecodeOptions.ttl``."""
        builder.op(Op.VALID, column)
        builder.op(Op.MILLIS, column.child(0), mode=_AS_TIMESTAMP.time_mode, utc=0)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if builder.options.ttl:
            self.emit_time(builder, column)
            self.value.emit_decode(builder, column.child(1))
        else:
            builder.skip(_MILLIS.length)
            self.value.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        default = _MILLIS.serialize(builder.options.last_access)
        access = column.find(LAST_ACCESS_FIELD) if is_timed(column.type) else builder.last_access
        if access is None:
            builder.bytes(default)
        else:
            builder.op(Op.MILLIS, access, null=builder.constant(default), text=0)
        self.value.emit_encode(builder, column.named("value") if is_timed(column.type) else column)


class AsynchronousTtlSerializer(TtlSerializer):
    """The same bytes in states of the asynchronous API (Flink: ``v2.ttl.TtlStateFactory.TtlSerializer``).

    Flink treats the two serializers as incompatible.
    """

    snapshot_class = f"{STATE}v2.ttl.TtlStateFactory$TtlSerializerSnapshot"


class TtlMapStateValue(MapStateValue[TypeSerializer]):
    """The value of an entry of a map state with time-to-live, outside the heap.

    It is never null itself: if a job puts null, Flink stores the time, as for any other value (``TtlMapState``). Flink drops an
    entry that is null anyway when it reads it.
    """

    def from_column(self, value: Any) -> Any:
        return self.inner.from_column(value)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(bytes(1))
        self.inner.emit_encode(builder, column)


TTL_AWARE_SNAPSHOT: Final = f"{STATE}ttl.TtlAwareSerializerSnapshot"


class TtlAwareSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of a serializer for states with or without time-to-live (Flink 2.0 and later).

    With it, turning time-to-live on or off is a migration; the wrapped snapshots alone would be incompatible.
    """

    current_version = 1

    def __init__(self, class_name: str, inner: TypeSerializerSnapshot, ttl: bool, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.inner = inner
        self.ttl = ttl

    @classmethod
    def of(cls, inner: TypeSerializerSnapshot) -> TtlAwareSerializerSnapshot:
        """Return the snapshot around a snapshot of a savepoint."""
        return cls(TTL_AWARE_SNAPSHOT, inner, is_ttl_snapshot(inner))

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> TtlAwareSerializerSnapshot:
        ttl = source.read_boolean()
        return cls(class_name, read_versioned_snapshot(source), ttl, version)

    def write(self, target: DataOutput) -> None:
        target.write_boolean(self.ttl)
        write_versioned_snapshot(self.inner, target)

    def restore_serializer(self) -> TypeSerializer:
        return WrappingSerializer(
            self.inner.restore_serializer(), lambda inner: TtlAwareSerializerSnapshot(self.class_name, inner, self.ttl)
        )

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, TtlAwareSerializerSnapshot)
        if self.ttl == new.ttl:
            return self.inner.resolve_schema_compatibility(new.inner)
        verdict = _value_snapshot(self).resolve_schema_compatibility(_value_snapshot(new))
        return verdict if verdict.is_incompatible else SchemaCompatibility.compatible_after_migration()


def is_ttl_snapshot(snapshot: TypeSerializerSnapshot) -> bool:
    """Check if a snapshot describes values with time-to-live."""
    return snapshot.class_name in TTL_SNAPSHOTS


def _value_snapshot(snapshot: TtlAwareSerializerSnapshot) -> TypeSerializerSnapshot:
    """Return the snapshot of the values without their times."""
    inner = snapshot.inner
    return inner.nested[1] if snapshot.ttl and isinstance(inner, CompositeTypeSerializerSnapshot) else inner


TTL_SNAPSHOTS: Final = (TtlSerializer.snapshot_class, AsynchronousTtlSerializer.snapshot_class)
"""The snapshot classes of values with time-to-live: of states, and of states with asynchronous access (Flink 2)."""


register_nested(TtlSerializer)
register_nested(AsynchronousTtlSerializer)
provide_snapshots((TTL_AWARE_SNAPSHOT,), TtlAwareSerializerSnapshot)


# Undescribed subclasses of POJOs

BYTES_FIELD: Final = "_bytes"
"""The field with the bytes of a value of an undescribed class; null for all others."""


class UndescribedClassesCodec(Codec):
    """Codec of a POJO that fills its part of an entry, so that a value of an undescribed class can be passed on as bytes.

    A column has the fields of the POJO, with ``_class`` first and ``_bytes`` last. A value of an undescribed class has these
    two, and null in all other fields. Values are decoded in Python, one by one.

    ``fills``: whether values fill their part of an entry. Elsewhere the end of a value of an undescribed class is unknown: an
    error.
    """

    child_names = ("",)

    min_size = 1

    def __init__(self, pojo: PojoCodec[Any], *, fills: bool = False) -> None:
        self.pojo = pojo
        self.fills = fills

    def as_remainder(self) -> UndescribedClassesCodec:
        """Return the same for values that fill their part."""
        return UndescribedClassesCodec(self.pojo, fills=True)

    def __str__(self) -> str:
        return str(self.pojo)

    @property
    def children(self) -> Sequence[Codec]:
        return (self.pojo,)

    def with_children(self, children: Sequence[Any]) -> Codec:
        (pojo,) = children
        return UndescribedClassesCodec(pojo, fills=self.fills)

    def read(self, source: DataInput) -> PojoValue | None:
        start = source.position
        try:
            return self.pojo.read(source)
        except UndescribedClassError as problem:
            if not self.fills:
                raise
            source.position = start
            class_name = problem.class_name if problem.start == start else self.pojo.class_name  # else it is a nested value
            return PojoValue(class_name, {BYTES_FIELD: source.read_bytes(source.remaining)})

    def write(self, value: PojoValue | None, target: DataOutput) -> None:
        if value is not None and BYTES_FIELD in value:
            target.write_bytes(value[BYTES_FIELD])
        else:
            self.pojo.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        fields = [f for f in self.pojo.arrow_type(options) if f.name != CLASS_FIELD]
        return pa.struct([pa.field(CLASS_FIELD, pa.string()), *fields, pa.field(BYTES_FIELD, pa.binary())])

    def to_column(self, value: PojoValue | None, options: DecodeOptions) -> dict[str, Any] | None:
        if value is None:
            return None
        columns_of_class = {CLASS_FIELD: value.class_name, BYTES_FIELD: value.get(BYTES_FIELD)}
        return columns_of_class if BYTES_FIELD in value else (self.pojo.to_column(value, options) or {}) | columns_of_class

    def from_column(self, value: Mapping[str, Any] | None) -> PojoValue | None:
        if value is None or isinstance(value, PojoValue):
            return value
        rest = without_keys(value, (CLASS_FIELD, BYTES_FIELD))
        class_name, data = value.get(CLASS_FIELD), value.get(BYTES_FIELD)
        if data is None:
            class_column = {CLASS_FIELD: class_name} if class_name not in (None, self.pojo.class_name) else {}
            if class_column and not self.pojo.has_subclasses:
                raise InvalidRowError(
                    f"{CLASS_FIELD} is the undescribed class {class_name!r}: give the value in {BYTES_FIELD}, as it was read"
                )
            return self.pojo.from_column(rest | class_column)
        named = next((name for name, field in rest.items() if field is not None), None)
        if named is not None:
            raise InvalidRowError(
                f"the field {named!r} of a value with {BYTES_FIELD}, but the bytes are the whole value: leave one of the two null"
            )
        return PojoValue(str(class_name), {BYTES_FIELD: bytes(data)})


def with_undescribed_classes(type_: TypeSerializer) -> Codec:
    """Return the codec of a value that fills its part of an entry, with bytes for undescribed classes if it is a POJO."""
    if isinstance(type_, TtlSerializer) and isinstance(type_.value, PojoCodec):
        return type_.with_children((type_.nested[0], UndescribedClassesCodec(type_.value)))
    return UndescribedClassesCodec(type_) if isinstance(type_, PojoCodec) else type_
