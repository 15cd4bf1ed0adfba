"""Descriptions of states: kind and serializers, from the headers of state files, and their registration in headers.

States are registered in the format of Flink's current versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Self, TypeVar

from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.state_headers import DESCRIBED, Same
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import JoinedListCodec, ListSerializer, MapSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.registry import Registrations, current_registrations
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import AsynchronousTtlSerializer, TtlSerializer, WrappingSerializer
from state_processor.serializers.table.python_state import PYTHON_PREFIX, PythonKeySerializer, python_key
from state_processor.support.errors import CorruptSnapshotError, OptionError, UnknownSerializerError, UnsupportedFormatError
from state_processor.support.mappings import inverted, map_values, without_keys

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
"""Prefixes of the names of timer queues (Flink: ``InternalTimeServiceManagerImpl``)."""

_TIMER_PREFIXES: Final = {EVENT_PREFIX: EVENT_TIMER, PROCESSING_PREFIX: PROCESSING_TIMER}
DISTRIBUTION_KINDS: Final = {"SPLIT_DISTRIBUTE": OPERATOR_LIST, "UNION": UNION_LIST, "BROADCAST": BROADCAST}
_KEYED_KINDS: Final = frozenset({VALUE, LIST, MAP, "REDUCING", "AGGREGATING", "FOLDING"})
_WHOLE_VALUES: Final = frozenset({VALUE, "REDUCING", "AGGREGATING"})
"""Kinds of state whose values fill their part of an entry."""
_COLLECTIONS: Final = {LIST: ListSerializer, MAP: MapSerializer}
_KINDS_BY_SERIALIZER: Final = inverted(_COLLECTIONS)


@dataclass(frozen=True, slots=True)
class StateDescription:
    """One state of an operator: its kind and its serializers. Each kind of state has a subclass with its roles.

    ``name`` and ``kind``: name and kind in the header of a state file.
    """

    ROLES: ClassVar[tuple[str, ...]] = ("value",)
    """Names of the attributes with replaceable serializers."""
    COLUMNS: ClassVar[Mapping[str, str]] = {"value": "value"}
    """The role of each column of the state's rows."""

    name: str
    kind: str
    # serializer of a value, of a list's element, of a map's value, or of a timer. A state with TTL: the serializer inside the TTL
    # wrapper.
    value: TypeSerializer
    backend: str = field(default="", kw_only=True)  # the backend or format, in tables about a snapshot

    @classmethod
    def of(
        cls,
        name: str,
        kind: str,
        key: TypeSerializer | None = None,
        namespace: TypeSerializer | None = None,
        map_key: TypeSerializer | None = None,
        value: TypeSerializer | None = None,
        backend: str = "",
    ) -> Self:
        """Return the description of a state of any kind."""
        roles = {"key": key, "namespace": namespace, "map_key": map_key, "value": value}
        described = _CLASSES.get(kind, ValueDescription)
        if not issubclass(described, cls):
            raise TypeError(f"state {name!r} of kind {kind} is a {described.__name__}, not a {cls.__name__}")
        if kind in TIMERS and key is not None and namespace is not None:
            roles["value"] = TimerSerializer(key, namespace)
        serializers: dict[str, Any] = {role: roles[role] for role in (*described.ROLES, "value")}
        missing = [role for role, serializer in serializers.items() if serializer is None and role != "map_key"]
        if missing:
            raise OptionError(f"state {name!r} of kind {kind} needs a serializer for its {missing[0]}")
        return described(name, kind, **serializers, backend=backend)

    @property
    def serializers(self) -> dict[str, TypeSerializer]:
        """The serializers by role."""
        serializers: dict[str, TypeSerializer] = {}
        for role in self.ROLES:
            serializer = getattr(self, role)
            if serializer is not None:
                serializers[role] = serializer
        return serializers

    def with_serializers(self, **serializers: Codec) -> Self:
        """Return the state with other serializers in some roles.

        A state with codecs that are not types describes how entries are read or written. A header can't have such a state.
        """
        changes: dict[str, Any] = serializers
        return replace(self, **changes)

    def map_serializers(self, change: Callable[[TypeSerializer], Codec]) -> Self:
        """Return the state with ``change`` applied to each serializer; see :meth:`with_serializers`."""
        return self.with_serializers(**map_values(change, self.serializers))

    @property
    def registered_serializer(self) -> TypeSerializer:
        """Registered serializer of the whole value of a key: for list and map state, of the whole list or map."""
        return self.value

    @property
    def registered_kind(self) -> str:
        """The registered kind in headers."""
        return self.kind

    @property
    def has_ttl(self) -> bool:
        """Whether values contain the time of their last access."""
        return isinstance(self.value, TtlSerializer)

    @property
    def is_timer(self) -> bool:
        """Whether the state is a timer queue."""
        return self.kind in TIMERS

    @property
    def is_keyed(self) -> bool:
        """Whether the state is keyed state."""
        return self.kind not in OPERATOR_KINDS


