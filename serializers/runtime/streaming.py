"""Namespaces and windows, values with TTL, timers, and what operators of the DataStream API keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import (
    VARIABLE,
    CompositeTypeSerializerSnapshot,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    register_simple,
    write_versioned_snapshot,
)
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.basic import NumberSerializer, VoidSerializer
from state_processor.serializers.core.collections import ListSerializer, MapStateValue, NullFlagged
from state_processor.serializers.core.templates import (
    ChoiceSerializer,
    DelegatingSerializer,
    EpochMillisSerializer,
    FieldsSerializer,
    NestedDelegatingSerializer,
    NestedSerializer,
    SignFlippedLongSerializer,
    SimpleDelegatingSerializer,
    emit_choice,
    register_nested,
    total_length,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaObject, read_java_object
from state_processor.serializers.kernel.columns import is_timed
from state_processor.serializers.kernel.decode import ops
from state_processor.serializers.kernel.encode import ops as encode_ops
from state_processor.serializers.registry import register_snapshot, register_snapshots

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

STATE: Final = "org.apache.flink.runtime.state."
STREAMING: Final = "org.apache.flink.streaming."
WINDOWS: Final = f"{STREAMING}api.windowing.windows."
TABLE_WINDOWS: Final = "org.apache.flink.table.runtime.operators.window."
LAST_ACCESS_FIELD: Final = "_last_access"
"""The field that holds when a value with TTL was last used, with ``DecodeOptions.ttl``."""


class VoidNamespaceSerializer(VoidSerializer):
    """``VoidNamespace``: one byte, although Flink says that it has none.

    The length of 0 decides that no length is appended to a key before it, so that it has to stay.
    """

    snapshot_class = f"{STATE}VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
    length = 0
    smallest = 1

    def __str__(self) -> str:
        return "VOID_NAMESPACE"

    def read(self, source: DataInput) -> None:
        source.skip(1, "void namespace")

    def skip(self, source: DataInput) -> None:
        source.skip(1, "void namespace")

    def write(self, value: None, target: DataOutput) -> None:
        target.write_byte(0)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.SKIP, column, 1)
        builder.fill_nulls(column)


class TimeWindow(NamedTuple):
    """``TimeWindow``: first millisecond, and the one after the last."""

    start: int
    end: int


_MILLIS: Final = EpochMillisSerializer()
_AS_TIMESTAMP: Final = DecodeOptions()
"""Times of last use fit microseconds and the clock's range, so that they are timestamps whatever the options say."""


class TimeWindowSerializer(SimpleDelegatingSerializer):
    """``TimeWindow`` of the DataStream and the Table API: start and end as longs."""

    snapshot_class = f"{WINDOWS}TimeWindow$Serializer$TimeWindowSerializerSnapshot"
    content = FieldsSerializer(TimeWindow, {"start": _MILLIS, "end": _MILLIS})

    def __str__(self) -> str:
        return "TIME_WINDOW"


class GlobalWindowSerializer(SimpleSerializer):
    """``GlobalWindow``: one byte. A column is of windows, all null."""

    snapshot_class = f"{WINDOWS}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"
    length = smallest = 1

    def __str__(self) -> str:
        return "GLOBAL_WINDOW"

    def read(self, source: DataInput) -> None:
        source.skip(1, "global window")

    def write(self, value: None, target: DataOutput) -> None:
        target.write_byte(0)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return TimeWindowSerializer().arrow_type(options)

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(ops.SKIP, column, 1)
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(self.serialize(None))


class CountWindowSerializer(NumberSerializer):
    """``CountWindow`` of the Table API: its number, a long."""

    def __init__(self) -> None:
        super().__init__("LONG", f"{TABLE_WINDOWS}CountWindow$Serializer$CountWindowSerializerSnapshot")

    def __str__(self) -> str:
        return "COUNT_WINDOW"


class TtlValue(NamedTuple):
    """A value of a state with time-to-live: when it was last used (milliseconds since 1970), and the value."""

    last_access: int
    value: Any


