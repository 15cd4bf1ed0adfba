from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from harness import (
    PLAIN,
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    specimens,
)
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataInput, DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import CorruptSnapshotError, StateProcessorError, UndecodableValueError
from state_processor.serializers.runtime.java_objects import JavaSerializer
from state_processor.serializers.runtime.namespaces import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
)
from state_processor.serializers.runtime.stream_records import (
    BufferEntry,
    BufferEntrySerializer,
    StreamElement,
    StreamElementSerializer,
    TaggedUnion,
    UnionSerializer,
)
from state_processor.serializers.runtime.timers import Timer, TimerSerializer
from state_processor.serializers.runtime.ttl import (
    TTL_SNAPSHOTS,
    TtlAwareSerializerSnapshot,
    TtlSerializer,
    TtlValue,
    is_ttl_snapshot,
)
from state_processor.serializers.runtime.two_phase_commit import (
    OLD_TWO_PHASE_COMMIT_SNAPSHOT,
    Transaction,
    TwoPhaseCommitState,
    TwoPhaseCommitStateSerializer,
)
from state_processor.serializers.runtime.wrapping import SingleThreadAccessCheckingSnapshot

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
VOID = VoidNamespaceSerializer()
WITH_TTL = DecodeOptions(ttl=True)
TEXT = DecodeOptions(nanos="string", ttl=True)

longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)


@pytest.mark.parametrize("serializer", [VOID, GlobalWindowSerializer()], ids=str)
def test_a_byte_that_stands_for_nothing(serializer: TypeSerializer) -> None:
    assert serializer.serialize(None) == b"\0"
    assert check_payloads(serializer, [b"\0", b"\0"]) == [None, None]
    check_snapshot(serializer.snapshot())
    for damaged in (serializer.deserialize, lambda data: serializer.skip(DataInput(data))):
        with pytest.raises(CorruptSnapshotError):
            damaged(b"")


def test_the_void_namespace_has_a_byte_but_no_length() -> None:
    assert VOID.length == 0
    assert GlobalWindowSerializer().length == 1
    source = DataInput(b"\0\0")
    VOID.skip(source)
    assert source.position == 1
    assert decode_with_kernel(ListSerializer(VOID), [bytes.fromhex("00000003 00 00 00")]) == [[None] * 3]


def test_global_windows_are_null_windows() -> None:
    serializer = GlobalWindowSerializer()
    assert serializer.arrow_type(PLAIN) == TimeWindowSerializer().arrow_type(PLAIN)
    assert decode_with_kernel(ListSerializer(serializer), [bytes.fromhex("00000001 00")]) == [[None]]


def test_time_window() -> None:
    serializer = TimeWindowSerializer()
    data = bytes.fromhex("00000000000003e8 00000000000007d0")
    assert check_payloads(serializer, [data]) == [TimeWindow(1000, 2000)]
    assert decode_with_kernel(serializer, [data]) == [
        {"start": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "end": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)}
    ]
    assert decode_with_kernel(serializer, [data], TEXT) == [{"start": "1970-01-01T00:00:01Z", "end": "1970-01-01T00:00:02Z"}]


@given(st.lists(st.builds(TimeWindow, times, times), max_size=6))
def test_time_windows(values: list[TimeWindow]) -> None:
    check_codec(TimeWindowSerializer(), values)
    check_codec(TimeWindowSerializer(), values, TEXT)


@given(st.lists(longs, max_size=6))
def test_count_windows(values: list[int]) -> None:
    check_codec(CountWindowSerializer(), values)


def test_a_window_beyond_the_calendar_is_named() -> None:
    data = TimeWindowSerializer().serialize(TimeWindow(0, 2**63 - 1))
    for decode in (decode_with_kernel, check_payloads):
        with pytest.raises(UndecodableValueError, match="nanos='string'"):
            decode(TimeWindowSerializer(), [data])
    assert decode_with_kernel(TimeWindowSerializer(), [data], TEXT)[0]["end"] == "+292278994-08-17T07:12:55.807Z"


@pytest.mark.parametrize("options", [PLAIN, WITH_TTL, TEXT], ids=["plain", "ttl", "text"])
@given(values=st.lists(st.builds(TtlValue, times, st.none() | texts), max_size=6))
def test_ttl(options: DecodeOptions, values: list[TtlValue]) -> None:
    check_codec(TtlSerializer.of(STRING), values, options)


def test_ttl_columns() -> None:
    serializer = TtlSerializer.of(INT)
    data = bytes.fromhex("00000000000003e8 00000007")
    assert decode_with_kernel(serializer, [data]) == [7]
    assert serializer.arrow_type(WITH_TTL) == pa.struct([("_last_access", pa.timestamp("us", tz="UTC")), ("value", pa.int32())])
    assert decode_with_kernel(serializer, [data], WITH_TTL) == [
        {"_last_access": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "value": 7}
    ]


def test_ttl_length() -> None:
    assert TtlSerializer.of(INT).length == 12
    assert TtlSerializer.of(STRING).length == -1


def test_ttl_snapshot_of_asynchronous_states_keeps_its_name() -> None:
    plain = TtlSerializer.of(INT).snapshot().to_bytes()
    length, name = len(TTL_SNAPSHOTS[0]), TTL_SNAPSHOTS[1]
    data = len(name).to_bytes(2, "big") + name.encode() + plain[2 + length :]
    snapshot = read_serializer_snapshot(data)
    assert is_ttl_snapshot(snapshot)
    check_snapshot(snapshot)
    assert not is_ttl_snapshot(INT.snapshot())