@dataclass(frozen=True, slots=True)
class KeyedDescription(StateDescription):
    """A keyed state or a timer queue."""

    ROLES: ClassVar[tuple[str, ...]] = ("key", "namespace", "value")
    COLUMNS: ClassVar[Mapping[str, str]] = {"key": "key", "value": "value"}

    key: TypeSerializer
    namespace: TypeSerializer

    @property
    def in_void_namespace(self) -> bool:
        """Whether the state has only the empty namespace."""
        return isinstance(self.namespace, VoidNamespaceSerializer)


@dataclass(frozen=True, slots=True)
class ValueDescription(KeyedDescription):
    """A state of one value: value, reducing, aggregating or folding state."""


@dataclass(frozen=True, slots=True)
class ListDescription(KeyedDescription):
    """A list state; ``value`` is the serializer of an element."""

    COLUMNS: ClassVar[Mapping[str, str]] = {"key": "key", "list_value": "value"}

    @property
    def registered_serializer(self) -> TypeSerializer:
        """Serializer of the list."""
        return ListSerializer(self.value)

    @property
    def joined(self) -> JoinedListCodec:
        """Serializer of the list in framed entries."""
        return JoinedListCodec(self.value)


@dataclass(frozen=True, slots=True)
class MapDescription(KeyedDescription):
    """A map state. The type of the map's keys is not stored in every snapshot."""

    ROLES: ClassVar[tuple[str, ...]] = ("key", "namespace", "map_key", "value")
    COLUMNS: ClassVar[Mapping[str, str]] = {"key": "key", "map_key": "map_key", "map_value": "value"}

    map_key: TypeSerializer | None

    @property
    def stored_map_key(self) -> TypeSerializer:
        """Serializer of the map's keys. If the snapshot does not store their type: bytes up to the end of the entry's key."""
        if self.map_key is None:
            return UnreadSnapshot("a map's keys", 1, None, self._unknown_key).restore_serializer().as_remainder()
        return self.map_key

    @property
    def registered_serializer(self) -> TypeSerializer:
        """Serializer of the map."""
        if self.map_key is None:
            raise UnsupportedFormatError(f"{self._unknown_key}; write a native savepoint for ForSt")
        return MapSerializer(self.map_key, self.value)

    @property
    def _unknown_key(self) -> str:
        return f"state {self.name!r}: Flink 2.0 does not store the type of a map's keys in the asynchronous state API"


@dataclass(frozen=True, slots=True)
class TimerDescription(KeyedDescription):
    """A timer queue. Its values consist of key, namespace and time."""

    ROLES: ClassVar[tuple[str, ...]] = ("key", "namespace")
    COLUMNS: ClassVar[Mapping[str, str]] = {"key": "key"}

    value: TimerSerializer

    def with_serializers(self, **serializers: Codec) -> Self:
        """Return the queue with other serializers for keys or namespaces."""
        roles: dict[str, Any] = self.serializers | serializers
        key, namespace = roles["key"], roles["namespace"]
        return replace(self, key=key, namespace=namespace, value=TimerSerializer(key, namespace))

    @property
    def service(self) -> str:
        """Name of the timer service."""
        prefix = next((p for p in _TIMER_PREFIXES if self.name.startswith(p)), "")
        return self.name[len(prefix) :]


@dataclass(frozen=True, slots=True)
class OperatorDescription(StateDescription):
    """An operator state: list, union list or broadcast state."""


