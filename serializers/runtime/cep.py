"""State of pattern matching: partial matches and the buffer of events that they share (Flink: CEP)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.codec import VARIABLE, Codec
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListCodec, ListSerializer, NullFlagged
from state_processor.serializers.core.templates import (
    DelegatingSerializer,
    FieldsCodec,
    NestedDelegatingSerializer,
    SimpleDelegatingSerializer,
    register_nested,
)
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots
from state_processor.support.errors import UnsupportedFormatError

NFA: Final = "org.apache.flink.cep.nfa."
SHARED_BUFFER: Final = f"{NFA}sharedbuffer."
NFA_STATE_SNAPSHOT: Final = f"{NFA}NFAStateSerializerSnapshot"

_INT: Final = NumberSerializer("INT")
_LONG: Final = NumberSerializer("LONG")
_STRING: Final = StringSerializer()


class DeweyNumberSerializer(SimpleDelegatingSerializer):
    """``DeweyNumber``: the version of a match as a list of numbers; ``1.0.2`` has three."""

    snapshot_class = f"{NFA}DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot"
    content = ListSerializer(_INT)

    def __str__(self) -> str:
        return "DEWEY_NUMBER"


class EventId(NamedTuple):
    """An event of the shared buffer: its time in milliseconds, and a number that is unique among events of the same time."""

    id: int
    timestamp: int


class EventIdSerializer(SimpleDelegatingSerializer):
    """``EventId``: number and time."""

    snapshot_class = f"{SHARED_BUFFER}EventId$EventIdSerializer$EventIdSerializerSnapshot"
    content = FieldsCodec(EventId, {"id": _INT, "timestamp": _LONG})

    def __str__(self) -> str:
        return "EVENT_ID"


class NodeId(NamedTuple):
    """A node of the shared buffer: an event, and the state of the pattern that took it."""

    event_id: EventId
    page_name: str | None


class NodeIdSerializer(NestedDelegatingSerializer):
    """``NodeId`` or null: a byte, 1 if present and 0 for null, then event and name."""

    snapshot_class = f"{SHARED_BUFFER}NodeId$NodeIdSerializer$NodeIdSerializerSnapshot"

    def __init__(self, event_id: TypeSerializer) -> None:
        node = FieldsCodec(NodeId, {"event_id": event_id, "page_name": _STRING})
        super().__init__(NullFlagged(node, null_when=False), event_id)

    def __str__(self) -> str:
        return "NODE_ID"


class SharedBufferEdge(NamedTuple):
    """Edge to the preceding node (null at the start of a match), for matches of a version."""

    target: NodeId | None
    version: list[int]


class SharedBufferEdgeSerializer(NestedDelegatingSerializer):
    """``SharedBufferEdge``: node and version."""

    snapshot_class = f"{SHARED_BUFFER}SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot"
    nested_count = 2

    def __init__(self, node_id: TypeSerializer, version: TypeSerializer) -> None:
        super().__init__(FieldsCodec(SharedBufferEdge, {"target": node_id, "version": version}), node_id, version)

    def __str__(self) -> str:
        return "SHARED_BUFFER_EDGE"


class Lockable(NamedTuple):
    """Element of the shared buffer, and how many matches use it."""

    ref_counter: int
    element: Any


def _lockable(element: Codec) -> FieldsCodec:
    return FieldsCodec(Lockable, {"ref_counter": _INT, "element": element})


class LockableSerializer(NestedDelegatingSerializer):
    """``Lockable``: number of users, element."""

    snapshot_class = f"{SHARED_BUFFER}LockableTypeSerializerSnapshot"

    def __init__(self, element: TypeSerializer) -> None:
        super().__init__(_lockable(element), element)
        self.element = element
        self.length = VARIABLE

    def __str__(self) -> str:
        return f"LOCKABLE<{self.element}>"


class SharedBufferNodeSerializer(NestedDelegatingSerializer):
    """``SharedBufferNode``: a list of edges with their numbers of users (Flink 1.15 and later)."""

    snapshot_class = f"{SHARED_BUFFER}SharedBufferNodeSerializerSnapshotV2"

    def __init__(self, edge: TypeSerializer) -> None:
        super().__init__(ListCodec(_lockable(edge)), edge)

    def __str__(self) -> str:
        return "SHARED_BUFFER_NODE"


class OldSharedBufferNodeSerializer(NestedDelegatingSerializer):
    """``SharedBufferNode`` before Flink 1.15: a list of edges. The snapshot holds the list's serializer."""

    snapshot_class = f"{SHARED_BUFFER}SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot"

    def __init__(self, edges: TypeSerializer) -> None:
        super().__init__(edges, edges)

    def __str__(self) -> str:
        return "SHARED_BUFFER_NODE"


