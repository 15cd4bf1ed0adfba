"""Row layouts of keyed state: how an entry of each kind of state is put together in each format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from state_processor.backends.formats.row_layout import Field, Part, RowLayout
from state_processor.backends.state.descriptions import LIST, MAP, StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import JoinedListSerializer, ListSerializer, MapSerializer, MapStateValue
from state_processor.serializers.core.templates import SignFlippedLongSerializer
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.runtime.timers import TimerSerializer

KEY: Final = "key"
NAMESPACE: Final = "namespace"
VALUE: Final = "value"
MAP_KEY: Final = "map_key"
MAP_VALUE: Final = "map_value"
TIMESTAMP: Final = "timestamp"

LayoutOf = Callable[[StateDescription, frozenset[str]], RowLayout]
"""Builds the layout of a state's entries in one format, with the columns to decode."""

_FIRES_AT: Final = SignFlippedLongSerializer()

KEY_SLOT: Final = 0
VALUE_SLOT: Final = 1


def framed_layout(state: StateDescription, columns: frozenset[str]) -> RowLayout:
    """An entry with lengths around key and value: canonical files and RocksDB, after the key group prefix.

    Values that no column is wanted of are passed by, whatever they are.

    Flink: ``CompositeKeySerializationUtils``, ``ListDelimitedSerializer``, ``RocksDBMapState``.
    """
    if state.is_timer:
        return RowLayout((Part(KEY_SLOT, _timer_fields(state), (1, 2)), Part(VALUE_SLOT, ())), columns)
    key, namespace, value = _parts(state)
    suffixed = key.length < 0 and namespace.length < 0
    key_fields = [Field(KEY, key, suffixed), Field(NAMESPACE, namespace, suffixed)]
    value_field = Field(VALUE, value.filling())
    if state.kind == LIST:
        value_field = Field(VALUE, JoinedListSerializer(value))
    elif state.kind == MAP:
        key_fields.append(Field(MAP_KEY, _map_key(state)))
        value_field = Field(MAP_VALUE, MapStateValue(value.filling()))
    key_part = Part(KEY_SLOT, tuple(key_fields), (0, 2))
    if value_field.name not in columns:
        return RowLayout((key_part,), columns)
    return RowLayout((key_part, Part(VALUE_SLOT, (value_field,))), columns)


def heap_layout(state: StateDescription, columns: frozenset[str]) -> RowLayout:
    """An entry without any length: namespace, key, value (Flink: ``CopyOnWriteStateMapSnapshot``)."""
    if state.is_timer:
        return RowLayout((Part(None, _timer_fields(state), (1, 2)),), columns)
    key, namespace, value = _parts(state)
    if state.kind == LIST:
        value = ListSerializer(value)
    elif state.kind == MAP:
        value = MapSerializer(_map_key(state), value)
    return RowLayout((Part(None, (Field(NAMESPACE, namespace), Field(KEY, key), Field(VALUE, value)), (1, 2)),), columns)


def _timer_fields(state: StateDescription) -> tuple[Field, ...]:
    timer = state.value
    if not isinstance(timer, TimerSerializer):
        raise UnsupportedFormatError(f"state {state.name!r}: a queue of {timer}, not of timers, can't be read")
    return (Field(TIMESTAMP, _FIRES_AT), Field(KEY, timer.key), Field(NAMESPACE, timer.namespace))


def _parts(state: StateDescription) -> tuple[TypeSerializer, TypeSerializer, TypeSerializer]:
    assert state.key is not None
    assert state.namespace is not None
    assert state.value is not None
    return state.key, state.namespace, state.value


def _map_key(state: StateDescription) -> TypeSerializer:
    if state.map_key is None:
        raise UnsupportedFormatError(
            f"state {state.name!r}: Flink 2.0 does not store the type of a map's keys in the asynchronous state API; "
            "name it with the map_key argument"
        )
    return state.map_key
