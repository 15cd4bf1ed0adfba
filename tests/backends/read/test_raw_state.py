"""Raw keyed and operator state: Flink's timers in it, and operators' own bytes."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.key_lookup import keys_of
from state_processor.backends.read.keyed_reader import read_state
from state_processor.backends.read.keyed_splits import KeyedHandle, keyed_handles
from state_processor.backends.read.raw_state import raw_keyed_state, raw_operator_state
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import operator_states
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.corpus import FIXTURES

KEY, VOID, LONG = StringSerializer(), VoidNamespaceSerializer(), NumberSerializer("LONG")
EVENT, PROCESSING = "_timer_state/event_", "_timer_state/processing_"
MAGIC = b"\xf1\xcd\x85\x9f"

Timers = list[tuple[str, int, int]]
"""Key, namespace, time."""


@pytest.fixture
def snapshot() -> Snapshot:
    return open_snapshot(FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint")


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def queue(namespace: TypeSerializer, timers: Timers) -> bytes:
    bodies = [KEY.serialize(k) + (LONG.serialize(n) if namespace is LONG else b"\0") + struct.pack(">q", t) for k, n, t in timers]
    return struct.pack(">i", len(timers)) + b"".join(bodies)


def block(*services: tuple[str, TypeSerializer, Timers, Timers], version: int = 2, magic: bytes = MAGIC) -> bytes:
    body = magic + struct.pack(">ii", version, len(services))
    for name, namespace, event, processing in services:
        body += utf(name) + KEY.snapshot().to_bytes() + namespace.snapshot().to_bytes()
        body += queue(namespace, event) + queue(namespace, processing)
    return body


def operator(*blocks: bytes | None, start: int = 0) -> OperatorState:
    """One subtask whose raw keyed state has these blocks; ``None`` for a key group without one."""
    data, offsets = b"", []
    for content in blocks:
        offsets.append(-1 if content is None else len(data))
        data += content or b""
    groups = h.KeyGroupRange(start, start + len(blocks) - 1)
    handle = h.KeyGroupsStateHandle(h.KEY_GROUPS, groups, h.Offsets.of(offsets), h.ByteStreamStateHandle("raw", data))
    subtask = OperatorSubtaskState(index=3, raw_keyed=handle)
    return OperatorState(operator_id="0" * 32, parallelism=4, max_parallelism=128, subtasks=(subtask,), uid="own")


def only_handle(snapshot: Snapshot, found: OperatorState) -> KeyedHandle:
    [handle] = keyed_handles(found, snapshot)
    assert handle.raw
    return handle


def rows(snapshot: Snapshot, handle: KeyedHandle, state: str, **options: Any) -> list[dict[str, Any]]:
    source = handle.open(snapshot)
    described = source.describe(state)
    assert described is not None
    groups, keys = options.pop("groups", handle.key_groups), options.pop("keys", None)
    wanted = None if keys is None else keys_of(described, keys)
    batches = read_state(source, described, ReadOptions.of(**options).of_states(), groups, wanted)
    return [{n: v for n, v in row.items() if n != "_key_bytes"} for b in batches for row in b.to_pylist()]


TWO_GROUPS = (
    block(("user-timers", VOID, [("a", 0, 5), ("b", 0, -7)], []), ("windows", LONG, [("a", 9, 8)], [("c", 1, 2), ("c", 2, 2)])),
    None,
    block(("user-timers", VOID, [], [("d", 0, 1 << 40)]), ("windows", LONG, [("d", -1, 3)], [])),
)


def test_timers_of_all_services_are_listed_and_read(snapshot: Snapshot) -> None:
    found = operator(*TWO_GROUPS, start=10)
    listed = operator_states(snapshot, found)
    names = ("user-timers", "windows")
    assert {n: (s.kind, s.service, s.backend, str(s.key)) for n, s in listed.items()} == {
        prefix + name: (kind, name, "raw", "STRING")
        for name in names
        for prefix, kind in ((EVENT, "EVENT_TIMER"), (PROCESSING, "PROCESSING_TIMER"))
    }
    handle = only_handle(snapshot, found)
    assert rows(snapshot, handle, EVENT + "user-timers", metadata=True) == [
        {"key": "a", "timestamp": 5, "_key_group": 10},
        {"key": "b", "timestamp": -7, "_key_group": 10},
    ]
    assert rows(snapshot, handle, PROCESSING + "user-timers") == [{"key": "d", "timestamp": 1 << 40}]
    assert rows(snapshot, handle, EVENT + "windows") == [
        {"key": "a", "namespace": 9, "timestamp": 8},
        {"key": "d", "namespace": -1, "timestamp": 3},
    ]
    assert rows(snapshot, handle, PROCESSING + "windows") == [
        {"key": "c", "namespace": 1, "timestamp": 2},
        {"key": "c", "namespace": 2, "timestamp": 2},
    ]


def test_timers_are_read_by_key_and_key_group(snapshot: Snapshot) -> None:
    handle = only_handle(snapshot, operator(*TWO_GROUPS, start=10))
    assert rows(snapshot, handle, EVENT + "windows", keys=("d",)) == [{"key": "d", "namespace": -1, "timestamp": 3}]
    first = h.KeyGroupRange(10, 10)
    assert rows(snapshot, handle, EVENT + "windows", groups=first) == [{"key": "a", "namespace": 9, "timestamp": 8}]


def test_an_operator_without_timer_services_has_no_timer_states(snapshot: Snapshot) -> None:
    found = operator(block(), block())
    assert operator_states(snapshot, found) == {}
    assert list(raw_keyed_state(snapshot, found)) == []


def test_other_raw_keyed_state_is_given_as_bytes(snapshot: Snapshot) -> None:
    found = operator(b"one", None, b"three", start=20)
    assert operator_states(snapshot, found) == {}
    assert list(keyed_handles(found, snapshot)) == []
    assert [(p.subtask, p.index, p.data) for p in raw_keyed_state(snapshot, found)] == [(3, 20, b"one"), (3, 22, b"three")]


def test_raw_operator_state_is_given_by_partition(snapshot: Snapshot) -> None:
    def with_offsets(*offsets: int) -> OperatorState:
        meta = h.OperatorStateMeta("_default_", h.SPLIT_DISTRIBUTE, h.Offsets.of(offsets))
        handle = h.OperatorStreamStateHandle((meta,), h.ByteStreamStateHandle("raw", b"firstsecond"))
        found = operator(None)
        return replace(found, subtasks=(OperatorSubtaskState(index=1, raw_operator=handle),))

    found = raw_operator_state(snapshot, with_offsets(0, 5, 11))
    assert [(p.subtask, p.index, p.data) for p in found] == [(1, 0, b"first"), (1, 1, b"second"), (1, 2, b"")]
    with pytest.raises(CorruptSnapshotError, match=r"operator 'own', subtask 1, .*starts at 12 of 11"):
        list(raw_operator_state(snapshot, with_offsets(0, 12)))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (block(version=1), UnsupportedFormatError, "version 1 of timers"),
        (block(("t", VOID, [("a", 0, 1)], []))[:-14], CorruptSnapshotError, "left"),
        (MAGIC + struct.pack(">ii", 2, 1 << 30), CorruptSnapshotError, "1073741824 timer services announced"),
        (block(("t", VOID, [], []))[:-4] + struct.pack(">i", -1), CorruptSnapshotError, "-1 timers announced"),
    ],
)
def test_damaged_timers_are_errors(snapshot: Snapshot, content: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"operator 'own', subtask 3, inline state raw, key group 0 at offset 0.*{message}"):
        operator_states(snapshot, operator(content))


def test_an_offset_behind_the_end_is_an_error(snapshot: Snapshot) -> None:
    found = operator(b"abc")
    handle = found.subtasks[0].raw_keyed
    assert isinstance(handle, h.KeyGroupsStateHandle)
    beyond = replace(found, subtasks=(replace(found.subtasks[0], raw_keyed=replace(handle, offsets=h.Offsets.of([9]))),))
    with pytest.raises(CorruptSnapshotError, match="offset 9: key group 0 starts after the end"):
        list(raw_keyed_state(snapshot, beyond))
