"""Flink types for columns without a declared type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.errors import OptionError
from state_processor.types.flink_types import Types

_SCALARS: Final = {given: scalar.serializer for scalar in SCALARS.values() for given in scalar.inferred_from}


def type_of_column(given: pa.DataType, what: str) -> TypeSerializer:
    """Return the type that Flink most likely has for a column: ``LONG`` for ``bigint``, ``ROW`` with names for ``struct``, etc.

    Raises
    ------
    OptionError
        If Flink does not have a type for the column; the message asks to name one.
    """
    if given in _SCALARS:
        return _SCALARS[given]
    if pa.types.is_decimal(given):
        return Types.BIG_DEC()
    if pa.types.is_map(given):
        return Types.MAP(type_of_column(given.key_type, f"{what}.key"), type_of_column(given.item_type, f"{what}.value"))
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return Types.LIST(type_of_column(given.value_type, f"{what}.element"))
    if pa.types.is_struct(given):
        return Types.ROW_NAMED([f.name for f in given], [type_of_column(f.type, f"{what}.{f.name}") for f in given])
    raise OptionError(f"{what} is of type {given}; name the Flink type of it")