@dataclass(frozen=True, slots=True)
class OperatorListDescription(OperatorDescription):
    """A list state of the operator, split between subtasks or sent whole to each; ``value`` is the serializer of an element."""


@dataclass(frozen=True, slots=True)
class BroadcastDescription(OperatorDescription):
    """A broadcast state: a map with a copy in each subtask."""

    ROLES: ClassVar[tuple[str, ...]] = ("key", "value")
    COLUMNS: ClassVar[Mapping[str, str]] = {"key": "key", "value": "value"}

    key: TypeSerializer


_CLASSES: Final[Mapping[str, type[StateDescription]]] = {
    LIST: ListDescription,
    MAP: MapDescription,
    **dict.fromkeys(TIMERS, TimerDescription),
    **dict.fromkeys((OPERATOR_LIST, UNION_LIST), OperatorListDescription),
    BROADCAST: BroadcastDescription,
}


@dataclass(frozen=True, slots=True)
class UnreadState:
    """A state that can't be read. Without a name, it may be any state of the header."""

    error: UnsupportedFormatError
    name: str | None = None
    kind: str | None = None
    backend: str = ""


def describe_keyed(header: state_headers.KeyedHeader, meta: state_headers.StateMetaInfo, backend: str = "") -> KeyedDescription:
    """Return the description of a keyed state or timer queue from its header. The same registration has one description."""
    return _described(Same(header.key, meta), _is_of_python(header), backend, current_registrations())


@lru_cache(maxsize=DESCRIBED)
def _described(registration: Same, is_python: bool, backend: str, _: Registrations) -> KeyedDescription:
    """Describe a registration: the snapshot of the keys of the operator, and the state."""
    key_snapshot, meta = registration.objects
    _check_known(meta, key_snapshot, *without_keys(meta.serializers, (state_headers.VALUE,)).values())
    if keyed_kind(meta) not in _WHOLE_VALUES:
        _check_known(meta, meta.serializers.get(state_headers.VALUE))
    if meta.backend_type == state_headers.PRIORITY_QUEUE:
        return _describe_timers(key_snapshot, meta, backend, is_python=is_python)
    value: TypeSerializer = _unwrapped(meta.restore(state_headers.VALUE))
    kind = meta.options.get(state_headers.KEYED_STATE_TYPE, "UNKNOWN")
    if kind == "UNKNOWN":
        kind = _KINDS_BY_SERIALIZER.get(type(value), VALUE)
    if kind not in _KEYED_KINDS:
        raise CorruptSnapshotError(f"state {meta.name!r} is of the kind {kind!r}; Flink does not write this kind")
    map_key = None
    if meta.backend_type == state_headers.KEY_VALUE_V2:
        map_key = meta.restore(state_headers.USER_KEY) if state_headers.USER_KEY in meta.serializers else None
    elif kind in _COLLECTIONS and not isinstance(value, _COLLECTIONS[kind]):
        raise CorruptSnapshotError(f"state {meta.name!r} is of the kind {kind}, but its values are of type {value}")
    elif isinstance(value, ListSerializer) and kind == LIST:
        value = value.element
    elif isinstance(value, MapSerializer) and kind == MAP:
        map_key, value = value.key, value.value.inner
    key, namespace = _key_of(key_snapshot, is_python=is_python), meta.restore(state_headers.NAMESPACE)
    return KeyedDescription.of(meta.name, kind, key, namespace, map_key, value, backend)


def key_of(header: state_headers.KeyedHeader) -> TypeSerializer:
    """Return the serializer of keys."""
    return _key_of(header.key, is_python=_is_of_python(header))


def _key_of(snapshot: TypeSerializerSnapshot, *, is_python: bool) -> TypeSerializer:
    """Return the serializer of keys. A key of a PyFlink job is a row of one field; the field is the key."""
    key = snapshot.restore_serializer()
    return python_key(key) if is_python else key


def _is_of_python(header: state_headers.KeyedHeader) -> bool:
    """Return whether a PyFlink job registered states of a header."""
    return any(meta.name.startswith(PYTHON_PREFIX) for meta in header.states)


