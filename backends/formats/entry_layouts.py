"""Row layouts of keyed state: the parts of an entry for each kind of state and each format."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from state_processor.backends.formats.field_selection import FieldSelection
from state_processor.backends.formats.row_layout import Field, Part, RowLayout, size_of
from state_processor.backends.state.descriptions import KeyedDescription, ListDescription, MapDescription, TimerDescription
from state_processor.backends.state.header_cache import DESCRIBED, Same
from state_processor.serializers.core.collections import MapStateValue
from state_processor.serializers.core.templates import SignFlippedLongSerializer

KEY: Final = "key"
NAMESPACE: Final = "namespace"
VALUE: Final = "value"
MAP_KEY: Final = "map_key"
MAP_VALUE: Final = "map_value"
TIMESTAMP: Final = "timestamp"

LayoutOf = Callable[[KeyedDescription, FieldSelection], RowLayout]
"""Builds the layout of a state's entries in one format, with the columns to decode."""

_FIRES_AT: Final = SignFlippedLongSerializer()

KEY_SLOT: Final = 0
VALUE_SLOT: Final = 1


def framed_layout(state: KeyedDescription, columns: FieldSelection) -> RowLayout:
    """Build the layout of an entry with framed key and value, after the key group prefix: canonical files and RocksDB.

    Values without a requested column are skipped.

    Flink: ``CompositeKeySerializationUtils``, ``ListDelimitedSerializer``, ``RocksDBMapState``.
    """
    return _framed_layout(Same(state, columns))


@lru_cache(maxsize=DESCRIBED)
def _framed_layout(layout: Same) -> RowLayout:
    state, columns = layout.objects
    if isinstance(state, TimerDescription):
        return RowLayout((Part(KEY_SLOT, _timer_fields(state), (1, 2)), Part(VALUE_SLOT, ())), columns)
    suffixed = state.key.length < 0 and state.namespace.length < 0
    key_fields = [Field(KEY, state.key, suffixed), Field(NAMESPACE, state.namespace, suffixed)]
    match state:
        case ListDescription():
            value_field = Field(VALUE, state.joined)
        case MapDescription():
            key_fields.append(Field(MAP_KEY, state.stored_map_key))
            value_field = Field(MAP_VALUE, MapStateValue(state.value.as_remainder()))
        case _:
            value_field = Field(VALUE, state.value.as_remainder())
    key_part = Part(KEY_SLOT, tuple(key_fields), (0, 2))
    if value_field.name not in columns:
        return RowLayout((key_part,), columns)
    return RowLayout((key_part, Part(VALUE_SLOT, (value_field,))), columns)


def heap_layout(state: KeyedDescription, columns: FieldSelection) -> RowLayout:
    """Build the layout of an entry without lengths: namespace, key, value (Flink: ``CopyOnWriteStateMapSnapshot``)."""
    if isinstance(state, TimerDescription):
        return RowLayout((Part(None, _timer_fields(state), (1, 2)),), columns)
    fields = (Field(NAMESPACE, state.namespace), Field(KEY, state.key), Field(VALUE, state.registered_serializer))
    return RowLayout((Part(None, fields, (1, 2)),), columns)


def around_key(layout: RowLayout) -> tuple[int, int]:
    """Return the number of bytes before and after the key in the first part of an entry, or ``VARIABLE``."""
    fields = layout.parts[0].fields
    at = next(i for i, field in enumerate(fields) if field.name == KEY)
    return size_of(fields[:at]), size_of(fields[at + 1 :])


def _timer_fields(state: TimerDescription) -> tuple[Field, ...]:
    return (Field(TIMESTAMP, _FIRES_AT), Field(KEY, state.key), Field(NAMESPACE, state.namespace))
