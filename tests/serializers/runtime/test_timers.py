"""Timers: bytes and snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.errors import CorruptSnapshotError
from state_processor.serializers.runtime.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.timers import Timer, TimerSerializer
from tests.serializers.harness import check_codec

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
VOID = VoidNamespaceSerializer()
longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)


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
