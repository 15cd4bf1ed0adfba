"""In-flight data of unaligned checkpoints."""

from __future__ import annotations

import struct
from collections import Counter

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    InputStateHandle,
    OperatorState,
    OperatorSubtaskState,
    OutputStateHandle,
)
from state_processor.backends.read.raw_state import INPUT, OUTPUT, ChannelState, channel_states, count_records
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests import corpus


@pytest.fixture
def snapshot() -> Snapshot:
    return open_snapshot(corpus.FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint")


def record(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def file(*pieces: bytes) -> tuple[h.ByteStreamStateHandle, h.Offsets]:
    data, offsets = struct.pack(">i", 0), []
    for piece in pieces:
        offsets.append(len(data))
        data += record(piece)
    return h.ByteStreamStateHandle("channels", data), h.Offsets.of(offsets)


def operator(inputs: tuple[InputStateHandle, ...] = (), outputs: tuple[OutputStateHandle, ...] = ()) -> OperatorState:
    subtask = OperatorSubtaskState(index=2, input_channels=inputs, result_subpartitions=outputs)
    return OperatorState(operator_id="0" * 32, parallelism=4, max_parallelism=128, subtasks=(subtask,), uid="own")


def single(*pieces: bytes) -> ChannelState:
    stream, offsets = file(*pieces)
    [channel] = channel_states(operator((h.InputChannelStateHandle(2, 1, 5, offsets, 99, stream),)))
    return channel


def test_channels_are_listed_with_what_flink_says_of_them() -> None:
    stream, offsets = file(b"x")
    one = h.InputChannelStateHandle(2, 1, 5, offsets, 99, stream)
    other = h.ResultSubpartitionStateHandle(2, 0, 3, offsets, 98, stream)
    found = [(c.kind, c.subtask, c.gate, c.channel, c.size) for c in channel_states(operator((one,), (other,)))]
    assert found == [(INPUT, 2, 1, 5, 99), (OUTPUT, 2, 0, 3, 98)]


def test_merged_handles_are_taken_apart(snapshot: Snapshot) -> None:
    stream, offsets = file(b"first", b"second", b"third")
    one, two, three = offsets
    body = struct.pack(">iiiqiqqiiqiq", 2, 0, 1, 70, 2, one, three, 4, 0, 10, 1, two)
    [first, second] = channel_states(operator((h.MergedInputChannelStateHandle(2, 80, stream, body),)))
    assert (first.gate, first.channel, first.size, list(first.read(snapshot))) == (0, 1, 70, [b"first", b"third"])
    assert (second.gate, second.channel, second.size, list(second.read(snapshot))) == (4, 0, 10, [b"second"])
    for damaged in (body[:-1], body + b"\0"):
        with pytest.raises(CorruptSnapshotError, match="operator 'own', subtask 2, offsets of merged channel state"):
            list(channel_states(operator((h.MergedInputChannelStateHandle(2, 80, stream, damaged),))))


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        ((record(b"a") + record(b"bc"),), 2),
        ((record(b"a") + record(b"long record")[:6], record(b"long record")[6:] + record(b"z")), 3),
        ((record(b"a") + record(b"cut off")[:6],), 1),
        ((b"rest of a record",), None),
        ((), 0),
    ],
)
def test_records_are_counted_across_buffers(snapshot: Snapshot, pieces: tuple[bytes, ...], count: int | None) -> None:
    channel = single(*pieces)
    assert list(channel.read(snapshot)) == list(pieces)
    assert count_records(b"".join(channel.read(snapshot))) == count


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">i", 7) + record(b"x"), "version 7 of channel state"),
        (struct.pack(">ii", 0, 100) + b"x", "offset 4: 100 bytes announced, 1 left"),
        (struct.pack(">ii", 0, -1), "offset 4: -1 bytes announced"),
        (struct.pack(">i", 0), "bytes 4 to 8 are needed"),
    ],
)
def test_damage_is_an_error(snapshot: Snapshot, data: bytes, message: str) -> None:
    handle = h.InputChannelStateHandle(2, 1, 5, h.Offsets.of([4]), 9, h.ByteStreamStateHandle("channels", data))
    [channel] = channel_states(operator((handle,)))
    with pytest.raises((CorruptSnapshotError, UnsupportedFormatError), match=f"inline state channels.*{message}"):
        list(channel.read(snapshot))


@pytest.mark.parametrize("case", [c for c in corpus.all_cases() if c.directory.name.endswith("-unaligned")], ids=lambda c: c.id)
def test_real_channels_have_the_sizes_that_flink_recorded(case: corpus.Case) -> None:
    snapshot = open_snapshot(case.snapshot)
    found: Counter[str] = Counter()
    for operator in snapshot.metadata.operators:
        for channel in channel_states(operator):
            pieces = list(channel.read(snapshot))
            lengths = sum(4 + len(piece) for piece in pieces)
            assert lengths in (channel.size, channel.size - 4)  # with the file's header or without
            found[channel.kind] += count_records(b"".join(pieces)) or 0
    assert found[INPUT] > 100