class TtlSerializer(NestedSerializer):
    """A value with time-to-live: time of last use as a long, then the value (Flink: ``TtlStateFactory.TtlSerializer``).

    A column is of the values alone, or with ``DecodeOptions.ttl`` a struct of ``_last_access`` and ``value``.

    Parameters
    ----------
    timestamp
        The serializer of the time, always a ``Long``.
    value
        The serializer of the value.
    """

    snapshot_class = f"{STATE}ttl.TtlStateFactory$TtlSerializerSnapshot"
    outer_version = 2
    nested_count = 2

    def __init__(self, timestamp: TypeSerializer, value: TypeSerializer) -> None:
        super().__init__(timestamp, value)
        self.value = value
        self.length = total_length(timestamp, value)
        self.smallest = _MILLIS.smallest + value.smallest

    @classmethod
    def of(cls, value: TypeSerializer) -> TtlSerializer:
        """The serializer that Flink makes for a state with such values."""
        return cls(NumberSerializer("LONG"), value)

    def __str__(self) -> str:
        return f"TTL<{self.value}>"

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

    def present(self, value: TtlValue, options: DecodeOptions) -> Any:
        inner = self.value.present(value.value, options)
        return {LAST_ACCESS_FIELD: _MILLIS.present(value.last_access, _AS_TIMESTAMP), "value": inner} if options.ttl else inner

    def accept(self, value: Any) -> TtlValue:
        """See :meth:`TypeSerializer.accept`; a value without its time was last used in 1970."""
        if isinstance(value, TtlValue):
            return TtlValue(value.last_access, self.value.accept(value.value))
        if isinstance(value, Mapping) and value.keys() == {LAST_ACCESS_FIELD, "value"}:
            return TtlValue(_MILLIS.accept(value[LAST_ACCESS_FIELD]), self.value.accept(value["value"]))
        return TtlValue(0, self.value.accept(value))

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        if builder.options.ttl:
            builder.op(ops.VALID, column)
            builder.op(ops.MILLIS, column.child(0), _AS_TIMESTAMP.time_mode)
            self.value.emit(builder, column.child(1))
        else:
            builder.op(ops.SKIP, column, _MILLIS.length)
            self.value.emit(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        default = _MILLIS.serialize(builder.options.last_access)
        access = column.find(LAST_ACCESS_FIELD) if is_timed(column.type) else builder.last_access
        if access is None:
            builder.bytes(default)
        else:
            builder.op(encode_ops.MILLIS, access, builder.constant(default))
        self.value.emit_encode(builder, column.named("value") if is_timed(column.type) else column)


class TtlMapStateValue(MapStateValue):
    """The value of an entry of a map state with time-to-live, outside the heap.

    It is never null itself: of a null that a job puts, Flink keeps the time as of any other value (``TtlMapState``). An entry
    that is null all the same it drops when it comes upon it.
    """

    def accept(self, value: Any) -> Any:
        return self.inner.accept(value)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(bytes(1))
        self.inner.emit_encode(builder, column)


class WrappingSerializer(DelegatingSerializer):
    """A serializer around another one that adds no bytes; its snapshot says how it is wrapped.

    Parameters
    ----------
    inner
        The serializer that does the work.
    wrap
        Makes the snapshot from that of ``inner``.
    """

    def __init__(self, inner: TypeSerializer, wrap: Callable[[TypeSerializerSnapshot], TypeSerializerSnapshot]) -> None:
        self.delegate_to(inner)
        self._wrap = wrap

    def __str__(self) -> str:
        return str(self.content)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._wrap(self.content.snapshot())

    def hash_code(self, value: Any) -> int:
        return self.content.hash_code(value)


TTL_AWARE_SNAPSHOT: Final = f"{STATE}ttl.TtlAwareSerializerSnapshot"


class TtlAwareSerializerSnapshot(TypeSerializerSnapshot):
    """Of a serializer that may or may not be of a state with time-to-live (Flink: ``TtlAwareSerializerSnapshot``, since 2.0).

    It makes turning time-to-live on or off a migration, where the wrapped snapshots alone would be incompatible.
    """

    current_version = 1

    def __init__(self, class_name: str, inner: TypeSerializerSnapshot, ttl: bool, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.inner = inner
        self.ttl = ttl

    @classmethod
    def of(cls, inner: TypeSerializerSnapshot) -> TtlAwareSerializerSnapshot:
        """Around a snapshot as it stands in a savepoint."""
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
    """Whether it describes values with time-to-live."""
    return snapshot.class_name in TTL_SNAPSHOTS


def _value_snapshot(snapshot: TtlAwareSerializerSnapshot) -> TypeSerializerSnapshot:
    """That of the values without their times."""
    inner = snapshot.inner
    return inner.nested[1] if snapshot.ttl and isinstance(inner, CompositeTypeSerializerSnapshot) else inner


class SingleThreadAccessCheckingSnapshot(CompositeTypeSerializerSnapshot):
    """Of a wrapper with which Flink's tests find out that a serializer is shared between threads."""

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return WrappingSerializer(nested[0], lambda inner: SingleThreadAccessCheckingSnapshot(self.class_name, [inner]))


class Timer(NamedTuple):
    """A timer: when it fires (milliseconds), its key and its namespace."""

    timestamp: int
    key: Any
    namespace: Any


class TimerSerializer(NestedDelegatingSerializer):
    """A timer: time, key and namespace (Flink: ``TimerSerializer``). The time sorts as bytes: its sign is flipped."""

    snapshot_class = f"{STREAMING}api.operators.TimerSerializerSnapshot"
    outer_version = 2
    nested_count = 2

    def __init__(self, key: TypeSerializer, namespace: TypeSerializer) -> None:
        fields = {"timestamp": SignFlippedLongSerializer(), "key": key, "namespace": namespace}
        super().__init__(FieldsSerializer(Timer, fields), key, namespace)
        self.key = key
        self.namespace = namespace

    def __str__(self) -> str:
        return f"TIMER<{self.key},{self.namespace}>"


class BufferEntry(NamedTuple):
    """A record that an interval join keeps, and whether it has found a partner."""

    has_been_joined: bool
    element: Any


class BufferEntrySerializer(NestedDelegatingSerializer):
    """A record of an interval join (Flink: ``IntervalJoinOperator.BufferEntrySerializer``)."""

    snapshot_class = f"{STREAMING}api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot"

    def __init__(self, element: TypeSerializer) -> None:
        fields = {"has_been_joined": NumberSerializer("BOOLEAN"), "element": element}
        super().__init__(FieldsSerializer(BufferEntry, fields), element)
        self.element = element
        self.length = VARIABLE

    def __str__(self) -> str:
        return f"BUFFER_ENTRY<{self.element}>"


class TaggedUnion(NamedTuple):
    """A record of one of two inputs: 1 or 2, and the record."""

    tag: int
    value: Any


class UnionSerializer(ChoiceSerializer):
    """A record of one of two inputs (Flink: ``CoGroupedStreams.UnionSerializer``): a byte 1 or 2, and the record."""

    snapshot_class = f"{STREAMING}api.datastream.CoGroupedStreams$UnionSerializerSnapshot"
    outer_version = 2
    names = ("one", "two")
    markers = (1, 2)
    value_class = TaggedUnion

    def __str__(self) -> str:
        return f"UNION<{self.nested[0]},{self.nested[1]}>"


class StreamElement(NamedTuple):
    """A record or an event of a stream.

    Parameters
    ----------
    tag
        What it is, a key of :data:`STREAM_ELEMENTS`.
    timestamp
        Its time in milliseconds, where it has one.
    record
        The record.
    rest
        The bytes of its other fields.
    """

    tag: int
    timestamp: int | None = None
    record: Any = None
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class _StreamElementKind:
    """The layout of a stream element after its tag: bytes, time, bytes, record."""

    name: str
    before: int = 0
    has_timestamp: bool = False
    after: int = 0
    has_record: bool = False


STREAM_ELEMENTS: Final = {
    0: _StreamElementKind("record", has_timestamp=True, has_record=True),
    1: _StreamElementKind("record", has_record=True),
    2: _StreamElementKind("watermark", has_timestamp=True),
    3: _StreamElementKind("latency_marker", has_timestamp=True, after=20),  # operator id, subtask
    4: _StreamElementKind("watermark_status", after=4),
    5: _StreamElementKind("record_attributes", after=1),
    6: _StreamElementKind("internal_watermark", before=4, has_timestamp=True),  # subpartition
}
"""Stream elements by tag."""


class StreamElementSerializer(NestedSerializer):
    """A record with or without time, a watermark, or another event (Flink: ``StreamElementSerializer``).

    Windows with an evictor and asynchronous operators keep them. A column is a struct of ``kind``, ``timestamp``
    (milliseconds) and ``record``.
    """

    snapshot_class = f"{STREAMING}runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot"
    outer_version = 2
    smallest = 2

    def __init__(self, record: TypeSerializer) -> None:
        super().__init__(record)
        self.record = record
        self.smallest = 1 + min(record.smallest, 1)

    def __str__(self) -> str:
        return f"STREAM_RECORD<{self.record}>"

    def _kind(self, source: DataInput) -> tuple[int, _StreamElementKind]:
        tag = source.read_unsigned_byte()
        kind = STREAM_ELEMENTS.get(tag)
        if kind is None:
            raise source.corrupt(f"{tag} is no known tag of a stream element", source.position - 1)
        return tag, kind

    def read(self, source: DataInput) -> StreamElement:
        tag, kind = self._kind(source)
        before = source.read_bytes(kind.before)
        timestamp = source.read_long() if kind.has_timestamp else None
        after = source.read_bytes(kind.after)
        return StreamElement(tag, timestamp, self.record.read(source) if kind.has_record else None, before + after)

    def skip(self, source: DataInput) -> None:
        _, kind = self._kind(source)
        source.skip(kind.before + 8 * kind.has_timestamp + kind.after)
        if kind.has_record:
            self.record.skip(source)

    def write(self, value: StreamElement, target: DataOutput) -> None:
        tag, timestamp, record, rest = value
        kind = STREAM_ELEMENTS[tag]
        target.write_byte(tag)
        target.write_bytes(rest[: kind.before])
        if timestamp is not None:
            target.write_long(timestamp)
        target.write_bytes(rest[kind.before :])
        if kind.has_record:
            self.record.write(record, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([("kind", pa.string()), ("timestamp", pa.int64()), ("record", self.record.arrow_type(options))])

    def present(self, value: StreamElement, options: DecodeOptions) -> dict[str, Any]:
        kind = STREAM_ELEMENTS[value.tag]
        record = self.record.present(value.record, options) if kind.has_record else None
        return {"kind": kind.name, "timestamp": value.timestamp, "record": record}

    def accept(self, value: Any) -> StreamElement:
        """See :meth:`TypeSerializer.accept`; columns do not hold all of an event, so that only records come back."""
        if isinstance(value, StreamElement):
            kind = STREAM_ELEMENTS[value.tag]
            return value._replace(record=self.record.accept(value.record)) if kind.has_record else value
        if value["kind"] != STREAM_ELEMENTS[0].name:
            raise ValueError(f"a {value['kind']} can't be made from a column; records alone can")
        tag = 1 if value["timestamp"] is None else 0
        return StreamElement(tag, value["timestamp"], self.record.accept(value["record"]))

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        def element(kind: _StreamElementKind) -> None:
            builder.op(ops.VALID, column)
            builder.text(column.named("kind"), kind.name)
            builder.op(ops.SKIP, column, kind.before)
            if kind.has_timestamp:
                builder.op(ops.INT64, column.named("timestamp"))
            builder.op(ops.SKIP, column, kind.after)
            if kind.has_record:
                self.record.emit(builder, column.named("record"))
            absent = {"timestamp": kind.has_timestamp, "record": kind.has_record}
            builder.fill_nulls(*(column.named(name) for name, there in absent.items() if not there))

        emit_choice(builder, column, [partial(element, STREAM_ELEMENTS[tag]) for tag in sorted(STREAM_ELEMENTS)])


class Transaction(NamedTuple):
    """A transaction of a two-phase commit sink, and when it began (milliseconds)."""

    handle: Any
    start_time: int


def _transaction(handle: TypeSerializer) -> TypeSerializer:
    return FieldsSerializer(Transaction, {"handle": handle, "start_time": _MILLIS})


class TwoPhaseCommitState(NamedTuple):
    """What a two-phase commit sink keeps: the open transaction, those that wait for a commit, and the user's context."""

    pending_transaction: Transaction
    pending_commit_transactions: list[Transaction]
    context: Any


TWO_PHASE_COMMIT_SNAPSHOT: Final = f"{STREAMING}api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"
OLD_TWO_PHASE_COMMIT_SNAPSHOT: Final = f"{STREAMING}api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"


class TwoPhaseCommitStateSerializer(NestedDelegatingSerializer):
    """The state of a two-phase commit sink (Flink: ``TwoPhaseCommitSinkFunction.StateSerializer``).

    Parameters
    ----------
    transaction
        The serializer of a transaction's handle.
    context
        The serializer of the user's context.
    supports_null_transaction
        Whether a flag says that there is an open transaction (Flink 1.14 and later, where the sink wants it).
    """

    def __init__(
        self,
        transaction: TypeSerializer,
        context: TypeSerializer,
        *,
        supports_null_transaction: bool = True,
        snapshot_class: str = TWO_PHASE_COMMIT_SNAPSHOT,
        outer_version: int = 4,
    ) -> None:
        pending = NullFlagged(transaction, null_when=False) if supports_null_transaction else transaction
        fields = {
            "pending_transaction": _transaction(pending),
            "pending_commit_transactions": ListSerializer(_transaction(transaction)),
            "context": NullFlagged(context, null_when=False),
        }
        super().__init__(FieldsSerializer(TwoPhaseCommitState, fields), transaction, context)
        self.supports_null_transaction = supports_null_transaction
        self.snapshot_class = snapshot_class
        self.outer_version = outer_version

    def __str__(self) -> str:
        return f"TWO_PHASE_COMMIT<{self.nested[0]},{self.nested[1]}>"

    def snapshot(self) -> TypeSerializerSnapshot:
        return TwoPhaseCommitStateSerializerSnapshot(
            self.snapshot_class, [n.snapshot() for n in self.nested], self.supports_null_transaction, self.outer_version
        )


class TwoPhaseCommitStateSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Of :class:`TwoPhaseCommitStateSerializer`; the flag is stored since outer version 4, and implied before."""

    current_outer_version = 4

    def __init__(
        self, class_name: str, nested: Sequence[TypeSerializerSnapshot], supports_null_transaction: bool, outer_version: int
    ) -> None:
        super().__init__(class_name, nested, outer_version=outer_version)
        self.supports_null_transaction = supports_null_transaction

    def read_outer(self, source: DataInput) -> None:
        self.supports_null_transaction = source.read_boolean() if self.outer_version >= 4 else self.outer_version == 3

    def write_outer(self, target: DataOutput) -> None:
        if self.outer_version >= 4:
            target.write_boolean(self.supports_null_transaction)

    def resolve_outer(self, new: TwoPhaseCommitStateSerializerSnapshot) -> SchemaCompatibility:
        if self.supports_null_transaction == new.supports_null_transaction:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_after_migration()

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return TwoPhaseCommitStateSerializer(
            *nested,
            supports_null_transaction=self.supports_null_transaction,
            snapshot_class=self.class_name,
            outer_version=self.outer_version,
        )


class JavaSerializer(SimpleSerializer):
    """Java serialization (Flink: ``JavaSerializer``): a stream of one object, which ends without saying where.

    Python holds its bytes and its content; a column is of the bytes.
    """

    snapshot_class = f"{STATE}JavaSerializer$JavaSerializerSnapshot"
    smallest = 5

    def __str__(self) -> str:
        return "JAVA"

    def read(self, source: DataInput) -> JavaObject:
        return read_java_object(source)

    def write(self, value: JavaObject, target: DataOutput) -> None:
        target.write_bytes(value.raw)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def present(self, value: JavaObject, options: DecodeOptions) -> bytes:
        return value.raw

    def accept(self, value: Any) -> JavaObject:
        return value if isinstance(value, JavaObject) else read_java_object(DataInput(value))


TTL_SNAPSHOTS: Final = (TtlSerializer.snapshot_class, f"{STATE}v2.ttl.TtlStateFactory$TtlSerializerSnapshot")
"""The snapshot classes of values with time-to-live: of states, and of states with asynchronous access (Flink 2)."""

_CHECKING: Final = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer"

register_simple(VoidNamespaceSerializer())
for _home in (WINDOWS, TABLE_WINDOWS):
    register_simple(TimeWindowSerializer(f"{_home}TimeWindow$Serializer$TimeWindowSerializerSnapshot"))
    register_simple(GlobalWindowSerializer(f"{_home}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"))
register_simple(CountWindowSerializer())
register_simple(JavaSerializer())
register_nested(TtlSerializer, *TTL_SNAPSHOTS[1:])
for _serializer in (TimerSerializer, BufferEntrySerializer, UnionSerializer, StreamElementSerializer):
    register_nested(_serializer)
register_snapshots((TWO_PHASE_COMMIT_SNAPSHOT, OLD_TWO_PHASE_COMMIT_SNAPSHOT), TwoPhaseCommitStateSerializerSnapshot)
register_snapshot(TTL_AWARE_SNAPSHOT, TtlAwareSerializerSnapshot)
register_snapshot(f"{_CHECKING}$SingleThreadAccessCheckingTypeSerializerSnapshot", SingleThreadAccessCheckingSnapshot)