def _describe_timers(
    key_snapshot: TypeSerializerSnapshot, meta: state_headers.StateMetaInfo, backend: str, *, is_python: bool
) -> TimerDescription:
    timer = meta.restore(state_headers.VALUE)
    if not isinstance(timer, TimerSerializer):
        raise UnsupportedFormatError(f"state {meta.name!r}: expected a queue of timers, found a queue of {timer}")
    described = TimerDescription(meta.name, _timer_kind(meta.name), timer, timer.key, timer.namespace, backend=backend)
    key = _key_of(key_snapshot, is_python=is_python)
    return described.with_serializers(key=key) if isinstance(key, PythonKeySerializer) else described


def _timer_kind(name: str) -> str:
    return next((kind for prefix, kind in _TIMER_PREFIXES.items() if name.startswith(prefix)), EVENT_TIMER)


def _check_known(meta: state_headers.StateMetaInfo, *snapshots: TypeSerializerSnapshot | None) -> None:
    for snapshot in snapshots:
        if isinstance(snapshot, UnreadSnapshot):
            named = f"state {meta.name!r}" in snapshot.reason
            raise UnknownSerializerError(snapshot.reason if named else f"state {meta.name!r}: {snapshot.reason}")


def keyed_kind(meta: state_headers.StateMetaInfo) -> str | None:
    """Return the kind of a keyed state from its header, independent of its serializers."""
    if meta.backend_type == state_headers.PRIORITY_QUEUE:
        return _timer_kind(meta.name)
    return meta.options.get(state_headers.KEYED_STATE_TYPE)


def _unwrapped(serializer: TypeSerializer) -> TypeSerializer:
    """Remove wrappers that don't add bytes, except wrappers that are part of the declared type."""
    while isinstance(serializer, WrappingSerializer) and not serializer.is_declared:
        serializer = serializer.content
    return serializer


def describe_operator_state(meta: state_headers.StateMetaInfo) -> OperatorDescription:
    """Return the description of an operator state from its header."""
    mode = meta.options.get(state_headers.DISTRIBUTION_MODE, "SPLIT_DISTRIBUTE")
    _check_known(meta, *without_keys(meta.serializers, () if mode == BROADCAST else (state_headers.VALUE,)).values())
    if mode not in DISTRIBUTION_KINDS:
        raise CorruptSnapshotError(f"operator state {meta.name!r} has the unknown distribution mode {mode!r}")
    kind = DISTRIBUTION_KINDS[mode]
    key = meta.restore(state_headers.KEY) if state_headers.KEY in meta.serializers else None
    return OperatorDescription.of(meta.name, kind, key, value=meta.restore(state_headers.VALUE), backend="operator")


_Variant = TypeVar("_Variant", bound=StateDescription)


def first_variants(variants: Mapping[str, Sequence[_Variant]]) -> dict[str, _Variant]:
    """Return states by name, as the first subtask with the state registers them."""
    return {name: descriptions[0] for name, descriptions in variants.items()}


def keyed_variants(variants: Mapping[str, Sequence[StateDescription]]) -> dict[str, list[KeyedDescription]]:
    """Return the keyed states among states by name, as the subtasks register them."""
    keyed: dict[str, list[KeyedDescription]] = {}
    for name, descriptions in variants.items():
        for state in descriptions:
            if isinstance(state, KeyedDescription):
                keyed.setdefault(name, []).append(state)
    return keyed


# Registration

MODES: Final = {OPERATOR_LIST: h.SPLIT_DISTRIBUTE, UNION_LIST: h.UNION, BROADCAST: h.BROADCAST}
"""The distribution mode of each kind of operator state."""


