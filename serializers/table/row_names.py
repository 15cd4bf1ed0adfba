"""Names of the fields of rows and tuples (``Row``, ``RowData``, ``Tuple2``).

Snapshots do not hold them, so that restored serializers are given them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import transform, walk

RowNames = tuple[tuple[str, ...] | None, ...]
"""The names of the fields of all rows and tuples in a serializer, from the outermost on; ``None`` for those without names."""

S = TypeVar("S", bound=TypeSerializer)

ROWS: Final = (RowSerializer, RowDataSerializer, TupleSerializer)
"""Serializers whose fields can be named."""

NamedSerializer = RowSerializer | RowDataSerializer | TupleSerializer


def row_names(serializer: TypeSerializer | None) -> RowNames:
    """Return the names of all rows inside of a serializer. A row of SQL holds the names of the rows inside of it itself."""
    return tuple(row.slot.type.names if isinstance(row, RowDataSerializer) else row.names for row in _rows(serializer))


def with_row_names(serializer: S, names: RowNames) -> S:
    """Return the serializer with the names that :func:`row_names` found in one of the same snapshot.

    Raises
    ------
    OptionError
        If there are not as many rows, or a row does not have as many fields.
    """
    rows = _rows(serializer)
    sizes = [len(row.slot.fields if isinstance(row, RowDataSerializer) else row.fields) for row in rows]
    if len(rows) != len(names) or any(own is not None and len(own) != size for own, size in zip(names, sizes, strict=True)):
        raise OptionError(f"names {names} are not those of the rows in {serializer}")
    remaining = iter(names)

    def renamed(part: TypeSerializer) -> TypeSerializer:
        return _renamed(part, next(remaining)) if isinstance(part, ROWS) else part

    return transform(serializer, renamed)


def _rows(serializer: TypeSerializer | None) -> list[NamedSerializer]:
    return [] if serializer is None else [part for part in walk(serializer) if isinstance(part, ROWS)]


def _renamed(row: NamedSerializer, names: tuple[str, ...] | None) -> TypeSerializer:
    if not isinstance(row, RowDataSerializer):
        return row if row.names == names else row.with_names(names)
    type_ = row.slot.type
    if names is None or names == type_.names:
        return row
    return row.named_as(replace(type_, fields=tuple(replace(f, name=n) for f, n in zip(type_.fields, names, strict=True))))
