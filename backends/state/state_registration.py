"""How new states are registered in the headers of state files, as Flink's current versions do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.descriptions import (
    BROADCAST,
    LIST,
    MAP,
    OPERATOR_KINDS,
    OPERATOR_LIST,
    UNION_LIST,
    StateDescription,
)
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.errors import OptionError

MODES: Final = {OPERATOR_LIST: h.SPLIT_DISTRIBUTE, UNION_LIST: h.UNION, BROADCAST: h.BROADCAST}
"""The distribution mode of each kind of operator state."""


def register(state: StateDescription) -> mi.StateMetaInfo:
    """The registration of a state: keyed, timers or operator state.

    Raises
    ------
    OptionError
        If a serializer that its kind needs is missing.
    """
    if state.is_timer:
        return mi.StateMetaInfo(state.name, "PRIORITY_QUEUE", {}, {mi.VALUE: _snapshot(state, "value", state.value)})
    value = _snapshot(state, "value", state.value)
    if state.kind in OPERATOR_KINDS:
        options = {mi.DISTRIBUTION_MODE: h.MODE_NAMES[MODES[state.kind]]}
        if state.kind == BROADCAST:
            return mi.StateMetaInfo(
                state.name, "BROADCAST", options, {mi.KEY: _snapshot(state, "key", state.key), mi.VALUE: value}
            )
        return mi.StateMetaInfo(state.name, "OPERATOR", options, {mi.VALUE: value})
    assert state.value is not None
    if state.kind == LIST:
        value = ListSerializer(state.value).snapshot()
    elif state.kind == MAP:
        _snapshot(state, "map_key", state.map_key)
        assert state.map_key is not None
        value = MapSerializer(state.map_key, state.value).snapshot()
    serializers = {mi.NAMESPACE: _snapshot(state, "namespace", state.namespace), mi.VALUE: value}
    return mi.StateMetaInfo(state.name, "KEY_VALUE", {mi.KEYED_STATE_TYPE: state.kind}, serializers)


def _snapshot(state: StateDescription, role: str, serializer: TypeSerializer | None) -> TypeSerializerSnapshot:
    if serializer is None:
        raise OptionError(f"state {state.name!r} of kind {state.kind} needs a serializer of its {role}")
    return serializer.snapshot()


def keyed_header(key: TypeSerializer, states: Sequence[mi.StateMetaInfo]) -> mi.KeyedHeader:
    """The header of a keyed state file; a state's id is its position."""
    return mi.KeyedHeader(mi.KEYED_VERSION, False, key.snapshot(), tuple(states))


def operator_header(states: Sequence[mi.StateMetaInfo]) -> mi.OperatorHeader:
    """The header of an operator state file, in the version that every Flink since 1.7 reads."""
    lists = tuple(s for s in states if s.backend_type != "BROADCAST")
    return mi.OperatorHeader(mi.OPERATOR_VERSION, False, lists, tuple(s for s in states if s.backend_type == "BROADCAST"))
