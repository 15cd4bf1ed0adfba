"""Values with time-to-live (Flink: ``TtlStateFactory.TtlSerializer``, ``TtlAwareSerializerSnapshot``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import MapStateValue
from state_processor.serializers.core.templates import EpochMillisSerializer, NestedSerializer, register_nested, total_length
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import STATE
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.columns import is_timed
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.runtime.wrapping import WrappingSerializer

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

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
        self.length = total_length(timestamp, value)
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
