"""Records that operators of the DataStream API keep: of joins, of windows with an evictor, of asynchronous operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
)
from state_processor.serializers.codec import VARIABLE, Codec
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListCodec, NullFlagged
from state_processor.serializers.core.templates import (
    ChoiceSerializer,
    EpochMillisSerializer,
    FieldsCodec,
    NestedDelegatingSerializer,
    NestedSerializer,
    emit_choice,
    register_nested,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import STREAMING, provide_snapshots

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder


class Transaction(NamedTuple):
    """A transaction of a two-phase commit sink, and its start (milliseconds)."""

    handle: Any
    start_time: int


def _transaction(handle: Codec) -> FieldsCodec:
    return FieldsCodec(Transaction, {"handle": handle, "start_time": EpochMillisSerializer()})


class TwoPhaseCommitState(NamedTuple):
    """State of a two-phase commit sink: the open transaction, the transactions that wait for a commit, and the user's context."""

    pending_transaction: Transaction
    pending_commit_transactions: list[Transaction]
    context: Any


TWO_PHASE_COMMIT_SNAPSHOT: Final = f"{STREAMING}api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"
OLD_TWO_PHASE_COMMIT_SNAPSHOT: Final = f"{STREAMING}api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"


class TwoPhaseCommitStateSerializer(NestedDelegatingSerializer):
    """The state of a two-phase commit sink (Flink: ``TwoPhaseCommitSinkFunction.StateSerializer``).

    ``transaction``: the serializer of a transaction's handle. ``context``: the serializer of the user's context.
    ``supports_null_transaction``: true if a flag marks whether a transaction is open (Flink 1.14 and later, for sinks that
    request it).
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
            "pending_commit_transactions": ListCodec(_transaction(transaction)),
            "context": NullFlagged(context, null_when=False),
        }
        super().__init__(FieldsCodec(TwoPhaseCommitState, fields), transaction, context)
        self.supports_null_transaction = supports_null_transaction
        self.snapshot_class = snapshot_class
        self.outer_version = outer_version

    def __str__(self) -> str:
        return f"TWO_PHASE_COMMIT<{self.nested[0]},{self.nested[1]}>"

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        transaction, context = children
        return TwoPhaseCommitStateSerializer(
            transaction,
            context,
            supports_null_transaction=self.supports_null_transaction,
            snapshot_class=self.snapshot_class,
            outer_version=self.outer_version,
        )

    def snapshot(self) -> TypeSerializerSnapshot:
        return TwoPhaseCommitStateSerializerSnapshot(
            self.snapshot_class, self.child_snapshots, self.supports_null_transaction, self.outer_version
        )


class TwoPhaseCommitStateSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`TwoPhaseCommitStateSerializer`; the flag is stored since outer version 4, and implied before."""

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


provide_snapshots((TWO_PHASE_COMMIT_SNAPSHOT, OLD_TWO_PHASE_COMMIT_SNAPSHOT), TwoPhaseCommitStateSerializerSnapshot)


class BufferEntry(NamedTuple):
    """A record that an interval join keeps, and whether it has found a partner."""

    has_been_joined: bool
    element: Any


class BufferEntrySerializer(NestedDelegatingSerializer):
    """A record of an interval join (Flink: ``IntervalJoinOperator.BufferEntrySerializer``)."""

    snapshot_class = f"{STREAMING}api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot"
    outer_version = 2

    def __init__(self, element: TypeSerializer) -> None:
        fields = {"has_been_joined": NumberSerializer("BOOLEAN"), "element": element}
        super().__init__(FieldsCodec(BufferEntry, fields), element)
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
    """A record or an event of a stream."""

    tag: int  # its kind, a key of :data:`STREAM_ELEMENTS`
    timestamp: int | None = None  # its time in milliseconds, if it has one
    record: Any = None
    rest: bytes = b""  # the bytes of its other fields


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
    min_size = 2

    def __init__(self, record: TypeSerializer) -> None:
        super().__init__(record)
        self.record = record
        self.min_size = 1 + min(record.min_size, 1)

    def __str__(self) -> str:
        return f"STREAM_RECORD<{self.record}>"

    def _kind(self, source: DataInput) -> tuple[int, _StreamElementKind]:
        tag = source.read_unsigned_byte()
        kind = STREAM_ELEMENTS.get(tag)
        if kind is None:
            raise source.corrupt(f"expected the tag of a stream element, found {tag}", source.position - 1)
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

    def to_column(self, value: StreamElement, options: DecodeOptions) -> dict[str, Any]:
        kind = STREAM_ELEMENTS[value.tag]
        record = self.record.to_column(value.record, options) if kind.has_record else None
        return {"kind": kind.name, "timestamp": value.timestamp, "record": record}

    def from_column(self, value: Any) -> StreamElement:
        """See :meth:`TypeSerializer.from_column`. Columns hold only a part of an event, so that only records can be written."""
        if isinstance(value, StreamElement):
            kind = STREAM_ELEMENTS[value.tag]
            return value._replace(record=self.record.from_column(value.record)) if kind.has_record else value
        if value["kind"] != STREAM_ELEMENTS[0].name:
            raise ValueError(f"a {value['kind']} can't be made from a column; only records can")
        tag = 1 if value["timestamp"] is None else 0
        return StreamElement(tag, value["timestamp"], self.record.from_column(value["record"]))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        def element(kind: _StreamElementKind) -> None:
            builder.op(Op.VALID, column)
            builder.text(column.named("kind"), kind.name)
            builder.skip(kind.before)
            if kind.has_timestamp:
                builder.op(Op.INT64, column.named("timestamp"))
            builder.skip(kind.after)
            if kind.has_record:
                self.record.emit_decode(builder, column.named("record"))
            presence = {"timestamp": kind.has_timestamp, "record": kind.has_record}
            builder.fill_nulls(*(column.named(name) for name, is_present in presence.items() if not is_present))

        emit_choice(builder, column, [partial(element, STREAM_ELEMENTS[tag]) for tag in sorted(STREAM_ELEMENTS)])


for _serializer in (BufferEntrySerializer, UnionSerializer, StreamElementSerializer):
    register_nested(_serializer)