TTL_INT, TTL_LONG = TtlSerializer.of(INT), TtlSerializer.of(LONG)


@pytest.mark.parametrize(
    ("written", "wanted", "verdict"),
    [
        (INT, INT, Verdict.COMPATIBLE_AS_IS),
        (TTL_INT, TTL_INT, Verdict.COMPATIBLE_AS_IS),
        (INT, TTL_INT, Verdict.COMPATIBLE_AFTER_MIGRATION),
        (TTL_INT, INT, Verdict.COMPATIBLE_AFTER_MIGRATION),
        (INT, TTL_LONG, Verdict.INCOMPATIBLE),
        (TTL_INT, TTL_LONG, Verdict.INCOMPATIBLE),
    ],
    ids=str,
)
def test_ttl_on_and_off(written: TypeSerializer, wanted: TypeSerializer, verdict: Verdict) -> None:
    old, new = (TtlAwareSerializerSnapshot.of(s.snapshot()) for s in (written, wanted))
    assert old.resolve_schema_compatibility(new).verdict is verdict
    check_snapshot(old)


def test_ttl_without_awareness_is_incompatible() -> None:
    assert INT.snapshot().resolve_schema_compatibility(TTL_INT).is_incompatible


def test_thread_checking_wrapper() -> None:
    name = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer$"
    snapshot = SingleThreadAccessCheckingSnapshot(f"{name}SingleThreadAccessCheckingTypeSerializerSnapshot", [INT.snapshot()])
    check_snapshot(snapshot)
    serializer = snapshot.restore_serializer()
    assert str(serializer) == "INT"
    assert serializer.hash_code(5) == 5
    assert check_payloads(serializer, [bytes(4)]) == [0]


def test_timer_bytes_sort_by_time() -> None:
    serializer = TimerSerializer(STRING, VOID)
    assert serializer.serialize(Timer(-1, "a", None)) == bytes.fromhex("7fffffffffffffff 02 61 00")
    assert serializer.serialize(Timer(1, "a", None)) == bytes.fromhex("8000000000000001 02 61 00")


@given(st.lists(st.builds(Timer, longs, texts, st.none()), max_size=6))
def test_timers(values: list[Timer]) -> None:
    check_codec(TimerSerializer(STRING, VOID), values)


def test_timer_length() -> None:
    assert TimerSerializer(LONG, VOID).length == 16
    assert TimerSerializer(LONG, TimeWindowSerializer()).length == 32
    assert TimerSerializer(STRING, VOID).length == -1
    assert TimerSerializer(LONG, VOID).deserialize(bytes(17)) == Timer(-(2**63), 0, None)


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


def test_java_objects_end_where_their_stream_ends() -> None:
    data = bytes.fromhex("aced0005 74 0003 616263")
    pair = TupleSerializer([JavaSerializer(), INT])
    [(java, number)] = check_payloads(pair, [data + bytes.fromhex("00000007")])
    assert (java.raw, java.content, number) == (data, "abc", 7)
    assert pair.present((java, number), PLAIN) == {"f0": data, "f1": 7}


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


def test_a_snapshot_with_too_few_nested_ones_is_damaged() -> None:
    data = TimerSerializer(INT, VOID).snapshot().to_bytes()
    cut = data.index(b"\0\0\0\2\0\x4e")
    with pytest.raises(CorruptSnapshotError, match="2 nested serializers"):
        read_serializer_snapshot(data[:cut] + bytes(4))


VALUES = {
    "buffer-entry": BufferEntry(False, "hello"),
    "global-window": None,
    "stream-element": StreamElement(0, 123456, "key"),
    "time-window": TimeWindow(12345, 67890),
    "timer": Timer(12345, "key", 678),
    "ttl-aware-serializer-string-value": "hello Gordon",
    "ttl-aware-serializer-ttl-value": TtlValue(13, "hello Gordon"),
    "ttl-serializer": TtlValue(13, "hello Gordon"),
    "union-serializer-one": TaggedUnion(1, "flink"),
    "union-serializer-two": TaggedUnion(2, 23456),
    "void-namespace": None,
    "two-phase-commit": TwoPhaseCommitState(Transaction(12, 1523467890), [Transaction(123, 1567234890)], "flink"),
}
CASES = [
    pytest.param(specimen, value, id=specimen.name)
    for name, value in VALUES.items()
    for module in ("flink-runtime", "flink-streaming-java")
    for specimen in specimens(module, f"{name}*")
]


@pytest.mark.parametrize(("specimen", "value"), CASES)
def test_specimen(specimen: Specimen, value: object) -> None:
    assert check_specimen(specimen) == value
    check_snapshot(read_serializer_snapshot(specimen.snapshot))


@pytest.mark.parametrize("specimen", specimens("flink-runtime", "java-serializer-*"), ids=str)
def test_specimen_of_a_java_object(specimen: Specimen) -> None:
    value = check_specimen(specimen)
    assert (value.class_name, value.content.get("value")) == ("java.lang.Integer", 26)


@pytest.mark.corpus(instead="tests/serializers/runtime/test_streaming.py::test_specimen")
@pytest.mark.parametrize("specimen", specimens("flink-streaming-java", "two-phase-*-1.1[13]"), ids=str)
def test_old_specimens_of_two_phase_commit_know_no_null(specimen: Specimen) -> None:
    serializer = read_serializer_snapshot(specimen.snapshot).restore_serializer()
    assert isinstance(serializer, TwoPhaseCommitStateSerializer)
    assert not serializer.supports_null_transaction
    assert serializer.snapshot_class == OLD_TWO_PHASE_COMMIT_SNAPSHOT
