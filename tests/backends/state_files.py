"""Files of keyed and operator state, put together byte by byte, and snapshots of them in memory."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer

LONG = NumberSerializer("LONG")
INT = NumberSerializer("INT")
STRING = StringSerializer()
VOID = VoidNamespaceSerializer()
ORDINALS = {"KEY_VALUE": 0, "OPERATOR": 1, "BROADCAST": 2, "PRIORITY_QUEUE": 3, "KEY_VALUE_V2": 4}
END_OF_KEY_GROUP = b"\xff\xff"
NAMESPACE_OF_VOID = b"\0"


def utf(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">H", len(raw)) + raw


def string(text: str) -> bytes:
    """Flink's string of ASCII characters: a varint of the length and one, the characters."""
    size, raw = len(text) + 1, bytearray()
    while size >= 0x80:
        raw.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*raw, size]) + text.encode("ascii")


def long(value: int) -> bytes:
    return struct.pack(">q", value)


def proxy(serializer: TypeSerializer) -> bytes:
    """A serializer snapshot as headers hold it."""
    return struct.pack(">i", 2) + serializer.snapshot().to_bytes()


def meta(name: str, backend: str = "KEY_VALUE", options: Mapping[str, str] | None = None, **serializers: TypeSerializer) -> bytes:
    """A registered state; roles of serializers as ``NAMESPACE_SERIALIZER``."""
    described = options or {}
    raw = utf(name) + struct.pack(">ii", ORDINALS[backend], len(described))
    raw += b"".join(utf(k) + utf(v) for k, v in described.items())
    raw += struct.pack(">i", len(serializers))
    return raw + b"".join(utf(role) + proxy(s) for role, s in serializers.items())


def keyed(name: str, value: TypeSerializer, kind: str = "VALUE", namespace: TypeSerializer = VOID) -> bytes:
    return meta(name, options={"KEYED_STATE_TYPE": kind}, NAMESPACE_SERIALIZER=namespace, VALUE_SERIALIZER=value)


def timers(name: str, key: TypeSerializer, namespace: TypeSerializer = VOID) -> bytes:
    return meta(name, "PRIORITY_QUEUE", VALUE_SERIALIZER=TimerSerializer(key, namespace))


def keyed_header(key: TypeSerializer, states: Sequence[bytes], compressed: bool = False) -> bytes:
    return struct.pack(">i?", 6, compressed) + proxy(key) + struct.pack(">h", len(states)) + b"".join(states)


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress(data))


@dataclass(frozen=True)
class StateFile:
    """A state file and the offsets that its handle names."""

    data: bytes
    key_groups: h.KeyGroupRange
    offsets: tuple[int, ...]

    def handle(self, code: int = 7) -> h.KeyGroupsStateHandle:
        stream = h.ByteStreamStateHandle("file", self.data)
        return h.KeyGroupsStateHandle(code, self.key_groups, h.Offsets.of(self.offsets), stream, "id" if code == 12 else None)


def _laid_out(header: bytes, key_groups: h.KeyGroupRange, blocks: Mapping[int, bytes]) -> StateFile:
    data, offsets = bytearray(header), []
    for group in key_groups:
        offsets.append(len(data) if group in blocks else 0)
        data += blocks.get(group, b"")
    return StateFile(bytes(data), key_groups, tuple(offsets))


def canonical(
    header: bytes,
    key_groups: tuple[int, int],
    entries: Mapping[int, Mapping[int, Sequence[tuple[bytes, bytes]]]],
    prefix: int = 1,
    compressed: bool = False,
) -> StateFile:
    """A canonical file of ``{key group: {state id: [(key without key group, value)]}}``."""
    blocks = {}
    for group, states in entries.items():
        present = [(state, found) for state, found in states.items() if found]
        block = bytearray(struct.pack(">H", present[0][0]))
        for at, (_, found) in enumerate(present):
            for i, (key, value) in enumerate(found):
                framed = bytearray(group.to_bytes(prefix, "big") + key)
                last = i == len(found) - 1
                framed[0] |= 0x80 if last else 0
                block += struct.pack(">i", len(framed)) + framed + struct.pack(">i", len(value)) + value
                if last:
                    block += struct.pack(">H", present[at + 1][0]) if at + 1 < len(present) else END_OF_KEY_GROUP
        blocks[group] = snappy(bytes(block)) if compressed else bytes(block)
    return _laid_out(header, h.KeyGroupRange(*key_groups), blocks)


