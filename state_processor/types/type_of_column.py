"""Flink types for columns without a declared type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.errors import OptionError
from state_processor.serializers.traversal import within_limits

_SCALARS: Final = {given: scalar.serializer for scalar in SCALARS.values() for given in scalar.inferred_from}


def type_of_column(given: pa.DataType, what: str) -> TypeSerializer:
    """Return the type that Flink most likely has for a column: ``LONG`` for ``bigint``, ``ROW`` with names for ``struct``, etc.

    Raises
    ------
    OptionError
        If Flink does not have a type for the column; the message asks to name one.
    """
    return within_limits(_type_of(given, what))


def _type_of(given: pa.DataType, what: str) -> TypeSerializer:
    if given in _SCALARS:
        return _SCALARS[given]
    if pa.types.is_decimal(given):
        return SCALARS["BIG_DEC"].serializer
    if pa.types.is_map(given):
        return MapSerializer(_type_of(given.key_type, f"{what}.key"), _type_of(given.item_type, f"{what}.value"))
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return ListSerializer(_type_of(given.value_type, f"{what}.element"))
    if pa.types.is_struct(given):
        return RowSerializer([_type_of(f.type, f"{what}.{f.name}") for f in given], [f.name for f in given])
    raise OptionError(f"{what} is of type {given}; name the Flink type of it")
