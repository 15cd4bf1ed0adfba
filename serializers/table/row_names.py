"""Names of the fields of rows and tuples (``Row``, ``RowData``, ``Tuple2``).

Snapshots of rows of SQL contain them since Flink 2.4. For other snapshots, the restored serializers get names from outside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeVar

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.table.logical_types import RowType
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import parts_of, transform
from state_processor.support.errors import OptionError

FieldName = str | tuple[str, tuple[Any, ...]]
"""The name of a field; for a row nested in a row of SQL, with the names of its fields."""

RowNames = tuple[tuple[FieldName, ...] | None, ...]
"""The names of the fields of all rows and tuples in a serializer, outermost first; ``None`` for rows without names."""

S = TypeVar("S", bound=TypeSerializer)

ROWS: Final = (RowSerializer, RowDataSerializer, TupleSerializer)
"""Serializers whose fields can be named."""

NamedSerializer = RowSerializer | RowDataSerializer | TupleSerializer


def rows_in(serializer: TypeSerializer | None) -> list[NamedSerializer]:
    """Return all rows and tuples in a serializer, outermost first."""
    return [] if serializer is None else parts_of(ROWS, serializer)


def row_names(serializer: TypeSerializer | None) -> RowNames:
    """Return the names of all rows in a serializer."""
    return tuple(map(names_of_row, rows_in(serializer)))


def names_of_row(row: NamedSerializer) -> tuple[FieldName, ...] | None:
    """Return the names of the fields of a row or a tuple."""
    return _names_of(row.slot.type) if isinstance(row, RowDataSerializer) else row.names


def with_row_names(serializer: S, names: RowNames) -> S:
    """Return the serializer with the names that :func:`row_names` found in a serializer of the same snapshot."""
    rows = rows_in(serializer)
    if len(rows) != len(names) or not all(map(_fit, names, rows)):
        raise OptionError(f"names {names} do not match the rows in {serializer}")
    remaining = iter(names)

    def renamed(part: Codec) -> Codec:
        return _renamed(part, next(remaining)) if isinstance(part, ROWS) else part

    return transform(serializer, renamed)


def _fit(names: tuple[FieldName, ...] | None, row: NamedSerializer) -> bool:
    return names is None or len(names) == len(row.slot.fields if isinstance(row, RowDataSerializer) else row.fields)


def _renamed(row: NamedSerializer, names: tuple[FieldName, ...] | None) -> TypeSerializer:
    outer = None if names is None else _outer_names(names)
    if not isinstance(row, RowDataSerializer):
        return row if row.names == outer else row.with_names(outer)
    if names is None or outer is None:
        return row
    named = row if outer == row.slot.type.names else row.named_as(row.slot.type.renamed(outer))
    type_ = _with_inner_names(named.slot.type, names)
    return named if _names_of(type_) == _names_of(named.slot.type) else named.retyped(type_)


def _outer_names(names: tuple[FieldName, ...]) -> tuple[str, ...]:
    return tuple(name if isinstance(name, str) else name[0] for name in names)


def _names_of(type_: RowType) -> tuple[FieldName, ...]:
    named = zip(type_.names, type_.types, strict=True)
    return tuple((name, _names_of(inner)) if type(inner) is RowType else name for name, inner in named)


def _with_inner_names(type_: RowType, names: tuple[FieldName, ...]) -> RowType:
    """Return the type with other names for the fields of its rows, if names are given."""
    fields = []
    for field, name in zip(type_.fields, names, strict=True):
        if isinstance(field.type, RowType) and not isinstance(name, str):
            field = replace(field, type=_with_all_names(field.type, name[1]))
        fields.append(field)
    return replace(type_, fields=tuple(fields))


def _with_all_names(type_: RowType, names: tuple[FieldName, ...]) -> RowType:
    if len(names) != len(type_.fields):
        raise OptionError(f"names {names} do not match the fields of {type_}")
    return _with_inner_names(type_.renamed(_outer_names(names)), names)