def register(state: StateDescription, *, asynchronous: bool = False) -> state_headers.StateMetaInfo:
    """Return the registration of a state: keyed, timers or operator state.

    ``asynchronous``: whether keyed state is registered for the asynchronous API (Flink:
    ``state.v2.RegisteredKeyAndUserKeyValueStateBackendMetaInfo``). Its entries are the same bytes.
    """
    if isinstance(state.value, TtlSerializer):
        of_api = AsynchronousTtlSerializer if asynchronous else TtlSerializer
        state = state.with_serializers(value=of_api.of(state.value.value))
    if asynchronous and isinstance(state, KeyedDescription) and not state.is_timer:
        return _register_asynchronous(state)
    value = state.registered_serializer.snapshot()
    match state:
        case TimerDescription():
            return state_headers.StateMetaInfo(state.name, state_headers.PRIORITY_QUEUE, {}, {state_headers.VALUE: value})
        case KeyedDescription():
            serializers = {state_headers.NAMESPACE: state.namespace.snapshot(), state_headers.VALUE: value}
            return state_headers.StateMetaInfo(
                state.name, state_headers.KEY_VALUE, {state_headers.KEYED_STATE_TYPE: state.registered_kind}, serializers
            )
        case BroadcastDescription():
            return state_headers.StateMetaInfo(
                state.name, "BROADCAST", _mode(state), {state_headers.KEY: state.key.snapshot(), state_headers.VALUE: value}
            )
    return state_headers.StateMetaInfo(state.name, "OPERATOR", _mode(state), {state_headers.VALUE: value})


def _register_asynchronous(state: KeyedDescription) -> state_headers.StateMetaInfo:
    serializers = {state_headers.NAMESPACE: state.namespace.snapshot(), state_headers.VALUE: state.value.snapshot()}
    if isinstance(state, MapDescription) and state.map_key is not None:
        serializers[state_headers.USER_KEY] = state.map_key.snapshot()
    return state_headers.StateMetaInfo(
        state.name, state_headers.KEY_VALUE_V2, {state_headers.KEYED_STATE_TYPE: state.registered_kind}, serializers
    )


def registered_as(
    header: state_headers.KeyedHeader, meta: state_headers.StateMetaInfo, *, asynchronous: bool
) -> state_headers.StateMetaInfo:
    """Convert the registration of a keyed state to or from the asynchronous API."""
    backend_type = state_headers.KEY_VALUE_V2 if asynchronous else state_headers.KEY_VALUE
    if meta.backend_type not in (state_headers.KEY_VALUE, state_headers.KEY_VALUE_V2) or meta.backend_type == backend_type:
        return meta
    state = describe_keyed(header, meta)
    if state.kind in (LIST, MAP) or state.has_ttl:
        return register(state, asynchronous=asynchronous)
    return replace(meta, backend_type=backend_type)


def joined_registrations(
    old: state_headers.KeyedHeader | None, names: Collection[str], added: Iterable[KeyedDescription], *, asynchronous: bool
) -> list[state_headers.StateMetaInfo]:
    """Return the registrations of kept states of a header, and of added states; see :func:`registered_as`."""
    metas = [registered_as(old, meta, asynchronous=asynchronous) for meta in old.states if meta.name in names] if old else []
    return [*metas, *(register(state, asynchronous=asynchronous) for state in added)]


def with_key(header: state_headers.KeyedHeader, key: TypeSerializer) -> state_headers.KeyedHeader:
    """Return a header with another type of keys, whose values have the same bytes; timers contain the key."""
    states = []
    for meta in header.states:
        serializers = dict(meta.serializers)
        if meta.backend_type == state_headers.PRIORITY_QUEUE:
            timer = meta.restore(state_headers.VALUE)
            assert isinstance(timer, TimerSerializer)
            serializers[state_headers.VALUE] = TimerSerializer(key, timer.namespace).snapshot()
        states.append(replace(meta, serializers=serializers))
    return replace(header, key=key.snapshot(), states=tuple(states))


def _mode(state: StateDescription) -> dict[str, str]:
    return {state_headers.DISTRIBUTION_MODE: h.MODE_NAMES[MODES[state.kind]]}


def keyed_header(key: TypeSerializer, states: Sequence[state_headers.StateMetaInfo]) -> state_headers.KeyedHeader:
    """Return the header of a keyed state file. The id of a state is its position."""
    return state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, key.snapshot(), tuple(states))


def operator_header(states: Sequence[state_headers.StateMetaInfo]) -> state_headers.OperatorHeader:
    """Return the header of an operator state file, in the version that all Flink versions since 1.7 read."""
    lists = tuple(s for s in states if s.backend_type != "BROADCAST")
    return state_headers.OperatorHeader(
        state_headers.OPERATOR_VERSION, False, lists, tuple(s for s in states if s.backend_type == "BROADCAST")
    )
