"""The type of columns that hold values with the time of their last access."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

LAST_ACCESS_FIELD: Final = "_last_access"
"""The field with the time of a value's last access."""


def timed(value: pa.DataType) -> pa.DataType:
    """The type of values with the time of their last access beside each."""
    return pa.struct([(LAST_ACCESS_FIELD, pa.timestamp("us", tz="UTC")), ("value", value)])


def is_timed(type_: pa.DataType) -> bool:
    """Whether it is one of :func:`timed`."""
    return bool(pa.types.is_struct(type_)) and [f.name for f in type_] == [LAST_ACCESS_FIELD, "value"]
