"""The log of a changelog checkpoint: changes after the materialization.

Formats: ``StateChangeFormat``, ``AbstractStateChangeLogger``, ``StateMetaInfoSnapshotReadersWriters``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

import numpy as np

from state_processor.backends.files import snappy
from state_processor.backends.files.location import incomplete
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.state import state_headers
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.support.errors import (
    MissingFileError,
    StateProcessorError,
    UnknownSerializerError,
    UnsupportedFormatError,
)
from state_processor.support.mappings import index_by_name, map_values

CLEAR: Final = 0
SET: Final = 1
SET_INTERNAL: Final = 2
ADD: Final = 3
MERGE_NAMESPACES: Final = 4
ADD_ELEMENT: Final = 5
ADD_OR_UPDATE_ELEMENT: Final = 6
REMOVE_ELEMENT: Final = 7
OPERATIONS: Final = ("CLEAR", "SET", "SET_INTERNAL", "ADD", "MERGE_NS", "ADD_ELEMENT", "ADD_OR_UPDATE_ELEMENT", "REMOVE_ELEMENT")
"""Flink's ``StateChangeOperation`` by code. Metadata has a separate key group."""

_METADATA_GROUP: Final = -1
STATE_METADATA: Final = FormatVersions("metadata of a state in a changelog", {6: "1.14", 7: "1.18"})
_ID_AND_TYPE: Final = 3
_COMPRESSED: Final = {0: False, 1: True}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a state: the operation, and its data."""

    operation: int
    payload: memoryview
    context: str


@dataclass(slots=True)
class ChangeLog:
    """The changes of a handle in order: by state, then by key group."""

    states: dict[str, state_headers.StateMetaInfo] = field(default_factory=dict)
    changes: dict[str, dict[int, list[Change]]] = field(default_factory=dict)

    def of(self, name: str) -> dict[int, list[Change]]:
        """Return the changes of one state by key group."""
        return self.changes.get(name, {})

    def key(self, max_parallelism: int) -> TypeSerializerSnapshot | None:
        """Return the serializer of keys, from timers or by deduction; ``None`` if both fail."""
        for meta in self.states.values():
            if meta.backend_type == state_headers.PRIORITY_QUEUE:
                timer = meta.restore(state_headers.VALUE)
                if isinstance(timer, TimerSerializer):
                    return timer.key.snapshot()
        key = deduce_key(self._keyed_changes(), max_parallelism)
        return None if key is None else key.snapshot()

    def _keyed_changes(self) -> Iterator[tuple[int, memoryview, TypeSerializer]]:
        for name, by_group in self.changes.items():
            meta = self.states[name]
            if state_headers.NAMESPACE in meta.serializers and not isinstance(
                meta.serializers[state_headers.NAMESPACE], UnreadSnapshot
            ):
                namespace = meta.restore(state_headers.NAMESPACE)
                for group, changes in by_group.items():
                    for change in changes:
                        yield group, change.payload, namespace


def read_log(snapshot: Snapshot, handle: h.ChangelogStateBackendHandle, context: str) -> ChangeLog:
    """Read the log of a handle, without changes of key groups outside of the handle."""
    log = ChangeLog()
    for part in handle.changes:
        names: dict[int, str] = {}  # each writer has its own state ids, and each part announces them
        for change, place in _state_changes(snapshot, part, context):
            source = DataInput(change.data, place, flink_major=snapshot.flink_major)
            operation = source.read_byte()
            if change.key_group == _METADATA_GROUP:
                _announce(source, log, names)
            elif change.key_group in handle.key_groups:
                state_id = source.read_short()
                if state_id not in names:
                    raise source.corrupt(f"a change of the unknown state id {state_id}")
                by_group = log.changes.setdefault(names[state_id], {})
                payload = source.data[source.position :]
                by_group.setdefault(change.key_group, []).append(Change(operation, payload, place))
    return log


def changelog_header(
    log: ChangeLog, materialized: list[state_headers.KeyedHeader], context: str, max_parallelism: int
) -> state_headers.KeyedHeader:
    """Merge the states of the materialized parts and of the log into one header.

    If the type of the keys is not known, or the type of a state changed after the materialization, the serializers are
    :class:`~state_processor.serializers.core.unread.UnreadSnapshot`.
    """
    metas = index_by_name(chain.from_iterable(header.states for header in materialized))
    for name, meta in log.states.items():
        try:
            if name in metas:
                _check_same_type(metas[name], meta, context)
        except UnsupportedFormatError as problem:
            meta = _unread(meta, str(problem))
        metas[name] = meta
    key = materialized[0].key if materialized else log.key(max_parallelism)
    if key is None and not log.changes:  # states without entries: other subtasks contain the types
        return state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, VoidNamespaceSerializer().snapshot(), ())
    if key is None:
        key = UnreadSnapshot("", 0, None, str(no_key_type(context)))
    return state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, key, tuple(metas.values()))


def _unread(meta: state_headers.StateMetaInfo, reason: str) -> state_headers.StateMetaInfo:
    def unread(snapshot: TypeSerializerSnapshot) -> TypeSerializerSnapshot:
        return UnreadSnapshot(snapshot.class_name, snapshot.version, None, reason)

    return replace(meta, serializers=map_values(unread, meta.serializers))


def _check_same_type(old: state_headers.StateMetaInfo, new: state_headers.StateMetaInfo, context: str) -> None:
    for role in (state_headers.NAMESPACE, state_headers.VALUE):
        if role not in old.serializers or role not in new.serializers:
            continue
        verdict = old.serializers[role].resolve_schema_compatibility(new.restore(role))
        if verdict.verdict >= Verdict.COMPATIBLE_AFTER_MIGRATION:
            raise UnsupportedFormatError(
                f"{context}, state {new.name!r}: its serializer changed between the materialized part and the log. "
                "Take a savepoint, or a checkpoint after the next materialization"
            )


def _announce(source: DataInput, log: ChangeLog, names: dict[int, str]) -> None:
    """Read the metadata of a state and the id at its end; time-to-live and default value in between are ignored."""
    start = source.position
    version = source.read_int()
    STATE_METADATA.check(version, source.source, start, source.flink_major)
    begin = source.position
    try:
        meta = state_headers.StateMetaInfo.read(source)
    except UnknownSerializerError as problem:
        source.position = begin
        meta = state_headers.StateMetaInfo.read_without_serializers(source, str(problem))
    source.position = max(source.position, source.end - _ID_AND_TYPE)
    names[source.read_short()] = meta.name
    log.states[meta.name] = meta


def _state_changes(snapshot: Snapshot, part: h.ChangelogStateHandle, context: str) -> Iterator[tuple[h.StateChange, str]]:
    if isinstance(part, h.InMemoryChangelogStateHandle):
        yield from ((change, f"{context}, changes {part.handle_id}") for change in part.changes)
        return
    plain: dict[h.StreamStateHandle, tuple[memoryview, str]] = {}
    for offset, stream in part.streams:
        if stream not in plain:
            plain[stream] = _file_content(snapshot, stream, context)
        data, location = plain[stream]
        yield from _change_set(DataInput(data, location, offset))


def _file_content(snapshot: Snapshot, handle: h.StreamStateHandle, context: str) -> tuple[memoryview, str]:
    """Read and decompress the content of a log file after its flag byte; the recorded length excludes that byte."""
    stream = snapshot.open(handle, f"{context}, changelog")
    location = f"{context}, {stream.describe()}"
    if isinstance(handle, (h.FileStateHandle, h.RelativeFileStateHandle)):
        assert stream.path is not None
        data = snapshot.storage.read_all(stream.path, context)
        if len(data) < stream.size:
            raise MissingFileError(incomplete(location, len(data), stream.size))
    else:
        data = stream.read()
    source = DataInput(data, location)
    flag = source.read_unsigned_byte()
    if flag not in _COMPRESSED:
        raise source.corrupt(f"expected a compression flag, found {flag}", 0)
    return (snappy.decompress(data[1:], location).data if _COMPRESSED[flag] else data[1:]), location


def _change_set(source: DataInput) -> Iterator[tuple[h.StateChange, str]]:
    for _ in range(source.read_count("key groups of changes", 8)):
        count = source.read_count("changes", 4)
        key_group = source.read_int()
        for _ in range(count):
            place = f"{source.source}, change at {source.position}"
            size = source.read_count("bytes of a change")
            yield h.StateChange(key_group, source.read_bytes(size, "change")), place


# The type of the keys of a changelog that was never materialized. Such a checkpoint stores the serializers of namespaces and
# values; it stores the serializer of keys only in timers. But every change is recorded with the key group of its key. A
# serializer fits if all keys have the recorded key groups.

_CANDIDATES: Final[tuple[TypeSerializer, ...]] = (
    StringSerializer(),
    NumberSerializer("LONG"),
    NumberSerializer("INT"),
    NumberSerializer("SHORT"),
    NumberSerializer("BYTE"),
    NumberSerializer("BOOLEAN"),
)
_EXPONENTS: Final = {8: (52, 0x7FF, range(0x3C0, 0x440)), 4: (23, 0xFF, range(0x60, 0xA0))}
"""By size: the position of the exponent of floating-point numbers, and exponents of numbers from about 1e-19 (1e-9) to 1e19
(1e9)."""
_MOST_CHANGES: Final = 2000


def deduce_key(changes: Iterable[tuple[int, memoryview, TypeSerializer]], max_parallelism: int) -> TypeSerializer | None:
    """Return the only basic serializer with keys in the recorded key groups; ``None`` if zero or several serializers fit.

    Floating-point numbers have the bytes and hash codes of integers. If all keys are also plausible floating-point numbers, the
    type is ambiguous.

    ``changes``: key group, bytes from the key, and the serializer of the namespace for each change. ``max_parallelism``: max
    parallelism of the operator.
    """
    sample = list(islice(changes, _MOST_CHANGES))
    fitting = [c for c in _CANDIDATES if sample and _fits(c, sample, max_parallelism)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(key: TypeSerializer, sample: list[tuple[int, memoryview, TypeSerializer]], max_parallelism: int) -> bool:
    hashes, keys = [], set()
    for _, payload, namespace in sample:
        source = DataInput(payload)
        try:
            value = key.read(source)
            keys.add(bytes(payload[: source.position]))
            namespace.skip(source)
            hashes.append(key.hash_code(value))
        except (StateProcessorError, ValueError):
            return False
    groups = np.array([group for group, _, _ in sample])
    in_place = bool((key_group(np.array(hashes, dtype=np.int32), max_parallelism) == groups).all())
    return in_place and not (key.length in _EXPONENTS and all(map(_looks_like_float, keys)))


def _looks_like_float(key: bytes) -> bool:
    shift, mask, usual = _EXPONENTS[len(key)]
    return (int.from_bytes(key, "big") >> shift) & mask in usual


def no_key_type(context: str) -> UnsupportedFormatError:
    """Return the error for keys of unknown type."""
    return UnsupportedFormatError(
        f"{context}: a changelog that was never materialized does not contain the type of keys; neither the operator's timers "
        "nor the key groups of its keys determine it. Take a savepoint, or a checkpoint after the next materialization"
    )
