"""Names of the fields of Flink SQL's rows: snapshots do not hold them, so that a restored serializer has to be told.

Both functions walk through a serializer in the same order; two serializers of one snapshot have the same rows in the same places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.binary_format import RowSlot
from state_processor.serializers.logical_types import RowType
from state_processor.serializers.rowdata import RowDataSerializer


def row_types(*parts: Any) -> tuple[RowType, ...]:
    """The types of all rows inside of serializers."""
    return tuple(row.slot.type for row in _rows(parts, {}))


def name_rows(types: Sequence[RowType], *parts: Any) -> None:
    """Give all rows inside of serializers the names of these types, which :func:`row_types` found in others like them."""
    rows = _rows(parts, {})
    if [row.slot.type.types for row in rows] == [type_.types for type_ in types]:
        for row, type_ in zip(rows, types, strict=True):
            row.slot = RowSlot(type_)


def _rows(part: Any, known: dict[int, list[RowDataSerializer]]) -> list[RowDataSerializer]:
    if isinstance(part, RowDataSerializer):
        return [part]
    if isinstance(part, TypeSerializer):
        inside: Iterable[Any] = vars(part).values()
    elif isinstance(part, list | tuple):
        inside = part
    elif isinstance(part, Mapping):
        inside = part.values()
    elif hasattr(type(part), "__dataclass_fields__"):
        inside = [getattr(part, name) for name in type(part).__dataclass_fields__]
    else:
        return []
    if id(part) not in known:
        known[id(part)] = []  # a type that contains itself ends here
        known[id(part)] = [row for each in inside for row in _rows(each, known)]
    return known[id(part)]
