"""Which states an operator has: the union of what its subtasks' headers register, with serializers and kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from state_processor.backends import handles as h
from state_processor.backends import meta_info as mi
from state_processor.backends.changelog_log import changelog_header, read_log
from state_processor.backends.metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.operator_id import operator_id
from state_processor.backends.raw_timers import EVENT_PREFIX, PROCESSING_PREFIX, holds_timers, raw_blocks, timers_header
from state_processor.backends.snapshot_dir import Snapshot
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.collections import ListSerializer, MapSerializer
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    MissingFileError,
    NotFoundError,
    ScratchSpaceError,
    UnknownSerializerError,
    UnsupportedFormatError,
)
from state_processor.serializers.io import DataInput
from state_processor.serializers.kryo import written_by_flink
from state_processor.serializers.streaming import TimerSerializer, TtlSerializer, VoidNamespaceSerializer, WrappingSerializer
from state_processor.serializers.unread import UnreadSnapshot

VALUE: Final = "VALUE"
LIST: Final = "LIST"
MAP: Final = "MAP"
EVENT_TIMER: Final = "EVENT_TIMER"
PROCESSING_TIMER: Final = "PROCESSING_TIMER"
OPERATOR_LIST: Final = "OPERATOR_LIST"
UNION_LIST: Final = "UNION_LIST"
BROADCAST: Final = "BROADCAST"
TIMERS: Final = frozenset({EVENT_TIMER, PROCESSING_TIMER})
OPERATOR_KINDS: Final = frozenset({OPERATOR_LIST, UNION_LIST, BROADCAST})

_TIMER_PREFIXES: Final = {EVENT_PREFIX: EVENT_TIMER, PROCESSING_PREFIX: PROCESSING_TIMER}
_DISTRIBUTION_KINDS: Final = {"SPLIT_DISTRIBUTE": OPERATOR_LIST, "UNION": UNION_LIST, "BROADCAST": BROADCAST}
_KEYED_KINDS: Final = frozenset({VALUE, LIST, MAP, "REDUCING", "AGGREGATING", "FOLDING"})
_FORST_DIRECTORY: Final = re.compile(rb"db_log_dir=\S*_attempt_\d+/db")
"""Where ForSt works (Flink: ``ForStStateBackend``, ``op_ID_attempt_N``)."""
_WHOLE_VALUES: Final = frozenset({VALUE, "REDUCING", "AGGREGATING"})
"""Kinds of state whose values fill their part of an entry."""
_COLLECTIONS: Final = {LIST: ListSerializer, MAP: MapSerializer}
_KINDS_BY_SERIALIZER: Final = {serializer: kind for kind, serializer in _COLLECTIONS.items()}


@dataclass(frozen=True, slots=True)
class StateDescription:
    """One state of an operator.

    ``value`` is the serializer of a value, of a list's element, or of a map's value, within its TTL wrapper where there is
    one. Roles that a kind of state does not have are ``None``.
    """

    name: str
    kind: str
    key: TypeSerializer | None = None
    namespace: TypeSerializer | None = None
    map_key: TypeSerializer | None = None
    value: TypeSerializer | None = None
    backend: str = ""

    @property
    def has_ttl(self) -> bool:
        """Whether values carry the time of their last access."""
        return isinstance(self.value, TtlSerializer)

    @property
    def is_timer(self) -> bool:
        """Whether this is a timer queue."""
        return self.kind in TIMERS

    @property
    def is_keyed(self) -> bool:
        """Whether this is keyed state."""
        return self.kind not in OPERATOR_KINDS

    @property
    def in_void_namespace(self) -> bool:
        """Whether the state has no namespace but the empty one."""
        return isinstance(self.namespace, VoidNamespaceSerializer)

    @property
    def service(self) -> str:
        """A timer queue's service: the name without its prefix."""
        prefix = next((p for p in _TIMER_PREFIXES if self.name.startswith(p)), "")
        return self.name[len(prefix) :]


@dataclass(frozen=True, slots=True)
class UnreadState:
    """A state that can't be read, as far as it is known; without a name it may be any that a header registers."""

    error: UnsupportedFormatError
    name: str | None = None
    kind: str | None = None
    backend: str = ""


