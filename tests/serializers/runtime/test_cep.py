from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import CompositeTypeSerializerSnapshot, Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.runtime.cep import (
    NFA,
    ComputationState,
    DeweyNumberSerializer,
    EventId,
    EventIdSerializer,
    Lockable,
    LockableSerializer,
    MigrationSnapshot,
    NFAState,
    NFAStateSerializer,
    NodeId,
    NodeIdSerializer,
    OldComputationState,
    OldSharedBufferNodeSerializer,
    SharedBufferEdge,
    SharedBufferEdgeSerializer,
    SharedBufferNodeSerializer,
)
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.serializers.harness import (
    PLAIN,
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    specimens,
)

DEWEY, EVENT = DeweyNumberSerializer(), EventIdSerializer()
NODE = NodeIdSerializer(EVENT)
EDGE = SharedBufferEdgeSerializer(NODE, DEWEY)

ints, longs, texts = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)
deweys = st.lists(ints, max_size=4)
events = st.builds(EventId, ints, longs)
nodes = st.none() | st.builds(NodeId, events, st.none() | texts)
edges = st.builds(SharedBufferEdge, nodes, deweys)
states = st.builds(ComputationState, texts, nodes, deweys, longs, longs, st.none() | events)
old_states = st.builds(OldComputationState, texts, nodes, deweys, longs, st.none() | events)


def lockables(elements: st.SearchStrategy) -> st.SearchStrategy:  # type: ignore[type-arg]
    return st.builds(Lockable, ints, elements)


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        (DEWEY, [1, 0, 2], "00000003 00000001 00000000 00000002"),
        (EVENT, EventId(7, 9), "00000007 0000000000000009"),
        (NODE, None, "00"),
        (NODE, NodeId(EventId(7, 9), "ab"), "01 00000007 0000000000000009 03 61 62"),
        (EDGE, SharedBufferEdge(None, [1]), "00 00000001 00000001"),
        (LockableSerializer(StringSerializer()), Lockable(2, "a"), "00000002 02 61"),
        (SharedBufferNodeSerializer(EDGE), [Lockable(3, SharedBufferEdge(None, []))], "00000001 00000003 00 00000000"),
        (OldSharedBufferNodeSerializer(ListSerializer(EDGE)), [SharedBufferEdge(None, [])], "00000001 00 00000000"),
        (
            NFAStateSerializer(DEWEY, NODE, EVENT),
            NFAState([ComputationState("s", None, [1], 5, 6, EventId(7, 8))], []),
            "00000001 02 73 00 00000001 00000001 0000000000000005 0000000000000006 01 00000007 0000000000000008 00000000",
        ),
        (
            NFAStateSerializer(DEWEY, NODE, EVENT, supports_previous_timestamp=False, outer_version=1),
            NFAState([], [OldComputationState("s", None, [], 5, None)]),
            "00000000 00000001 02 73 00 00000000 0000000000000005 00",
        ),
    ],
    ids=str,
)
def test_bytes(serializer: TypeSerializer, value: object, data: str) -> None:
    assert check_payloads(serializer, [bytes.fromhex(data)]) == [value]
    check_snapshot(serializer.snapshot())


@given(st.data())
@pytest.mark.parametrize(
    ("serializer", "values"),
    [
        (DEWEY, deweys),
        (EVENT, events),
        (NODE, nodes),
        (EDGE, edges),
        (LockableSerializer(NODE), lockables(nodes)),
        (SharedBufferNodeSerializer(EDGE), st.lists(lockables(edges), max_size=3)),
        (OldSharedBufferNodeSerializer(ListSerializer(EDGE)), st.lists(edges, max_size=3)),
        (
            NFAStateSerializer(DEWEY, NODE, EVENT),
            st.builds(NFAState, st.lists(states, max_size=3), st.lists(states, max_size=3)),
        ),
        (
            NFAStateSerializer(DEWEY, NODE, EVENT, supports_previous_timestamp=False),
            st.builds(NFAState, st.lists(old_states, max_size=3), st.lists(old_states, max_size=3)),
        ),
    ],
    ids=str,
)
def test_round_trip(serializer: TypeSerializer, values: st.SearchStrategy, data: st.DataObject) -> None:  # type: ignore[type-arg]
    check_codec(serializer, data.draw(st.lists(values, max_size=5)))


