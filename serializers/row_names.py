"""Names of the fields of Flink SQL's rows: snapshots do not hold them, so that a restored serializer has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from state_processor.serializers.binary_format import RowSlot
from state_processor.serializers.logical_types import RowType
from state_processor.serializers.nested import nested
from state_processor.serializers.rowdata import RowDataSerializer


def row_types(*parts: Any) -> tuple[RowType, ...]:
    """The types of all rows inside of serializers."""
    return tuple(row.slot.type for row in nested(RowDataSerializer, parts))


def name_rows(types: Sequence[RowType], *parts: Any) -> None:
    """Give all rows inside of serializers the names of these types, which :func:`row_types` found in others like them."""
    rows = nested(RowDataSerializer, parts)
    if [row.slot.type.types for row in rows] == [type_.types for type_ in types]:
        for row, type_ in zip(rows, types, strict=True):
            row.slot = RowSlot(type_)
