"""Refusal of reads whose types declare nanoseconds, before a value is read."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from state_processor.serializers.column_type import ColumnType
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import UndecodableValueError
from state_processor.serializers.paths import ELEMENT, KEY, VALUE, join


def refuse_nanoseconds(schema: pa.Schema, where: str) -> None:
    """Refuse columns that Spark's timestamps, which end at microseconds, may not hold.

    Parameters
    ----------
    schema
        The columns of a read, with what their types declare.
    where
        The operator and the state, for the message.

    Raises
    ------
    UndecodableValueError
        If there is one.
    """
    found = [path for field in schema for path in _paths(field.name, field.type)]
    if found:
        raise UndecodableValueError(
            f"{where}: the type of column {' and of '.join(map(repr, found))} has nanoseconds. Spark's timestamps "
            f"can't hold them; read with {spelled('nanos', 'string')} (text with all digits), {spelled('nanos', 'truncate')} "
            f"(cuts them off), or {spelled('nanos', 'check')} if all values are whole microseconds"
        )


def _paths(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of columns and fields whose types declare nanoseconds."""
    if isinstance(kind, ColumnType):
        if kind.declares_nanos:
            yield name
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _paths(join(name, field.name), field.type)
    elif pa.types.is_map(kind):
        yield from _paths(join(name, KEY), kind.key_type)
        yield from _paths(join(name, VALUE), kind.item_type)
    elif pa.types.is_list(kind):
        yield from _paths(join(name, ELEMENT), kind.value_type)
