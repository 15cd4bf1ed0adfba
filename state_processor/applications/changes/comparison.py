"""What all comparisons have: columns and kinds of changes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from state_processor.errors import UnsupportedFormatError
from state_processor.states import StateReader

CHANGE: Final = "change"
BEFORE: Final = "before"
AFTER: Final = "after"

INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE: Final = "update"


def check_columns(state: str, readers: tuple[StateReader | None, StateReader | None], of_any_type: Collection[str]) -> None:
    """Refuse a state whose rows have other columns in the two snapshots.

    ``readers``: the readers of the snapshots that have the state. ``of_any_type``: columns whose types may differ.
    """
    before, after = readers
    if before is None or after is None:
        return
    old, new = before.schema, after.schema
    if {*old.names} != {*new.names} or _types_of_others(old, of_any_type) != _types_of_others(new, of_any_type):
        raise UnsupportedFormatError(
            f"state {state!r}: its rows have the columns {_columns(old)} in one snapshot and {_columns(new)} in the other; "
            "only states with equal keys can be compared"
        )


def _types_of_others(schema: pa.Schema, names: Collection[str]) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema if field.name not in names]


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