def heap(
    header: bytes,
    key_groups: tuple[int, int],
    entries: Mapping[int, Mapping[int, Sequence[bytes]]],
    states: int,
    compressed: bool = False,
) -> StateFile:
    """A heap file of ``{key group: {state id: [entry]}}``; key groups and states left out are empty."""
    blocks = {}
    for group in range(key_groups[0], key_groups[1] + 1):
        found = entries.get(group, {})
        order = [*found, *(s for s in range(states) if s not in found)]
        streams = [struct.pack(">Hi", s, len(found.get(s, ()))) + b"".join(found.get(s, ())) for s in order]
        blocks[group] = struct.pack(">i", group) + b"".join(map(snappy, streams) if compressed else streams)
    return _laid_out(header, h.KeyGroupRange(*key_groups), blocks)


def operator_header(lists: Sequence[bytes], broadcasts: Sequence[bytes] = (), compressed: bool | None = None) -> bytes:
    """Version 5, or with ``compressed`` version 6, which alone can be."""
    start = struct.pack(">i", 5) if compressed is None else struct.pack(">i?", 6, compressed)
    return start + b"".join(struct.pack(">h", len(part)) + b"".join(part) for part in (lists, broadcasts))


def operator_list(name: str, value: TypeSerializer, mode: str = "SPLIT_DISTRIBUTE") -> bytes:
    return meta(name, "OPERATOR", {"OPERATOR_STATE_DISTRIBUTION_MODE": mode}, VALUE_SERIALIZER=value)


def broadcast(name: str, key: TypeSerializer, value: TypeSerializer) -> bytes:
    options = {"OPERATOR_STATE_DISTRIBUTION_MODE": "BROADCAST"}
    return meta(name, "BROADCAST", options, KEY_SERIALIZER=key, VALUE_SERIALIZER=value)


def operator_handle(data: bytes, states: Mapping[str, tuple[int, Sequence[int]]]) -> h.OperatorStreamStateHandle:
    """A handle with mode and offsets of each state."""
    found = tuple(h.OperatorStateMeta(name, mode, h.Offsets.of(offsets)) for name, (mode, offsets) in states.items())
    return h.OperatorStreamStateHandle(found, h.ByteStreamStateHandle("file", data))


def operator(*subtasks: h.KeyGroupsStateHandle | h.OperatorStreamStateHandle | None, max_parallelism: int = 128) -> OperatorState:
    """An operator whose subtasks have these handles as keyed or operator state."""
    states = tuple(
        OperatorSubtaskState(
            i,
            managed_operator=s if isinstance(s, h.OperatorStreamStateHandle) else None,
            managed_keyed=s if isinstance(s, h.KeyGroupsStateHandle) else None,
        )
        for i, s in enumerate(subtasks)
    )
    return OperatorState("00" * 16, len(states), max_parallelism, states, uid="op")


def snapshot(*operators: OperatorState) -> Snapshot:
    storage = Storage()
    return Snapshot("/nowhere", CheckpointMetadata(3, 1, operators), storage, Relocation(storage, "/nowhere"))


def read_batches(
    found: OperatorState, state: str | None = None, kind: str | None = None, *, in_task: bool = True, **options: Any
) -> list[Any]:
    """All record batches of a state, read as tasks do, by a reader and splits that were pickled, or in this process."""
    reader = open_state(StoredOperator(snapshot(found), found), state, kind, ReadOptions.of(**options))
    splits, reading = reader.splits(), reader
    if in_task:
        splits, reading = (pickle.loads(pickle.dumps(part)) for part in (splits, reader))
    batches = [batch for split in splits for batch in reading.read(split)]
    assert all(batch.schema == reader.schema for batch in batches)
    return batches


def read_rows(found: OperatorState, state: str | None = None, kind: str | None = None, **options: Any) -> list[dict[str, Any]]:
    """The rows of :func:`read_batches`."""
    return [row for batch in read_batches(found, state, kind, **options) for row in batch.to_pylist()]


def columns(found: OperatorState, state: str | None = None, kind: str | None = None, **options: Any) -> dict[str, str]:
    """Name and Arrow type of each column."""
    schema = open_state(StoredOperator(snapshot(found), found), state, kind, ReadOptions.of(**options)).schema
    return {field.name: str(field.type) for field in schema}


def group_of(serializer: TypeSerializer, key: Any, max_parallelism: int = 128) -> int:
    return int(key_group([serializer.hash_code(key)], max_parallelism)[0])
