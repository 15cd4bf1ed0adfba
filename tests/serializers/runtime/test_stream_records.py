"""Records that operators of the DataStream API keep: bytes, columns, snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.stream_records import (
    OLD_TWO_PHASE_COMMIT_SNAPSHOT,
    BufferEntry,
    BufferEntrySerializer,
    StreamElement,
    StreamElementSerializer,
    TaggedUnion,
    Transaction,
    TwoPhaseCommitState,
    TwoPhaseCommitStateSerializer,
    UnionSerializer,
)
from state_processor.support.errors import StateProcessorError
from tests.serializers.harness import Specimen, check_codec, check_payloads, decode_with_kernel, specimens

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()

longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)


times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
transactions = st.builds(Transaction, longs, times)


@pytest.mark.parametrize("nullable", [True, False])
@given(data=st.data())
def test_two_phase_commit(nullable: bool, data: st.DataObject) -> None:
    pending = st.builds(Transaction, st.none() | longs if nullable else longs, times)
    values = st.builds(TwoPhaseCommitState, pending, st.lists(transactions, max_size=3), st.none() | texts)
    serializer = TwoPhaseCommitStateSerializer(LONG, STRING, supports_null_transaction=nullable)
    check_codec(serializer, data.draw(st.lists(values, max_size=3)))


def test_two_phase_commit_compatibility() -> None:
    with_null, without = (
        TwoPhaseCommitStateSerializer(LONG, STRING, supports_null_transaction=b).snapshot() for b in (True, False)
    )
    assert with_null.resolve_schema_compatibility(with_null).verdict is Verdict.COMPATIBLE_AS_IS
    assert without.resolve_schema_compatibility(with_null).verdict is Verdict.COMPATIBLE_AFTER_MIGRATION


@pytest.mark.corpus(instead="tests/serializers/runtime/test_runtime_specimens.py::test_specimen")
@pytest.mark.parametrize("specimen", specimens("flink-streaming-java", "two-phase-*-1.1[13]"), ids=str)
def test_old_specimens_of_two_phase_commit_know_no_null(specimen: Specimen) -> None:
    serializer = read_serializer_snapshot(specimen.snapshot).restore_serializer()
    assert isinstance(serializer, TwoPhaseCommitStateSerializer)
    assert not serializer.supports_null_transaction
    assert serializer.snapshot_class == OLD_TWO_PHASE_COMMIT_SNAPSHOT


VOID = VoidNamespaceSerializer()


@given(st.lists(st.builds(BufferEntry, st.booleans(), st.none() | texts), max_size=6))
def test_buffer_entries(values: list[BufferEntry]) -> None:
    check_codec(BufferEntrySerializer(STRING), values)


unions = st.builds(TaggedUnion, st.just(1), st.none() | texts) | st.builds(TaggedUnion, st.just(2), longs)


@given(st.lists(unions, max_size=6))
def test_unions(values: list[TaggedUnion]) -> None:
    check_codec(UnionSerializer(STRING, LONG), values)
    check_codec(ListSerializer(UnionSerializer(STRING, LONG)), [values])


def test_union_columns() -> None:
    serializer = UnionSerializer(STRING, INT)
    payloads = [bytes.fromhex("01 02 61"), bytes.fromhex("02 00000007")]
    assert decode_with_kernel(serializer, payloads) == [{"one": "a", "two": None}, {"one": None, "two": 7}]


@pytest.mark.parametrize("data", ["", "00", "03 02 61", "01", "02 0000"])
def test_damaged_union(data: str) -> None:
    for decode in (check_payloads, decode_with_kernel):
        with pytest.raises(StateProcessorError):
            decode(UnionSerializer(STRING, INT), [bytes.fromhex(data)])


elements = (
    st.builds(StreamElement, st.just(0), longs, st.none() | texts, st.just(b""))
    | st.builds(StreamElement, st.just(1), st.none(), st.none() | texts, st.just(b""))
    | st.builds(StreamElement, st.just(2), longs, st.none(), st.just(b""))
    | st.builds(StreamElement, st.just(3), longs, st.none(), st.binary(min_size=20, max_size=20))
    | st.builds(StreamElement, st.just(4), st.none(), st.none(), st.binary(min_size=4, max_size=4))
    | st.builds(StreamElement, st.just(5), st.none(), st.none(), st.binary(min_size=1, max_size=1))
    | st.builds(StreamElement, st.just(6), longs, st.none(), st.binary(min_size=4, max_size=4))
)


@given(st.lists(elements, max_size=8))
def test_stream_elements(values: list[StreamElement]) -> None:
    check_codec(StreamElementSerializer(STRING), values)
    check_codec(ListSerializer(StreamElementSerializer(STRING)), [values])


def test_stream_element_columns() -> None:
    payloads = ["00 0000000000000007 02 61", "01 00", "02 0000000000000008", "04 00000000", "06 00000001 0000000000000009"]
    assert decode_with_kernel(StreamElementSerializer(STRING), [bytes.fromhex(p) for p in payloads]) == [
        {"kind": "record", "timestamp": 7, "record": "a"},
        {"kind": "record", "timestamp": None, "record": None},
        {"kind": "watermark", "timestamp": 8, "record": None},
        {"kind": "watermark_status", "timestamp": None, "record": None},
        {"kind": "internal_watermark", "timestamp": 9, "record": None},
    ]


@pytest.mark.parametrize("data", ["", "07 00", "ff", "00 00", "02 0000"])
def test_damaged_stream_element(data: str) -> None:
    for decode in (check_payloads, decode_with_kernel):
        with pytest.raises(StateProcessorError):
            decode(StreamElementSerializer(STRING), [bytes.fromhex(data)])


@pytest.mark.parametrize(
    "serializer",
    [TimerSerializer(INT, VOID), BufferEntrySerializer(INT), UnionSerializer(INT, INT), StreamElementSerializer(INT)],
    ids=str,
)
def test_nested_serializers_decide_on_compatibility(serializer: TypeSerializer) -> None:
    data = serializer.snapshot().to_bytes()
    other = read_serializer_snapshot(
        data.replace(b"IntSerializer$IntSer", b"LongSerializer$LongSer").replace(b"\0\x4e", b"\0\x50")
    )
    assert serializer.snapshot().resolve_schema_compatibility(serializer).verdict is Verdict.COMPATIBLE_AS_IS
    assert serializer.snapshot().resolve_schema_compatibility(other).is_incompatible
