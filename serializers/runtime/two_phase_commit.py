"""The state of two-phase commit sinks (Flink: ``TwoPhaseCommitSinkFunction.StateSerializer``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.collections import ListCodec, NullFlagged
from state_processor.serializers.core.templates import EpochMillisSerializer, FieldsCodec, NestedDelegatingSerializer
from state_processor.serializers.flink_packages import STREAMING
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots


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

    Parameters
    ----------
    transaction
        The serializer of a transaction's handle.
    context
        The serializer of the user's context.
    supports_null_transaction
        True if a flag marks whether a transaction is open (Flink 1.14 and later, for sinks that request it).
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
            self.snapshot_class, [n.snapshot() for n in self.nested], self.supports_null_transaction, self.outer_version
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
