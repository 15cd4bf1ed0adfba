"""States of a snapshot in the types of another job: their rows are read, and written again in the new types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.backends.state.descriptions import LIST, MAP
from state_processor.backends.state.descriptions import VALUE as VALUE_STATE
from state_processor.job.signature import KEY, MAP_KEY, NAMESPACE, VALUE, VOID_NAMESPACE, StateSignature
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import OptionError, StateProcessorError
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.traversal import walk
from state_processor.types.state_specs import ListState, MapState, StateSpec, ValueState
from state_processor.write.arrow_writer import SavepointWriter

OPTIONS: Final = DecodeOptions(nanos="string", row_kind=True)
"""How rows are read: so that nothing of them is lost."""


def spec_of(state: StateSignature) -> StateSpec:
    """Return a state of a job as methods of writers take it.

    Raises
    ------
    OptionError
        If it is not value, list or map state without windows, or its type is not known.
    """
    value, map_key = state.serializer(VALUE), state.serializer(MAP_KEY)
    if state.type_text(NAMESPACE) in (None, VOID_NAMESPACE) and value is not None:
        if state.kind == VALUE_STATE:
            return ValueState(value, ttl=state.ttl)
        if state.kind == LIST:
            return ListState(value, ttl=state.ttl)
        if state.kind == MAP and map_key is not None:
            return MapState(map_key, value, ttl=state.ttl)
    raise OptionError(f"state {state.name!r} of kind {state.kind}: expected value, list or map state without windows")


def is_convertible(old: StateSignature, new: StateSignature) -> bool:
    """Return whether rows of a state can be written in the type of another one; single values may still be refused."""
    parts = [state.serializer(part) for state in (old, new) for part in (KEY, MAP_KEY, VALUE)]
    if old.type_text(KEY) != new.type_text(KEY) or old.kind != new.kind or old.ttl != new.ttl:
        return False
    if any(isinstance(inner, KryoSerializer) for part in parts if part is not None for inner in walk(part)):
        return False
    key, value, map_key = old.serializer(KEY), old.serializer(VALUE), old.serializer(MAP_KEY)
    if key is None or value is None:
        return False
    try:
        column = value.arrow_type(OPTIONS)
        if old.kind == LIST:
            column = pa.list_(column)
        elif map_key is not None:
            column = pa.map_(map_key.arrow_type(OPTIONS), column)
        rows = pa.schema([("key", key.arrow_type(OPTIONS)), (old.name, column)]).empty_table()
        SavepointWriter.new().with_keyed_state("convertible", rows, key_type=key, states={old.name: spec_of(new)})
    except StateProcessorError:
        return False
    return True
