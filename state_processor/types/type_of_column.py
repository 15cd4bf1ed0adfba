"""Flink types for columns without a declared type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.traversal import within_limits
from state_processor.support.errors import OptionError

_SCALARS: Final = {arrow_type: scalar.serializer for scalar in SCALARS.values() for arrow_type in scalar.inferred_from}


def type_of_column(arrow_type: pa.DataType, label: str) -> TypeSerializer:
    """Return the type that Flink most likely has for a column, such as ``LONG`` for ``bigint``."""
    return within_limits(_type_of(arrow_type, label))


def _type_of(arrow_type: pa.DataType, label: str) -> TypeSerializer:
    if arrow_type in _SCALARS:
        return _SCALARS[arrow_type]
    if pa.types.is_decimal(arrow_type):
        return SCALARS["BIG_DEC"].serializer
    if pa.types.is_map(arrow_type):
        return MapSerializer(_type_of(arrow_type.key_type, f"{label}.key"), _type_of(arrow_type.item_type, f"{label}.value"))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return ListSerializer(_type_of(arrow_type.value_type, f"{label}.element"))
    if pa.types.is_struct(arrow_type):
        return RowSerializer([_type_of(f.type, f"{label}.{f.name}") for f in arrow_type], [f.name for f in arrow_type])
    raise OptionError(f"{label} is of type {arrow_type}; name the Flink type of it")
