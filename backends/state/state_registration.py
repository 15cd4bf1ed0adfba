"""Registration of new states in the headers of state files, in the format of Flink's current versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import (
    BROADCAST,
    LIST,
    MAP,
    OPERATOR_LIST,
    UNION_LIST,
    BroadcastDescription,
    KeyedDescription,
    MapDescription,
    StateDescription,
    TimerDescription,
    describe_keyed,
)
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.runtime.namespaces import TimerSerializer
from state_processor.serializers.runtime.wrapping import AsynchronousTtlSerializer, TtlSerializer

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
