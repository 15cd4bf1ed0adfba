"""Flink types for columns whose type nobody names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError
from state_processor.types import Types

_SCALARS: Final[dict[pa.DataType, Callable[[], TypeSerializer]]] = {
    pa.bool_(): Types.BOOLEAN,
    pa.int8(): Types.BYTE,
    pa.int16(): Types.SHORT,
    pa.int32(): Types.INT,
    pa.int64(): Types.LONG,
    pa.float32(): Types.FLOAT,
    pa.float64(): Types.DOUBLE,
    pa.string(): Types.STRING,
    pa.large_string(): Types.STRING,
    pa.binary(): Types.BYTES,
    pa.large_binary(): Types.BYTES,
    pa.date32(): Types.LOCAL_DATE,
    pa.timestamp("us", tz="UTC"): Types.INSTANT,
    pa.timestamp("us"): Types.LOCAL_DATE_TIME,
}


def inferred_type(given: pa.DataType, what: str) -> TypeSerializer:
    """The type that Flink most likely has for a column: ``LONG`` for ``bigint``, ``ROW`` with names for ``struct``, and so on.

    Raises
    ------
    OptionError
        If there is no such type; the message asks to name one.
    """
    if given in _SCALARS:
        return _SCALARS[given]()
    if pa.types.is_decimal(given):
        return Types.BIG_DEC()
    if pa.types.is_map(given):
        return Types.MAP(inferred_type(given.key_type, f"{what}.key"), inferred_type(given.item_type, f"{what}.value"))
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return Types.LIST(inferred_type(given.value_type, f"{what}.element"))
    if pa.types.is_struct(given):
        return Types.ROW_NAMED([f.name for f in given], [inferred_type(f.type, f"{what}.{f.name}") for f in given])
    raise OptionError(f"{what} is of type {given}; name the Flink type of it")
