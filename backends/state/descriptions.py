"""Descriptions of states: the kind and the serializers of each, from the headers that register them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from state_processor.backends.state import meta_info as mi
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    UnknownSerializerError,
    UnsupportedFormatError,
)
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.timers import TimerSerializer
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.runtime.wrapping import WrappingSerializer

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

EVENT_PREFIX: Final = "_timer_state/event_"
PROCESSING_PREFIX: Final = "_timer_state/processing_"
"""Beginnings of the names of timer queues (Flink: ``InternalTimeServiceManagerImpl``)."""

_TIMER_PREFIXES: Final = {EVENT_PREFIX: EVENT_TIMER, PROCESSING_PREFIX: PROCESSING_TIMER}
DISTRIBUTION_KINDS: Final = {"SPLIT_DISTRIBUTE": OPERATOR_LIST, "UNION": UNION_LIST, "BROADCAST": BROADCAST}
_KEYED_KINDS: Final = frozenset({VALUE, LIST, MAP, "REDUCING", "AGGREGATING", "FOLDING"})
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
    if mode not in DISTRIBUTION_KINDS:
        raise CorruptSnapshotError(f"operator state {meta.name!r} is distributed as {mode!r}, which no Flink does")
    kind = DISTRIBUTION_KINDS[mode]
    key = meta.restore(mi.KEY) if mi.KEY in meta.serializers else None
    return StateDescription(meta.name, kind, key, value=meta.restore(mi.VALUE), backend="operator")
