"""The void namespace and windows: bytes, columns and snapshots."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataInput, DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.runtime.namespaces import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    Timer,
    TimerSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
)
from state_processor.support.errors import CorruptSnapshotError, UndecodableValueError
from tests.serializers.harness import PLAIN, check_codec, check_payloads, check_snapshot, decode_with_kernel

VOID = VoidNamespaceSerializer()

longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)


INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()


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


def test_a_snapshot_with_too_few_nested_ones_is_damaged() -> None:
    data = TimerSerializer(INT, VOID).snapshot().to_bytes()
    cut = data.index(b"\0\0\0\2\0\x4e")
    with pytest.raises(CorruptSnapshotError, match="2 nested serializers"):
        read_serializer_snapshot(data[:cut] + bytes(4))


TEXT = DecodeOptions(nanos="string", ttl=True)

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