def test_columns() -> None:
    event = pa.struct([("id", pa.int32()), ("timestamp", pa.int64())])
    node = pa.struct([("event_id", event), ("page_name", pa.string())])
    edge = pa.struct([("target", node), ("version", pa.list_(pa.int32()))])
    assert EDGE.arrow_type(PLAIN) == edge
    buffer = MapSerializer(NODE, LockableSerializer(SharedBufferNodeSerializer(EDGE)))
    payload = buffer.serialize([(NodeId(EventId(1, 2), "p"), Lockable(1, [Lockable(0, SharedBufferEdge(None, [1]))]))])
    assert decode_with_kernel(buffer, [payload]) == [
        [
            (
                {"event_id": {"id": 1, "timestamp": 2}, "page_name": "p"},
                {"ref_counter": 1, "element": [{"ref_counter": 0, "element": {"target": None, "version": [1]}}]},
            )
        ]
    ]


def test_event_ids_have_a_length() -> None:
    assert EVENT.length == 12
    assert NODE.length == LockableSerializer(EVENT).length == -1


def test_times_of_last_events_are_a_migration() -> None:
    old = NFAStateSerializer(DEWEY, NODE, EVENT, supports_previous_timestamp=False, outer_version=1).snapshot()
    new = NFAStateSerializer(DEWEY, NODE, EVENT).snapshot()
    assert old.resolve_schema_compatibility(new).verdict is Verdict.COMPATIBLE_AFTER_MIGRATION
    assert new.resolve_schema_compatibility(new).verdict is Verdict.COMPATIBLE_AS_IS


def test_the_element_of_a_lockable_decides() -> None:
    written = LockableSerializer(NumberSerializer("INT")).snapshot()
    assert written.resolve_schema_compatibility(LockableSerializer(NumberSerializer("INT"))).verdict is Verdict.COMPATIBLE_AS_IS
    assert written.resolve_schema_compatibility(LockableSerializer(NumberSerializer("LONG"))).is_incompatible


def test_snapshots_of_the_first_format_are_kept() -> None:
    snapshot = MigrationSnapshot(f"{NFA}NFA$MigratedNFASerializerSnapshot", [EVENT.snapshot()])
    again = read_serializer_snapshot(snapshot.to_bytes())
    assert again.to_bytes() == snapshot.to_bytes()
    with pytest.raises(UnsupportedFormatError, match=r"before Flink 1\.5"):
        again.restore_serializer()


@pytest.mark.parametrize("data", ["", "02", "01 0000", "01 00000007 0000000000000009 05 61"])
def test_damage(data: str) -> None:
    with pytest.raises(CorruptSnapshotError):
        NODE.deserialize(bytes.fromhex(data))


def test_the_snapshot_of_the_old_node_holds_a_list() -> None:
    snapshot = OldSharedBufferNodeSerializer(ListSerializer(EDGE)).snapshot()
    assert isinstance(snapshot, CompositeTypeSerializerSnapshot)
    assert snapshot.nested[0].class_name.endswith("ListSerializerSnapshot")


EVENT_42 = EventId(42, 42)
VALUES = {
    "dewey-number": [42],
    "event-id": EVENT_42,
    "lockable": Lockable(10, "flink"),
    "nfa-state": NFAState([], []),
    "node-id": NodeId(EVENT_42, "ciao"),
    "shared-buffer-edge": SharedBufferEdge(NodeId(EVENT_42, "page"), [42]),
}


@pytest.mark.parametrize(
    ("specimen", "value"),
    [pytest.param(s, value, id=s.name) for name, value in VALUES.items() for s in specimens("flink-cep", f"{name}-*")],
)
def test_specimen(specimen: Specimen, value: object) -> None:
    assert check_specimen(specimen) == value
    check_snapshot(read_serializer_snapshot(specimen.snapshot))
