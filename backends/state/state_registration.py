"""Registration of new states in the headers of state files, as Flink's current versions do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OPERATOR_LIST,
    UNION_LIST,
    BroadcastDescription,
    KeyedDescription,
    StateDescription,
    TimerDescription,
)
from state_processor.serializers.base import TypeSerializer

MODES: Final = {OPERATOR_LIST: h.SPLIT_DISTRIBUTE, UNION_LIST: h.UNION, BROADCAST: h.BROADCAST}
"""The distribution mode of each kind of operator state."""


def register(state: StateDescription) -> mi.StateMetaInfo:
    """Return the registration of a state: keyed, timers or operator state."""
    value = state.whole.snapshot()
    match state:
        case TimerDescription():
            return mi.StateMetaInfo(state.name, "PRIORITY_QUEUE", {}, {mi.VALUE: value})
        case KeyedDescription():
            serializers = {mi.NAMESPACE: state.namespace.snapshot(), mi.VALUE: value}
            return mi.StateMetaInfo(state.name, "KEY_VALUE", {mi.KEYED_STATE_TYPE: state.registered_kind}, serializers)
        case BroadcastDescription():
            return mi.StateMetaInfo(state.name, "BROADCAST", _mode(state), {mi.KEY: state.key.snapshot(), mi.VALUE: value})
    return mi.StateMetaInfo(state.name, "OPERATOR", _mode(state), {mi.VALUE: value})


def _mode(state: StateDescription) -> dict[str, str]:
    return {mi.DISTRIBUTION_MODE: h.MODE_NAMES[MODES[state.kind]]}


def keyed_header(key: TypeSerializer, states: Sequence[mi.StateMetaInfo]) -> mi.KeyedHeader:
    """Return the header of a keyed state file; a state's id is its position."""
    return mi.KeyedHeader(mi.KEYED_VERSION, False, key.snapshot(), tuple(states))


def operator_header(states: Sequence[mi.StateMetaInfo]) -> mi.OperatorHeader:
    """Return the header of an operator state file, in the version that every Flink since 1.7 reads."""
    lists = tuple(s for s in states if s.backend_type != "BROADCAST")
    return mi.OperatorHeader(mi.OPERATOR_VERSION, False, lists, tuple(s for s in states if s.backend_type == "BROADCAST"))