class ComputationState(NamedTuple):
    """A match that has begun: its state of the pattern, its last event, and its start (milliseconds)."""

    current_state: str | None
    previous_node: NodeId | None
    version: list[int]
    start_timestamp: int
    previous_timestamp: int
    start_event: EventId | None


class OldComputationState(NamedTuple):
    """A match that has begun, before Flink 1.16: without the time of its last event."""

    current_state: str | None
    previous_node: NodeId | None
    version: list[int]
    start_timestamp: int
    start_event: EventId | None


class NFAState(NamedTuple):
    """All matches of a key that have begun, and all complete matches that wait for the watermark."""

    partial_matches: list[ComputationState | OldComputationState]
    completed_matches: list[ComputationState | OldComputationState]


class NFAStateSerializer(DelegatingSerializer):
    """``NFAState``: two lists of matches (Flink: ``NFAStateSerializer``).

    ``version``, ``node_id`` and ``event_id``: the serializers of parts of a match. ``supports_previous_timestamp``: whether the
    time of a match's last event is stored (Flink 1.16 and later). ``outer_version``: version of the snapshot, if an older Flink
    wrote it.
    """

    def __init__(
        self,
        version: TypeSerializer,
        node_id: TypeSerializer,
        event_id: TypeSerializer,
        *,
        supports_previous_timestamp: bool = True,
        outer_version: int | None = None,
    ) -> None:
        fields = {
            "current_state": _STRING,
            "previous_node": node_id,
            "version": version,
            "start_timestamp": _LONG,
            **({"previous_timestamp": _LONG} if supports_previous_timestamp else {}),
            "start_event": NullFlagged(event_id, null_when=False),
        }
        matches = ListCodec(FieldsCodec(ComputationState if supports_previous_timestamp else OldComputationState, fields))
        super().__init__(FieldsCodec(NFAState, {"partial_matches": matches, "completed_matches": matches}))
        self.nested = (version, node_id, event_id)
        self.supports_previous_timestamp = supports_previous_timestamp
        self._outer_version = outer_version

    def __str__(self) -> str:
        return "NFA_STATE"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return self.nested

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        version, node_id, event_id = children
        return NFAStateSerializer(
            version,
            node_id,
            event_id,
            supports_previous_timestamp=self.supports_previous_timestamp,
            outer_version=self._outer_version,
        )

    def snapshot(self) -> TypeSerializerSnapshot:
        return NFAStateSerializerSnapshot(self.child_snapshots, self.supports_previous_timestamp, self._outer_version)


class NFAStateSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`NFAStateSerializer`; since outer version 2 a flag marks whether times of last events are stored."""

    current_outer_version = 2

    def __init__(
        self, nested: Sequence[TypeSerializerSnapshot], supports_previous_timestamp: bool, outer_version: int | None = None
    ) -> None:
        super().__init__(NFA_STATE_SNAPSHOT, nested, outer_version=outer_version)
        self.supports_previous_timestamp = supports_previous_timestamp

    def read_outer(self, source: DataInput) -> None:
        self.supports_previous_timestamp = source.read_boolean() if self.outer_version >= 2 else False

    def write_outer(self, target: DataOutput) -> None:
        if self.outer_version >= 2:
            target.write_boolean(self.supports_previous_timestamp)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return NFAStateSerializer(
            *nested, supports_previous_timestamp=self.supports_previous_timestamp, outer_version=self.outer_version
        )

    def resolve_outer(self, new: NFAStateSerializerSnapshot) -> SchemaCompatibility:
        if self.supports_previous_timestamp == new.supports_previous_timestamp:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_after_migration()


class MigrationSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of state of pattern matching from before Flink 1.5. Flink up to 1.20 could still migrate it."""

    current_outer_version = 2

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        raise UnsupportedFormatError(
            f"{self.class_name} contains state of pattern matching from before Flink 1.5; restore the job with Flink 1.5 to "
            "1.20 and take a new savepoint"
        )


register_simple(DeweyNumberSerializer())
register_simple(EventIdSerializer())
for _serializer in (
    NodeIdSerializer,
    SharedBufferEdgeSerializer,
    LockableSerializer,
    SharedBufferNodeSerializer,
    OldSharedBufferNodeSerializer,
):
    register_nested(_serializer)
provide_snapshots((NFA_STATE_SNAPSHOT,), NFAStateSerializerSnapshot)
provide_snapshots(
    (f"{NFA}NFA$MigratedNFASerializerSnapshot", f"{NFA}SharedBuffer$SharedBufferSerializerSnapshot"), MigrationSnapshot
)