def describe_keyed(header: mi.KeyedHeader, meta: mi.StateMetaInfo, backend: str = "") -> StateDescription:
    """A keyed state or timer queue as its header registers it.

    Raises
    ------
    UnknownSerializerError
        If a serializer is not known; but for one that fills its part of an entry, whose values are bytes then.
    """
    _check_known(meta, header.key, *(s for role, s in meta.serializers.items() if role != mi.VALUE))
    if keyed_kind(meta) not in _WHOLE_VALUES:
        _check_known(meta, meta.serializers.get(mi.VALUE))
    if meta.backend_type == "PRIORITY_QUEUE":
        timer = meta.restore(mi.VALUE)
        key, namespace = header.key.restore_serializer(), None
        if isinstance(timer, TimerSerializer):
            key, namespace = timer.key, timer.namespace
        kind = next((k for p, k in _TIMER_PREFIXES.items() if meta.name.startswith(p)), EVENT_TIMER)
        return StateDescription(meta.name, kind, key, namespace, value=timer, backend=backend)
    value: TypeSerializer = _unwrapped(meta.restore(mi.VALUE))
    kind = meta.options.get(mi.KEYED_STATE_TYPE, "UNKNOWN")
    if kind == "UNKNOWN":
        kind = _KINDS_BY_SERIALIZER.get(type(value), VALUE)
    if kind not in _KEYED_KINDS:
        raise CorruptSnapshotError(f"state {meta.name!r} is of the kind {kind!r}, which no Flink writes")
    map_key = None
    if meta.backend_type == "KEY_VALUE_V2":
        map_key = meta.restore(mi.USER_KEY) if mi.USER_KEY in meta.serializers else None
    elif kind in _COLLECTIONS and not isinstance(value, _COLLECTIONS[kind]):
        raise CorruptSnapshotError(f"state {meta.name!r} is of the kind {kind}, and its values of type {value}")
    elif isinstance(value, ListSerializer) and kind == LIST:
        value = value.element
    elif isinstance(value, MapSerializer) and kind == MAP:
        map_key, value = value.key, value.value.inner
    key, namespace = header.key.restore_serializer(), meta.restore(mi.NAMESPACE)
    return StateDescription(meta.name, kind, key, namespace, map_key, value, backend)


def _check_known(meta: mi.StateMetaInfo, *snapshots: TypeSerializerSnapshot | None) -> None:
    for snapshot in snapshots:
        if isinstance(snapshot, UnreadSnapshot):
            named = f"state {meta.name!r}" in snapshot.reason
            raise UnknownSerializerError(snapshot.reason if named else f"state {meta.name!r}: {snapshot.reason}")


def keyed_kind(meta: mi.StateMetaInfo) -> str | None:
    """The kind of a keyed state as far as its header says it, whatever its serializers are."""
    if meta.backend_type == "PRIORITY_QUEUE":
        return next((k for p, k in _TIMER_PREFIXES.items() if meta.name.startswith(p)), EVENT_TIMER)
    return meta.options.get(mi.KEYED_STATE_TYPE)


def _unwrapped(serializer: TypeSerializer) -> TypeSerializer:
    """What a wrapper that adds no bytes is around."""
    while isinstance(serializer, WrappingSerializer):
        serializer = serializer.content
    return serializer


def describe_operator_state(meta: mi.StateMetaInfo) -> StateDescription:
    """An operator state as its header registers it."""
    mode = meta.options.get(mi.DISTRIBUTION_MODE, "SPLIT_DISTRIBUTE")
    _check_known(meta, *(s for role, s in meta.serializers.items() if role != mi.VALUE or mode == BROADCAST))
    if mode not in _DISTRIBUTION_KINDS:
        raise CorruptSnapshotError(f"operator state {meta.name!r} is distributed as {mode!r}, which no Flink does")
    kind = _DISTRIBUTION_KINDS[mode]
    key = meta.restore(mi.KEY) if mi.KEY in meta.serializers else None
    return StateDescription(meta.name, kind, key, value=meta.restore(mi.VALUE), backend="operator")


def find_operator(snapshot: Snapshot, uid: str | None = None, uid_hash: str | None = None) -> OperatorState:
    """An operator by its uid or uid hash.

    Raises
    ------
    NotFoundError
        If there is none; the message names those that there are.
    """
    wanted = uid_hash.lower() if uid_hash else operator_id(uid or "")
    for operator in snapshot.metadata.operators:
        if operator.operator_id == wanted:
            return operator
    known = [o.uid or o.operator_id for o in snapshot.metadata.operators]
    raise NotFoundError.naming_nearest("operator", uid or wanted, known)


def operator_label(operator: OperatorState) -> str:
    """How messages name an operator: its uid where the snapshot holds it, else its uid hash."""
    return f"operator {operator.uid!r}" if operator.uid else f"operator {operator.operator_id}"


def leaf_keyed_handles(handle: h.KeyedStateHandle | None) -> Iterator[h.KeyedStateHandle]:
    """The handles that a subtask's managed keyed state consists of: a changelog's materialized part is several."""
    if isinstance(handle, h.ChangelogStateBackendHandle):
        for part in handle.materialized:
            yield from leaf_keyed_handles(part)
    elif handle is not None:
        yield handle


def keyed_header(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str, max_parallelism: int) -> mi.KeyedHeader:
    """The header of a keyed handle: in front of the key groups, in a file of its own, or spread over a changelog."""
    if isinstance(handle, h.ChangelogStateBackendHandle):
        parts = [keyed_header(snapshot, part, context, max_parallelism) for part in leaf_keyed_handles(handle)]
        return changelog_header(read_log(snapshot, handle, context), parts, context, max_parallelism)
    if isinstance(handle, h.KeyGroupsStateHandle):
        stream = snapshot.open(handle.stream, context)
        offsets = [o for o in handle.offsets if o > 0]
        data = stream.read(0, min(offsets, default=stream.size))
    elif isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        stream = snapshot.open(handle.meta, context)
        data = stream.read()
    else:
        raise NotFoundError(f"{context}: {type(handle).__name__} has no header")
    source = DataInput(data, f"{context}, {stream.describe()}")
    with written_by_flink(snapshot.flink_major):
        header = mi.KeyedHeader.read(source)
    if not source.at_end():
        raise source.corrupt(f"the header of {len(header.states)} states ends here, {source.remaining} bytes early")
    return header


def raw_timers_header(snapshot: Snapshot, handle: h.KeyedStateHandle | None, context: str) -> mi.KeyedHeader | None:
    """The timers that raw keyed state holds, as a header; ``None`` where it is an operator's own bytes, or nothing."""
    if not isinstance(handle, h.KeyGroupsStateHandle):
        return None
    stream = snapshot.open(handle.stream, context)
    blocks = raw_blocks(stream, handle, context)
    if not holds_timers(stream, blocks):
        return None
    with written_by_flink(snapshot.flink_major):
        return timers_header(stream, blocks, context)


def operator_header(snapshot: Snapshot, handle: h.OperatorStateHandle, context: str) -> mi.OperatorHeader:
    """The header of a subtask's operator state."""
    stream = snapshot.open(handle.stream, context)
    first = min((o for s in handle.states for o in s.offsets), default=stream.size)
    with written_by_flink(snapshot.flink_major):
        return mi.OperatorHeader.read(DataInput(stream.read(0, first), f"{context}, {stream.describe()}"))


def subtask_label(operator: OperatorState, subtask: OperatorSubtaskState) -> str:
    """How messages name a subtask."""
    return f"{operator_label(operator)}, subtask {subtask.index}"


@contextmanager
def naming_state(name: str | None, operator: OperatorState) -> Iterator[None]:
    """Adds state and operator to errors about files, as far as they don't name them: a file may hold several states."""
    try:
        yield
    except (CorruptSnapshotError, MissingFileError, ScratchSpaceError) as error:
        message, label = str(error), operator_label(operator)
        if name is None or f"state {name!r}" in message:
            raise
        link = "of" if message.startswith(label) else f"of {label}:"
        raise type(error)(f"state {name!r} {link} {message}") from error


def survey(snapshot: Snapshot, operator: OperatorState) -> tuple[dict[str, list[StateDescription]], list[UnreadState]]:
    """All states of an operator by name, each as every subtask registers it that does; and those that can't be read.

    A state may be registered in a single subtask only, and a POJO's subclasses may differ between subtasks.
    """
    found: dict[str, list[StateDescription]] = {}
    unread: dict[tuple[str | None, str | None], UnreadState] = {}
    for subtask in operator.subtasks:
        for state in _subtask_states(snapshot, operator, subtask):
            if isinstance(state, UnreadState):
                unread.setdefault((state.name, state.kind), state)
            else:
                found.setdefault(state.name, []).append(state)
    return found, list(unread.values())


def state_variants(snapshot: Snapshot, operator: OperatorState) -> dict[str, list[StateDescription]]:
    """The same where all have to be readable.

    Raises
    ------
    UnsupportedFormatError
        If one is not.
    """
    found, unread = survey(snapshot, operator)
    for state in unread:
        raise state.error
    return found


def operator_states(snapshot: Snapshot, operator: OperatorState) -> dict[str, StateDescription]:
    """All states of an operator by name, over all its subtasks."""
    return {name: variants[0] for name, variants in state_variants(snapshot, operator).items()}


def _subtask_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState
) -> Iterator[StateDescription | UnreadState]:
    context = subtask_label(operator, subtask)
    parts = (_managed_keyed_states, _raw_keyed_states, _managed_operator_states)
    for part in parts:
        try:
            yield from part(snapshot, operator, subtask, context)
        except UnsupportedFormatError as error:
            yield UnreadState(error)


def _managed_keyed_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription | UnreadState]:
    handle = subtask.managed_keyed
    if handle is None:
        return
    header = keyed_header(snapshot, handle, context, operator.max_parallelism)
    backend = backend_name(handle, header)
    if backend == "heap" and _is_canonical(snapshot, handle, context):
        backend = "canonical"
    if backend == "rocksdb" and _is_forst(snapshot, handle, context):
        backend = "forst"
    for meta in header.states:
        try:
            yield describe_keyed(header, meta, backend)
        except UnsupportedFormatError as error:
            yield UnreadState(error, meta.name, keyed_kind(meta), backend)


def _raw_keyed_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription]:
    raw = raw_timers_header(snapshot, subtask.raw_keyed, context)
    if raw is not None:
        for meta in raw.states:
            yield describe_keyed(raw, meta, "raw")


def _managed_operator_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription | UnreadState]:
    if subtask.managed_operator is None or not subtask.managed_operator.states:
        return
    header = operator_header(snapshot, subtask.managed_operator, context)
    for meta in (*header.lists, *header.broadcasts):
        try:
            yield describe_operator_state(meta)
        except UnsupportedFormatError as error:
            kind = _DISTRIBUTION_KINDS.get(meta.options.get(mi.DISTRIBUTION_MODE, ""))
            yield UnreadState(error, meta.name, kind, "operator")


def _is_forst(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str) -> bool:
    """Whether ForSt wrote the files: its options name a log directory, below a directory called as ForSt calls it."""
    if snapshot.flink_major < 2 or not isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        return False
    for file in handle.files:
        if file.local_name.startswith("OPTIONS-"):
            try:
                return _FORST_DIRECTORY.search(snapshot.open(file.stream, context).read()) is not None
            except MissingFileError:
                return False  # reading the state names it
    return False


def _is_canonical(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str) -> bool:
    """Whether the body is canonical though the handle's code does not say so: the heap begins each key group with its number."""
    if not isinstance(handle, h.KeyGroupsStateHandle):
        return False
    stream = snapshot.open(handle.stream, context)
    for key_group, offset in zip(handle.key_groups, handle.offsets, strict=False):
        if not 0 < offset <= stream.size - 4 or int.from_bytes(stream.read(offset, 4), "big") != key_group:
            return True
        if key_group:
            return False
    return False


def backend_name(handle: h.KeyedStateHandle, header: mi.KeyedHeader | None = None) -> str:
    """What handle and header tell of the backend.

    A canonical file does not say which one wrote it. ForSt and RocksDB have the same files; in the header, only states with
    asynchronous access give ForSt away.
    """
    if isinstance(handle, h.KeyGroupsStateHandle):
        return "canonical" if handle.is_savepoint else "heap"
    if isinstance(handle, h.ChangelogStateBackendHandle):
        return "changelog"
    asynchronous = header is not None and any(s.backend_type == "KEY_VALUE_V2" for s in header.states)
    return "forst" if asynchronous else "rocksdb"


def find_state(states: dict[str, StateDescription], name: str, operator: OperatorState) -> StateDescription:
    """A state by name.

    Raises
    ------
    NotFoundError
        If the operator has none of that name; the message names the nearest.
    """
    if name not in states:
        raise NotFoundError.naming_nearest("state", name, states, operator_label(operator))
    return states[name]


def with_value(state: StateDescription, value: TypeSerializer) -> StateDescription:
    """The state with another value serializer."""
    return replace(state, value=value)
